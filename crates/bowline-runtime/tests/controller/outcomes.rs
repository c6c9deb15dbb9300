//! Results of a reconciler and their effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bowline_runtime::{Action, Context, Error, ReconcileOutcome, Request, Result, terminal};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

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
        let triggers = ["ConfigMap initial", "ConfigMap created", "ConfigMap updated", "ConfigMap deleted"];
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
        controller.wait_ready().await.unwrap();
        world.settle().await;
        world.delete("a").await;
        world.settle().await;
        assert_eq!(*names.lock().unwrap(), ["a"]);
        assert_eq!(
            world.history(),
            ["default/a: done (ConfigMap initial)", "default/a: gone (ConfigMap deleted)"]
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
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        world.touch("a", "1").await;
        world.settle().await;
        let notes = notes.all();
        let gaps: Vec<_> =
            notes.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_millis()).collect();
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
        assert_eq!(world.history(), ["default/a: failed for good: never (ConfigMap created)"]);
        let metric = |name| world.metric(&format!("controller_runtime_{name}{{controller=\"configmap\"}}"));
        assert_eq!(metric("terminal_reconcile_errors_total"), 1);
        assert_eq!(metric("reconcile_errors_total"), 1);
    });
}

#[test]
fn retries_end_at_the_maximum_and_the_hook_is_called() {
    World::run(5, |world| async move {
        let given_up = Arc::new(std::sync::Mutex::new(Vec::new()));
        let calls = given_up.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .max_retries(3, move |exhausted| {
                calls
                    .lock()
                    .unwrap()
                    .push(format!("{} after {}: {}", exhausted.request, exhausted.attempts, exhausted.error));
            })
            .build(|_: Context, _: Request| async { Result::<Action>::Err(Error::message("never")) })
            .unwrap();
        controller.start().unwrap();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(*given_up.lock().unwrap(), ["default/a after 4: never"]);
        let failed = "default/a: failed: never (ConfigMap created)";
        assert_eq!(
            world.history(),
            [failed, failed, failed, "default/a: retries exhausted: never (ConfigMap created)"]
        );
        // A change of the object starts over, with the shortest delay.
        world.touch("a", "1").await;
        world.settle().await;
        let runs = world.cluster.history().runs();
        assert_eq!(runs.len(), 8);
        let gap = runs[5].started.duration_since(runs[4].started).unwrap();
        assert_eq!((runs[4].attempt, gap), (1, Duration::from_millis(5)));
        assert_eq!(runs[4].triggers.to_string(), "ConfigMap updated");
    });
}

