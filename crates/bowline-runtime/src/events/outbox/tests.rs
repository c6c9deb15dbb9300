//! No event is lost in the books: what a sink has in the end is what was told.

use std::collections::BTreeMap;
use std::time::SystemTime;

use k8s_openapi::api::core::v1::ObjectReference;
use proptest::prelude::*;

use super::*;
use crate::EventType;

/// What happens to an outbox.
#[derive(Clone, Debug)]
enum Step {
    /// An event about an object, with a note.
    Told { object: u8, note: u8 },
    /// A write is taken.
    Taken,
    /// A write that was taken is over.
    Over { is_taken: bool },
    /// Time passes.
    Passed { seconds: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_u8, 0..14_u8).prop_map(|(object, note)| Step::Told { object, note }),
        2 => Just(Step::Taken),
        2 => any::<bool>().prop_map(|is_taken| Step::Over { is_taken }),
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

/// Tells an event, whose name is only asked for if it needs one.
fn observe(outbox: &mut Outbox, mut event: EventRecord, now: Instant) {
    let name = mem::take(&mut event.name);
    outbox.observe(event, &mut |_| name.clone(), now);
}

/// A sink that keeps the highest count of each event, and an outbox with room for few series.
struct World {
    outbox: Outbox,
    counters: Arc<Counters>,
    sink: BTreeMap<String, u32>,
    letters: Vec<Letter>,
    now: Instant,
}

impl World {
    fn new(repeats: Repeats, capacity: usize) -> Self {
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
        Self { outbox, counters, sink: BTreeMap::new(), letters: Vec::new(), now: Instant::ZERO }
    }

    /// `may_fail` says whether a sink may refuse.
    fn run(&mut self, steps: &[Step], may_fail: bool) {
        for (number, step) in steps.iter().enumerate() {
            self.check();
            match step {
                Step::Told { object, note } => {
                    observe(&mut self.outbox, event(*object, *note, number), self.now);
                }
                Step::Taken => self.letters.extend(self.outbox.take()),
                Step::Over { is_taken } => {
                    if !self.letters.is_empty() {
                        self.over(*is_taken || !may_fail);
                    }
                }
                Step::Passed { seconds } => {
                    self.now = self.now + Duration::from_secs(*seconds);
                    if self.outbox.next_look().is_some_and(|look| look <= self.now) {
                        self.outbox.look_after_series(self.now);
                    }
                }
            }
        }
    }

    /// What is told without another event is at hand, and nothing else is.
    fn check(&mut self) {
        for key in self.outbox.series.keys() {
            let Some(series) = self.outbox.series.peek(key) else { continue };
            let is_at_hand = matches!(series.event, Known::Untold(_));
            assert!(series.is_busy || is_at_hand == series.is_ahead(), "{}", series.event.name());
        }
    }

    fn over(&mut self, is_taken: bool) {
        let letter = self.letters.remove(0);
        if is_taken {
            let count = self.sink.entry(letter.event.name.clone()).or_default();
            *count = letter.event.count.max(*count);
        }
        self.outbox.done(letter, is_taken, self.now);
    }

    fn end(&mut self) {
        self.outbox.close();
        loop {
            self.letters.extend(self.outbox.take());
            if self.letters.is_empty() {
                return;
            }
            self.over(true);
        }
    }
}

proptest! {
    #[test]
    fn what_was_told_is_what_the_sink_has(steps in steps(), is_series in any::<bool>()) {
        let repeats = if is_series { Repeats::Series } else { Repeats::Counted };
        let mut world = World::new(repeats, 10_000);
        world.run(&steps, false);
        world.end();
        let counts = world.counters.counts();
        prop_assert_eq!((counts.filtered, counts.dropped, counts.failed), (0, 0, 0));
        prop_assert_eq!(world.sink.values().map(|count| u64::from(*count)).sum::<u64>(), counts.recorded);
    }

    #[test]
    fn nothing_is_told_twice_and_nothing_grows_whatever_fails(steps in steps(), is_series in any::<bool>()) {
        let repeats = if is_series { Repeats::Series } else { Repeats::Counted };
        let mut world = World::new(repeats, 3);
        world.run(&steps, true);
        prop_assert!(world.outbox.queue.len() <= 3 && world.outbox.series.len() <= 5);
        world.end();
        let counts = world.counters.counts();
        prop_assert!(world.sink.values().map(|count| u64::from(*count)).sum::<u64>() <= counts.recorded);
        prop_assert_eq!(world.outbox.on_their_way, 0);
        prop_assert!(world.outbox.queue.is_empty());
    }
}

#[test]
fn what_was_added_to_a_series_while_it_was_on_its_way_is_written_at_the_end() {
    let mut world = World::new(Repeats::Series, 10);
    for number in 0..2 {
        observe(&mut world.outbox, event(0, 0, number), world.now);
        world.letters.extend(world.outbox.take());
        assert_eq!(world.letters.len(), 1);
        if number == 0 {
            world.over(true);
        }
    }
    observe(&mut world.outbox, event(0, 0, 2), world.now);
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 3)]));
}

#[test]
fn a_series_that_has_nothing_to_tell_keeps_no_more_of_its_event_than_its_name_and_count() {
    let mut world = World::new(Repeats::Series, 1);
    let is_told = |world: &mut World, object: usize| {
        let key = world.outbox.series.keys()[object];
        world.outbox.series.peek(key).is_some_and(|series| matches!(series.event, Known::Told { .. }))
    };
    for number in 0..2 {
        observe(&mut world.outbox, event(u8::try_from(number).unwrap(), 0, number), world.now);
    }
    assert!(!is_told(&mut world, 0), "it waits in the queue");
    assert!(is_told(&mut world, 1), "there was no room for it");
    world.letters.extend(world.outbox.take());
    assert!(is_told(&mut world, 0), "it is on its way");
    world.over(true);
    // What there was no room for counts as soon as there is something to tell of it.
    observe(&mut world.outbox, event(1, 0, 2), world.now);
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 1), ("event-1".to_owned(), 2)]));
}

#[test]
fn a_count_that_the_sink_did_not_take_is_written_at_the_end() {
    let mut world = World::new(Repeats::Series, 10);
    for is_taken in [true, false] {
        observe(&mut world.outbox, event(0, 0, 0), world.now);
        world.letters.extend(world.outbox.take());
        world.over(is_taken);
    }
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 1)]));
    world.end();
    assert_eq!(world.sink, BTreeMap::from([("event-0".to_owned(), 2)]));
}
