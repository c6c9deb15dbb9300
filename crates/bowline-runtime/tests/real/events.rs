//! Events as a server has them.

use bowline_runtime::{ApiSink, Broadcaster, EventApi, EventType, NewEvent};
use k8s_openapi::api::core::v1::{Event as CoreEvent, Namespace, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::arm::{Arm, PATIENCE};

async fn events(arm: &Arm, namespace: &str) -> Vec<Event> {
    let api: Api<Event> = Api::namespaced(arm.kube.clone(), namespace);
    api.list(&ListParams::default()).await.expect("listed").items
}

#[test]
fn an_event_is_taken_as_it_is_and_a_second_one_makes_a_series() {
    Arm::run(|arm| async move {
        let (map, other) = (arm.map("a", json!({})).await, arm.map("b", json!({})).await);
        let recorder = arm.cluster.recorder("example.com/web-controller").instance("web-7");
        let event = NewEvent::warning("Broken", "it does not work").action("Try").related(&other);
        recorder.record(&map, event.clone());
        let first = arm.until("an event", async || events(&arm, &arm.namespace).await.pop()).await;
        let shown = serde_json::to_value(&first).unwrap();
        assert_eq!((&shown["type"], &shown["reason"]), (&json!("Warning"), &json!("Broken")));
        assert_eq!((&shown["action"], &shown["note"]), (&json!("Try"), &json!("it does not work")));
        assert_eq!(shown["reportingController"], "example.com/web-controller");
        assert_eq!(shown["reportingInstance"], "web-7");
        assert_eq!(shown["regarding"]["uid"].as_str(), map.metadata.uid.as_deref());
        assert_eq!(shown["related"]["name"], "b");
        recorder.record(&map, event.clone());
        let series = async || events(&arm, &arm.namespace).await.pop()?.series;
        assert_eq!(arm.until("a series", series).await.count, 2);
        for _ in 0..8 {
            recorder.record(&map, event.clone());
        }
        let flushed = arm.cluster.events().stop(PATIENCE).await;
        assert!(flushed.is_complete());
        let all = events(&arm, &arm.namespace).await;
        assert_eq!((all.len(), all[0].series.as_ref().unwrap().count), (1, 10));
        assert_eq!(all[0].metadata.name, first.metadata.name);
    });
}

#[test]
fn the_stop_of_a_cluster_writes_every_event() {
    Arm::run(|arm| async move {
        let map = arm.map("a", json!({})).await;
        let recorder = arm.cluster.recorder("test");
        for number in 0..9 {
            recorder.event(&map, EventType::Normal, "Counting", format!("{number}"));
        }
        for note in ["ten", "eleven", "twelve"] {
            recorder.event(&map, EventType::Normal, "Counting", note);
        }
        recorder.event(&map, EventType::Normal, "x".repeat(500), "y".repeat(5000));
        arm.cluster.stop().await;
        let events = events(&arm, &arm.namespace).await;
        let combined = events.iter().find(|it| it.note.as_ref().unwrap().starts_with("(combined")).unwrap();
        assert_eq!(events.len(), 11);
        assert_eq!(combined.series.as_ref().unwrap().count, 3);
        assert_eq!(arm.cluster.events().counts()[0].1.failed, 0);
    });
}

#[test]
fn the_core_group_counts_and_shows_the_last_note() {
    Arm::run(|arm| async move {
        let map = arm.map("a", json!({})).await;
        let sink = ApiSink::new(arm.kube.clone()).api(EventApi::CoreV1);
        let broadcaster = Broadcaster::builder(&arm.spawner()).sink(sink).host("here").build();
        broadcaster.start();
        let recorder = broadcaster.recorder("test");
        for number in 0..12 {
            recorder.event(&map, EventType::Normal, "Counting", format!("{number}"));
            arm.until("a write", async || {
                let counts = broadcaster.counts()[0].1;
                (counts.sent == number + 1).then_some(())
            })
            .await;
        }
        let api: Api<CoreEvent> = Api::namespaced(arm.kube.clone(), &arm.namespace);
        let events = api.list(&ListParams::default()).await.unwrap().items;
        assert_eq!(events.len(), 10);
        let combined = events.iter().find(|it| it.count == Some(3)).unwrap();
        assert_eq!(combined.message.as_deref(), Some("(combined from similar events): 11"));
        assert_eq!(combined.source.as_ref().unwrap().component.as_deref(), Some("test"));
        assert!(combined.first_timestamp.is_some() && combined.last_timestamp.is_some());
    });
}

#[test]
fn an_event_about_an_object_without_a_namespace_is_in_default_whatever_its_name() {
    Arm::run(|arm| async move {
        let namespaces: Api<Namespace> = Api::all(arm.kube.clone());
        let namespace = namespaces.get(&arm.namespace).await.unwrap();
        let recorder = arm.cluster.recorder("test");
        recorder.event(&namespace, EventType::Normal, "Seen", "a namespace");
        let odd = ObjectReference {
            api_version: Some("rbac.authorization.k8s.io/v1".to_owned()),
            kind: Some("ClusterRole".to_owned()),
            name: Some(format!("system:{}", arm.namespace)),
            ..ObjectReference::default()
        };
        recorder.record_about(odd, NewEvent::normal("Odd", "a name that an event may not have"));
        arm.cluster.stop().await;
        let events = events(&arm, "default").await;
        let name =
            |event: &&Event| event.regarding.as_ref().and_then(|it| it.name.clone()).unwrap_or_default();
        assert_eq!(events.iter().filter(|it| name(it).ends_with(&arm.namespace)).count(), 2);
    });
}

#[test]
fn an_event_in_a_namespace_that_goes_is_given_up_at_once() {
    Arm::run(|arm| async move {
        let map = arm.map("a", json!({})).await;
        let namespaces: Api<Namespace> = Api::all(arm.kube.clone());
        namespaces.delete(&arm.namespace, &DeleteParams::default()).await.unwrap();
        // A server with several minds learns of it by and by.
        let refused = async || {
            arm.cluster.recorder("test").event(
                &map,
                EventType::Normal,
                "Late",
                format!("{:?}", arm.clock.now()),
            );
            (arm.cluster.events().counts()[0].1.failed > 0).then_some(())
        };
        arm.until("a refusal", refused).await;
        assert_eq!(arm.cluster.events().counts()[0].1.retried, 0);
    });
}
