//! Watches of the client.

use std::time::Duration;

use bowline_cache::ListQuery;
use bowline_runtime::{ClientError, WatchEvent, WatchStream};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use super::world::{World, labels, value};
use crate::arm::PATIENCE;

/// The next event: `added a 1`.
async fn next(world: &World, events: &mut WatchStream<ConfigMap>) -> Option<String> {
    let event =
        world.clock.timeout(PATIENCE, events.try_next()).await.expect("in time").expect("no error")?;
    let what = match &event {
        WatchEvent::Added(_) => "added",
        WatchEvent::Modified(_) => "modified",
        WatchEvent::Deleted(_) => "deleted",
        WatchEvent::Bookmark { is_initial_end: true, .. } => return Some("initial end".to_owned()),
        _ => "bookmark",
    };
    let object = event.object().map(|map| format!(" {} {}", map.name_any(), value(map)));
    assert!(event.resource_version().is_some());
    Some(format!("{what}{}", object.unwrap_or_default()))
}

#[test]
fn a_watch_begins_with_what_exists_and_goes_on_with_changes() {
    World::run(|world| async move {
        let client = world.client();
        client.create(&world.labelled("a", "x")).await.unwrap();
        client.create(&world.labelled("ignored", "y")).await.unwrap();
        let query = ListQuery::new().in_namespace(&world.namespace).labels(labels("app=x"));
        let mut plain = client.watch::<ConfigMap>(&query).await.unwrap();
        let mut marked = client.watch::<ConfigMap>(&query).bookmarks().await.unwrap();
        for events in [&mut plain, &mut marked] {
            assert_eq!(next(&world, events).await.as_deref(), Some("added a 1"));
        }
        assert_eq!(next(&world, &mut marked).await.as_deref(), Some("initial end"));
        let mut changed = world.labelled("a", "x");
        changed.data = world.map("a", "2").data;
        let changed = client.update(&changed).await.unwrap();
        client.create(&world.labelled("b", "x")).await.unwrap();
        client.delete::<ConfigMap>(&world.key("a")).await.unwrap();
        // It leaves the selection.
        client.update(&world.labelled("b", "y")).await.unwrap();
        for expected in ["modified a 2", "added b 1", "deleted a 2", "deleted b 1"] {
            for events in [&mut plain, &mut marked] {
                let mut event = next(&world, events).await;
                while event.as_deref() == Some("bookmark") {
                    event = next(&world, events).await;
                }
                assert_eq!(event.as_deref(), Some(expected));
            }
        }
        let version = changed.resource_version().unwrap();
        let mut later = client.watch::<ConfigMap>(&query).resource_version(version).await.unwrap();
        assert_eq!(next(&world, &mut later).await.as_deref(), Some("added b 1"), "nothing before it");
    });
}

#[test]
fn a_watch_ends_after_its_timeout() {
    World::run(|world| async move {
        let query = ListQuery::new().in_namespace(&world.namespace).labels(labels("app=x"));
        let watch = world.client().watch::<ConfigMap>(&query).timeout(Duration::from_secs(1));
        let mut events = watch.await.unwrap();
        assert_eq!(next(&world, &mut events).await, None);
    });
}

#[test]
fn a_watch_that_the_server_refuses_is_an_error() {
    World::run(|world| async move {
        let query = ListQuery::new().in_namespace(&world.namespace);
        let refused = world.client().watch::<ConfigMap>(&query).resource_version("none").await.unwrap_err();
        assert!(matches!(refused, ClientError::Status { .. }) && !refused.is_expired(), "{refused}");
        let place = "watch configmaps (v1): ";
        assert!(refused.to_string().starts_with(place), "{refused}");
    });
}
