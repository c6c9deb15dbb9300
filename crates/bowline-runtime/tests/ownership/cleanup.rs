//! A reconciler with a cleanup: which of the two runs in which phase of an object.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_runtime::finalizer::{self, Cleanup, CleanupReconciler, InvalidFinalizer};
use bowline_runtime::{Action, Context, Controller, Error, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::world::World;

const KEY: &str = "example.com/account";

type Log = Arc<Mutex<Vec<String>>>;

/// Results of cleanups, the last one first. Without one, a cleanup is done.
type Script = Arc<Mutex<Vec<Result<Cleanup>>>>;

fn reconciler(log: &Log, script: &Script) -> CleanupReconciler<ConfigMap> {
    let (seen, cleaned, script) = (log.clone(), log.clone(), script.clone());
    let reconcile = move |_: Context, map: Arc<ConfigMap>| {
        seen.lock().expect("no holder panics").push(format!("reconcile {}", finalizers(&map).join(",")));
        async { Ok::<_, Error>(Action::done()) }
    };
    let cleanup = move |_: Context, map: Arc<ConfigMap>| {
        cleaned.lock().expect("no holder panics").push(format!("cleanup {}", finalizers(&map).join(",")));
        let result = script.lock().expect("no holder panics").pop().unwrap_or(Ok(Cleanup::Done));
        async { result }
    };
    finalizer::with_cleanup(KEY, reconcile, cleanup).expect("a key")
}

fn finalizers(map: &ConfigMap) -> Vec<&str> {
    map.metadata.finalizers.iter().flatten().map(String::as_str).collect()
}

async fn start(world: &World, log: &Log, script: &Script) -> Controller {
    let controller = world.cluster.controller::<ConfigMap>();
    let controller = controller.build(reconciler(log, script)).expect("it can be built");
    controller.start().expect("it starts");
    settle(world).await;
    controller
}

async fn settle(world: &World) {
    world.clock.sleep(Duration::from_millis(500)).await;
}

fn take(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().expect("no holder panics"))
}

async fn delete(world: &World) {
    world.maps().delete("m", &DeleteParams::default()).await.expect("deleted");
    settle(world).await;
}

async fn exists(world: &World) -> bool {
    world.maps().get_opt("m").await.expect("an answer").is_some()
}

#[test]
fn the_finalizer_is_added_before_the_first_reconcile_and_removed_after_cleanup() {
    World::run(|world| async move {
        let (log, script) = (Log::default(), Script::default());
        world.map("m", json!({})).await;
        let _controller = start(&world, &log, &script).await;
        let runs = take(&log);
        assert!(!runs.is_empty() && runs.iter().all(|run| *run == format!("reconcile {KEY}")), "{runs:?}");
        assert_eq!(world.writes(), ["Patch configmaps"]);
        delete(&world).await;
        assert_eq!(take(&log), [format!("cleanup {KEY}")]);
        assert!(!exists(&world).await);
    });
}

#[test]
fn cleanup_runs_until_it_is_done() {
    World::run(|world| async move {
        let (log, script) = (Log::default(), Script::default());
        world.map("m", json!({"finalizers": [KEY]})).await;
        let _controller = start(&world, &log, &script).await;
        take(&log);
        let wait = Cleanup::Wait(Action::requeue_after(Duration::from_secs(60)));
        *script.lock().expect("no holder panics") = vec![Ok(wait), Err(Error::message("the bank is closed"))];
        delete(&world).await;
        assert_eq!(take(&log).len(), 2, "an error is retried soon, a wait as it says");
        assert!(exists(&world).await);
        world.clock.sleep(Duration::from_secs(58)).await;
        assert!(take(&log).is_empty());
        world.clock.sleep(Duration::from_secs(3)).await;
        assert_eq!(take(&log), [format!("cleanup {KEY}")]);
        assert!(!exists(&world).await);
    });
}

#[test]
fn finalizers_of_others_stay_and_neither_function_runs_for_them() {
    World::run(|world| async move {
        let (log, script) = (Log::default(), Script::default());
        world.map("m", json!({"finalizers": ["other.org/x"]})).await;
        let _controller = start(&world, &log, &script).await;
        take(&log);
        delete(&world).await;
        assert_eq!(take(&log), [format!("cleanup other.org/x,{KEY}")]);
        let left = world.maps().get("m").await.unwrap();
        assert_eq!(finalizers(&left), ["other.org/x"]);
        let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
        world.maps().patch("m", &PatchParams::default(), &label).await.unwrap();
        settle(&world).await;
        assert!(take(&log).is_empty(), "it was cleaned up");
    });
}

#[test]
fn an_object_that_was_never_reconciled_is_not_cleaned_up() {
    World::run(|world| async move {
        let (log, script) = (Log::default(), Script::default());
        world.map("m", json!({"finalizers": ["other.org/x"]})).await;
        // It is deleted after the controller read it, before the finalizer is written.
        let maps = world.maps();
        world.before_next_write(move || async move {
            maps.delete("m", &DeleteParams::default()).await.expect("deleted");
        });
        let _controller = start(&world, &log, &script).await;
        assert!(take(&log).is_empty());
        let left = world.maps().get("m").await.unwrap();
        assert_eq!(finalizers(&left), ["other.org/x"], "no finalizer is added to it");
        assert_eq!(world.cluster.history().failures().total, 0);
    });
}

#[test]
fn finalizers_that_others_write_at_the_same_time_are_kept() {
    World::run(|world| async move {
        let (log, script) = (Log::default(), Script::default());
        world.map("m", json!({})).await;
        world.meddle("m", [json!({"metadata": {"finalizers": ["other.org/x"]}})]);
        let _controller = start(&world, &log, &script).await;
        assert_eq!(take(&log)[0], format!("reconcile other.org/x,{KEY}"));
        delete(&world).await;
        assert_eq!(finalizers(&world.maps().get("m").await.unwrap()), ["other.org/x"]);
    });
}

#[test]
fn a_key_without_a_domain_is_refused() {
    let cleanup = |_: Context, _: Arc<ConfigMap>| async { Ok::<_, Error>(Cleanup::Done) };
    let reconcile = |_: Context, _: Arc<ConfigMap>| async { Ok::<_, Error>(Action::done()) };
    let error = finalizer::with_cleanup("account", reconcile, cleanup).unwrap_err();
    assert!(matches!(error, InvalidFinalizer::Key { .. }), "{error}");
}
