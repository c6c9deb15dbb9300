//! Options of a controller: values for the reconciler, concurrency, and kinds that it owns with predicates.

use std::sync::{Arc, Mutex};

use bowline_cache::Kind;
use bowline_runtime::predicate::labels_changed;
use bowline_runtime::{Action, BuildError, Context, Error, ReconcileOutcome, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::world::{Notes, World, nothing};

struct Greeting(&'static str);

/// A plain function, which gets its values from the controller.
async fn greet(ctx: Context, map: Arc<ConfigMap>) -> bowline_runtime::Result<Action> {
    let (Greeting(greeting), log) = (ctx.state(), ctx.state::<Arc<Mutex<Vec<String>>>>());
    let name = map.metadata.name.as_deref().unwrap_or_default();
    log.lock().expect("not poisoned").push(format!("{greeting} {name}"));
    Ok(Action::done())
}

#[test]
fn a_plain_function_reads_the_values_that_its_controller_was_given() {
    World::run(1, |world| async move {
        let log = Arc::new(Mutex::new(Vec::<String>::new()));
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .state(Greeting("replaced by the next of its type"))
            .state(Greeting("hello"))
            .state(log.clone())
            .build(greet)
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(world.history(), ["default/a: done (ConfigMap created)"]);
        assert_eq!(*log.lock().unwrap(), ["hello a"]);
    });
}

#[test]
fn a_value_that_the_controller_was_not_given_fails_the_reconcile_with_its_type_and_the_remedy() {
    World::run(2, |world| async move {
        let controller =
            world.cluster.controller::<ConfigMap>().state(Greeting("hello")).build(greet).unwrap();
        controller.start().unwrap();
        world.create("a").await;
        world.settle().await;
        let runs = world.cluster.history().runs();
        let ReconcileOutcome::Panicked(text) = &runs[0].outcome else { panic!("{:?}", runs[0]) };
        for part in [
            "the controller \"configmap\" has no state of type `",
            "Mutex<",
            "call `.state(..)` on its builder",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(controller.is_running(), "other objects are reconciled");
    });
}

#[test]
fn a_concurrency_of_zero_is_an_error_that_names_the_controller_and_the_remedy() {
    World::run(3, |world| async move {
        let error = world.cluster.controller::<ConfigMap>().concurrency(0).build(nothing).unwrap_err();
        assert_eq!(error, BuildError::ZeroConcurrency { name: "configmap".to_owned() });
        assert_eq!(
            error.to_string(),
            "the controller \"configmap\" has a concurrency of 0, and would never reconcile: give `concurrency` at least 1, or \
             leave it out for 1"
        );
        // The name is free again.
        world.cluster.controller::<ConfigMap>().concurrency(2).build(nothing).unwrap();
    });
}

#[test]
fn a_kind_that_is_owned_with_a_predicate_causes_a_reconcile_only_if_that_accepts() {
    World::run(4, |world| async move {
        let parent = world.create("parent").await;
        let notes = Notes::default();
        let written = notes.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .owns_with(Kind::<Secret>::typed(), |secrets| secrets.filter(labels_changed()))
            .build(move |ctx: Context, request: Request| {
                written.write(&ctx, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": parent.metadata.uid, "controller": true,
        });
        let child = json!({"metadata": {"name": "child", "ownerReferences": [owner]}});
        let secrets = Api::<Secret>::default_namespaced(world.client.clone());
        let child = serde_json::from_value(child).unwrap();
        secrets.create(&PostParams::default(), &child).await.unwrap();
        world.settle().await;
        for patch in [json!({"stringData": {"a": "1"}}), json!({"metadata": {"labels": {"a": "1"}}})] {
            let patch = Patch::Merge(&patch);
            secrets.patch("child", &PatchParams::default(), &patch).await.unwrap();
            world.settle().await;
        }
        let child = "Secret default/child";
        assert_eq!(
            notes.triggers(),
            ["ConfigMap initial".to_owned(), format!("{child} created"), format!("{child} updated")]
        );
        assert_eq!(notes.requests(), ["default/parent"; 3]);
    });
}
