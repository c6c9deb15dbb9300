//! An unavailable, slow or rejecting API server.

use std::num::NonZero;
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_machinery::{GroupResource, Status};
use bowline_runtime::{ApiSink, Broadcaster, EventRecord, EventSink, EventType, NewEvent, SinkFuture};
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, PostParams};

use crate::world::{World, counts};

fn events_resource() -> GroupResource {
    GroupResource::new("events.k8s.io", "events")
}

#[test]
fn a_recorder_never_waits_in_a_storm_while_the_api_server_is_unavailable() {
    World::run(|world| async move {
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        world.leave();
        let mut maps = Vec::new();
        for number in 0..1500 {
            maps.push(world.map(&format!("map-{number}")).await);
        }
        let before = world.clock.now();
        for _ in 0..20 {
            for map in &maps {
                recorder.event(map, EventType::Warning, "Storm", "it blows");
            }
        }
        assert_eq!(world.clock.now(), before, "no call waited");
        world.pass(60).await;
        assert!(counts(&cluster).retried > 3, "{:?}", counts(&cluster));
        // 1000 wait, and one is being written; the others found the queue full.
        assert_eq!(counts(&cluster).sent, 0);
        let dropped = counts(&cluster).dropped;
        assert!((499 * 20..=500 * 20).contains(&dropped), "{dropped}");
        world.heal();
        world.pass(15).await;
        let events = world.events().await;
        assert!((1000..=1001).contains(&events.len()), "{}", events.len());
        assert!(events.iter().all(|event| event.series.as_ref().unwrap().count == 20));
        let counts = counts(&cluster);
        assert_eq!((counts.failed, counts.filtered), (0, 0));
        assert_eq!(counts.recorded, 30_000);
    });
}

#[test]
fn a_recorder_never_waits_in_a_storm_while_the_api_server_is_available() {
    World::run(|world| async move {
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        let mut maps = Vec::new();
        for number in 0..1500 {
            maps.push(world.map(&format!("map-{number}")).await);
        }
        for _ in 0..20 {
            for some in maps.chunks(500) {
                for map in some {
                    recorder.event(map, EventType::Warning, "Storm", "it blows");
                }
                world.settle().await;
            }
        }
        assert_eq!(world.calls().len(), 2 * 1500, "each is created, and patched when it becomes a series");
        world.pass(7 * 60).await;
        let events = world.events().await;
        assert_eq!(events.len(), 1500);
        assert!(events.iter().all(|event| event.series.as_ref().unwrap().count == 20), "the last count");
        let counts = counts(&cluster);
        assert_eq!((counts.dropped, counts.failed, counts.filtered), (0, 0, 0));
        assert_eq!((counts.sent, counts.recorded), (3 * 1500, 30_000));
    });
}

#[test]
fn a_sink_that_panics_rejects_that_event_and_gets_the_next() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let events =
            Broadcaster::builder(&world.spawner()).sink(Panicking(ApiSink::new(world.client.clone())));
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        for reason in ["AtOnce", "Later", "Never"] {
            cluster.recorder("test").event(&map, EventType::Normal, reason, "note");
        }
        world.settle().await;
        let (_, counts) = cluster.events().counts().remove(0);
        assert_eq!((counts.failed, counts.sent, counts.retried), (2, 1, 0));
        assert_eq!(world.events().await.len(), 1);
        assert!(cluster.events().stop(Duration::from_secs(1)).await.is_complete());
    });
}

/// Panics before it returns a future, in the future, or not at all.
struct Panicking(ApiSink);

impl EventSink for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn write<'a>(&'a self, event: &'a EventRecord, earlier: bool) -> SinkFuture<'a> {
        assert_ne!(event.reason, "AtOnce", "a test panics");
        Box::pin(async move {
            assert_ne!(event.reason, "Later", "a test panics");
            self.0.write(event, earlier).await
        })
    }
}

#[test]
fn an_event_waits_for_the_server_and_is_written_once() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        world.leave();
        cluster.recorder("test").event(&map, EventType::Normal, "Synced", "late");
        world.pass(50).await;
        world.heal();
        world.pass(13).await;
        assert_eq!(world.events().await.len(), 1);
        assert_eq!(counts(&cluster).sent, 1);
        let tries = world.calls().len();
        assert!((5..=6).contains(&tries), "{tries} tries in 50 s");
    });
}

#[test]
fn an_event_is_dropped_after_twelve_attempts_and_the_next_one_has_its_own() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        world.leave();
        cluster.recorder("test").event(&map, EventType::Normal, "First", "lost");
        cluster.recorder("test").event(&map, EventType::Normal, "Second", "kept");
        world.pass(12 * 13).await;
        assert_eq!(counts(&cluster).failed, 1);
        world.heal();
        world.pass(13).await;
        let events = world.events().await;
        assert_eq!(events.iter().map(|it| it.reason.as_deref().unwrap()).collect::<Vec<_>>(), ["Second"]);
        assert!(world.calls().len() > 12);
    });
}

