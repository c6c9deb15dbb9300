//! Changes for which a predicate or handler failed. They are retried with growing pauses, a few at a time, and listed as
//! unhandled when all attempts failed. Other changes do not wait for them, except when no more can be retried: then the
//! watch of an async handler waits for room, and any other gives its change up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use bowline_machinery::ObjectKey;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::change_pipeline::{ChangeFailure, ChangePipeline, PipelineConfig};
use crate::ChangeKind;
use crate::change::OwnedChange;
use crate::trigger::TriggerSource;

/// Maximum attempts for a change; the last is about four minutes after the first.
const ATTEMPTS: u32 = 10;

/// Pauses between attempts: the first one, doubled each time up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maximum changes of a controller that wait for a retry or are retried.
const MAX_WAITING: usize = 1024;

/// Maximum retries at once, so that a handler that hangs for one object does not delay all others.
const AT_ONCE: usize = 8;

/// Maximum unhandled objects that are listed; further ones are only counted and logged.
const MAX_UNHANDLED: usize = 1024;

/// A change without effect, because a predicate panicked or a handler failed for it on every attempt; from
/// [`Controller::unhandled_changes`](crate::Controller::unhandled_changes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnhandledChange {
    /// The source, as [triggers](crate::Trigger::source) name it.
    pub source: String,
    /// The object that changed. `None` for a payload, which has no name.
    pub object: Option<ObjectKey>,
    /// The type of the predicate or handler.
    pub type_name: &'static str,
    /// Number of attempts for the object's last unhandled change.
    pub attempts: u32,
    /// The error of an async handler in the last attempt. `None` after a panic.
    pub error: Option<String>,
}

/// The retried changes of one run of a controller.
pub(crate) struct ChangeRetries {
    clock: Clock,
    state: Mutex<State>,
    /// Number of waiting, unhandled and running changes, so that most other changes need no lock.
    troubles: AtomicUsize,
    /// Signals a new earliest attempt.
    changed: Notify,
    /// Room for waiting and running changes.
    room: Arc<Semaphore>,
}

/// Room for one change among the retried ones.
pub(super) struct Room(
    #[expect(dead_code, reason = "held until the change is dropped")] OwnedSemaphorePermit,
);

#[derive(Default)]
struct State {
    /// Waiting changes by the time of the next attempt and their number.
    waiting: BTreeMap<(Instant, u64), Retry>,
    next: u64,
    /// The attempts in progress by the number of the change. Those that a stop dropped stay, and count as waiting.
    running: BTreeMap<u64, Running>,
    unhandled: BTreeMap<Place, Unhandled>,
}

/// A watch's origin by its address, since names may repeat, and an object. All payloads of a watch share one key.
type Place = (usize, Option<ObjectKey>);

/// A change that is retried.
///
/// The changes of an object are retried one by one and are not merged: an attempt that failed may have added requests
/// for a state in between, whose end only the next change reports.
struct Retry {
    /// Number in the order of first failures, which for one watch is the order of the changes.
    number: u64,
    place: Place,
    change: Box<dyn Attempt>,
    /// A later change of the object succeeded: this one is retried, but never listed as unhandled.
    is_superseded: bool,
    _room: Room,
}

/// An attempt in progress.
struct Running {
    origin: Arc<TriggerSource>,
    place: Place,
    is_superseded: bool,
    /// Cancelled to drop the attempt.
    cancelled: CancellationToken,
    /// Cancelled when the attempt has ended or was dropped.
    ended: CancellationToken,
}

/// A listed change.
struct Unhandled {
    number: u64,
    origin: Arc<TriggerSource>,
    change: UnhandledChange,
}

/// A retried change of any object type.
pub(super) trait Attempt: Send {
    /// Makes another attempt. `number` is the one of the change.
    fn run<'a>(
        &'a mut self,
        retries: &'a Arc<ChangeRetries>,
        number: u64,
    ) -> BoxFuture<'a, Result<(), ChangeFailure>>;
    /// Number of attempts so far.
    fn attempts(&self) -> u32;
    fn origin(&self) -> &Arc<TriggerSource>;
    fn object(&self) -> Option<ObjectKey>;
    fn is_deletion(&self) -> bool;
}

impl State {
    /// The number of another change.
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn troubles(&self) -> usize {
        self.waiting.len() + self.unhandled.len() + self.running.len()
    }

    /// Whether another change of the object is retried now, which this one waits for. Payloads are independent.
    fn is_busy(&self, place: &Place) -> bool {
        place.1.is_some() && self.running.values().any(|running| running.place == *place)
    }
}

/// A change for which a predicate or handler failed.
pub(super) struct FailedChange<K> {
    route: Arc<PipelineConfig<K>>,
    change: OwnedChange<K>,
    attempts: u32,
}

