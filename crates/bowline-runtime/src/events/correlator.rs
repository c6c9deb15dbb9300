//! Which events are alike, and which are too many: decisions about keys and times, without I/O.

use std::num::NonZero;
use std::time::Duration;

use bowline_clock::{Instant, Rng};
use k8s_openapi::api::core::v1::ObjectReference;
use smallvec::SmallVec;

use super::EventRecord;
use super::digest::{Digest, Digester, Texts};
use super::lru::Lru;
use super::record::{LONGEST_NOTE, cut};

/// What the note of a combined event begins with.
const COMBINED: &str = "(combined from similar events): ";

const REMEMBERED: NonZero<usize> = NonZero::new(4096).unwrap();
const SIMILAR: NonZero<usize> = NonZero::new(10).unwrap();
const BURST: NonZero<u32> = NonZero::new(25).unwrap();

/// When events are combined, when they are too many, and how much is remembered for that. The defaults are client-go's.
#[derive(Clone, Debug)]
pub struct CorrelatorOptions {
    remembered: NonZero<usize>,
    similar: NonZero<usize>,
    interval: Duration,
    burst: NonZero<u32>,
    refill: Duration,
}

impl CorrelatorOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many series, groups of similar events, and pairs of source and object are remembered, each. Default: 4096.
    /// What was not seen for the longest time is forgotten first.
    #[must_use]
    pub fn remembered(mut self, remembered: NonZero<usize>) -> Self {
        self.remembered = remembered;
        self
    }

    /// From how many different notes on events are combined that differ in nothing else: the same source, object, type and
    /// reason. Default: 10, so that nine are told apart.
    #[must_use]
    pub fn similar(mut self, similar: NonZero<usize>) -> Self {
        self.similar = similar;
        self
    }

    /// After how long without a similar event the notes are counted anew. Default: 10 minutes.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How many writes about one object one source may make at once. Default: 25.
    #[must_use]
    pub fn burst(mut self, burst: NonZero<u32>) -> Self {
        self.burst = burst;
        self
    }

    /// After how long it may make one more. Default: 5 minutes.
    #[must_use]
    pub fn refill(mut self, refill: Duration) -> Self {
        self.refill = refill;
        self
    }

    pub(super) fn memory(&self) -> NonZero<usize> {
        self.remembered
    }
}

impl Default for CorrelatorOptions {
    fn default() -> Self {
        Self {
            remembered: REMEMBERED,
            similar: SIMILAR,
            interval: Duration::from_secs(600),
            burst: BURST,
            refill: Duration::from_secs(300),
        }
    }
}

/// Who an event is, for these decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// Its source and object.
    pub(super) source: Digest,
    /// The series that it belongs to.
    pub(super) series: Digest,
}

pub(super) struct Correlator {
    options: CorrelatorOptions,
    digester: Digester,
    groups: Lru<Group>,
    buckets: Lru<Bucket>,
}

/// Events that differ only in their notes.
struct Group {
    /// Those that are told apart: one less than are needed to combine them.
    notes: SmallVec<[Digest; 1]>,
    last: Instant,
}

struct Bucket {
    tokens: u32,
    /// When the token after those was begun.
    since: Instant,
}

impl Correlator {
    pub(super) fn new(options: CorrelatorOptions, rng: &Rng) -> Self {
        let groups = Lru::new(options.remembered, rng.hash_state());
        let buckets = Lru::new(options.remembered, rng.hash_state());
        Self { options, digester: Digester::new(rng), groups, buckets }
    }

    /// Says which series an event belongs to. One of too many similar ones becomes part of their combined event.
    pub(super) fn identify(&mut self, event: &mut EventRecord, now: Instant) -> Keys {
        let mut texts = self.digester.texts();
        let about = &event.regarding;
        texts.push(&event.controller);
        texts.push(&event.instance);
        push_reference(&mut texts, about);
        let source = texts.digest();
        texts.push(event.event_type.as_str());
        texts.push(&event.reason);
        if self.is_one_of_many(texts.digest(), &event.note, now) {
            event.note.insert_str(0, COMBINED);
            event.note = cut(std::mem::take(&mut event.note), LONGEST_NOTE);
            texts.push("combined");
            return Keys { source, series: texts.digest() };
        }
        texts.push("alone");
        texts.push(about.field_path.as_deref().unwrap_or_default());
        texts.push(&event.action);
        if let Some(related) = &event.related {
            push_reference(&mut texts, related);
            texts.push(related.field_path.as_deref().unwrap_or_default());
        }
        texts.push(&event.note);
        Keys { source, series: texts.digest() }
    }

    /// Whether the source may make one more write about the object.
    pub(super) fn allow(&mut self, source: Digest, now: Instant) -> bool {
        let burst = self.options.burst.get();
        if self.buckets.get(source).is_none() {
            self.buckets.insert(source, Bucket { tokens: burst, since: now });
        }
        let Some(bucket) = self.buckets.peek(source) else { return true };
        let refill = self.options.refill;
        while bucket.tokens < burst && now.since(bucket.since) >= refill {
            bucket.tokens += 1;
            bucket.since = bucket.since + refill;
        }
        if bucket.tokens == burst {
            bucket.since = now;
        }
        if bucket.tokens == 0 {
            return false;
        }
        bucket.tokens -= 1;
        true
    }

    fn is_one_of_many(&mut self, group: Digest, note: &str, now: Instant) -> bool {
        let told_apart = self.options.similar.get() - 1;
        let note = self.digester.digest(note);
        let Some(known) = self.groups.get(group) else {
            let notes = (told_apart > 0).then_some(note).into_iter().collect();
            self.groups.insert(group, Group { notes, last: now });
            return told_apart == 0;
        };
        if now.since(known.last) > self.options.interval {
            known.notes.clear();
        }
        known.last = now;
        if known.notes.contains(&note) {
            return false;
        }
        let is_one_of_many = known.notes.len() >= told_apart;
        if !is_one_of_many {
            known.notes.push(note);
        }
        is_one_of_many
    }
}

fn push_reference(texts: &mut Texts, object: &ObjectReference) {
    for part in [&object.api_version, &object.kind, &object.namespace, &object.name, &object.uid] {
        texts.push(part.as_deref().unwrap_or_default());
    }
}