#[test]
fn an_overloaded_server_is_retried() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        world.writes().times(1).internal_error();
        world.writes().times(1).too_many_requests(Duration::from_secs(1));
        cluster.recorder("test").event(&map, EventType::Normal, "Synced", "late");
        world.pass(30).await;
        assert_eq!((world.events().await.len(), counts(&cluster).retried), (1, 2));
    });
}

#[test]
fn a_lost_response_causes_no_second_event() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let lost = world.writes().times(1).lose_response();
        let recorder = cluster.recorder("test");
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.settle().await;
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.pass(30).await;
        let events = world.events().await;
        assert_eq!((events.len(), events[0].series.as_ref().unwrap().count), (1, 2));
        assert_eq!((counts(&cluster).failed, lost.applied()), (0, 1));
    });
}

#[test]
fn an_event_written_with_a_lost_response_continues_as_a_series() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        // The event is written, its response is lost, and then the server is unavailable until retries are exhausted.
        world.writes().lose_response();
        world.writes().skip(1).lose_request();
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.pass(150).await;
        assert_eq!(counts(&cluster).failed, 1);
        world.heal();
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.settle().await;
        let events = world.events().await;
        assert_eq!((events.len(), events[0].series.as_ref().unwrap().count), (1, 2));
    });
}

#[test]
fn a_series_whose_event_is_gone_is_created_with_its_count() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.settle().await;
        let name = world.events().await[0].metadata.name.clone().unwrap();
        let api: Api<Event> = Api::namespaced(world.client.clone(), "default");
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        recorder.event(&map, EventType::Normal, "Synced", "note");
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events[0].series.as_ref().unwrap().count, 2);
        assert_eq!(world.calls(), [Verb::Create, Verb::Delete, Verb::Patch, Verb::Create]);
    });
}

#[test]
fn a_rejected_event_is_not_retried_and_the_next_one_is_written() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let refused = world.writes().times(1).fail(Status::forbidden(&events_resource(), "", "no"));
        cluster.recorder("test").event(&map, EventType::Normal, "First", "refused");
        cluster.recorder("test").event(&map, EventType::Normal, "Second", "written");
        world.settle().await;
        refused.assert_used();
        assert_eq!(world.calls(), [Verb::Create, Verb::Create]);
        assert_eq!((counts(&cluster).failed, counts(&cluster).sent), (1, 1));
    });
}

#[test]
fn events_of_a_terminating_namespace_are_dropped() {
    World::run(|world| async move {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("short-lived".to_owned());
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let mut map = world.map("a").await;
        map.metadata.namespace = Some("short-lived".to_owned());
        namespaces.delete("short-lived", &DeleteParams::default()).await.unwrap();
        let cluster = world.cluster();
        cluster.recorder("test").event(&map, EventType::Normal, "Late", "too late");
        map.metadata.namespace = Some("never-was".to_owned());
        cluster.recorder("test").event(&map, EventType::Normal, "Late", "too late");
        world.pass(120).await;
        assert_eq!((counts(&cluster).failed, counts(&cluster).retried), (2, 0));
        assert_eq!(world.calls().len(), 2);
    });
}

#[test]
fn a_hanging_sink_times_out() {
    World::run(|world| async move {
        let map = world.map("a").await;
        // A custom sink stands in for a connection that hangs.
        let hanging = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let sink = Hanging { inner: ApiSink::new(world.client.clone()), hangs: hanging.clone() };
        let events = Broadcaster::builder(&world.spawner()).sink(sink).capacity(NonZero::new(1).unwrap());
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        cluster.recorder("test").event(&map, EventType::Normal, "First", "hangs");
        world.pass(29).await;
        hanging.store(false, std::sync::atomic::Ordering::Relaxed);
        world.pass(20).await;
        assert_eq!(world.events().await.len(), 1);
    });
}

struct Hanging {
    inner: ApiSink,
    hangs: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl EventSink for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    fn write<'a>(&'a self, event: &'a EventRecord, earlier: bool) -> SinkFuture<'a> {
        if self.hangs.load(std::sync::atomic::Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        self.inner.write(event, earlier)
    }
}

#[test]
fn an_invalid_namespace_is_never_part_of_a_url() {
    World::run(|world| async move {
        let cluster = world.cluster();
        let recorder = cluster.recorder("test");
        for namespace in ["../../apis/apps/v1/namespaces/default/deployments?", "a/b", "UPPER", ".."] {
            let object = ObjectReference {
                kind: Some("ConfigMap".to_owned()),
                name: Some("map".to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectReference::default()
            };
            recorder.record_about(object, NewEvent::new(EventType::Normal, "Found", "it is here"));
        }
        world.pass(60).await;
        assert_eq!(world.calls(), [], "no request is sent");
        assert_eq!((counts(&cluster).failed, counts(&cluster).sent), (4, 0));
    });
}