impl<K> FailedChange<K> {
    /// A change after its first attempt.
    pub(super) fn new(route: Arc<PipelineConfig<K>>, change: OwnedChange<K>) -> Self {
        Self { route, change, attempts: 1 }
    }
}

impl<K: Send + Sync + 'static> Attempt for FailedChange<K> {
    fn run<'a>(
        &'a mut self,
        retries: &'a Arc<ChangeRetries>,
        number: u64,
    ) -> BoxFuture<'a, Result<(), ChangeFailure>> {
        self.attempts += 1;
        Box::pin(async move {
            let mut feed = ChangePipeline::retrying(self.route.clone(), retries.clone(), number);
            let taken = feed.take_async(&self.change).await;
            feed.flush();
            taken
        })
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn origin(&self) -> &Arc<TriggerSource> {
        &self.route.origin
    }

    fn object(&self) -> Option<ObjectKey> {
        self.change.borrow().identity().map(key)
    }

    fn is_deletion(&self) -> bool {
        self.change.borrow().kind() == ChangeKind::Delete
    }
}

impl ChangeRetries {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let (state, troubles, changed) = Default::default();
        Arc::new(Self { clock, state, troubles, changed, room: Arc::new(Semaphore::new(MAX_WAITING)) })
    }

    /// Waits for room for one more change.
    pub(super) async fn room(&self) -> Room {
        Room(self.room.clone().acquire_owned().await.expect("it is never closed"))
    }

    /// Schedules another attempt after a pause, or gives the change up if there is no room.
    pub(super) fn try_add(&self, change: Box<dyn Attempt>, failure: ChangeFailure) {
        if let Ok(room) = self.room.clone().try_acquire_owned() {
            return self.add(change, failure, Room(room));
        }
        let mut state = self.lock();
        let number = state.number();
        self.give_up(&*change, number, false, failure, state);
    }

    /// Schedules another attempt after a pause.
    pub(super) fn add(&self, change: Box<dyn Attempt>, failure: ChangeFailure, room: Room) {
        let place = (address(change.origin()), change.object());
        let mut state = self.lock();
        let number = state.number();
        self.schedule(Retry { number, place, change, is_superseded: false, _room: room }, failure, state);
    }

    /// Schedules another attempt after a pause, if one is left.
    fn schedule(&self, retry: Retry, failure: ChangeFailure, mut state: MutexGuard<'_, State>) {
        let attempts = retry.change.attempts();
        if attempts >= ATTEMPTS {
            return self.give_up(&*retry.change, retry.number, retry.is_superseded, failure, state);
        }
        let pause = SHORTEST_PAUSE.saturating_mul(1 << (attempts - 1)).min(LONGEST_PAUSE);
        state.waiting.insert((self.clock.now() + pause, retry.number), retry);
        self.recount(&state);
        drop(state);
        self.changed.notify_one();
    }

    /// Lists the object as unhandled, unless a later change of it succeeded or it no longer exists: then no action is
    /// needed.
    fn give_up(
        &self,
        change: &dyn Attempt,
        number: u64,
        is_superseded: bool,
        failure: ChangeFailure,
        mut state: MutexGuard<'_, State>,
    ) {
        let (origin, object, attempts) = (change.origin(), change.object(), change.attempts());
        let ChangeFailure { type_name, error } = failure;
        let place = (address(origin), object.clone());
        let listed = state.unhandled.get(&place).map(|listed| listed.number);
        let is_newest = listed.is_none_or(|listed| listed < number);
        if change.is_deletion() {
            if is_newest {
                state.unhandled.remove(&place);
            }
        } else if !is_superseded && is_newest && (state.unhandled.len() < MAX_UNHANDLED || listed.is_some()) {
            let source = origin.name().to_owned();
            let change = UnhandledChange { source, object: object.clone(), type_name, attempts, error };
            state.unhandled.insert(place, Unhandled { number, origin: origin.clone(), change });
        }
        self.recount(&state);
        drop(state);
        origin.retries_exhausted(object.as_ref(), type_name, attempts);
    }

    fn recount(&self, state: &State) {
        self.troubles.store(state.troubles(), Ordering::Release);
    }

    /// A change of an object succeeded: its earlier failures no longer matter. `number` is the one of a retried change;
    /// all retried changes are earlier than one without a number.
    #[inline]
    pub(super) fn handled(
        &self,
        origin: &Arc<TriggerSource>,
        meta: Option<&ObjectMeta>,
        number: Option<u64>,
    ) {
        if self.troubles.load(Ordering::Acquire) > 0 {
            self.supersede(&(address(origin), meta.map(key)), number.unwrap_or(u64::MAX));
        }
    }

    /// Marks the changes of an object with smaller numbers.
    #[cold]
    fn supersede(&self, place: &Place, number: u64) {
        let mut state = self.lock();
        if state.unhandled.get(place).is_some_and(|listed| listed.number < number) {
            state.unhandled.remove(place);
        }
        for (_, running) in state.running.range_mut(..number).filter(|(_, running)| running.place == *place) {
            running.is_superseded = true;
        }
        for retry in state.waiting.values_mut().filter(|retry| retry.number < number && retry.place == *place)
        {
            retry.is_superseded = true;
        }
        self.recount(&state);
    }

    /// Removes all changes of a watch that was removed. Afterwards none is in progress, and none is retried.
    pub(crate) async fn forget_watch(&self, origin: &Arc<TriggerSource>) {
        let ending: Vec<_> = {
            let state = self.lock();
            let running = state.running.values().filter(|running| Arc::ptr_eq(&running.origin, origin));
            running.map(|running| (running.cancelled.clone(), running.ended.clone())).collect()
        };
        for (cancelled, _) in &ending {
            cancelled.cancel();
        }
        for (_, ended) in ending {
            ended.cancelled().await;
        }
        let mut state = self.lock();
        let dropped = state.waiting.extract_if(.., |_, retry| Arc::ptr_eq(retry.change.origin(), origin));
        let dropped: Vec<_> = dropped.collect();
        state.running.retain(|_, running| !Arc::ptr_eq(&running.origin, origin));
        state.unhandled.retain(|_, listed| !Arc::ptr_eq(&listed.origin, origin));
        self.recount(&state);
        drop(state);
        // The objects are dropped outside the lock.
        drop(dropped);
    }

    /// Changes without effect, by source and object.
    pub(crate) fn unhandled(&self) -> Vec<UnhandledChange> {
        let mut all: Vec<_> = self.lock().unhandled.values().map(|listed| listed.change.clone()).collect();
        all.sort_by(|one, other| (&one.source, &one.object).cmp(&(&other.source, &other.object)));
        all
    }

    /// Number of changes that wait for a retry or are retried now.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.lock();
        state.waiting.len() + state.running.len()
    }

    /// Runs the retries, as long as it is polled.
    pub(crate) async fn run(self: &Arc<Self>) {
        let mut running = FuturesUnordered::new();
        loop {
            let mut next = None;
            while running.len() < AT_ONCE {
                match self.take_due() {
                    Ok(due) => running.push(self.attempt(due)),
                    Err(time) => {
                        next = time;
                        break;
                    }
                }
            }
            tokio::select! {
                biased;
                Some(()) = running.next() => tokio::task::yield_now().await,
                () = self.changed.notified() => {}
                () = self.clock.sleep_until(next.unwrap_or(Instant::MAX)) => {}
            }
        }
    }

    /// Takes a due change whose object is idle, or else returns the time of the next one.
    fn take_due(&self) -> Result<(Retry, CancellationToken, DropGuard), Option<Instant>> {
        let now = self.clock.now();
        let mut state = self.lock();
        let first = state.waiting.iter().find(|(_, retry)| !state.is_busy(&retry.place));
        let due = first.map(|(due, _)| *due).ok_or(None)?;
        if due.0 > now {
            return Err(Some(due.0));
        }
        let retry = state.waiting.remove(&due).ok_or(None)?;
        let (cancelled, ended) = (CancellationToken::new(), CancellationToken::new());
        let running = Running {
            origin: retry.change.origin().clone(),
            place: retry.place.clone(),
            is_superseded: retry.is_superseded,
            cancelled: cancelled.clone(),
            ended: ended.clone(),
        };
        state.running.insert(retry.number, running);
        Ok((retry, cancelled, ended.drop_guard()))
    }

    /// Makes one attempt. The guard is dropped with it.
    async fn attempt(
        self: &Arc<Self>,
        (mut retry, cancelled, _ended): (Retry, CancellationToken, DropGuard),
    ) {
        let outcome = tokio::select! {
            biased;
            () = cancelled.cancelled() => Ok(()),
            outcome = retry.change.run(self, retry.number) => outcome,
        };
        let mut state = self.lock();
        if let Some(running) = state.running.remove(&retry.number) {
            retry.is_superseded = running.is_superseded;
        }
        match outcome {
            Ok(()) => self.recount(&state),
            Err(failure) => self.schedule(retry, failure, state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(origin: &Arc<TriggerSource>) -> usize {
    Arc::as_ptr(origin).addr()
}

fn key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl fmt::Display for UnhandledChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, object, type_name, attempts, error } = self;
        f.write_str(source)?;
        if let Some(object) = object {
            write!(f, " {object}")?;
        }
        let failed = if error.is_some() { "failed" } else { "panicked" };
        write!(f, " ({type_name} {failed} {attempts} times)")
    }
}
