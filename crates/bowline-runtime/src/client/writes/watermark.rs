//! Versions that stand for writes without a known or remembered key: one for the resource, and one for each namespace
//! with such a write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_clock::Instant;
use smallvec::SmallVec;

use super::{IN_VAIN, Judgement, Moment, Reading, Unknown, Version, View};

/// Maximum number of namespaces with a watermark of their own. Further ones share the watermark of the resource.
const MAX_NAMESPACES: usize = 64;

/// The watermarks of one resource.
#[derive(Debug, Default)]
pub(super) struct Watermarks {
    /// By namespace; `None` for the whole resource.
    all: BTreeMap<Option<String>, Watermark>,
}

#[derive(Debug)]
struct Watermark {
    /// Version that informers have to reach.
    version: Option<Version>,
    /// A write with an unknown version. A version of the collection that was requested after the write resolves it.
    unknown: Option<Unknown>,
    /// Time of the last note.
    since: Instant,
    /// Readers that have reached the version.
    seen: SmallVec<[u32; 2]>,
}

impl Watermarks {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds writes in a namespace or, with `None`, anywhere: up to a version, or of an unknown one.
    pub(super) fn add(
        &mut self,
        namespace: Option<&str>,
        version: Option<u64>,
        unknown: Option<Unknown>,
        now: Moment,
    ) {
        let scope = namespace.map(str::to_owned);
        let scope =
            if self.all.len() < MAX_NAMESPACES || self.all.contains_key(&scope) { scope } else { None };
        let mark = self.all.entry(scope).or_insert_with(|| Watermark::new(now.time));
        if let Some(version) = version {
            mark.raise(&Version::Number(version), now.time);
        }
        if let Some(unknown) = unknown {
            mark.unknown = Some(unknown.and(mark.unknown));
        }
    }

    /// Records the newest version of the collection, from a request that was sent then.
    pub(super) fn settle(&mut self, version: &Version, sent: Moment, now: Moment) {
        for mark in self.all.values_mut() {
            if mark.unknown.is_some_and(|unknown| unknown.is_over(sent)) {
                mark.unknown = None;
                mark.raise(version, now.time);
            }
        }
    }

    /// Next step of a reader of a namespace, or of all (`None`).
    pub(super) fn judge(
        &mut self,
        namespace: Option<&str>,
        reading: Reading<'_, impl View>,
        readers: &BTreeSet<u32>,
        deadline: Duration,
    ) -> Judgement {
        let mut all = Judgement::Current;
        self.all.retain(|scope, mark| {
            if !is_within(scope.as_deref(), namespace) {
                return true;
            }
            let (judgement, is_done) = mark.judge((scope.as_deref(), namespace), reading, readers, deadline);
            all = match (all, judgement) {
                (Judgement::Unknown, _) | (_, Judgement::Unknown) => Judgement::Unknown,
                (Judgement::Unasked, _) | (_, Judgement::Unasked) => Judgement::Unasked,
                (Judgement::Behind(one), Judgement::Behind(other)) => Judgement::Behind(one.min(other)),
                (Judgement::Current, judgement) | (judgement, Judgement::Current) => judgement,
            };
            !is_done
        });
        all
    }

    /// The version that covers a namespace, or all (`None`): zero if nothing is pending, `None` if it is not known.
    pub(super) fn needed_version(&self, namespace: Option<&str>) -> Option<u64> {
        let mut needed = 0;
        for (_, mark) in self.all.iter().filter(|(scope, _)| is_within(scope.as_deref(), namespace)) {
            match (&mark.version, mark.unknown) {
                (Some(Version::Number(version)), None) => needed = needed.max(*version),
                (None, None) => {}
                _ => return None,
            }
        }
        Some(needed)
    }
}

/// Whether a watermark's namespace overlaps the namespace of a read; `None` is all.
fn is_within(scope: Option<&str>, namespace: Option<&str>) -> bool {
    scope.is_none() || namespace.is_none() || scope == namespace
}

impl Watermark {
    fn new(since: Instant) -> Self {
        Self { version: None, unknown: None, since, seen: SmallVec::new() }
    }

    fn raise(&mut self, version: &Version, now: Instant) {
        if self.version.as_ref().is_none_or(|known| version.is_after(known)) {
            self.version = Some(version.clone());
            self.since = now;
            self.seen.clear();
        }
    }

    fn judge(
        &mut self,
        (scope, namespace): (Option<&str>, Option<&str>),
        reading: Reading<'_, impl View>,
        readers: &BTreeSet<u32>,
        deadline: Duration,
    ) -> (Judgement, bool) {
        if let Some(unknown) = self.unknown {
            let is_over = unknown.until <= reading.now;
            return (if is_over { Judgement::Unasked } else { Judgement::Unknown }, false);
        }
        let Some(version) = &self.version else { return (Judgement::Current, true) };
        let has_reached = |namespace| matches!(version, Version::Number(version) if reading.view.has_reached_in(namespace, *version));
        if has_reached(scope.or(namespace)) {
            if (scope.or(namespace) == scope || has_reached(None)) && !self.seen.contains(&reading.reader) {
                self.seen.push(reading.reader);
            }
            return (Judgement::Current, readers.iter().all(|reader| self.seen.contains(reader)));
        }
        let until = self.since.min(reading.started.time) + deadline;
        let is_in_vain =
            matches!(version, Version::Text(_)) && self.since + deadline * IN_VAIN <= reading.now;
        (Judgement::Behind(until), is_in_vain)
    }
}
