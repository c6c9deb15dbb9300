//! The state that all handles of a queue share: the machine and its waiters behind one lock, the limiter behind
//! another, and the work to do after each release of the first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bowline_clock::{HashState, Instant};
use smallvec::SmallVec;

use crate::arena::Slot;
use crate::env::{Clock, Lock, MutexGuard};
use crate::limiter::RateLimiter;
use crate::machine::{Added, Addition, Machine};
use crate::metrics::{Gauges, Metrics};
use crate::queue::PANIC_DELAY;
use crate::timings::InProgress;
use crate::waiters::{Situation, Waiters};
use crate::{AddOptions, Coalesce, Item, Key, WorkQueue};

pub(crate) struct Shared<K, P> {
    pub(crate) state: Lock<State<K, P>>,
    limiter: Lock<Box<dyn RateLimiter<K>>>,
    pub(crate) metrics: Option<Box<dyn Metrics>>,
    pub(crate) clock: Clock,
    pub(crate) hash: HashState,
    pub(crate) dropped: AtomicU64,
    pub(crate) sink_panics: AtomicU64,
    pub(crate) limiter_panics: AtomicU64,
}

pub(crate) struct State<K, P> {
    pub(crate) machine: Machine<K, P>,
    pub(crate) waiters: Waiters,
    /// The earliest deadline moved closer: the worker with the timer must reset it.
    deadline_moved: bool,
    /// A key became ready.
    arrived: bool,
    /// Reports to send to the metrics after the lock is released. Usually one or two, which do not allocate.
    reports: Reports,
}

/// Reports of events under the lock, in order.
#[derive(Default)]
pub(crate) struct Reports(SmallVec<[Report; 3]>);

/// A run that is over, and its end; zero unless times are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) slot: Slot,
    pub(crate) at: Instant,
}

/// One of many keys that are added together.
pub(crate) struct Batched<K, P> {
    pub(crate) hash: u64,
    pub(crate) key: K,
    pub(crate) add: AddOptions<P>,
}

#[derive(Clone, Copy)]
pub(crate) enum Report {
    Added { priority: i32, count: usize },
    Raised { from: i32, to: i32 },
    Retried,
    HandedOut { priority: i32, waited: Duration },
    Finished { worked: Duration },
    Dropped(usize),
}

impl Reports {
    #[inline(always)]
    fn push(&mut self, report: Report) {
        self.0.push(report);
    }

    /// Reports one more ready key. Those of a list are one report.
    #[inline(always)]
    fn count(&mut self, added: i32) {
        match self.0.last_mut() {
            Some(Report::Added { priority, count }) if *priority == added => *count += 1,
            _ => self.push(Report::Added { priority: added, count: 1 }),
        }
    }

    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Key, P: Coalesce> Shared<K, P> {
    pub(crate) fn new(
        clock: Clock,
        limiter: Box<dyn RateLimiter<K>>,
        metrics: Option<Box<dyn Metrics>>,
    ) -> Self {
        let state = State {
            machine: Machine::new(metrics.is_some()),
            waiters: Waiters::default(),
            deadline_moved: false,
            arrived: false,
            reports: Reports::default(),
        };
        Self {
            state: Lock::new(state),
            limiter: Lock::new(limiter),
            metrics,
            clock,
            hash: HashState::for_lookups(),
            dropped: AtomicU64::new(0),
            sink_panics: AtomicU64::new(0),
            limiter_panics: AtomicU64::new(0),
        }
    }

    /// Locks the state; the caller must call [`release`](Self::release).
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<K, P>> {
        self.state.lock()
    }

    /// The same with preference, for a worker: while it waits, no work is done.
    #[inline(always)]
    pub(crate) fn lock_first(&self) -> MutexGuard<'_, State<K, P>> {
        self.state.lock_first()
    }

    /// Releases the lock, wakes waiting tasks, and then reports to the metrics.
    #[inline(always)]
    pub(crate) fn release(&self, guard: MutexGuard<'_, State<K, P>>) {
        if guard.is_settled() {
            drop(guard);
        } else {
            self.settle(guard);
        }
    }

