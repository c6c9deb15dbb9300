//! The pending writes of one key: their responses, and the rule by which an informer has them.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_clock::Instant;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use smallvec::SmallVec;

use super::{
    Answer, Found, IN_FLIGHT, IN_VAIN, Judgement, Moment, Reading, Unknown, Version, View, WriteEffect,
};

/// Maximum number of deleted uids remembered per name.
const GONE: usize = 8;

/// State of the writes of one key.
#[derive(Debug)]
pub(super) struct Pending {
    /// Newest version in a response.
    newest: Option<Version>,
    /// Whether that is the version of the write itself. Otherwise the write has that version or a later one, and an
    /// informer that has reached the version may still lack the write.
    is_exact: bool,
    /// Uid of that version's object.
    uid: Box<str>,
    /// Whether an informer that has seen the newest version may have no object of the key.
    may_be_absent: bool,
    /// A version in which informers had the object: its absence counts only from that version on.
    appeared: Option<u64>,
    /// Uids that are known to be deleted.
    gone: SmallVec<[Box<str>; 1]>,
    /// Newest version of a deleted object: an older one in an informer is outdated.
    ended: Option<u64>,
    /// Time of the last note.
    since: Instant,
    /// Numbers of the first and the last note, in the order of all notes of the resource.
    first: u64,
    last: u64,
    /// A write with an unknown version. Only a later live read resolves it.
    unknown: Option<Unknown>,
    /// Number of the note of a live read after an unknown write that found no object for the informers. An informer's
    /// object that is not known to be deleted may be older than that, so the server is asked.
    missing: Option<u64>,
    /// Readers that have seen all of it.
    seen: SmallVec<[u32; 2]>,
}

