//! The pending writes of a client: those that the cache may not have yet. The basis of read-your-writes.
//!
//! Owns the bookkeeping for one resource in all representations. Knows no informer and does not wait.
//!
//! - A write of one object is an entry under its key, until every informer has it.
//! - A write whose object is unknown (a lost response with `generateName`, a failed `delete_all_of`) is in the
//!   watermark of its namespace.
//! - When there are too many entries, the oldest go into the watermark of the resource. An informer has them when it
//!   has reached that version.
//! - The outcome of a write may be unknown: its future was dropped, or its response was lost. Then reads bypass the
//!   cache until the server was asked after the write has ended.

mod pending;
mod watermark;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_clock::Instant;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use pending::Pending;
use watermark::Watermarks;

/// Maximum number of entries of a resource.
const MAX_PENDING: usize = 1024;

/// Maximum number of objects that a late list asks for one by one. Objects of evictions and bindings do not count: their
/// answers have no version, but they are done.
pub(super) const MAX_LATE: usize = 8;

/// Maximum time that a write goes on after its client has left: the default of kube-apiserver's `--request-timeout`.
pub(super) const IN_FLIGHT: Duration = Duration::from_secs(60);

/// Number of deadlines after which a version that is not comparable is dropped.
const IN_VAIN: u32 = 12;

/// The writes of one resource that informers may not have seen.
pub(super) struct WriteTracker {
    /// Maximum time that a read waits for a write.
    deadline: Duration,
    /// Number of pending writes; most reads see zero and need no lock.
    count: AtomicUsize,
    state: Mutex<State>,
    /// Held while one reader asks the server for the version of the collection, on behalf of all.
    pub(super) asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<ObjectKey, Pending>,
    watermarks: Watermarks,
    /// Informers that have to see the writes.
    readers: BTreeSet<u32>,
    /// Number of readers ever added.
    numbered: u32,
    /// Number of notes ever made.
    noted: u64,
    /// Time of the last note.
    last_noted: Option<Instant>,
}

/// A time, and a position in the order of all notes of a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    time: Instant,
    number: u64,
}

/// A write with an unknown version.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    /// The server may commit it until then.
    until: Instant,
    /// Number of its note.
    number: u64,
}

/// A read of the cache.
pub(super) struct Reading<'a, V> {
    /// Number of the informer.
    pub(super) reader: u32,
    /// Start of the read: it does not wait for later writes.
    pub(super) started: Moment,
    pub(super) view: &'a V,
    pub(super) now: Instant,
}

/// A version of an object. Numeric versions are comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Number(u64),
    Text(Box<str>),
}

/// Response to a write, for one object.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) uid: &'a str,
    pub(super) what: WriteEffect,
}

/// Outcome for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WriteEffect {
    /// It exists in this version, and informers keep it.
    There(Version),
    /// It exists in this version, and informers do not keep it, or it is unknown whether they do.
    Elsewhere(Version),
    /// It was marked for deletion in this version, and may have ended.
    Ending(Version),
    /// It has ended. The version in which informers had it, if it is known.
    Gone(Option<u64>),
    /// It is newer than this version, or has ended. `true`: informers had it in that version.
    NewerThan(u64, bool),
}

/// Result of a live read of one object.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The object; `None` if it does not exist.
    pub(super) object: Option<Answer<'a>>,
    /// Uid of the informer's object before the read.
    pub(super) cached: Option<&'a str>,
}

/// Next step of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CacheReadiness {
    /// The informer has all writes: read from it.
    Read,
    /// Wait for the informer, until then.
    Wait(Instant),
    /// Ask the server for the version of the collection, which the informer then has to reach.
    Ask,
    /// Ask the server for the objects.
    Late(Late),
}

/// Objects that a late read requests from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// These objects: the informer has all others.
    Objects(Vec<ObjectKey>),
    /// Everything in the scope of the read.
    Everything,
}

/// State of an entry for one reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// The informer has it.
    Current,
    /// The informer does not have it: wait until then.
    Behind(Instant),
    /// The version is unknown, so waiting does not help.
    Unknown,
    /// The server has to be asked for a version first.
    Unasked,
}

/// The state of an informer.
pub(super) trait View {
    /// Calls a closure with the metadata of a key's object, if there is one.
    fn with<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T;

    /// Whether all changes of a key up to a version have been applied.
    fn has_reached(&self, key: &ObjectKey, version: u64) -> bool;

    /// Whether all changes in a namespace, or in all (`None`), up to a version have been applied.
    fn has_reached_in(&self, namespace: Option<&str>, version: u64) -> bool;
}

impl<V> Clone for Reading<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Reading<'_, V> {}

impl Unknown {
    fn new(until: Instant, now: Moment) -> Self {
        Self { until, number: now.number }
    }

    /// Combines both: the later time and number.
    fn and(self, other: Option<Self>) -> Self {
        match other {
            Some(other) => Self { until: self.until.max(other.until), number: self.number.max(other.number) },
            None => self,
        }
    }

