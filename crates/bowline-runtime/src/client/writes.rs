//! What a client wrote and the cache may not have yet: what read-your-writes stands on.
//!
//! Owns the bookkeeping for one resource, whichever form it is written and read in, and the rule by which an informer has
//! seen a write. Knows no clock, no informer and no waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_clock::Instant;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use smallvec::SmallVec;

/// So many writes are kept beyond the deadline, unless they are seen before.
const KEPT: usize = 1024;

/// For so many deadlines, what may never be seen is not forgotten.
const IN_VAIN: u32 = 12;

/// So many deletions of one name are told apart.
const GONE: usize = 8;

/// The writes of one resource that informers may not have seen.
pub(super) struct Writes {
    /// How long a write is waited for.
    deadline: Duration,
    /// How many are pending, so that most reads need not look.
    count: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<ObjectKey, Pending>,
    /// At so many, those that are too old are forgotten.
    swept_at: usize,
    /// The informers that are to see them.
    readers: BTreeSet<u32>,
    /// How many there ever were.
    numbered: u32,
}

/// What is known of the writes of one key.
#[derive(Debug)]
struct Pending {
    /// The newest version that an answer had.
    newest: Option<Version>,
    /// Whether that is the version of the write itself. Otherwise the write has that or a later one, and that an informer
    /// is as far says nothing about it.
    is_exact: bool,
    /// Of that one.
    uid: Box<str>,
    /// Whether an informer may have no object of the key, once it has seen the newest.
    may_be_absent: bool,
    /// A version in which informers are to have had the object: that they do not have it counts only from there on.
    appeared: Option<u64>,
    /// These are deleted, whenever that was.
    gone: SmallVec<[Box<str>; 1]>,
    since: Instant,
    /// It is not known until then whether something was written, and what: nobody can say that they have seen it.
    unknown_until: Option<Instant>,
    /// Which readers have seen it.
    seen: SmallVec<[u32; 2]>,
}

/// A version of an object. Versions are compared as far as they are numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Number(u64),
    Text(Box<str>),
}

/// What the answer to a write says about an object.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) uid: &'a str,
    pub(super) what: What,
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It is there in this version, for the informers to have.
    There(Version),
    /// It is there in this version, and informers do not have it, or are not known to.
    Elsewhere(Version),
    /// In this version it was asked to end, and may have ended.
    Ending(Version),
    /// It has ended; informers were to have it in this version, if that is known.
    Gone(Option<u64>),
    /// It is newer than this version, or has ended. `true`: informers were to have it in that version.
    NewerThan(u64, bool),
    /// It was written or not, or in a version that is not known.
    Unknown,
}

/// What a read is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The informer has all that was written.
    Read,
    /// It may have until then.
    Wait(Instant),
    /// It had time enough.
    Late,
}

/// What an informer has.
pub(super) trait View {
    /// Calls with the metadata of the object of a key, if there is one.
    fn with<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T;

    /// Whether all that happened to a key up to a version has been applied.
    fn has_reached(&self, key: &ObjectKey, version: u64) -> bool;
}

impl Version {
    pub(super) fn new(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Text(text.into()), Self::Number)
    }

    /// Whether this is, or comes before, what an object has.
    fn is_in(&self, meta: &ObjectMeta) -> bool {
        let Some(has) = meta.resource_version.as_deref() else { return false };
        match self {
            Self::Number(number) => has.parse::<u64>().is_ok_and(|has| has >= *number),
            Self::Text(text) => has == &**text,
        }
    }

    /// Whether this is known to come after another. Of what cannot be compared, what was told later does.
    fn is_after(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one > other,
            _ => true,
        }
    }
}

impl Writes {
    pub(super) fn new(deadline: Duration) -> Self {
        Self { deadline, count: AtomicUsize::new(0), state: Mutex::default() }
    }

    /// One more informer by which the resource is read; its number, which is never zero.
    pub(super) fn add_reader(&self) -> u32 {
        let mut state = self.lock();
        state.numbered += 1;
        let number = state.numbered;
        state.readers.insert(number);
        number
    }

