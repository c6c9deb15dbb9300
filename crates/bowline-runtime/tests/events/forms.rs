//! Events as objects in the API server.

use std::sync::Arc;

use bowline_apiserver::Verb;
use bowline_runtime::{ApiSink, Broadcaster, EventApi, EventType, NewEvent};
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::core::DynamicObject;
use serde_json::json;

use crate::world::World;

#[test]
fn an_event_has_source_object_reason_and_note() {
    World::run(|world| async move {
        let (map, other) = (world.map("a").await, world.map("b").await);
        let cluster = world.cluster();
        let event = NewEvent::warning("Broken", "it does not work").action("Try").related(&other);
        cluster.recorder("web-controller").record(&map, event);
        world.settle().await;
        let events = world.events().await;
        let event = serde_json::to_value(&events[0]).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(event["type"], "Warning");
        assert_eq!((&event["reason"], &event["action"]), (&json!("Broken"), &json!("Try")));
        assert_eq!(event["note"], "it does not work");
        assert_eq!(event["reportingController"], "web-controller");
        assert_eq!(event["reportingInstance"], "web-controller-simulation");
        assert_eq!(event["metadata"]["namespace"], "default");
        let regarding = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "a",
            "uid": map.metadata.uid, "resourceVersion": map.metadata.resource_version,
        });
        assert_eq!(event["regarding"], regarding);
        assert_eq!(event["related"]["name"], "b");
        assert_eq!(event["eventTime"], "2030-01-01T00:00:00.000000Z");
        assert!(event.get("series").is_none());
        let name = event["metadata"]["name"].as_str().unwrap();
        let (time, salt) = name.split_at(name.len() - 8);
        assert_eq!(time, format!("a.{:x}", 1_893_456_000_000_000_000_u64));
        assert!(u32::from_str_radix(salt, 16).is_ok(), "{name}");
    });
}

#[test]
fn events_of_one_moment_have_different_names() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("web-controller").instance("web-7");
        for note in ["one", "two", "three"] {
            recorder.event(&map, EventType::Normal, "Counting", note);
        }
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events.len(), 3);
        assert!(events.iter().all(|event| event.reporting_instance.as_deref() == Some("web-7")));
        assert!(events.iter().all(|event| event.action.as_deref() == Some("Counting")));
    });
}

#[test]
fn events_of_two_operators_about_one_object_at_once_do_not_collide() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let (first, second) = (world.cluster(), world.cluster());
        first.recorder("first").event(&map, EventType::Normal, "Seen", "by the first");
        second.recorder("second").event(&map, EventType::Normal, "Seen", "by the second");
        world.settle().await;
        first.recorder("first").event(&map, EventType::Normal, "Seen", "by the first");
        world.settle().await;
        let mut found: Vec<_> = world.events().await.into_iter().map(|it| (it.note, it.series)).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let found: Vec<_> = found.iter().map(|(note, it)| (note.as_deref().unwrap(), it.is_some())).collect();
        assert_eq!(found, [("by the first", true), ("by the second", false)]);
    });
}

#[test]
fn an_event_can_be_about_an_arc_of_an_object() {
    World::run(|world| async move {
        let map = Arc::new(world.map("a").await);
        let recorder = world.cluster().recorder("test");
        recorder.event(&map, EventType::Normal, "Seen", "shared");
        recorder.record(&*map, NewEvent::normal("Seen", "plain").related(&map));
        world.settle().await;
        let events = world.events().await;
        let about = |event: &Event| event.regarding.as_ref().and_then(|it| it.uid.clone());
        assert!(events.iter().all(|event| about(event) == map.metadata.uid));
        assert_eq!(events.len(), 2);
    });
}

#[test]
fn an_event_about_an_object_without_a_namespace_is_in_default() {
    World::run(|world| async move {
        let api: Api<Namespace> = Api::all(world.client.clone());
        let namespace = api.get("kube-system").await.unwrap();
        let cluster = world.cluster();
        cluster.recorder("test").event(&namespace, EventType::Normal, "Seen", "a namespace");
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events[0].metadata.namespace.as_deref(), Some("default"));
        assert_eq!(events[0].regarding.as_ref().unwrap().namespace, None);
    });
}

#[test]
fn values_that_the_api_would_reject_are_adjusted() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let cluster = world.cluster();
        let recorder = cluster.recorder("A name with blanks!");
        recorder.event(&map, EventType::Normal, "R".repeat(200), "ä".repeat(600));
        // Some names in the API are like this, for example of cluster roles.
        let odd = ObjectReference { name: Some("system:Node".to_owned()), ..ObjectReference::default() };
        recorder.record_about(odd, NewEvent::normal("Odd", "has a name that an event may not have"));
        world.settle().await;
        let events = world.events().await;
        assert_eq!(events.len(), 2);
        assert!(events.iter().all(|it| it.reporting_controller.as_deref() == Some("A-name-with-blanks")));
        let names = events.iter().map(|it| it.metadata.name.as_deref().unwrap());
        assert!(names.into_iter().all(|it| bowline_machinery::name_is_dns_subdomain(it, false).is_empty()));
        let long = events.iter().find(|it| it.note.as_ref().unwrap().starts_with('ä')).unwrap();
        assert!(long.note.as_ref().unwrap().ends_with('…') && long.note.as_ref().unwrap().len() > 1000);
        assert_eq!(long.reason.as_ref().unwrap().len(), 128);
    });
}

#[test]
fn an_event_may_be_about_a_dynamic_object() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let mut object = serde_json::to_value(&map).unwrap();
        object["apiVersion"] = "v1".into();
        object["kind"] = "ConfigMap".into();
        let dynamic: DynamicObject = serde_json::from_value(object).unwrap();
        let cluster = world.cluster();
        cluster.recorder("test").event(&dynamic, EventType::Normal, "Seen", "an object");
        world.settle().await;
        let regarding = world.events().await.remove(0).regarding.unwrap();
        assert_eq!(regarding.kind.as_deref(), Some("ConfigMap"));
        assert_eq!(regarding.uid, map.metadata.uid);
    });
}

#[test]
fn an_event_in_the_core_group_has_a_source_and_counts_each_repeat() {
    World::run(|world| async move {
        let map = world.map("a").await;
        let sink = ApiSink::new(world.client.clone()).api(EventApi::CoreV1);
        let events = Broadcaster::builder(&world.spawner()).sink(sink).host("here");
        let cluster = world.builder().events(events).build().unwrap();
        cluster.start();
        for _ in 0..3 {
            cluster.recorder("test").event(&map, EventType::Normal, "Synced", "all is well");
            world.pass(1).await;
        }
        let events = world.core_events().await;
        assert_eq!(events.len(), 1);
        let event = serde_json::to_value(&events[0]).unwrap();
        assert_eq!(event["count"], 3);
        assert_eq!(event["firstTimestamp"], "2030-01-01T00:00:00Z");
        assert_eq!(event["lastTimestamp"], "2030-01-01T00:00:02Z");
        assert_eq!(event["source"], json!({"component": "test", "host": "test-here"}));
        assert_eq!(event["involvedObject"]["name"], "a");
        assert_eq!(world.calls(), [Verb::Create, Verb::Patch, Verb::Patch]);
    });
}
