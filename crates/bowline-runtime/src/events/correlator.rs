//! Decides which events are similar, and which exceed the rate limit. Works on keys and times, without I/O.

use std::num::NonZero;
use std::time::Duration;

use bowline_clock::{Instant, Rng};
use k8s_openapi::api::core::v1::ObjectReference;
use smallvec::SmallVec;

use super::EventRecord;
use super::digest::{Digest, Digester, Texts};
use super::lru::Lru;
use super::record::{MAX_NOTE, cut};

/// Prefix of the note of an aggregated event.
const COMBINED: &str = "(combined from similar events): ";

const DEFAULT_REMEMBERED: NonZero<usize> = NonZero::new(4096).unwrap();
const DEFAULT_SIMILAR: NonZero<usize> = NonZero::new(10).unwrap();
const DEFAULT_BURST: NonZero<u32> = NonZero::new(25).unwrap();

/// Options for aggregation, rate limits and their memory. The defaults are client-go's.
#[derive(Clone, Debug)]
pub struct CorrelatorOptions {
    remembered: NonZero<usize>,
    similar: NonZero<usize>,
    interval: Duration,
    burst: NonZero<u32>,
    refill: Duration,
}

impl CorrelatorOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Maximum entries, each for series, groups of similar events, and pairs of source and object. Default: 4096. The
    /// least recently used entry is dropped first.
    #[must_use]
    pub fn remembered(mut self, remembered: NonZero<usize>) -> Self {
        self.remembered = remembered;
        self
    }

    /// Number of different notes from which on similar events are aggregated, that is, those with the same source,
    /// object, type and reason. Default: 10, so that nine stay separate.
    #[must_use]
    pub fn similar(mut self, similar: NonZero<usize>) -> Self {
        self.similar = similar;
        self
    }

    /// Time without a similar event after which notes are counted anew. Default: 10 minutes.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Maximum burst of writes per source and object. Default: 25.
    #[must_use]
    pub fn burst(mut self, burst: NonZero<u32>) -> Self {
        self.burst = burst;
        self
    }

    /// Time until the next write is allowed after a burst. Default: 5 minutes.
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
            remembered: DEFAULT_REMEMBERED,
            similar: DEFAULT_SIMILAR,
            interval: Duration::from_secs(600),
            burst: DEFAULT_BURST,
            refill: Duration::from_secs(300),
        }
    }
}

/// Keys of an event for aggregation and rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// Source and object.
    pub(super) source: Digest,
    /// Series of the event.
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
    /// The separate notes: at most one less than the aggregation threshold.
    notes: SmallVec<[Digest; 1]>,
    last: Instant,
}

struct Bucket {
    tokens: u32,
    /// Start of the refill of the next token.
    since: Instant,
}

impl Correlator {
    pub(super) fn new(options: CorrelatorOptions, rng: &Rng) -> Self {
        let groups = Lru::new(options.remembered, rng.hash_state());
        let buckets = Lru::new(options.remembered, rng.hash_state());
        Self { options, digester: Digester::new(rng), groups, buckets }
    }

    /// Determines the series of an event. If there are too many similar ones, the event becomes part of their
    /// aggregate.
    pub(super) fn identify(&mut self, event: &mut EventRecord, now: Instant) -> Keys {
        let mut texts = self.digester.texts();
        let about = &event.regarding;
        texts.push(&event.controller);
        texts.push(&event.instance);
        push_reference(&mut texts, about);
        let source = texts.digest();
        texts.push(event.event_type.as_str());
        texts.push(&event.reason);
        if self.is_aggregated(texts.digest(), &event.note, now) {
            event.note.insert_str(0, COMBINED);
            event.note = cut(std::mem::take(&mut event.note), MAX_NOTE);
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

    /// Whether the source may make another write about the object.
    pub(super) fn allow(&mut self, source: Digest, now: Instant) -> bool {
        let burst = self.options.burst.get();
        if self.buckets.get(source).is_none() {
            self.buckets.insert(source, Bucket { tokens: burst, since: now });
        }
        let Some(bucket) = self.buckets.peek(source) else { return true };
        let refill = self.options.refill;
        while bucket.tokens < burst && now.duration_since(bucket.since) >= refill {
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

    fn is_aggregated(&mut self, group: Digest, note: &str, now: Instant) -> bool {
        let separate = self.options.similar.get() - 1;
        let note = self.digester.digest(note);
        let Some(known) = self.groups.get(group) else {
            let notes = (separate > 0).then_some(note).into_iter().collect();
            self.groups.insert(group, Group { notes, last: now });
            return separate == 0;
        };
        if now.duration_since(known.last) > self.options.interval {
            known.notes.clear();
        }
        known.last = now;
        if known.notes.contains(&note) {
            return false;
        }
        let is_aggregated = known.notes.len() >= separate;
        if !is_aggregated {
            known.notes.push(note);
        }
        is_aggregated
    }
}

fn push_reference(texts: &mut Texts, object: &ObjectReference) {
    for part in [&object.api_version, &object.kind, &object.namespace, &object.name, &object.uid] {
        texts.push(part.as_deref().unwrap_or_default());
    }
}
