//! The public interface of the queue.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use bowline_clock::Instant;

use crate::env::{Clock, SHARED_KEYS};
use crate::get::Get;
use crate::machine::{Addition, Taken};
use crate::metrics::Gauges;
use crate::shared::{Batched, Ended, Shared};
use crate::{AddOptions, Coalesce, DrainResult, Item, Key, QueueStats, WorkQueueBuilder};

/// Delay of a key whose rate limiter panicked.
pub const PANIC_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of keys that [`WorkQueue::add_all`] adds at once: a page of a list, some tens of microseconds under the lock.
pub const BATCH: usize = 512;

/// A queue of keys for workers, see the [crate's guide](crate). Clones share it.
pub struct WorkQueue<K, P = ()> {
    pub(crate) shared: Arc<Shared<K, P>>,
}

/// The time of a requeue.
#[derive(Clone, Copy)]
pub(crate) enum Requeue {
    After(Duration),
    RateLimited,
}

impl<K: Key, P: Coalesce> WorkQueue<K, P> {
    /// A queue with the default limiter, [`ItemExponentialFailure`](crate::ItemExponentialFailure), and no metrics.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self::builder(clock).build()
    }

    /// A builder to choose limiter and metrics.
    pub fn builder(clock: Clock) -> WorkQueueBuilder<K, P> {
        WorkQueueBuilder::new(clock)
    }

    pub(crate) fn from_builder(builder: WorkQueueBuilder<K, P>) -> Self {
        let WorkQueueBuilder { clock, limiter, metrics, .. } = builder;
        let shared = Arc::new(Shared::new(clock, limiter, metrics));
        let gauges: Weak<dyn Gauges> = Arc::<Shared<K, P>>::downgrade(&shared);
        shared.call_metrics(|metrics| metrics.attach(gauges));
        Self { shared }
    }

    /// Adds a key, to be handed to the next free worker.
    ///
    /// A ready key keeps its position; a delayed one becomes ready now; one held by a worker runs again after the
    /// current run. After a shutdown the key is dropped, and counted in [`QueueStats::dropped`].
    pub fn add(&self, key: K)
    where
        P: Default,
    {
        let addition = Addition {
            hash: self.shared.hash.hash_one(&key),
            priority: None,
            due: None,
            now: self.shared.metrics_now(),
            retry: false,
        };
        self.insert(key, P::default(), addition);
    }

    /// Adds a key after `delay`.
    ///
    /// The earliest time counts: a later deadline of the key moves forward; an earlier one, or a ready key, is
    /// unchanged. Zero means now; [`Duration::MAX`] means never.
    pub fn add_after(&self, key: K, delay: Duration)
    where
        P: Default,
    {
        self.add_with(key, AddOptions::default().after(delay));
    }

    /// Adds a key after the delay of the rate limiter.
    ///
    /// Call [`forget`](Self::forget) once the key needs no more retries.
    pub fn add_rate_limited(&self, key: K)
    where
        P: Default,
    {
        self.add_with(key, AddOptions::default().rate_limited());
    }

    /// Adds a key with a payload, a priority and a time, see [`AddOptions`]. For a key that the queue contains,
    /// payloads are merged, and the higher priority and the earlier time count; see also [`add`](Self::add).
    #[inline]
    pub fn add_with(&self, key: K, mut add: AddOptions<P>) {
        let shared = &*self.shared;
        let now = if add.is_retry() { shared.clock.now() } else { shared.metrics_now() };
        if add.rate_limited {
            add.limit(shared.limit(&key, now));
        }
        let addition = add.addition(shared.hash.hash_one(&key), now);
        self.insert(key, add.payload, addition);
    }

    #[inline(always)]
    fn insert(&self, key: K, payload: P, addition: Addition) {
        let mut state = self.shared.lock();
        if state.machine.is_shutting_down() {
            state.count_dropped(&self.shared, 1);
            return self.shared.release(state);
        }
        if !addition.is_later() {
            state.promote(&self.shared);
        }
        state.add(&self.shared, key, payload, addition);
        self.shared.release(state);
    }

    /// Adds many keys in order, each as [`add_with`](Self::add_with) does. Use it for a list or a burst of events: it
    /// takes one lock for up to [`BATCH`] keys, and releases it for waiting workers.
    ///
    /// The iterator runs without the lock, so it may be slow, or call the queue. Its keys are added after each
    /// [`BATCH`] of them, and when it ends. Delays start then. If the iterator panics, its keys since the last batch
    /// are not added.
    pub fn add_all(&self, keys: impl IntoIterator<Item = (K, AddOptions<P>)>) {
        let shared = &*self.shared;
        let mut keys = keys.into_iter();
        let mut batch = Vec::new();
        loop {
            let drawn = keys.by_ref().take(BATCH);
            batch.extend(drawn.map(|(key, add)| Batched { hash: shared.hash.hash_one(&key), key, add }));
            if batch.is_empty() {
                return;
            }
            let now = shared.clock.now();
            shared.limit_batch(&mut batch, now);
            self.insert_all(batch.drain(..), now);
        }
    }

    /// Adds keys, and releases the lock in between for workers that wait for it.
    fn insert_all(&self, mut batch: impl ExactSizeIterator<Item = Batched<K, P>>, now: Instant) {
        let shared = &*self.shared;
        let sharing = shared.state.share();
        loop {
            let mut state = shared.lock();
            if state.machine.is_shutting_down() {
                state.count_dropped(shared, batch.len());
                return shared.release(state);
            }
            state.promote(shared);
            loop {
                for Batched { hash, key, add } in batch.by_ref().take(SHARED_KEYS) {
                    let addition = add.addition(hash, now);
                    state.add(shared, key, add.payload, addition);
                }
                if batch.len() == 0 {
                    return shared.release(state);
                }
                if sharing.is_wanted() {
                    break;
                }
            }
            shared.release(state);
            sharing.yield_lock();
        }
    }

    /// Waits for the next key. Returns `None` after a shutdown, when no key is ready.
    ///
    /// Dropping the future loses nothing. A future that is neither polled nor dropped may hold a wake-up meant for
    /// others, as in tokio. Workers that wait here also hand out delayed keys, so no background task or thread runs.
    /// Waiting for a delayed key needs a tokio runtime with a timer.
    pub fn get(&self) -> Get<'_, K, P> {
        Get::new(self)
    }

    /// Takes a key that is ready now. Returns `None` if there is none, or after a shutdown.
    #[must_use]
    pub fn try_get(&self) -> Option<Item<'_, K, P>> {
        let now = self.shared.metrics_now();
        let mut state = self.shared.lock_first();
        state.promote(&self.shared);
        let item = state.machine.next().map(|slot| state.hand_out(self, slot, now));
        self.shared.release(state);
        item
    }

    /// Up to `count` ready keys, so that a worker can prepare for them. They stay in the queue without a reservation:
    /// other workers take keys too, and later keys may be more urgent. All are cloned under the lock, so ask for some
    /// tens.
    ///
    /// Ordered by priority, then by arrival. Aging is not shown: every sixteenth dispatch takes the oldest key instead.
    #[must_use]
    pub fn peek(&self, count: usize) -> Vec<K> {
        let mut keys = Vec::with_capacity(count.min(BATCH));
        let mut state = self.shared.lock_first();
        state.promote(&self.shared);
        keys.extend(state.machine.in_line().take(count).cloned());
        self.shared.release(state);
        keys
    }

    /// Up to `count` delayed keys with their deadlines, earliest first. Meant for debugging; [`QueueStats::delayed`] is
    /// the total. All are cloned under the lock, so ask for some hundreds.
    #[must_use]
    pub fn delayed(&self, count: usize) -> Vec<(K, Instant)> {
        self.shared.with(|state| {
            state.promote(&self.shared);
            let delayed = state.machine.delayed(count);
            delayed.into_iter().map(|(key, due)| (key.clone(), due)).collect()
        })
    }

    /// Resets the rate limiter for a key that succeeded or is not retried. The key stays in the queue if it is there.
    pub fn forget(&self, key: &K) {
        self.shared.with_limiter(|limiter| limiter.forget(key));
    }

    /// Number of rate limited additions of a key since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.with_limiter(|limiter| limiter.num_requeues(key)).unwrap_or(0)
    }

    /// Number of ready keys. Delayed keys and those held by workers do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats().ready
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys per state, and of faults so far.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        let (counts, merge_panics) = self.shared.with(|state| {
            state.promote(&self.shared);
            (state.machine.counts(), state.machine.merge_panics())
        });
        QueueStats {
            ready: counts.ready,
            delayed: counts.delayed,
            processing: counts.processing,
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            merge_panics,
            sink_panics: self.shared.sink_panics.load(Ordering::Relaxed),
            limiter_panics: self.shared.limiter_panics.load(Ordering::Relaxed),
        }
    }

    /// Whether [`shutdown`](Self::shutdown) was called.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shared.with(|state| state.machine.is_shutting_down())
    }

    /// Stops the queue: it accepts no more keys. Ready keys are still handed out, and so are keys that were added while
    /// a worker held them. Delayed keys are dropped and counted. Then [`get`](Self::get) returns `None`. Calling it
    /// again does nothing.
    pub fn shutdown(&self) {
        // The payloads are dropped after the lock is released, since their code is foreign.
        let _dropped = self.shared.with(|state| {
            state.promote(&self.shared);
            let dropped = state.machine.shutdown();
            state.count_dropped(&self.shared, dropped.len());
            dropped
        });
    }

    /// Calls [`shutdown`](Self::shutdown), then waits up to `limit` until workers have finished all ready keys.
    pub async fn shutdown_with_drain(&self, limit: Duration) -> DrainResult {
        self.shutdown();
        let idle = std::future::poll_fn(|cx| {
            self.shared.with(|state| {
                if state.machine.is_idle() {
                    return Poll::Ready(());
                }
                state.waiters.wait_idle(cx);
                Poll::Pending
            })
        });
        if self.shared.clock.timeout(limit, idle).await.is_ok() {
            return DrainResult::Complete;
        }
        match self.stats() {
            QueueStats { ready: 0, processing: 0, .. } => DrainResult::Complete,
            QueueStats { ready, processing, .. } => DrainResult::TimedOut { ready, processing },
        }
    }

    pub(crate) fn requeue(&self, taken: &Taken<K, P>, payload: P, requeue: Requeue) {
        let now = self.shared.clock.now();
        let delay = match requeue {
            Requeue::After(delay) => delay,
            Requeue::RateLimited => self.shared.limit(&taken.key, now),
        };
        let due = Some(now + delay);
        // The entry is known by its slot, so the hash is not used.
        let addition = Addition { hash: 0, priority: Some(taken.priority), due, now, retry: true };
        let mut state = self.shared.lock_first();
        if state.machine.is_shutting_down() {
            state.count_dropped(&self.shared, 1);
            return self.shared.release(state);
        }
        state.requeue(&self.shared, taken.slot, payload, addition);
        self.shared.release(state);
    }

    #[inline(always)]
    pub(crate) fn done(&self, ended: Ended) {
        let mut state = self.shared.lock_first();
        state.done(&self.shared, ended);
        self.shared.release(state);
    }
}

impl<K, P> Clone for WorkQueue<K, P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Key, P: Coalesce> fmt::Debug for WorkQueue<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
