//! Aggregation and rate limits of similar events.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_clock::Clock;
use bowline_runtime::{
    ApiSink, Broadcaster, CorrelatorOptions, EventApi, EventRecord, EventSink, EventType, NewEvent,
    RepeatPolicy, SinkFuture,
};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;

use crate::world::{World, counts};

fn count(event: &Event) -> i32 {
    event.series.as_ref().map_or(1, |series| series.count)
}

#[test]
fn the_second_equal_event_begins_a_series_and_the_next_ones_only_count() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for _ in 0..50 {
            recorder.event(&map, EventType::Warning, "Failed", "again");
            world.pass(1).await;
        }
        assert_eq!(world.calls(), [Verb::Create, Verb::Patch]);
        let events = world.events().await;
        assert_eq!((events.len(), count(&events[0])), (1, 2));
        assert_eq!(counts(&cluster).counted, 48);
    });
}

#[test]
fn another_resource_version_is_no_other_event() {
    World::run(|world| async move {
        let mut map = world.map("a").await;
        let cluster = world.cluster();
        for version in ["100", "101"] {
            map.metadata.resource_version = Some(version.to_owned());
            cluster.recorder("test").event(&map, EventType::Warning, "Failed", "again");
            world.settle().await;
        }
        assert_eq!(world.events().await.len(), 1);
    });
}

#[test]
fn a_series_is_finished_after_six_minutes_with_its_last_count_and_another_begins_anew() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for _ in 0..5 {
            recorder.event(&map, EventType::Warning, "Failed", "again");
            world.pass(60).await;
        }
        world.pass(299).await;
        assert_eq!(count(&world.events().await[0]), 2);
        world.pass(2).await;
        let events = world.events().await;
        let series = events[0].series.as_ref().unwrap();
        assert_eq!(series.count, 5);
        assert_eq!(serde_json::to_value(&series.last_observed_time).unwrap(), "2030-01-01T00:04:00.000000Z");
        recorder.event(&map, EventType::Warning, "Failed", "again");
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events.iter().map(count).collect::<Vec<_>>(), [5, 1]);
        assert_eq!(world.calls(), [Verb::Create, Verb::Patch, Verb::Patch, Verb::Create]);
    });
}

#[test]
fn an_event_that_was_seen_once_is_forgotten_without_another_write() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        cluster.recorder("test").event(&map, EventType::Normal, "Synced", "once");
        world.pass(3600).await;
        assert_eq!(world.calls(), [Verb::Create]);
        cluster.recorder("test").event(&map, EventType::Normal, "Synced", "once");
        world.settle().await;
        assert_eq!(world.calls(), [Verb::Create, Verb::Create]);
    });
}

#[test]
fn the_count_of_a_long_series_is_written_every_half_hour() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        for _ in 0..(2 * 60 + 15) {
            cluster.recorder("test").event(&map, EventType::Warning, "Failed", "again");
            world.pass(60).await;
        }
        // In 2 h 15 min: the first, the second, and four later ones.
        assert_eq!(world.calls().len(), 6, "{:?}", world.calls());
        let count = count(&world.events().await[0]);
        assert!((116..=122).contains(&count), "{count}");
    });
}

#[test]
fn ten_different_notes_are_aggregated() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for number in 0..15 {
            recorder.event(&map, EventType::Warning, "Failed", format!("try {number}"));
            world.pass(1).await;
        }
        let events = world.events().await;
        let combined: Vec<_> =
            events.iter().filter(|it| it.note.as_ref().unwrap().starts_with("(combined from")).collect();
        assert_eq!((events.len(), combined.len()), (10, 1));
        assert_eq!(combined[0].note.as_deref(), Some("(combined from similar events): try 9"));
        assert_eq!(count(combined[0]), 2);
        recorder.event(&map, EventType::Warning, "Failed", "try 3");
        recorder.event(&map, EventType::Warning, "Other", "try 3");
        world.settle().await;
        assert_eq!(world.events().await.len(), 11, "separate notes and other reasons stay separate");
    });
}

#[test]
fn an_aggregated_note_keeps_the_apis_limit() {
    World::run(|world| async move {
        let map = world.map("a").await;
        for api in [EventApi::EventsV1, EventApi::CoreV1] {
            let events =
                Broadcaster::builder(&world.spawner()).sink(ApiSink::new(world.client.clone()).api(api));
            let cluster = world.builder().events(events).build().unwrap();
            cluster.start();
            for number in 0..15 {
                let note = format!("{number} {}", "é".repeat(1000));
                cluster.recorder("test").event(&map, EventType::Warning, "Long", note);
                world.pass(1).await;
            }
            assert_eq!(counts(&cluster).failed, 0, "{api:?}");
            let _flushed = cluster.events().stop(Duration::from_secs(1)).await;
        }
        let events = world.events().await;
        let notes = || events.iter().map(|it| it.note.as_deref().unwrap());
        assert_eq!(notes().filter(|it| it.starts_with("(combined from similar events): ")).count(), 2);
        assert!(notes().all(|it| (1020..=1024).contains(&it.len())));
    });
}