    /// Runs `access` on the state between [`lock`](Self::lock) and [`release`](Self::release).
    pub(crate) fn with<T>(&self, access: impl FnOnce(&mut State<K, P>) -> T) -> T {
        let mut guard = self.lock();
        let result = access(&mut guard);
        self.release(guard);
        result
    }

    #[inline(never)]
    fn settle(&self, mut guard: MutexGuard<'_, State<K, P>>) {
        let State { machine, waiters, deadline_moved, arrived, reports } = &mut *guard;
        let (arrived, deadline_moved) = (std::mem::take(arrived), std::mem::take(deadline_moved));
        let wakes = (!waiters.is_empty()).then(|| {
            waiters.wakes(Situation {
                ready: machine.ready(),
                arrived,
                delayed: machine.has_delayed(),
                deadline_moved,
                shutting_down: machine.is_shutting_down(),
                idle: machine.is_idle(),
            })
        });
        let reports = std::mem::take(reports);
        drop(guard);
        if let Some(wakes) = wakes {
            wakes.wake();
        }
        for report in reports.0 {
            self.send(report);
        }
    }

    /// Calls the limiter; `None` if that panicked.
    pub(crate) fn with_limiter<T>(&self, call: impl FnOnce(&mut dyn RateLimiter<K>) -> T) -> Option<T> {
        self.call_limiter(&mut **self.lock_limiter(), call)
    }

    /// The rate limiter's delay for a key.
    pub(crate) fn limit(&self, key: &K, now: Instant) -> Duration {
        self.with_limiter(|limiter| limiter.when(key, now)).unwrap_or(PANIC_DELAY)
    }

    /// Applies the rate limiter to a batch.
    pub(crate) fn limit_batch(&self, batch: &mut [Batched<K, P>], now: Instant) {
        let mut asking = batch.iter_mut().filter(|batched| batched.add.rate_limited).peekable();
        if asking.peek().is_none() {
            return;
        }
        let mut limiter = self.lock_limiter();
        for Batched { key, add, .. } in asking {
            let delay = self.call_limiter(&mut **limiter, |limiter| limiter.when(key, now));
            add.limit(delay.unwrap_or(PANIC_DELAY));
        }
    }

