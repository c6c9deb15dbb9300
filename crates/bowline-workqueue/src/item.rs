//! A key in the hands of a worker.

use std::fmt;
use std::time::Duration;

use bowline_clock::Instant;

use crate::get::Get;
use crate::machine::Taken;
use crate::queue::{Requeue, WorkQueue};
use crate::shared::Ended;
use crate::{Coalesce, Key};

/// A key that was handed out, and its payload. While it exists, nobody else gets that key; dropping it tells the
/// queue that the run is over, also when a worker panics or its future is dropped.
///
/// Leaking it ([`std::mem::forget`]) locks its key for ever: the key can still be added, and waits. Nothing else
/// is hurt; the leak shows in [`Stats::processing`](crate::Stats::processing) and in
/// [`InProgress`](crate::InProgress).
#[must_use = "dropping an item tells the queue that its run is over"]
pub struct Item<'q, K: Key, P: Coalesce = ()> {
    queue: &'q WorkQueue<K, P>,
    taken: Taken<K, P>,
    /// When it was handed out; zero if the queue has no metrics.
    since: Instant,
    /// Somebody else tells the queue that the run is over.
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
    /// Never: it is only ever given up together with the item.
    #[must_use]
    pub fn payload(&self) -> &P {
        self.taken.payload.as_ref().expect("an item has its payload until it is consumed")
    }

    /// The payload, to be changed: a requeue takes it along as it is then.
    ///
    /// # Panics
    /// Never: it is only ever given up together with the item.
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut P {
        self.taken.payload.as_mut().expect("an item has its payload until it is consumed")
    }

    /// The priority of this run, and of a requeue, unless [`with_priority`](Item::with_priority) changed it.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.taken.priority
    }

    /// When it was handed out, if the queue has metrics: who wants to know it too need not read the clock again.
    #[must_use]
    pub fn since(&self) -> Option<Instant> {
        self.queue.shared.metrics.is_some().then_some(self.since)
    }

    /// Ends the run; the same as dropping the item.
    pub fn done(self) {}

    /// Ends the run and waits for the next key: the same as dropping the item and then [`WorkQueue::get`], but that a
    /// key which is in line costs one lock instead of two, and no look at the clock.
    ///
    /// `now` is when the run ended, and when the next one begins if a key is in line. Nothing happens before the future
    /// is polled or dropped.
    pub fn done_and_get(mut self, now: Instant) -> Get<'q, K, P> {
        self.is_over = true;
        Get::after(self.queue, Ended { slot: self.taken.slot, at: now })
    }

    /// Ends the run and adds the key again, with the same priority and payload, through the rate limiter: the
    /// way to retry.
    pub fn requeue_rate_limited(self) {
        self.requeue(Requeue::RateLimited);
    }

    /// Ends the run and adds the key again, with the same priority and payload, after `delay`.
    pub fn requeue_after(self, delay: Duration) {
        self.requeue(Requeue::After(delay));
    }

    /// Changes the priority with which the item would be requeued; this run is not affected.
    pub fn with_priority(mut self, priority: i32) -> Self {
        self.set_priority(priority);
        self
    }

    /// The same, in place.
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
