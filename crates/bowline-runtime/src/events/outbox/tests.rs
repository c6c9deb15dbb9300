//! Every recorded event reaches the sink or is counted as lost.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::ObjectReference;
use proptest::prelude::*;

use super::*;
use crate::EventType;

/// An action on an outbox.
#[derive(Clone, Debug)]
enum Step {
    /// Records an event about an object, with a note.
    Compact { object: u8, note: u8 },
    /// Takes a write.
    Taken,
    /// Completes a write.
    Over { is_written: bool },
    /// Advances the time.
    Passed { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u8, 0..14_u8).prop_map(|(object, note)| Step::Compact { object, note }),
        2 => Just(Step::Taken),
        2 => any::<bool>().prop_map(|is_written| Step::Over { is_written }),
        1 => (0..2000_u64).prop_map(|seconds| Step::Passed { seconds }),
    ];
    prop::collection::vec(step, 0..200)
}

fn event(object: u8, note: u8, number: usize) -> EventRecord {
    EventRecord {
        name: format!("event-{number}"),
        namespace: "default".to_owned(),
        event_type: EventType::Normal,
        reason: "Reason".to_owned(),
        action: "Action".to_owned(),
        note: note.to_string(),
        regarding: ObjectReference { name: Some(object.to_string()), ..ObjectReference::default() },
        related: None,
        controller: "test".to_owned(),
        instance: "test-1".to_owned(),
        first: SystemTime::UNIX_EPOCH,
        last: SystemTime::UNIX_EPOCH,
        count: 1,
    }
}

/// Records an event; its name is used only if needed.
fn observe(outbox: &mut Outbox, mut event: EventRecord, now: Instant) {
    let name = mem::take(&mut event.name);
    outbox.observe(event, &mut |_| name.clone(), now);
}

/// A sink that keeps the highest count of each event, and an outbox with a small limit of series.
struct World {
    outbox: Outbox,
    counters: Arc<Counters>,
    sink: BTreeMap<String, u32>,
    pending_writes: Vec<PendingWrite>,
    now: Instant,
}

impl World {
    fn new(repeats: RepeatPolicy, capacity: usize) -> Self {
        let few = |number: usize| NonZero::new(number).expect("not zero");
        let options =
            CorrelatorOptions::new().remembered(few(5)).burst(NonZero::new(u32::MAX).expect("not zero"));
        let counters = Arc::new(Counters::default());
        let outbox = Outbox::new(
            repeats,
            few(capacity),
            options,
            Arc::clone(&counters),
            &bowline_clock::Rng::seeded(1),
        );
        Self { outbox, counters, sink: BTreeMap::new(), pending_writes: Vec::new(), now: Instant::ZERO }
    }

    /// `may_fail`: whether the sink may reject writes.
    fn run(&mut self, steps: &[Step], may_fail: bool) {
        for (number, step) in steps.iter().enumerate() {
            self.check();
            match step {
                Step::Compact { object, note } => {
                    observe(&mut self.outbox, event(*object, *note, number), self.now);
                }
                Step::Taken => self.pending_writes.extend(self.outbox.take()),
                Step::Over { is_written } => {
                    if !self.pending_writes.is_empty() {
                        self.over(*is_written || !may_fail);
                    }
                }
                Step::Passed { seconds } => {
                    self.now = self.now + Duration::from_secs(*seconds);
                    if self.outbox.next_check().is_some_and(|look| look <= self.now) {
                        self.outbox.check_series(self.now);
                    }
                }
            }
        }
    }

    /// Only events with unwritten changes are kept in full.
    fn check(&mut self) {
        for key in self.outbox.series.keys() {
            let Some(series) = self.outbox.series.peek(key) else { continue };
            let is_at_hand = matches!(series.event, SeriesEvent::Full(_));
            assert!(series.is_busy() || is_at_hand == series.is_ahead(), "{}", series.event.name());
        }
    }

    fn over(&mut self, is_written: bool) {
        let pending = self.pending_writes.remove(0);
        if is_written {
            let count = self.sink.entry(pending.event.name.clone()).or_default();
            *count = pending.event.count.max(*count);
        }
        self.outbox.done(pending, is_written, self.now);
    }

    fn end(&mut self) {
        self.outbox.close();
        loop {
            self.pending_writes.extend(self.outbox.take());
            if self.pending_writes.is_empty() {
                return;
            }
            self.over(true);
        }
    }
}

proptest! {
    #[test]
    fn the_sink_has_all_recorded_events(steps in steps(), is_series in any::<bool>()) {
        let repeats = if is_series { RepeatPolicy::Series } else { RepeatPolicy::Counted };
        let mut world = World::new(repeats, 10_000);
        world.run(&steps, false);
        world.end();
        let counts = world.counters.counts();
        prop_assert_eq!((counts.filtered, counts.dropped, counts.failed), (0, 0, 0));
        prop_assert_eq!(world.sink.values().map(|count| u64::from(*count)).sum::<u64>(), counts.recorded);
    }

    #[test]
    fn after_any_failures_nothing_is_written_twice_and_memory_is_bounded(steps in steps(), is_series in any::<bool>()) {
        let repeats = if is_series { RepeatPolicy::Series } else { RepeatPolicy::Counted };
        let mut world = World::new(repeats, 3);
        world.run(&steps, true);
        prop_assert!(world.outbox.queue.len() <= 3 && world.outbox.series.len() <= 5);
        world.end();
        let counts = world.counters.counts();
        prop_assert!(world.sink.values().map(|count| u64::from(*count)).sum::<u64>() <= counts.recorded);
        prop_assert_eq!(world.outbox.in_progress, 0);
        prop_assert!(world.outbox.queue.is_empty());
    }
}

#[test]
fn events_added_to_a_series_during_its_write_are_written_at_the_end() {
    let mut world = World::new(RepeatPolicy::Series, 10);
    for number in 0..2 {
        observe(&mut world.outbox, event(0, 0, number), world.now);
        world.pending_writes.extend(world.outbox.take());
        assert_eq!(world.pending_writes.len(), 1);
        if number == 0 {
            world.over(true);
        }
    }
    observe(&mut world.outbox, event(0, 0, 2), world.now);
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 3)]));
}

#[test]
fn a_series_without_changes_keeps_only_name_and_count() {
    let mut world = World::new(RepeatPolicy::Series, 1);
    let is_compact = |world: &mut World, object: usize| {
        let key = world.outbox.series.keys()[object];
        world
            .outbox
            .series
            .peek(key)
            .is_some_and(|series| matches!(series.event, SeriesEvent::Compact { .. }))
    };
    for number in 0..2 {
        observe(&mut world.outbox, event(u8::try_from(number).unwrap(), 0, number), world.now);
    }
    assert!(!is_compact(&mut world, 0), "it is queued");
    assert!(is_compact(&mut world, 1), "the queue was full");
    world.pending_writes.extend(world.outbox.take());
    assert!(is_compact(&mut world, 0), "it is being written");
    world.over(true);
    // The dropped event counts with the next one of its series.
    observe(&mut world.outbox, event(1, 0, 2), world.now);
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 1), ("event-1".to_owned(), 2)]));
}

#[test]
fn a_rejected_count_is_written_at_the_end() {
    let mut world = World::new(RepeatPolicy::Series, 10);
    for is_written in [true, false] {
        observe(&mut world.outbox, event(0, 0, 0), world.now);
        world.pending_writes.extend(world.outbox.take());
        world.over(is_written);
    }
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 1)]));
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 2)]));
}
