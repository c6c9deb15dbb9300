//! What a reconciler returns, and what comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_runtime::{Action, Context, Error, Request, Result, terminal};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{Notes, World, noting};

#[test]
fn an_object_is_reconciled_when_it_is_found_created_changed_and_deleted() {
    World::run(1, |world| async move {
        world.create("old").await;
        let (_controller, notes) = noting(&world).await;
        world.settle().await;
        world.create("new").await;
        world.settle().await;
        world.touch("new", "1").await;
        world.settle().await;
        world.delete("new").await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/old", "default/new", "default/new", "default/new"]);
        let triggers = ["ConfigMap found", "ConfigMap created", "ConfigMap updated", "ConfigMap deleted"];
        assert_eq!(notes.triggers(), triggers);
    });
}

#[test]
fn a_reconciler_of_objects_gets_the_object_and_is_not_called_for_one_that_is_gone() {
    World::run(2, |world| async move {
        world.create("a").await;
        let names = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = names.clone();
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(move |_: Context, map: Arc<ConfigMap>| {
                seen.lock().unwrap().push(map.metadata.name.clone().unwrap_or_default());
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.ready().await.unwrap();
        world.settle().await;
        world.delete("a").await;
        world.settle().await;
        assert_eq!(*names.lock().unwrap(), ["a"]);
        assert_eq!(
            world.journal(),
            ["default/a: done (ConfigMap found)", "default/a: gone (ConfigMap deleted)"]
        );
    });
}

#[test]
fn backoff_grows_with_each_error_and_begins_anew_after_a_success() {
    World::run(3, |world| async move {
        let notes = Notes::default();
        let (written, calls) = (notes.clone(), AtomicU32::new(0));
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                let call = calls.fetch_add(1, Ordering::Relaxed);
                // Four failures, a success, one failure, a success.
                let fails = call < 4 || call == 5;
                async move { if fails { Err(Error::message("not yet")) } else { Ok(Action::done()) } }
            })
            .unwrap();
        controller.start().unwrap();
        controller.ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        world.touch("a", "1").await;
        world.settle().await;
        let notes = notes.all();
        let gaps: Vec<_> = notes.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_millis()).collect();
        assert_eq!(gaps[..4], [5, 10, 20, 40], "{gaps:?}");
        assert_eq!(gaps[5], 5, "{gaps:?}");
        let attempts: Vec<_> = notes.iter().map(|note| note.attempt).collect();
        assert_eq!(attempts, [1, 2, 3, 4, 5, 1, 2]);
    });
}

#[test]
fn a_terminal_error_is_counted_and_not_retried() {
    World::run(4, |world| async move {
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(|_: Context, _: Request| async { Result::<Action>::Err(terminal("never")) })
            .unwrap();
        controller.start().unwrap();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            world.journal(),
            ["default/a: failed for good: terminal error: never (ConfigMap created)"]
        );
        let metric = |name| world.metric(&format!("controller_runtime_{name}{{controller=\"configmap\"}}"));
        assert_eq!(metric("terminal_reconcile_errors_total"), 1.0);
        assert_eq!(metric("reconcile_errors_total"), 1.0);
    });
}
