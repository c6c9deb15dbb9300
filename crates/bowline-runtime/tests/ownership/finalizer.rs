//! Finalizers are put on, run in order, and taken off.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_runtime::finalizer::{self, Finalized, FinalizerError, Finalizers, InvalidFinalizer};
use bowline_runtime::{Client, ErrorPredicates as _, terminal};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use serde_json::json;

use crate::world::{World, key};

type Log = Arc<Mutex<Vec<&'static str>>>;

/// A finalizer that says that it ran.
fn logged(
    log: &Log,
    name: &'static str,
) -> impl Fn(Client, Arc<ConfigMap>) -> std::future::Ready<bowline_runtime::Result<()>> + use<> {
    let log = log.clone();
    move |_, _| {
        log.lock().expect("nobody panics with it").push(name);
        std::future::ready(Ok(()))
    }
}

async fn fresh(world: &World, map: &ConfigMap) -> Arc<ConfigMap> {
    world.client().get::<ConfigMap>(&key(map)).await.expect("it is there")
}

fn finalizers(map: &ConfigMap) -> Vec<&str> {
    map.metadata.finalizers.iter().flatten().map(String::as_str).collect()
}

#[test]
fn an_object_that_lives_gets_the_finalizers_and_one_that_has_them_is_not_written() {
    World::run(|world| async move {
        let log = Log::default();
        let all = Finalizers::new().register("example.com/b", logged(&log, "b")).unwrap();
        let all = all.register("example.com/a", logged(&log, "a")).unwrap();
        let map = Arc::new(world.map("m", json!({"finalizers": ["other.org/x"]})).await);
        let Finalized::Alive(map) = all.run(world.client(), &map).await.unwrap() else { panic!("it lives") };
        assert_eq!(finalizers(&map), ["other.org/x", "example.com/b", "example.com/a"]);
        assert_eq!(world.writes(), ["Patch configmaps"], "all in one write");
        let Finalized::Alive(again) = all.run(world.client(), &map).await.unwrap() else {
            panic!("it lives")
        };
        assert_eq!(again.metadata.resource_version, map.metadata.resource_version);
        assert!(world.writes().is_empty() && log.lock().unwrap().is_empty());
    });
}

#[test]
fn finalizers_run_in_the_order_of_their_registration_and_others_stay() {
    World::run(|world| async move {
        let log = Log::default();
        let mut all = Finalizers::new();
        for name in ["c", "a", "b"] {
            all = all.register(&format!("example.com/{name}"), logged(&log, name)).unwrap();
        }
        let map = world
            .map(
                "m",
                json!({"finalizers": ["example.com/a", "other.org/x", "example.com/b", "example.com/c"]}),
            )
            .await;
        world.maps().delete("m", &DeleteParams::default()).await.unwrap();
        let map = fresh(&world, &map).await;
        assert!(matches!(all.run(world.client(), &map).await.unwrap(), Finalized::Done));
        assert_eq!(*log.lock().unwrap(), ["c", "a", "b"]);
        let left = fresh(&world, &map).await;
        assert_eq!(finalizers(&left), ["other.org/x"]);
        world.writes();
        assert!(matches!(all.run(world.client(), &left).await.unwrap(), Finalized::Done));
        assert_eq!(log.lock().unwrap().len(), 3, "what was done is not done again");
        assert!(world.writes().is_empty());
    });
}

#[test]
fn the_last_finalizer_lets_the_object_go() {
    World::run(|world| async move {
        let log = Log::default();
        let all = Finalizers::new().register("example.com/a", logged(&log, "a")).unwrap();
        let map = world.map("m", json!({"finalizers": ["example.com/a"]})).await;
        world.maps().delete("m", &DeleteParams::default()).await.unwrap();
        let map = fresh(&world, &map).await;
        assert!(matches!(all.run(world.client(), &map).await.unwrap(), Finalized::Done));
        assert!(world.client().find::<ConfigMap>(&key(&*map)).await.unwrap().is_none());
        assert!(matches!(all.run(world.client(), &map).await.unwrap(), Finalized::Done), "from an old cache");
    });
}