impl Pending {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            newest: None,
            is_exact: true,
            uid: Box::default(),
            may_be_absent: true,
            appeared: None,
            gone: SmallVec::new(),
            ended: None,
            since: now.time,
            first: now.number,
            last: now.number,
            unknown: None,
            missing: None,
            seen: SmallVec::new(),
        }
    }

    /// Number of the first note.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The order in which entries are evicted when there are too many: oldest first; entries that would make all reads
    /// of the resource live come last.
    pub(super) fn age(&self) -> (bool, Instant, u64) {
        (self.unknown.is_some(), self.since, self.first)
    }

    /// The version at which an informer has seen all of this, if it is known.
    pub(super) fn covering_version(&self) -> Option<u64> {
        let is_known =
            self.is_exact && self.unknown.is_none() && self.missing.is_none() && self.gone.is_empty();
        match self.newest {
            Some(Version::Number(newest)) if is_known => Some(newest),
            _ => None,
        }
    }

    /// The write with an unknown version, if any.
    pub(super) fn unknown(&self) -> Option<Unknown> {
        self.unknown
    }

    /// Whether the write with an unknown version was answered, so that it has ended.
    pub(super) fn was_answered(&self) -> bool {
        self.unknown.is_some_and(|unknown| unknown.until <= self.since)
    }

    /// Whether a live read has newer information than this entry.
    pub(super) fn is_unclear(&self) -> bool {
        self.unknown.is_some() || self.missing.is_some() || !self.is_exact
    }

    /// Next step of a reader, and whether the entry can be dropped.
    pub(super) fn judge(
        &mut self,
        key: &ObjectKey,
        reading: Reading<'_, impl View>,
        readers: &BTreeSet<u32>,
        deadline: Duration,
    ) -> (Judgement, bool) {
        if self.unknown.is_some() {
            return (Judgement::Unknown, false);
        }
        if self.says_nothing() {
            return (Judgement::Current, true);
        }
        if self.missing.is_some() {
            let is_unclear = reading.view.with(key, |object| {
                object.and_then(|object| object.uid.as_deref()).is_some_and(|uid| !self.is_gone(uid))
            });
            if is_unclear {
                return (Judgement::Unknown, false);
            }
        }
        if self.is_in(key, reading.view) {
            if !self.seen.contains(&reading.reader) {
                self.seen.push(reading.reader);
            }
            let is_done = readers.iter().all(|reader| self.seen.contains(reader));
            return (Judgement::Current, is_done && !self.is_awaiting(reading.now));
        }
        let until = self.since.min(reading.started.time) + deadline;
        let may_be_in_vain = matches!(self.newest, Some(Version::Text(_)));
        (Judgement::Behind(until), may_be_in_vain && self.since + deadline * IN_VAIN <= reading.now)
    }

    /// Whether an informer without the object may still get one that is older than the live read that found none.
    fn is_awaiting(&self, now: Instant) -> bool {
        self.missing.is_some() && now < self.since + IN_FLIGHT
    }

    /// Whether no write is pending.
    fn says_nothing(&self) -> bool {
        self.newest.is_none() && self.gone.is_empty() && self.missing.is_none()
    }

    /// Records the result of a live read that was sent then, if it is newer than the entry.
    pub(super) fn observe(&mut self, found: &Found<'_>, sent: Moment, now: Moment) {
        let has_waited = self.unknown.is_none();
        let is_over = match self.unknown {
            Some(unknown) => unknown.is_over(sent),
            None => self.is_unclear() && self.last <= sent.number,
        };
        if !is_over {
            return;
        }
        self.unknown = None;
        if !self.is_exact {
            self.newest = None;
            self.is_exact = true;
        }
        let since = self.since;
        // A known object that was not found is deleted. The object found may have an unknown uid.
        let found_uid = found.object.as_ref().map(|answer| answer.uid);
        if found_uid != Some("") {
            let known = self.uid.clone();
            for uid in [Some(&*known), found.cached].into_iter().flatten() {
                if !uid.is_empty() && found_uid != Some(uid) {
                    self.end(uid);
                }
            }
        }
        self.renew(now);
        if let Some(answer) = &found.object {
            self.note(answer, now);
        }
        if found.object.as_ref().is_none_or(|answer| !matches!(answer.what, WriteEffect::There(_))) {
            self.missing = Some(now.number);
        }
        if has_waited {
            self.since = since;
        }
    }

    /// Records a write with an unknown version.
    pub(super) fn note_unknown(&mut self, until: Instant, now: Moment) {
        self.unknown = Some(Unknown::new(until, now).and(self.unknown));
        self.renew(now);
    }

    /// Responses come in any order: one that is older than the entry adds nothing.
    pub(super) fn note(&mut self, answer: &Answer<'_>, now: Moment) {
        let known = self.uid.clone();
        // A response without a uid is taken for the known object.
        let uid = if answer.uid.is_empty() { &*known } else { answer.uid };
        let is_exact = !matches!(answer.what, WriteEffect::NewerThan(..));
        let (newest, may_be_absent, appeared) = match &answer.what {
            WriteEffect::There(version) => {
                let number = if let Version::Number(number) = version { Some(*number) } else { None };
                (version.clone(), false, number)
            }
            WriteEffect::Elsewhere(version) | WriteEffect::Ending(version) => (version.clone(), true, None),
            WriteEffect::NewerThan(version, has_appeared) => {
                (Version::Number(version.saturating_add(1)), true, has_appeared.then_some(*version))
            }
            WriteEffect::Gone(appeared) => {
                self.appeared = self.appeared.max(*appeared);
                self.end(uid);
                self.renew(now);
                return;
            }
        };
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
                // Of two objects with the same name, the older has ended.
                if known.is_some() && *self.uid != *uid && !self.uid.is_empty() {
                    let ended = std::mem::take(&mut self.uid);
                    self.end(&ended);
                }
                self.newest = Some(newest);
                self.is_exact = is_exact;
                if !may_be_absent {
                    // From here on, versions tell which object is older.
                    self.missing = None;
                }
                self.uid = uid.into();
                self.may_be_absent = may_be_absent;
            }
        }
        self.renew(now);
    }

    fn end(&mut self, uid: &str) {
        if *self.uid == *uid {
            // Nothing comes after the end.
            if let Some(Version::Number(newest)) = self.newest.take() {
                self.ended = self.ended.max(Some(newest));
            }
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

    fn renew(&mut self, now: Moment) {
        self.since = now.time;
        self.last = now.number;
        self.seen.clear();
    }

    /// Whether an informer has this, or something newer.
    fn is_in(&self, key: &ObjectKey, view: &impl View) -> bool {
        // Reading the snapshot needs no lock, and is most often enough.
        let has_newest = |object: &ObjectMeta| {
            self.newest.as_ref().is_some_and(|newest| newest.is_in(object))
                && !object.uid.as_deref().is_some_and(|uid| self.is_gone(uid))
        };
        if view.with(key, |object| object.is_some_and(has_newest)) {
            return true;
        }
        // Read the reached version first and the snapshot afterwards. In the other order, a change in between would
        // count as reached without being seen.
        let has_appeared = self.appeared.is_none_or(|appeared| view.has_reached(key, appeared));
        let newest_reached = matches!(self.newest, Some(Version::Number(newest)) if self.is_exact && view.has_reached(key, newest));
        view.with(key, |object| {
            if object.and_then(|object| object.uid.as_deref()).is_some_and(|uid| self.is_gone(uid)) {
                return false;
            }
            let is_older =
                |object: &ObjectMeta| self.ended.is_some_and(|ended| !Version::Number(ended).is_in(object));
            let Some(newest) = &self.newest else {
                if object.is_some_and(is_older) {
                    return false;
                }
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