    /// Whether a request that was sent then sees the write.
    fn is_over(self, sent: Moment) -> bool {
        self.number <= sent.number && self.until <= sent.time
    }
}

impl Version {
    pub(super) fn new(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Text(text.into()), Self::Number)
    }

    /// Whether an object's version is this one or a later one.
    fn is_in(&self, meta: &ObjectMeta) -> bool {
        let Some(has) = meta.resource_version.as_deref() else { return false };
        match self {
            Self::Number(number) => has.parse::<u64>().is_ok_and(|has| has >= *number),
            Self::Text(text) => has == &**text,
        }
    }

    /// Whether this comes after another. If the versions are not comparable, the later note does.
    fn is_after(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one > other,
            _ => true,
        }
    }
}

impl WriteTracker {
    pub(super) fn new(deadline: Duration) -> Self {
        Self {
            deadline,
            count: AtomicUsize::new(0),
            state: Mutex::default(),
            asking: tokio::sync::Mutex::new(()),
        }
    }

    /// Adds an informer through which the resource is read. Returns its number, never zero.
    pub(super) fn add_reader(&self) -> u32 {
        let mut state = self.lock();
        state.numbered += 1;
        let number = state.numbered;
        state.readers.insert(number);
        number
    }

    /// Removes an informer.
    pub(super) fn remove_reader(&self, reader: u32) {
        self.lock().readers.remove(&reader);
    }

    /// Whether no write is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether the last note is so old that an informer that starts now lists all writes.
    pub(super) fn is_outdated(&self, now: Instant) -> bool {
        self.lock().last_noted.is_none_or(|last| last + IN_FLIGHT + self.deadline * IN_VAIN <= now)
    }

    /// The current moment, before a read or a request begins.
    pub(super) fn moment(&self, time: Instant) -> Moment {
        Moment { time, number: self.lock().noted }
    }

    /// Records the response to a write.
    pub(super) fn note(&self, key: ObjectKey, answer: &Answer<'_>, now: Instant) {
        if answer.uid.is_empty() && matches!(answer.what, WriteEffect::Gone(_)) {
            // The uid of the deleted object is unknown.
            return self.note_unknown(key, now, now);
        }
        self.change(now, |state, now| {
            state.pending.entry(key).or_insert_with(|| Pending::new(now)).note(answer, now);
        });
    }

    /// Records that an object may have been written, or may be until some time, with an unknown version.
    pub(super) fn note_unknown(&self, key: ObjectKey, until: Instant, now: Instant) {
        self.change(now, |state, now| {
            state.pending.entry(key).or_insert_with(|| Pending::new(now)).note_unknown(until, now);
        });
    }

    /// Records the same for objects in a namespace, or of a cluster-scoped kind.
    pub(super) fn note_unknown_in(&self, namespace: Option<&str>, until: Instant, now: Instant) {
        self.change(now, |state, now| {
            state.watermarks.add(namespace, None, Some(Unknown::new(until, now)), now);
        });
    }

    /// Records the result of a live read that was sent then. It matters if the outcome of a write is unknown.
    pub(super) fn observe(&self, key: &ObjectKey, found: &Found<'_>, sent: Moment, now: Instant) {
        self.change(now, |state, now| {
            if let Some(pending) = state.pending.get_mut(key) {
                pending.observe(found, sent, now);
            }
        });
    }

    /// Records the newest version of the collection, from a request that was sent then.
    pub(super) fn note_version(&self, version: &Version, sent: Moment, now: Instant) {
        self.change(now, |state, now| state.watermarks.settle(version, sent, now));
    }

    fn change(&self, now: Instant, change: impl FnOnce(&mut State, Moment)) {
        let mut state = self.lock();
        state.noted += 1;
        state.last_noted = Some(now);
        let now = Moment { time: now, number: state.noted };
        change(&mut state, now);
        if state.pending.len() > MAX_PENDING {
            state.forget_oldest(now);
        }
        self.recount(&state);
    }

    fn recount(&self, state: &State) {
        self.count.store(state.pending.len() + state.watermarks.len(), Ordering::Release);
    }

    /// Whether an informer has all writes of a key.
    pub(super) fn look(&self, key: &ObjectKey, reading: Reading<'_, impl View>) -> CacheReadiness {
        let mut state = self.lock();
        let State { pending: all, readers, watermarks, .. } = &mut *state;
        let marked = watermarks.judge(key.namespace(), reading, readers, self.deadline);
        let mut own = Judgement::Current;
        if let Some(pending) = all.get_mut(key).filter(|pending| pending.first() <= reading.started.number) {
            let is_done;
            (own, is_done) = pending.judge(key, reading, readers, self.deadline);
            if is_done {
                all.remove(key);
            }
        }
        self.recount(&state);
        let late = CacheReadiness::Late(Late::Objects(vec![key.clone()]));
        match (own, marked) {
            (Judgement::Unknown, _) | (_, Judgement::Unknown) => late,
            (Judgement::Behind(until), _) | (_, Judgement::Behind(until)) if until <= reading.now => late,
            (_, Judgement::Unasked) | (Judgement::Unasked, _) => CacheReadiness::Ask,
            (Judgement::Behind(one), Judgement::Behind(other)) => CacheReadiness::Wait(one.min(other)),
            (Judgement::Behind(until), _) | (_, Judgement::Behind(until)) => CacheReadiness::Wait(until),
            (Judgement::Current, Judgement::Current) => CacheReadiness::Read,
        }
    }