#[test]
fn a_panic_is_counted_and_retried() {
    World::run(6, |world| async move {
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(|context: Context, _: Request| async move {
                assert!(context.attempt() > 1, "on purpose");
                Ok::<_, Error>(Action::done())
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(
            world.history(),
            [
                "default/a: panicked: the reconciler panicked: on purpose (ConfigMap created)",
                "default/a: done (ConfigMap created)"
            ]
        );
        let metric = |name| world.metric(&format!("controller_runtime_{name}{{controller=\"configmap\"}}"));
        assert_eq!((metric("reconcile_panics_total"), metric("reconcile_errors_total")), (1, 1));
    });
}

#[test]
fn a_function_that_panics_before_it_is_awaited_is_caught_too() {
    World::run(7, |world| async move {
        let calls = AtomicU32::new(0);
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(move |_: Context, _: Request| {
                assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(world.history().pop().unwrap(), "default/a: done (ConfigMap created)");
    });
}

#[test]
fn backing_off_is_no_error_and_waits_longer_each_time() {
    World::run(8, |world| async move {
        let calls = AtomicU32::new(0);
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(move |context: Context, _: Request| {
                assert_eq!(context.attempt(), 1, "nothing failed");
                let is_last = calls.fetch_add(1, Ordering::Relaxed) == 3;
                async move { Ok::<_, Error>(if is_last { Action::done() } else { Action::back_off() }) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let runs = world.cluster.history().runs();
        let gaps: Vec<_> = runs
            .windows(2)
            .map(|pair| pair[1].started.duration_since(pair[0].started).unwrap().as_millis())
            .collect();
        assert_eq!(gaps, [5, 10, 20]);
        let errors = "controller_runtime_reconcile_errors_total{controller=\"configmap\"}";
        assert_eq!(world.metric(errors), 0);
    });
}

#[test]
fn a_reconciler_of_objects_is_never_given_one_older_than_what_it_wrote() {
    World::run(10, |world| async move {
        world.create_map(&json!({"metadata": {"name": "a"}, "data": {"count": "0"}})).await;
        let controller = world.cluster.controller::<ConfigMap>();
        let controller = controller
            .build(|context: Context, map: Arc<ConfigMap>| async move {
                let mut map = (*map).clone();
                let data = map.data.get_or_insert_default();
                let count: u32 = data["count"].parse()?;
                if count == 5 {
                    return Ok(Action::done());
                }
                data.insert("count".to_owned(), (count + 1).to_string());
                context.client().update(&map).await?;
                Ok::<_, Error>(Action::requeue_after(Duration::ZERO))
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.slow_down(Duration::from_secs(1));
        world.clock.sleep(Duration::from_secs(60)).await;
        let map = world.maps().get("a").await.unwrap();
        assert_eq!(map.data.unwrap()["count"], "5");
        let errors = "controller_runtime_reconcile_errors_total{controller=\"configmap\"}";
        assert_eq!(world.metric(errors), 0, "there was no conflict: {:#?}", world.history());
    });
}

#[test]
fn what_panics_when_it_is_dropped_loses_no_request() {
    struct Bomb(bool);

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0, "on purpose");
        }
    }

    World::run(11, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .timeout(Duration::from_secs(1))
            .build(|context: Context, _: Request| async move {
                let is_first = context.attempt() == 1;
                let _bomb = Bomb(is_first);
                if is_first {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Error>(Action::done())
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(5)).await;
        let panicked = "default/a: panicked: the reconciler panicked: when it was dropped: on purpose";
        assert_eq!(
            world.history(),
            [format!("{panicked} (ConfigMap created)"), "default/a: done (ConfigMap created)".to_owned()]
        );
        let metric = |name| world.metric(&format!("controller_runtime_{name}{{controller=\"configmap\"}}"));
        assert_eq!((metric("reconcile_panics_total"), metric("reconcile_timeouts_total")), (1, 0));
    });
}

#[test]
fn only_errors_count_towards_the_maximum_of_retries_and_backing_off_begins_their_count_anew() {
    World::run(12, |world| async move {
        let calls = AtomicU32::new(0);
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .max_retries(2, |_| {})
            .build(move |_: Context, _: Request| {
                // It backs off four times, fails twice, backs off once, and then fails for ever.
                let fails = !matches!(calls.fetch_add(1, Ordering::Relaxed), 0..4 | 6);
                async move { if fails { Err(Error::message("no")) } else { Ok(Action::back_off()) } }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.clock.sleep(Duration::from_secs(60)).await;
        let runs = world.cluster.history().runs();
        let outcomes: Vec<_> = runs.iter().map(|run| run.outcome.to_string()).collect();
        let (back, failed) = ("again, backing off", "failed: no");
        assert_eq!(
            outcomes,
            [back, back, back, back, failed, failed, back, failed, failed, "retries exhausted: no"]
        );
        let attempts: Vec<_> = runs.iter().map(|run| run.attempt).collect();
        assert_eq!(attempts, [1, 1, 1, 1, 1, 2, 3, 1, 2, 3]);
        // The delays grow nevertheless.
        let gaps: Vec<_> = runs
            .windows(2)
            .map(|pair| pair[1].started.duration_since(pair[0].started).unwrap().as_millis())
            .collect();
        assert_eq!(gaps, [5, 10, 20, 40, 80, 160, 320, 640, 1280]);
    });
}

#[test]
fn an_error_that_panics_when_it_is_shown_loses_no_request() {
    #[derive(Debug)]
    struct Unspeakable;

    impl std::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("on purpose")
        }
    }

    impl std::error::Error for Unspeakable {}

    World::run(13, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(|context: Context, _: Request| async move {
                if context.attempt() == 1 { Err(Unspeakable) } else { Ok(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let panicked =
            "default/a: panicked: the reconciler panicked: its error when it was shown: on purpose";
        assert_eq!(
            world.history(),
            [format!("{panicked} (ConfigMap created)"), "default/a: done (ConfigMap created)".to_owned()]
        );
    });
}

#[test]
fn a_history_keeps_no_more_of_an_error_than_a_kilobyte() {
    World::run(14, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(|_: Context, _: Request| async { Result::<Action>::Err(terminal("é".repeat(100_000))) })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let ReconcileOutcome::Terminal(text) = world.cluster.history().runs().remove(0).outcome else {
            panic!("it fails")
        };
        assert!((1000..=1024).contains(&text.len()), "{}", text.len());
        assert!(text.ends_with("é…"), "{text}");
    });
}

/// Every form of a reconciler can be built.
mod forms {
    use super::*;
    use bowline_runtime::{ObjectReconciler, Reconciler};

    struct ByRequest;

    impl Reconciler for ByRequest {
        type Error = std::io::Error;

        async fn reconcile(&self, _: Context, request: Request) -> std::io::Result<Action> {
            Err(std::io::Error::other(format!("{request} by request")))
        }
    }

    struct ByObject;

    impl ObjectReconciler<ConfigMap> for ByObject {
        type Error = std::convert::Infallible;

        async fn reconcile(
            &self,
            _: Context,
            _: Arc<ConfigMap>,
        ) -> std::result::Result<Action, std::convert::Infallible> {
            Ok(Action::done())
        }
    }

    async fn function_of_object(_: Context, _: Arc<ConfigMap>) -> Result<Action> {
        Ok(Action::done())
    }

    #[test]
    fn types_functions_and_closures_of_both_shapes_are_reconcilers() {
        World::run(9, |world| async move {
            world.create("a").await;
            let builder = |name: &str| world.cluster.controller::<ConfigMap>().named(name);
            let all = [
                builder("a").build(ByRequest).unwrap(),
                builder("b").build(ByObject).unwrap(),
                builder("c").build(function_of_object).unwrap(),
                builder("d").build(crate::world::nothing).unwrap(),
                builder("e")
                    .build(|_: Context, _: Arc<ConfigMap>| async {
                        Err::<Action, Box<dyn std::error::Error + Send + Sync>>("boxed".into())
                    })
                    .unwrap(),
            ];
            for controller in &all {
                controller.start().unwrap();
                controller.wait_ready().await.unwrap();
            }
            let first = world.history();
            assert!(
                first.contains(&"default/a: failed: default/a by request (ConfigMap initial)".to_owned())
            );
            assert!(first.contains(&"default/a: failed: boxed (ConfigMap initial)".to_owned()), "{first:?}");
        });
    }
}