    /// One less.
    pub(super) fn remove_reader(&self, reader: u32) {
        self.lock().readers.remove(&reader);
    }

    /// Whether nothing is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Notes the answer to a write.
    pub(super) fn note(&self, key: ObjectKey, answer: &Answer<'_>, now: Instant) {
        if answer.uid.is_empty() && !matches!(answer.what, What::NewerThan(..) | What::Unknown) {
            return;
        }
        let mut state = self.lock();
        state.pending.entry(key).or_insert_with(|| Pending::new(now)).note(answer, self.deadline, now);
        if state.pending.len() >= state.swept_at.max(KEPT) {
            state.pending.retain(|_, pending| now < pending.since + self.deadline);
            state.swept_at = 2 * state.pending.len();
        }
        self.count.store(state.pending.len(), Ordering::Release);
    }

    /// Whether an informer has what was written of a key.
    pub(super) fn look(&self, key: &ObjectKey, reader: u32, view: &impl View, now: Instant) -> Verdict {
        let mut state = self.lock();
        let State { pending: all, readers, .. } = &mut *state;
        let Some(pending) = all.get_mut(key) else { return Verdict::Read };
        let (verdict, is_done) = self.judge(key, pending, (reader, readers), view, now);
        if is_done {
            state.pending.remove(key);
            self.count.store(state.pending.len(), Ordering::Release);
        }
        verdict
    }

    /// Whether an informer has all that was written in a namespace, or (`None`) in all.
    pub(super) fn look_at_all(
        &self,
        namespace: Option<&str>,
        reader: u32,
        view: &impl View,
        now: Instant,
    ) -> Verdict {
        let mut state = self.lock();
        let State { pending, readers, .. } = &mut *state;
        let mut all = Verdict::Read;
        pending.retain(|key, pending| {
            if namespace.is_some() && key.namespace() != namespace {
                return true;
            }
            let (verdict, is_done) = self.judge(key, pending, (reader, readers), view, now);
            all = match (all, verdict) {
                (Verdict::Late, _) | (_, Verdict::Late) => Verdict::Late,
                (Verdict::Wait(one), Verdict::Wait(other)) => Verdict::Wait(one.max(other)),
                (Verdict::Read, verdict) | (verdict, Verdict::Read) => verdict,
            };
            !is_done
        });
        self.count.store(state.pending.len(), Ordering::Release);
        all
    }

    /// What a reader is to do, and whether nobody needs to know of this any more.
    fn judge(
        &self,
        key: &ObjectKey,
        pending: &mut Pending,
        (reader, readers): (u32, &BTreeSet<u32>),
        view: &impl View,
        now: Instant,
    ) -> (Verdict, bool) {
        if let Some(until) = pending.unknown_until {
            if now < until {
                return (Verdict::Late, false);
            }
            pending.unknown_until = None;
        }
        if pending.says_nothing() {
            return (Verdict::Read, true);
        }
        if pending.is_in(key, view) {
            if !pending.seen.contains(&reader) {
                pending.seen.push(reader);
            }
            return (Verdict::Read, readers.iter().all(|reader| pending.seen.contains(reader)));
        }
        let until = pending.since + self.deadline;
        if now < until {
            return (Verdict::Wait(until), false);
        }
        // What may never be seen is forgotten after a while.
        let may_be_in_vain = !pending.is_exact || matches!(pending.newest, Some(Version::Text(_)));
        (Verdict::Late, may_be_in_vain && pending.since + self.deadline * IN_VAIN <= now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().pending.len()
    }
}

#[cfg(test)]
impl std::fmt::Debug for Writes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.lock().pending.iter()).finish()
    }
}

impl Pending {
    fn new(since: Instant) -> Self {
        Self {
            newest: None,
            is_exact: true,
            uid: Box::default(),
            may_be_absent: true,
            appeared: None,
            gone: SmallVec::new(),
            since,
            unknown_until: None,
            seen: SmallVec::new(),
        }
    }

    /// Whether nothing is known of any write.
    fn says_nothing(&self) -> bool {
        self.newest.is_none() && self.gone.is_empty()
    }

