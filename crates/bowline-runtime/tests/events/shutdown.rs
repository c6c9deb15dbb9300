//! The stop of a broadcaster, and several sinks.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_runtime::{ApiSink, Broadcaster, EventRecord, EventSink, EventType, SinkFuture};

use crate::world::{World, counts};

/// A sink that keeps its events.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<EventRecord>>>);

impl Kept {
    fn notes(&self) -> Vec<String> {
        self.0.lock().expect("the lock is not poisoned").iter().map(|event| event.note.clone()).collect()
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().expect("the lock is not poisoned").iter().map(|event| event.name.clone()).collect()
    }
}

impl EventSink for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn write<'a>(&'a self, event: &'a EventRecord, _earlier: bool) -> SinkFuture<'a> {
        self.0.lock().expect("the lock is not poisoned").push(event.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

#[test]
fn a_stop_writes_pending_events_and_the_counts_of_all_series() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for _ in 0..9 {
            recorder.event(&map, EventType::Normal, "Repeated", "often");
            world.settle().await;
        }
        recorder.event(&map, EventType::Normal, "Last", "words");
        cluster.stop().await;
        let events = world.events().await;
        let seen: Vec<_> = events
            .iter()
            .map(|it| (it.reason.as_deref().unwrap(), it.series.as_ref().map_or(1, |series| series.count)))
            .collect();
        assert_eq!(seen, [("Repeated", 9), ("Last", 1)]);
        recorder.event(&map, EventType::Normal, "After", "the end");
        assert_eq!(counts(&cluster).dropped, 1);
        cluster.start();
        recorder.event(&map, EventType::Normal, "Again", "started");
        world.settle().await;
        assert_eq!(world.events().await.len(), 3);
    });
}

#[test]
fn a_shutdown_without_a_server_attempts_each_write_once() {
    World::run(|world| async move {
        let cluster = world.cluster();
        world.leave();
        for name in ["a", "b", "c"] {
            cluster.recorder("test").event(&world.map(name).await, EventType::Normal, "Lost", "words");
        }
        world.pass(5).await;
        let before = (world.clock.now(), world.calls().len());
        let flushed = cluster.events().stop(Duration::from_secs(60)).await;
        assert!(flushed.is_complete());
        assert_eq!(world.clock.now(), before.0, "nothing is waited for");
        assert_eq!(world.calls().len() - before.1, 3);
        assert_eq!(counts(&cluster).failed, 3);
    });
}

#[test]
fn a_shutdown_ends_at_its_limit_and_counts_what_it_leaves() {
    World::run(|world| async move {
        let hanging = Hanging;
        let events = Broadcaster::builder(&world.spawner()).sink(hanging).build();
        events.start();
        for name in ["a", "b", "c"] {
            events.recorder("test").event(&world.map(name).await, EventType::Normal, "Lost", "words");
        }
        world.settle().await;
        let before = world.clock.now();
        let flushed = events.stop(Duration::from_secs(2)).await;
        assert_eq!(flushed.left(), 3);
        assert_eq!(world.clock.now().duration_since(before), Duration::from_secs(2));
        assert_eq!(events.counts()[0].1.dropped, 3);
    });
}

struct Hanging;

impl EventSink for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    fn write<'a>(&'a self, _event: &'a EventRecord, _earlier: bool) -> SinkFuture<'a> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn events_wait_for_the_start() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.builder().build().unwrap();
        cluster.recorder("test").event(&map, EventType::Normal, "Early", "bird");
        world.pass(60).await;
        assert!(world.calls().is_empty());
        cluster.start();
        world.settle().await;
        assert_eq!(world.events().await.len(), 1);
    });
}

#[test]
fn the_end_of_the_scope_writes_pending_events() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let scope = world.clock.scope("operator");
        let sink = ApiSink::new(world.client.clone());
        let events = Broadcaster::builder(&scope.spawner()).sink(sink).build();
        events.start();
        for _ in 0..5 {
            events.recorder("test").event(&map, EventType::Normal, "Repeated", "often");
            world.settle().await;
        }
        events.recorder("test").event(&map, EventType::Normal, "Last", "words");
        assert!(scope.drain(Duration::from_secs(5)).await.is_clean());
        let events = world.events().await;
        assert_eq!((events.len(), events[0].series.as_ref().unwrap().count), (2, 5));
    });
}

#[test]
fn each_sink_gets_each_event_and_none_waits_for_another() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let kept = Kept::default();
        let api = ApiSink::new(world.client.clone());
        let events = Broadcaster::builder(&world.spawner()).sink(api).sink(kept.clone()).build();
        events.start();
        world.leave();
        for _ in 0..30 {
            events.recorder("test").event(&map, EventType::Normal, "Repeated", "often");
        }
        world.settle().await;
        assert_eq!(kept.notes().len(), 30, "nothing is gathered, nothing filtered");
        world.heal();
        world.pass(13).await;
        let event = world.events().await.remove(0);
        assert_eq!(event.series.unwrap().count, 30);
        assert_eq!(event.metadata.name, kept.names().first().cloned(), "an event has one name");
        assert_eq!(kept.names().into_iter().collect::<BTreeSet<_>>().len(), 30, "and each its own");
        let counts = events.counts();
        assert_eq!(counts[0].0, "api");
        assert_eq!((counts[1].0.as_str(), counts[1].1.sent), ("kept", 30));
    });
}

#[test]
fn events_beyond_the_capacity_are_dropped_and_counted() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let kept = Kept::default();
        let events = Broadcaster::builder(&world.spawner())
            .sink(kept.clone())
            .capacity(NonZero::new(3).unwrap())
            .build();
        for number in 0..5 {
            events.recorder("test").event(&map, EventType::Normal, "Counting", format!("{number}"));
        }
        events.start();
        world.settle().await;
        assert_eq!(kept.notes(), ["0", "1", "2"]);
        let counts = events.counts()[0].1;
        assert_eq!((counts.recorded, counts.sent, counts.dropped), (5, 3, 2));
    });
}

#[test]
fn results_of_events_are_in_the_metrics_of_the_cluster() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        for _ in 0..3 {
            cluster.recorder("test").event(&map, EventType::Normal, "Repeated", "often");
            world.settle().await;
        }
        cluster.stop().await;
        cluster.recorder("test").event(&map, EventType::Normal, "Late", "too late");
        let text = cluster.metrics().encode();
        for line in [
            "# TYPE bowline_events counter",
            "bowline_events_recorded_total{sink=\"api\"} 4",
            "bowline_events_total{sink=\"api\",result=\"counted\"} 1",
            "bowline_events_total{sink=\"api\",result=\"dropped\"} 1",
            "bowline_events_total{sink=\"api\",result=\"failed\"} 0",
            "bowline_events_total{sink=\"api\",result=\"sent\"} 3",
            // The log level is disabled.
            "bowline_events_recorded_total{sink=\"log\"} 0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
    });
}
