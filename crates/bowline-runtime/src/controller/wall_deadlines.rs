//! Requests that are scheduled for a time of the wall clock. The queue uses monotonic time, which ignores changes of
//! the wall clock and stops while the machine is suspended. Therefore such requests wait here and enter the queue when
//! the wall clock reaches their time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bowline_clock::Clock;
use tokio::sync::Notify;

use crate::Request;

/// Longest time between two checks of the wall clock while a request waits. Limits how late a run can be after the
/// clock was set forward or the machine was suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Maximum number of requests that enter the queue at a time.
const BATCH: usize = 512;

/// The scheduled requests of one run of a controller, one entry per request.
#[derive(Default)]
pub(crate) struct WallDeadlines {
    state: Mutex<State>,
    /// Number of entries, so that most runs need no lock.
    count: AtomicUsize,
    /// Signals a new earliest deadline.
    changed: Notify,
}

#[derive(Default)]
struct State {
    by_time: BTreeSet<(SystemTime, Request)>,
    /// Time and priority by request.
    by_request: BTreeMap<Request, (SystemTime, i32)>,
}

impl WallDeadlines {
    /// Schedules a request at a time, with a priority. Replaces its earlier schedule.
    pub(super) fn set(&self, request: &Request, time: SystemTime, priority: i32) {
        let mut state = self.lock();
        if let Some((former, _)) = state.by_request.insert(request.clone(), (time, priority)) {
            state.by_time.remove(&(former, request.clone()));
        }
        state.by_time.insert((time, request.clone()));
        let is_earliest = state.by_time.first().is_some_and(|(_, first)| first == request);
        self.count.store(state.by_time.len(), Ordering::Release);
        drop(state);
        if is_earliest {
            self.changed.notify_one();
        }
    }

    /// Removes a request that runs now: the outcome of this run replaces its schedule.
    pub(super) fn clear(&self, request: &Request) {
        if self.len() == 0 {
            return;
        }
        let mut state = self.lock();
        if let Some((time, _)) = state.by_request.remove(request) {
            state.by_time.remove(&(time, request.clone()));
        }
        self.count.store(state.by_time.len(), Ordering::Release);
    }

    /// Number of scheduled requests.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The next requests and their times, earliest first.
    pub(super) fn next(&self, count: usize) -> Vec<(Request, SystemTime)> {
        self.lock().by_time.iter().take(count).map(|(time, request)| (request.clone(), *time)).collect()
    }

    /// Passes requests and their priorities on when the wall clock reaches their time.
    pub(super) async fn run(&self, clock: &Clock, mut is_due: impl FnMut(Vec<(Request, i32)>)) {
        loop {
            let now = clock.system_time();
            let due = self.take_due(now);
            if !due.is_empty() {
                is_due(due);
                continue;
            }
            let sleep = match self.next(1).pop() {
                Some((_, time)) => time.duration_since(now).unwrap_or_default().min(LONGEST_SLEEP),
                None => Duration::MAX,
            };
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = clock.sleep(sleep) => {}
            }
        }
    }

    /// Some of the due requests.
    fn take_due(&self, now: SystemTime) -> Vec<(Request, i32)> {
        let mut state = self.lock();
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some((time, _)) = state.by_time.first()
            && *time <= now
            && let Some((_, request)) = state.by_time.pop_first()
        {
            let priority = state.by_request.remove(&request).map_or(0, |(_, priority)| priority);
            due.push((request, priority));
        }
        self.count.store(state.by_time.len(), Ordering::Release);
        due
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