    /// Whether an informer has all writes in a namespace, or in all (`None`). Once it is late with one write, the
    /// others are not waited for.
    pub(super) fn look_at_all(
        &self,
        namespace: Option<&str>,
        reading: Reading<'_, impl View>,
    ) -> CacheReadiness {
        let mut state = self.lock();
        let State { pending, readers, watermarks, .. } = &mut *state;
        let marked = watermarks.judge(namespace, reading, readers, self.deadline);
        let (mut unknown, mut behind, mut done) = (Vec::new(), Vec::new(), Vec::new());
        let mut answered = 0;
        let mut wait: Option<Instant> = None;
        for (key, entry) in in_namespace(pending, namespace) {
            if entry.first() > reading.started.number {
                continue;
            }
            let (judgement, is_done) = entry.judge(key, reading, readers, self.deadline);
            match judgement {
                Judgement::Current | Judgement::Unasked => {}
                Judgement::Unknown => {
                    answered += usize::from(entry.was_answered());
                    unknown.push(key);
                }
                Judgement::Behind(until) => {
                    wait = Some(wait.map_or(until, |wait| wait.min(until)));
                    behind.push(key);
                }
            }
            if is_done {
                done.push(key.clone());
            }
        }
        let is_late = wait.is_some_and(|wait| wait <= reading.now);
        let verdict = match marked {
            Judgement::Unknown => CacheReadiness::Late(Late::Everything),
            Judgement::Behind(until) if is_late || until <= reading.now => {
                CacheReadiness::Late(Late::Everything)
            }
            Judgement::Unasked => CacheReadiness::Ask,
            Judgement::Behind(until) => CacheReadiness::Wait(wait.map_or(until, |wait| wait.min(until))),
            Judgement::Current => match wait.filter(|_| !is_late) {
                Some(wait) => CacheReadiness::Wait(wait),
                None if unknown.is_empty() && behind.is_empty() => CacheReadiness::Read,
                None if unknown.len() - answered + behind.len() > MAX_LATE => {
                    CacheReadiness::Late(Late::Everything)
                }
                None => {
                    CacheReadiness::Late(Late::Objects(unknown.into_iter().chain(behind).cloned().collect()))
                }
            },
        };
        for key in done {
            pending.remove(&key);
        }
        self.recount(&state);
        verdict
    }

    /// The version that a list of a namespace, or of all (`None`), must not be older than. `None`: only the newest will
    /// do.
    pub(super) fn needed_version(&self, namespace: Option<&str>) -> Option<u64> {
        let mut state = self.lock();
        let State { pending, watermarks, .. } = &mut *state;
        let mut needed = watermarks.needed_version(namespace)?;
        for (_, entry) in in_namespace(pending, namespace) {
            needed = needed.max(entry.covering_version()?);
        }
        Some(needed)
    }

    /// The objects in a namespace, or in all (`None`), for which a live read has newer information.
    pub(super) fn unclear_keys(&self, namespace: Option<&str>) -> Vec<ObjectKey> {
        let mut state = self.lock();
        let all = in_namespace(&mut state.pending, namespace);
        all.filter(|(_, entry)| entry.is_unclear()).map(|(key, _)| key.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().pending.len()
    }
}

/// The entries of a namespace, or of all (`None`). Keys are ordered by namespace.
fn in_namespace<'a>(
    pending: &'a mut BTreeMap<ObjectKey, Pending>,
    namespace: Option<&'a str>,
) -> impl Iterator<Item = (&'a ObjectKey, &'a mut Pending)> {
    let first = ObjectKey::new(namespace.unwrap_or_default(), "");
    pending.range_mut(first..).take_while(move |(key, _)| namespace.is_none() || key.namespace() == namespace)
}

impl State {
    /// Puts the older half of the entries into the watermark of the resource.
    fn forget_oldest(&mut self, now: Moment) {
        let mut ages: Vec<_> = self.pending.iter().map(|(key, entry)| (entry.age(), key.clone())).collect();
        ages.sort_unstable();
        for (_, key) in ages.into_iter().take(MAX_PENDING / 2) {
            let Some(entry) = self.pending.remove(&key) else { continue };
            let version = entry.covering_version();
            // Answered writes are done by now.
            let unknown = version.is_none().then(|| Unknown::new(now.time, now).and(entry.unknown()));
            self.watermarks.add(None, version, unknown, now);
        }
    }
}

#[cfg(test)]
impl std::fmt::Debug for WriteTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.lock().pending.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