    fn lock_limiter(&self) -> MutexGuard<'_, Box<dyn RateLimiter<K>>> {
        self.limiter.lock()
    }

    fn call_limiter<T>(
        &self,
        limiter: &mut dyn RateLimiter<K>,
        call: impl FnOnce(&mut dyn RateLimiter<K>) -> T,
    ) -> Option<T> {
        let result = catch_unwind(AssertUnwindSafe(|| call(limiter)));
        if result.is_err() {
            self.limiter_panics.fetch_add(1, Ordering::Relaxed);
        }
        result.ok()
    }

    /// The time if the queue has metrics; zero otherwise.
    pub(crate) fn metrics_now(&self) -> Instant {
        if self.metrics.is_some() { self.clock.now() } else { Instant::ZERO }
    }

    pub(crate) fn call_metrics(&self, call: impl FnOnce(&dyn Metrics)) {
        if let Some(metrics) = &self.metrics
            && catch_unwind(AssertUnwindSafe(|| call(&**metrics))).is_err()
        {
            self.sink_panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn send(&self, report: Report) {
        self.call_metrics(|metrics| match report {
            Report::Added { priority, count: 1 } => metrics.added(priority),
            Report::Added { priority, count } => metrics.added_many(priority, count),
            Report::Raised { from, to } => metrics.raised(from, to),
            Report::Retried => metrics.retried(),
            Report::HandedOut { priority, waited } => metrics.handed_out(priority, waited),
            Report::Finished { worked } => metrics.finished(worked),
            Report::Dropped(count) => metrics.dropped(count),
        });
    }
}

impl<K: Key, P: Coalesce> State<K, P> {
    /// Adds a key, after [`promote`](Self::promote). Not after a shutdown.
    #[inline(always)]
    pub(crate) fn add(&mut self, shared: &Shared<K, P>, key: K, payload: P, addition: Addition) {
        let added = self.machine.add(key, payload, addition);
        self.added(shared, added, addition.retry);
    }

    /// Ends a run.
    #[inline(always)]
    pub(crate) fn done(&mut self, shared: &Shared<K, P>, Ended { slot, at }: Ended) {
        if self.machine.has_delayed() && self.machine.is_dirty(slot) {
            self.promote_due(shared);
        }
        let ready = self.machine.ready();
        if shared.metrics.is_some()
            && let Some(started_at) = self.machine.finished(slot)
        {
            self.reports.push(Report::Finished { worked: at.duration_since(started_at) });
        }
        self.machine.done(slot);
        self.arrived |= self.machine.ready() > ready && !self.waiters.is_empty();
    }

    /// Reports to the metrics that a key was handed out.
    #[inline(always)]
    fn report_hand_out(&mut self, slot: Slot, priority: i32, now: Instant) {
        if let Some(queued_at) = self.machine.started(slot, now) {
            self.reports.push(Report::HandedOut { priority, waited: now.duration_since(queued_at) });
        }
    }

    /// Hands out the next key.
    #[inline(always)]
    pub(crate) fn hand_out<'q>(
        &mut self,
        queue: &'q WorkQueue<K, P>,
        slot: Slot,
        now: Instant,
    ) -> Item<'q, K, P> {
        let item = Item::new(queue, self.machine.take(slot), now);
        if queue.shared.metrics.is_some() {
            self.report_hand_out(slot, item.priority(), now);
        }
        item
    }

    #[inline(always)]
    fn added(&mut self, shared: &Shared<K, P>, added: Added, retried: bool) {
        // A worker that begins to wait later checks by itself.
        if !self.waiters.is_empty() {
            self.deadline_moved |= added == Added::Delayed { earliest: true };
            self.arrived |= matches!(added, Added::Ready { .. });
        }
        if retried {
            self.report(shared, || Report::Retried);
        }
        if shared.metrics.is_some() {
            match added {
                Added::Ready { priority } | Added::Dirty { priority } => self.reports.count(priority),
                Added::Raised { from, to } => self.reports.push(Report::Raised { from, to }),
                Added::Delayed { .. } | Added::Merged => {}
            }
        }
    }

    /// Whether no task waits and there is nothing to report.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.waiters.is_empty() && self.reports.is_empty()
    }

    /// Adds a key again whose run is about to end. Not after a shutdown.
    pub(crate) fn requeue(&mut self, shared: &Shared<K, P>, slot: Slot, payload: P, addition: Addition) {
        self.promote(shared);
        let added = self.machine.requeue(slot, payload, addition);
        self.added(shared, added, true);
    }

    /// Counts additions that the queue refuses or drops.
    pub(crate) fn count_dropped(&mut self, shared: &Shared<K, P>, count: usize) {
        if count > 0 {
            shared.dropped.fetch_add(count as u64, Ordering::Relaxed);
            self.report(shared, || Report::Dropped(count));
        }
    }

    /// Makes due keys ready. Called before any other key becomes ready, so that due keys come first.
    #[inline(always)]
    pub(crate) fn promote(&mut self, shared: &Shared<K, P>) {
        if self.machine.has_delayed() {
            self.promote_due(shared);
        }
    }

    #[inline(never)]
    fn promote_due(&mut self, shared: &Shared<K, P>) {
        let Self { machine, reports, .. } = self;
        machine.promote(shared.clock.now(), |priority| {
            if shared.metrics.is_some() {
                reports.count(priority);
            }
        });
    }

    #[inline(always)]
    pub(crate) fn report(&mut self, shared: &Shared<K, P>, report: impl FnOnce() -> Report) {
        if shared.metrics.is_some() {
            self.reports.push(report());
        }
    }
}

impl<K: Key, P: Coalesce> Gauges for Shared<K, P> {
    fn in_progress(&self) -> InProgress {
        let now = self.clock.now();
        self.with(|state| {
            // Keeps the reported depth correct.
            state.promote(self);
            state.machine.in_progress(now)
        })
    }
}