    /// Answers come in any order: what is older than what is known says nothing new.
    fn note(&mut self, answer: &Answer<'_>, deadline: Duration, now: Instant) {
        let known = self.uid.clone();
        // Who does not know which object it is takes it for the one that is known.
        let uid = if answer.uid.is_empty() { &*known } else { answer.uid };
        let is_exact = !matches!(answer.what, What::NewerThan(..));
        let (newest, may_be_absent, appeared) = match &answer.what {
            What::There(version) => {
                let number = if let Version::Number(number) = version { Some(*number) } else { None };
                (version.clone(), false, number)
            }
            What::Elsewhere(version) | What::Ending(version) => (version.clone(), true, None),
            What::NewerThan(version, has_appeared) => {
                (Version::Number(version.saturating_add(1)), true, has_appeared.then_some(*version))
            }
            What::Unknown => {
                self.unknown_until = Some(now + deadline);
                self.renew(now);
                return;
            }
            What::Gone(appeared) => {
                self.unknown_until = None;
                self.appeared = self.appeared.max(*appeared);
                self.end(uid);
                self.renew(now);
                return;
            }
        };
        if is_exact {
            // What came before is in this.
            self.unknown_until = None;
        }
        self.appeared = self.appeared.max(appeared);
        if self.gone.iter().any(|gone| **gone == *uid) {
            return;
        }
        match &self.newest {
            Some(known) if *known == newest => {
                self.is_exact &= is_exact;
                self.may_be_absent &= may_be_absent;
            }
            Some(known) if !newest.is_after(known) => {
                if *self.uid != *uid && !self.uid.is_empty() {
                    self.end(uid);
                }
                return;
            }
            known => {
                // Of two that have the name, the older has ended.
                if known.is_some() && *self.uid != *uid && !self.uid.is_empty() {
                    let ended = std::mem::take(&mut self.uid);
                    self.end(&ended);
                }
                self.newest = Some(newest);
                self.is_exact = is_exact;
                self.uid = uid.into();
                self.may_be_absent = may_be_absent;
            }
        }
        self.renew(now);
    }

    fn end(&mut self, uid: &str) {
        if *self.uid == *uid {
            // Nothing comes after the end.
            self.newest = None;
            self.may_be_absent = true;
        }
        if self.gone.iter().any(|gone| **gone == *uid) {
            return;
        }
        if self.gone.len() >= GONE {
            self.gone.remove(0);
        }
        self.gone.push(uid.into());
    }

    fn renew(&mut self, now: Instant) {
        self.since = now;
        self.seen.clear();
    }

    /// Whether an informer has this, or something newer.
    fn is_in(&self, key: &ObjectKey, view: &impl View) -> bool {
        // What is there needs no lock, and most often it is enough.
        let has_newest = |object: &ObjectMeta| {
            self.newest.as_ref().is_some_and(|newest| newest.is_in(object))
                && !object.uid.as_deref().is_some_and(|uid| self.is_gone(uid))
        };
        if view.with(key, |object| object.is_some_and(has_newest)) {
            return true;
        }
        // What was reached is asked first, and what is there afterwards: the other way round, a change could come between
        // the two that is counted as reached and not looked at.
        let has_appeared = self.appeared.is_none_or(|appeared| view.has_reached(key, appeared));
        let newest_reached = matches!(self.newest, Some(Version::Number(newest)) if self.is_exact && view.has_reached(key, newest));
        view.with(key, |object| {
            if object.and_then(|object| object.uid.as_deref()).is_some_and(|uid| self.is_gone(uid)) {
                return false;
            }
            let Some(newest) = &self.newest else {
                let appeared = self.appeared.map(Version::Number);
                let has_it = |object| appeared.is_some_and(|appeared| appeared.is_in(object));
                return has_appeared || object.is_some_and(has_it);
            };
            newest_reached || object.map_or(self.may_be_absent && has_appeared, |object| newest.is_in(object))
        })
    }

    fn is_gone(&self, uid: &str) -> bool {
        self.gone.iter().any(|gone| **gone == *uid)
    }
}

#[cfg(test)]
mod tests;
