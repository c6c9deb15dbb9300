//! Failures around a controller, and their effects.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{CacheOptions, SelectionSettings};
use bowline_runtime::{
    Action, Change, Cluster, Context, ControllerError, Error, Request, Watch, handler, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::world::{World, line, nothing, noting};

#[test]
fn a_forbidden_kind_stops_only_the_controller_that_watches_it_which_says_what_it_waits_for() {
    World::run(1, |world| async move {
        world.forbid("secrets");
        world.create("a").await;
        let waiting = world
            .cluster
            .controller::<Secret>()
            .watches(Watch::new(source::kind::<ConfigMap>(), handler::object()))
            .build(nothing)
            .unwrap();
        waiting.start().unwrap();
        let (_other, notes) = noting(&world).await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a"]);

        let missing: Vec<_> = waiting.waiting_for().iter().map(ToString::to_string).collect();
        assert_eq!(missing.len(), 1, "{missing:?}");
        assert!(missing[0].starts_with("secrets (v1) in all namespaces"), "{missing:?}");
        assert!(missing[0].contains("secrets is forbidden: you may not"), "{missing:?}");
        assert!(!waiting.is_ready());

        let error = waiting.wait_ready().await.unwrap_err();
        assert!(world.clock.now().duration_since(bowline_clock::Instant::ZERO) >= Duration::from_secs(120));
        assert!(matches!(error, ControllerError::NotSynced { .. }));
        let text = error.to_string();
        assert!(text.starts_with("the controller \"secret\" could not begin within 120s"), "{text}");
        assert!(text.contains("secrets (v1)") && text.contains("you may not"), "{text}");
        assert!(!waiting.is_running());

        // Once it is allowed, the controller can be started again.
        world.heal();
        waiting.start().unwrap();
        waiting.wait_ready().await.unwrap();
        assert_eq!(world.watches("configmaps"), 1, "controllers share a watch");
        world.touch("a", "1").await;
        world.until("the other goes on", || notes.len() == 2).await;
        world.settle().await;
        // The watch that started before runs once, not twice.
        let runs = world.cluster.history().runs();
        let runs: Vec<_> = runs.iter().filter(|run| &*run.controller == "secret").map(line).collect();
        assert_eq!(runs, ["default/a: done (ConfigMap initial)", "default/a: done (ConfigMap updated)"],);
        assert!(world.cluster.cache().stats().iter().all(|(_, stats)| stats.handlers <= 2));
    });
}

#[test]
fn a_controller_that_cannot_watch_one_thing_leaves_no_watch_of_another_behind() {
    World::run(5, |world| async move {
        let options = CacheOptions::new().settings(SelectionSettings::new().labels("!!"));
        let broken = Cluster::builder(&world.scope().spawner(), world.client.clone()).cache(options);
        let broken = broken.named("broken").build().unwrap();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .watches(Watch::new(source::kind::<Secret>().in_cluster(&broken), handler::object()))
            .build(nothing)
            .unwrap();
        for _ in 0..2 {
            controller.start().unwrap();
            let error = controller.wait_ended().await.unwrap_err();
            assert!(
                matches!(&error, ControllerError::Watch { watch, .. } if watch == "Secret@broken"),
                "{error}"
            );
            assert!(world.cluster.cache().stats().is_empty(), "{:?}", world.cluster.cache().stats());
            assert!(!controller.is_running() && controller.waiting_for().is_empty());
        }
    });
}

#[test]
fn a_controller_may_wait_as_long_as_it_takes() {
    World::run(6, |world| async move {
        world.forbid("configmaps");
        let controller =
            world.cluster.controller::<ConfigMap>().sync_timeout(Duration::MAX).build(nothing).unwrap();
        controller.start().unwrap();
        world.clock.sleep(Duration::from_hours(48)).await;
        assert!(controller.is_running() && !controller.is_ready());
        assert_eq!(controller.waiting_for().len(), 1);
        world.heal();
        controller.wait_ready().await.unwrap();
    });
}

/// A config map with a required value, which the server does not know.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StrictMap {
    metadata: ObjectMeta,
    data: Data,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Data {
    value: String,
}

impl Resource for StrictMap {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[test]
fn an_object_that_cannot_be_read_does_not_stop_the_others() {
    World::run(2, |world| async move {
        world.create("bad").await;
        world.create_map(&json!({"metadata": {"name": "good"}, "data": {"value": "1"}})).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let written = seen.clone();
        let controller = world
            .cluster
            .controller::<StrictMap>()
            .build(move |_: Context, map: Arc<StrictMap>| {
                written.lock().unwrap().push(map.metadata.name.clone().unwrap_or_default());
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        world.create("worse").await;
        world.create_map(&json!({"metadata": {"name": "better"}, "data": {"value": "1"}})).await;
        world.settle().await;
        assert_eq!(*seen.lock().unwrap(), ["good", "better"]);
        // Once it can be decoded, it is reconciled like the others.
        world.touch("bad", "1").await;
        world.settle().await;
        assert_eq!(*seen.lock().unwrap(), ["good", "better", "bad"]);
    });
}

#[test]
fn a_predicate_that_panics_for_one_object_does_not_keep_the_controller_from_beginning() {
    World::run(3, |world| async move {
        let notes = crate::world::Notes::default();
        let written = notes.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .for_filter(|change: &Change<'_, ConfigMap>| {
                assert_ne!(change.meta().name.as_deref(), Some("poison"), "on purpose");
                true
            })
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        for name in ["a", "poison", "z"] {
            world.create(name).await;
        }
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a", "default/z"]);
    });
}

#[test]
fn a_controller_whose_cluster_was_not_started_says_so() {
    World::run(4, |world| async move {
        let other = bowline_runtime::Cluster::new(&world.scope().spawner(), world.client.clone()).unwrap();
        let controller =
            other.controller::<ConfigMap>().sync_timeout(Duration::from_secs(5)).build(nothing).unwrap();
        let error = controller.run().await.unwrap_err().to_string();
        assert_eq!(
            error,
            "the controller \"configmap\" could not begin within 5s, because it waits for configmaps (v1) in all \
             namespaces (stopped: call `Cluster::start`)"
        );
    });
}