#[test]
fn series_end_also_while_the_sink_is_always_busy() {
    World::run(|world| async move {
        let finished = Arc::new(AtomicBool::new(false));
        let sink = Slow { clock: world.clock.clone(), finished: Arc::clone(&finished) };
        let events = Broadcaster::builder(&world.spawner()).sink(sink);
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        let recorder = cluster.recorder("test");
        let about = |name: &str| ObjectReference { name: Some(name.to_owned()), ..Default::default() };
        for _ in 0..5 {
            recorder.record_about(about("series"), NewEvent::normal("Again", "and again"));
            world.pass(2).await;
        }
        // Two events for every one that can be written: the sink is always busy.
        for number in 0..800 {
            recorder.record_about(about(&number.to_string()), NewEvent::normal("Busy", "more"));
            world.clock.sleep(Duration::from_millis(500)).await;
        }
        assert!(!finished.load(Ordering::Relaxed), "it waits its turn");
        assert_eq!(cluster.events().counts()[0].1.dropped, 0);
        world.pass(60).await;
        for number in 800..1500 {
            recorder.record_about(about(&number.to_string()), NewEvent::normal("Busy", "more"));
            world.clock.sleep(Duration::from_secs(1)).await;
        }
        assert!(finished.load(Ordering::Relaxed));
    });
}

/// Takes a second per event, and notes when it gets the last one of the series.
struct Slow {
    clock: Clock,
    finished: Arc<AtomicBool>,
}

impl EventSink for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn repeats(&self) -> RepeatPolicy {
        RepeatPolicy::Series
    }

    fn write<'a>(&'a self, event: &'a EventRecord, _earlier: bool) -> SinkFuture<'a> {
        Box::pin(async move {
            self.clock.sleep(Duration::from_secs(1)).await;
            if event.count == 5 {
                self.finished.store(true, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

#[test]
fn notes_are_counted_anew_after_ten_minutes_without_a_similar_event() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for number in 0..10 {
            recorder.event(&map, EventType::Warning, "Failed", format!("try {number}"));
        }
        world.pass(601).await;
        recorder.event(&map, EventType::Warning, "Failed", "try 10");
        world.settle().await;
        let events = world.events().await;
        assert!(events.iter().any(|it| it.note.as_deref() == Some("try 10")));
    });
}

#[test]
fn one_source_may_write_25_events_about_one_object_and_then_one_per_five_minutes() {
    World::run(|world| async move {
        let (map, other) = (world.map("a").await, world.map("b").await);
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for number in 0..40 {
            recorder.event(&map, EventType::Warning, format!("Reason{number}"), "note");
        }
        world.settle().await;
        assert_eq!(world.events().await.len(), 25);
        assert_eq!(counts(&cluster).filtered, 15);
        recorder.event(&other, EventType::Warning, "Other", "another object");
        cluster.recorder("second").event(&map, EventType::Warning, "Other", "another source");
        world.settle().await;
        assert_eq!(world.events().await.len(), 27);
        world.pass(299).await;
        recorder.event(&map, EventType::Warning, "TooEarly", "note");
        world.pass(1).await;
        recorder.event(&map, EventType::Warning, "InTime", "note");
        recorder.event(&map, EventType::Warning, "TooMany", "note");
        world.settle().await;
        let reasons: Vec<_> = world.events().await.into_iter().filter_map(|it| it.reason).collect();
        assert!(reasons.contains(&"InTime".to_owned()), "{reasons:?}");
        assert_eq!((reasons.len(), counts(&cluster).filtered), (28, 17));
    });
}

#[test]
fn a_filtered_event_is_written_later_with_its_count() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let options = CorrelatorOptions::new().burst(NonZero::new(1).unwrap());
        let sink = ApiSink::new(world.client.clone());
        let events = Broadcaster::builder(&world.spawner()).sink(sink).correlator(options);
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        let recorder = cluster.recorder("test");
        recorder.event(&map, EventType::Normal, "First", "uses it up");
        for _ in 0..3 {
            recorder.event(&map, EventType::Normal, "Second", "waits");
        }
        world.settle().await;
        assert_eq!(world.events().await.len(), 1);
        world.pass(300).await;
        recorder.event(&map, EventType::Normal, "Second", "waits");
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events.iter().map(count).collect::<Vec<_>>(), [1, 4]);
    });
}

#[test]
fn memory_is_bounded_and_dropped_series_write_their_count() {
    World::run(|world| async move {
        let options = CorrelatorOptions::new()
            .remembered(NonZero::new(2).unwrap())
            .refill(Duration::ZERO)
            .burst(NonZero::new(1).unwrap());
        let sink = ApiSink::new(world.client.clone());
        let events = Broadcaster::builder(&world.spawner()).sink(sink).correlator(options);
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        let recorder = cluster.recorder("test");
        let map = world.map("a").await;
        for _ in 0..7 {
            recorder.event(&map, EventType::Normal, "Repeated", "often");
            world.settle().await;
        }
        assert_eq!(count(&world.events().await[0]), 2);
        for name in ["b", "c"] {
            recorder.event(&world.map(name).await, EventType::Normal, "Other", "once");
            world.settle().await;
        }
        assert_eq!(count(&world.events().await[0]), 7);
    });
}

#[test]
fn aggregated_events_of_the_core_group_show_the_last_note() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let sink = ApiSink::new(world.client.clone()).api(EventApi::CoreV1);
        let events = Broadcaster::builder(&world.spawner()).sink(sink);
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        for number in 0..12 {
            cluster.recorder("test").event(&map, EventType::Warning, "Failed", format!("try {number}"));
            world.settle().await;
        }
        let events = world.core_events().await;
        let combined = events.iter().find(|it| it.count == Some(3)).unwrap();
        assert_eq!(combined.message.as_deref(), Some("(combined from similar events): try 11"));
    });
}
