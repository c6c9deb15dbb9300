//! The queue as its users see it.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use bowline_clock::Instant;

use crate::env::{Clock, PIECE};
use crate::get::Get;
use crate::machine::{Addition, Taken};
use crate::metrics::Gauges;
use crate::shared::{Batched, Ended, Shared};
use crate::{Add, Builder, Coalesce, Drain, Item, Key, Stats};

/// How long a key waits whose rate limiter panicked instead of saying how long.
pub const PANIC_DELAY: Duration = Duration::from_secs(1);

/// How many keys [`WorkQueue::add_all`] adds at a time: a page of a list, some tens of microseconds under the lock.
pub const BATCH: usize = 512;

/// A queue of keys to be worked on, see the [crate's guide](crate). Clones share it.
pub struct WorkQueue<K, P = ()> {
    pub(crate) shared: Arc<Shared<K, P>>,
}

/// When an item is to be run again.
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

    /// Chooses limiter and metrics.
    pub fn builder(clock: Clock) -> Builder<K, P> {
        Builder::new(clock)
    }

    pub(crate) fn from_builder(builder: Builder<K, P>) -> Self {
        let Builder { clock, limiter, metrics, .. } = builder;
        let shared = Arc::new(Shared::new(clock, limiter, metrics));
        let gauges: Weak<dyn Gauges> = Arc::<Shared<K, P>>::downgrade(&shared);
        shared.call_metrics(|metrics| metrics.attach(gauges));
        Self { shared }
    }

    /// Adds a key, to be handed out as soon as a worker is free.
    ///
    /// A key that waits already stays where it is; one that waits for its time gets in line now; one that is
    /// with a worker is handed out once more when that run is over. After a shutdown the key is dropped, and
    /// counted in [`Stats::dropped`].
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

    /// Adds a key, to be handed out once `delay` has passed.
    ///
    /// The earliest time counts: a key that waits for a later time is brought forward, one that waits for an
    /// earlier time, or in line, stays. Zero is now; [`Duration::MAX`] never comes.
    pub fn add_after(&self, key: K, delay: Duration)
    where
        P: Default,
    {
        self.add_with(key, Add::default().after(delay));
    }

    /// Adds a key, to be handed out when the rate limiter allows it.
    ///
    /// Call [`forget`](Self::forget) once the key needs no more retries.
    pub fn add_rate_limited(&self, key: K)
    where
        P: Default,
    {
        self.add_with(key, Add::default().rate_limited());
    }

    /// Adds a key with a payload, a priority and a time. See [`Add`], and [`add`](Self::add) for what becomes of
    /// a key that the queue knows already: payloads are merged, the higher priority and the earlier time count.
    #[inline]
    pub fn add_with(&self, key: K, mut add: Add<P>) {
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

    /// Adds many keys, each as [`add_with`](Self::add_with) does, in their order, but with one lock for up to
    /// [`BATCH`] of them, unless a worker wants it: the way to add a list, or a burst of events.
    ///
    /// Keys are drawn from the iterator while no lock is held, so it may take its time, or call the queue; what it
    /// gave is added when there are [`BATCH`] keys, or when it ends. Times count from then. Should it panic, what it
    /// gave since the last batch is not added.
    pub fn add_all(&self, keys: impl IntoIterator<Item = (K, Add<P>)>) {
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

    /// Adds keys, and lets workers at the lock that want it in between.
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
                for Batched { hash, key, add } in batch.by_ref().take(PIECE) {
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
            sharing.give_way();
        }
    }

    /// Waits for the next key. `None`: the queue was shut down and has nothing left in line.
    ///
    /// Dropping the future loses nothing, but one that is neither polled on nor dropped may sit on a wake-up meant
    /// for others, as with tokio's own. Keys that wait for their time are handed out by the workers that wait
    /// here, so no task or thread runs in the background. Waiting for such a key needs a tokio runtime with a
    /// timer.
    pub fn get(&self) -> Get<'_, K, P> {
        Get::new(self)
    }

    /// The next key, if one is in line now. `None` also when the queue was shut down.
    #[must_use]
    pub fn try_get(&self) -> Option<Item<'_, K, P>> {
        let now = self.shared.metrics_now();
        let mut state = self.shared.lock_first();
        state.promote(&self.shared);
        let item = state.machine.next().map(|slot| state.hand_out(self, slot, now));
        self.shared.release(state);
        item
    }

    /// The next keys in line, `count` at the most: for a worker that can prepare for them. They stay where they are, and
    /// nobody is promised any of them: other workers take keys too, and keys that come later may be more urgent. All are cloned
    /// under the lock, so ask for some tens.
    ///
    /// They are in the order of their priority, then of their coming. The one that has waited longest is handed out sooner
    /// than it is shown here every sixteenth time.
    #[must_use]
    pub fn peek(&self, count: usize) -> Vec<K> {
        let mut keys = Vec::with_capacity(count.min(BATCH));
        let mut state = self.shared.lock_first();
        state.promote(&self.shared);
        keys.extend(state.machine.in_line().take(count).cloned());
        self.shared.release(state);
        keys
    }

    /// Tells the rate limiter that a key succeeded or is given up. It stays in the queue if it is there.
    pub fn forget(&self, key: &K) {
        self.shared.with_limiter(|limiter| limiter.forget(key));
    }

    /// How often a key was added through the rate limiter since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.shared.with_limiter(|limiter| limiter.num_requeues(key)).unwrap_or(0)
    }

    /// How many keys are in line for a worker. Those that wait for their time or are with a worker do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats().ready
    }

    /// Whether no key is in line for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are where, and what went wrong so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (counts, merge_panics) = self.shared.with(|state| {
            state.promote(&self.shared);
            (state.machine.counts(), state.machine.merge_panics())
        });
        Stats {
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

    /// Takes no more keys. What is in line is still handed out, and what was added while its key was with a
    /// worker is, too, when that run is over; what waits for its time is dropped and counted. Then
    /// [`get`](Self::get) gives `None`. Calling it again does nothing.
    pub fn shutdown(&self) {
        // The payloads are dropped once the lock is released: that is foreign code.
        let _dropped = self.shared.with(|state| {
            state.promote(&self.shared);
            let dropped = state.machine.shutdown();
            state.count_dropped(&self.shared, dropped.len());
            dropped
        });
    }

    /// [`shutdown`](Self::shutdown), then waits, for `limit` at the most, until workers have taken all that is
    /// in line and are done with it.
    pub async fn shutdown_with_drain(&self, limit: Duration) -> Drain {
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
            return Drain::Complete;
        }
        match self.stats() {
            Stats { ready: 0, processing: 0, .. } => Drain::Complete,
            Stats { ready, processing, .. } => Drain::TimedOut { ready, processing },
        }
    }

    pub(crate) fn requeue(&self, taken: &Taken<K, P>, payload: P, requeue: Requeue) {
        let now = self.shared.clock.now();
        let delay = match requeue {
            Requeue::After(delay) => delay,
            Requeue::RateLimited => self.shared.limit(&taken.key, now),
        };
        let due = Some(now + delay);
        // The entry is known by its slot, so nobody looks for its hash.
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