#[test]
fn a_finalizer_that_fails_is_named_and_stays_with_those_after_it() {
    World::run(|world| async move {
        let log = Log::default();
        let all = Finalizers::new().register("example.com/a", logged(&log, "a")).unwrap();
        let all = all
            .register("example.com/b", |_: Client, _: Arc<ConfigMap>| async {
                Err(terminal("the account is locked"))
            })
            .unwrap();
        let all = all.register("example.com/c", logged(&log, "c")).unwrap();
        let map =
            world.map("m", json!({"finalizers": ["example.com/a", "example.com/b", "example.com/c"]})).await;
        world.maps().delete("m", &DeleteParams::default()).await.unwrap();
        let map = fresh(&world, &map).await;
        let error = all.run(world.client(), &map).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "finalizer example.com/b of ConfigMap default/m failed: terminal error: the account is locked"
        );
        assert!(error.is_terminal());
        assert_eq!(*log.lock().unwrap(), ["a"]);
        assert_eq!(finalizers(&*fresh(&world, &map).await), ["example.com/b", "example.com/c"]);
    });
}

#[test]
fn what_others_put_on_meanwhile_is_not_lost() {
    World::run(|world| async move {
        let map = Arc::new(world.map("m", json!({})).await);
        world.meddle("m", [json!({"metadata": {"finalizers": ["other.org/x"]}})]);
        let map = finalizer::attach(world.client(), &map, "example.com/a").await.unwrap();
        assert_eq!(finalizers(&map), ["other.org/x", "example.com/a"]);
        world.meddle(
            "m",
            [json!({"metadata": {"finalizers": ["other.org/y", "example.com/a", "other.org/x"]}})],
        );
        let map = finalizer::detach(world.client(), &map, "example.com/a").await.unwrap().unwrap();
        assert_eq!(finalizers(&map), ["other.org/y", "other.org/x"]);
    });
}

#[test]
fn finalizers_that_are_put_on_together_survive_a_conflict_and_are_named_in_an_error() {
    World::run(|world| async move {
        let log = Log::default();
        let all = Finalizers::new().register("example.com/a", logged(&log, "a")).unwrap();
        let all = all.register("example.com/b", logged(&log, "b")).unwrap();
        let all = all.register("example.com/c", logged(&log, "c")).unwrap();
        let map = Arc::new(world.map("m", json!({"finalizers": ["example.com/b"]})).await);
        world.meddle("m", (0..100).map(|number| json!({"data": {"x": number.to_string()}})));
        let error = all.run(world.client(), &map).await.unwrap_err();
        assert!(error.to_string().starts_with("finalizer example.com/a, example.com/c: patch "), "{error}");
        // Another takes off the one that was there.
        world.meddle("m", [json!({"metadata": {"finalizers": ["other.org/x"]}})]);
        let Finalized::Alive(map) = all.run(world.client(), &map).await.unwrap() else { panic!("it lives") };
        assert_eq!(finalizers(&map), ["other.org/x", "example.com/a", "example.com/b", "example.com/c"]);
    });
}

#[test]
fn conflicts_without_end_are_an_error_that_names_the_finalizer() {
    World::run(|world| async move {
        let map = Arc::new(world.map("m", json!({})).await);
        world.meddle("m", (0..100).map(|number| json!({"data": {"x": number.to_string()}})));
        let error = finalizer::attach(world.client(), &map, "example.com/a").await.unwrap_err();
        assert!(error.to_string().starts_with("finalizer example.com/a: patch configmaps"), "{error}");
        assert!(matches!(error, FinalizerError::Client { source, .. } if source.is_conflict()));
        assert_eq!(world.writes().len(), 5);
        world.clock.sleep(Duration::from_millis(1)).await;
    });
}

#[test]
fn an_object_that_was_made_again_is_not_finalized_for_the_one_before() {
    World::run(|world| async move {
        let old = Arc::new(world.map("m", json!({"finalizers": ["example.com/a"]})).await);
        world.maps().delete("m", &DeleteParams::default()).await.unwrap();
        finalizer::detach(world.client(), &fresh(&world, &old).await, "example.com/a").await.unwrap();
        let new = world.map("m", json!({"finalizers": ["example.com/a"]})).await;
        assert!(finalizer::detach(world.client(), &old, "example.com/a").await.is_err());
        assert_eq!(finalizers(&*fresh(&world, &new).await), ["example.com/a"]);
    });
}

#[test]
fn a_finalizer_needs_a_domain_and_is_registered_once() {
    World::run(|world| async move {
        let log = Log::default();
        let none = || Finalizers::<ConfigMap>::new();
        assert!(matches!(none().register("plain", logged(&log, "")), Err(InvalidFinalizer::Key { .. })));
        assert!(matches!(none().register("a b/c", logged(&log, "")), Err(InvalidFinalizer::Key { .. })));
        let one = none().register("example.com/a", logged(&log, "")).unwrap();
        let error = one.register("example.com/a", logged(&log, "")).unwrap_err();
        assert_eq!(error.to_string(), "finalizer example.com/a is registered already");
        assert!(world.writes().is_empty());
    });
}
