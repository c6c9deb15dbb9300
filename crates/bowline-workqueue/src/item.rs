//! A key held by a worker.

use std::fmt;
use std::time::Duration;

use bowline_clock::Instant;

use crate::get::Get;
use crate::machine::Taken;
use crate::queue::{Requeue, WorkQueue};
use crate::shared::Ended;
use crate::{Coalesce, Key};

/// A key and its payload, held by a worker. While it exists, no other worker gets that key. Dropping it ends the run,
/// also when a worker panics or its future is dropped.
///
/// Leaking it ([`std::mem::forget`]) locks its key forever: the key can still be added, but never runs. Other keys are
/// not affected; the leak shows in [`QueueStats::processing`](crate::QueueStats::processing) and in
/// [`InProgress`](crate::InProgress).
#[must_use = "dropping an item tells the queue that its run is over"]
pub struct Item<'q, K: Key, P: Coalesce = ()> {
    queue: &'q WorkQueue<K, P>,
    taken: Taken<K, P>,
    /// The start of the run; zero if the queue has no metrics.
    since: Instant,
    /// Whether other code ends the run.
    is_over: bool,
}

impl<'q, K: Key, P: Coalesce> Item<'q, K, P> {
    #[inline(always)]
    pub(crate) fn new(queue: &'q WorkQueue<K, P>, taken: Taken<K, P>, since: Instant) -> Self {
        Self { queue, taken, since, is_over: false }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.taken.key
    }

    /// All payloads that were added for this run, merged.
    ///
    /// # Panics
    /// Never: the payload is only taken together with the item.
    #[must_use]
    pub fn payload(&self) -> &P {
        self.taken.payload.as_ref().expect("an item has its payload until it is consumed")
    }

    /// The payload, mutable: a requeue adds it with its changes.
    ///
    /// # Panics
    /// Never: the payload is only taken together with the item.
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut P {
        self.taken.payload.as_mut().expect("an item has its payload until it is consumed")
    }

    /// The priority of this run, and of a requeue, unless [`with_priority`](Item::with_priority) changed it.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.taken.priority
    }

    /// The start of the run, if the queue has metrics; saves a second read of the clock.
    #[must_use]
    pub fn started_at(&self) -> Option<Instant> {
        self.queue.shared.metrics.is_some().then_some(self.since)
    }

    /// Ends the run; the same as dropping the item.
    pub fn done(self) {}

    /// Ends the run and waits for the next key: the same as dropping the item and then [`WorkQueue::get`], but a ready
    /// key costs one lock instead of two, and no read of the clock.
    ///
    /// `now` is the end of the run, and the start of the next if a key is ready. Nothing happens before the future is
    /// polled or dropped.
    pub fn done_and_get(mut self, now: Instant) -> Get<'q, K, P> {
        self.is_over = true;
        Get::after(self.queue, Ended { slot: self.taken.slot, at: now })
    }

    /// Ends the run and adds the key again through the rate limiter, with the same priority and payload: use it to
    /// retry.
    pub fn requeue_rate_limited(self) {
        self.requeue(Requeue::RateLimited);
    }

    /// Ends the run and adds the key again, with the same priority and payload, after `delay`.
    pub fn requeue_after(self, delay: Duration) {
        self.requeue(Requeue::After(delay));
    }

    /// Sets the priority of a requeue; this run is not affected.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.set_priority(priority);
        self
    }

    /// Sets the priority of a requeue, in place.
    pub fn set_priority(&mut self, priority: i32) {
        self.taken.priority = priority;
    }

    fn requeue(mut self, requeue: Requeue) {
        if let Some(payload) = self.taken.payload.take() {
            self.queue.requeue(&self.taken, payload, requeue);
        }
    }
}

impl<K: Key, P: Coalesce> Drop for Item<'_, K, P> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.is_over {
            self.queue.done(Ended { slot: self.taken.slot, at: self.queue.shared.metrics_now() });
        }
    }
}

impl<K: Key + fmt::Debug, P: Coalesce + fmt::Debug> fmt::Debug for Item<'_, K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.taken.key)
            .field("payload", &self.taken.payload)
            .field("priority", &self.taken.priority)
            .finish_non_exhaustive()
    }
}
