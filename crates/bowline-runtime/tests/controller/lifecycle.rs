//! Start, stop and restart of controllers, and what they release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bowline_runtime::{
    Action, BuildError, Cluster, Context, Controller, ControllerError, Error, Request, StopReport, Watch,
    handler, source,
};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{Notes, World, nothing, noting};

#[test]
fn a_controller_is_named_after_its_kind_and_no_two_of_a_cluster_have_one_name() {
    World::run(1, |world| async move {
        let first = world.cluster.controller::<ConfigMap>().build(nothing).unwrap();
        assert_eq!(first.name(), "configmap");
        let error = world.cluster.controller::<ConfigMap>().build(nothing).unwrap_err();
        assert_eq!(error, BuildError::NameTaken { name: "configmap".to_owned() });
        let text = error.to_string();
        assert!(text.starts_with("there is already a controller \"configmap\" on this cluster"), "{text}");
        assert!(text.ends_with("with `named`"), "{text}");
        let second = world.cluster.controller::<ConfigMap>().named("second").build(nothing).unwrap();
        assert_eq!(second.name(), "second");
        // Another cluster has its own names, and a controller that ended frees its name.
        let other = Cluster::new(&world.scope().spawner(), world.client.clone()).unwrap();
        other.controller::<ConfigMap>().build(nothing).unwrap();
        drop(first);
        world.cluster.controller::<ConfigMap>().build(nothing).unwrap();
    });
}

#[test]
fn a_controller_needs_a_name_and_something_to_watch() {
    World::run(2, |world| async move {
        let unnamed = Controller::builder(&world.cluster).build(nothing);
        assert_eq!(unnamed.unwrap_err(), BuildError::NoName);
        let idle = Controller::builder(&world.cluster).named("idle").build(nothing);
        assert_eq!(idle.unwrap_err(), BuildError::NothingToWatch { name: "idle".to_owned() });
    });
}

#[test]
fn a_controller_that_was_stopped_sees_all_anew_when_it_is_started_again() {
    World::run(3, |world| async move {
        world.create("a").await;
        let (controller, notes) = noting(&world).await;
        world.settle().await;
        assert_eq!(
            controller.start().unwrap_err().to_string(),
            "the controller \"configmap\" is already running: stop it before it is started again"
        );
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
        assert!(!controller.is_running() && !controller.is_ready());
        world.create("b").await;
        world.settle().await;
        assert_eq!(notes.requests(), ["default/a"], "nothing runs while it is stopped");
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(notes.requests()[1..], ["default/a", "default/b"]);
        world.touch("a", "1").await;
        world.settle().await;
        assert_eq!(notes.triggers().pop().unwrap(), "ConfigMap updated");
        // A second stop does nothing.
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
    });
}

#[test]
fn a_stop_waits_for_what_runs_and_tells_it() {
    World::run(4, |world| async move {
        let is_finished = Arc::new(AtomicBool::new(false));
        let saw = is_finished.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(move |context: Context, _: Request| {
                let saw = saw.clone();
                async move {
                    context.cancellation().cancelled().await;
                    // It still has some work to finish.
                    context.clock().sleep(Duration::from_secs(5)).await;
                    saw.store(true, Ordering::Relaxed);
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.create("b").await;
        world.settle().await;
        let running = controller.reconciling();
        assert_eq!(running.len(), 1);
        assert_eq!(running[0].0, Request::new("default", "a"));
        let stopped = controller.stop().await.unwrap();
        assert!(is_finished.load(Ordering::Relaxed), "it was waited for");
        assert!(stopped.aborted().is_empty());
        assert_eq!(stopped.waiting(), 1, "the other one had not begun");
        assert!(controller.reconciling().is_empty());
    });
}

#[test]
fn a_stop_names_what_did_not_end_in_time() {
    World::run(5, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .stop_timeout(Duration::from_secs(3))
            .build(|_: Context, _: Request| std::future::pending::<Result<Action, Error>>())
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let before = world.clock.now();
        let stopped = controller.stop().await.unwrap();
        assert_eq!(world.clock.now().duration_since(before), Duration::from_secs(3));
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert_eq!(world.metric("controller_runtime_active_workers{controller=\"configmap\"}"), 0);
    });
}

#[test]
fn of_two_stops_the_one_that_is_over_first_counts() {
    World::run(17, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(|_: Context, _: Request| std::future::pending::<Result<Action, Error>>())
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.create("b").await;
        world.settle().await;
        let stats = controller.queue_stats();
        assert_eq!((stats.ready, stats.delayed, stats.processing), (1, 0, 1));
        assert_eq!(controller.watches(), ["ConfigMap"]);
        let before = world.clock.now();
        let hour = Duration::from_hours(1);
        let long = world.scope().spawn("long", {
            let controller = controller.clone();
            async move { controller.stop_within(hour).await }
        });
        world.clock.sleep(Duration::from_secs(5)).await;
        assert!(controller.is_running());
        let short = controller.stop_within(Duration::from_secs(2)).await;
        assert_eq!(world.clock.now().duration_since(before), Duration::from_secs(7));
        assert_eq!(short.as_ref().unwrap().aborted(), [Request::new("default", "a")]);
        assert_eq!(long.await.unwrap(), short);
        assert_eq!(controller.queue_stats().ready, 0);

        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        let before = world.clock.now();
        let stopped = controller.stop_within(Duration::ZERO).await.unwrap();
        assert_eq!(world.clock.now(), before);
        assert_eq!(
            (stopped.aborted().len(), stopped.waiting(), stopped.left_behind()),
            (1, 1, [].as_slice())
        );
    });
}

#[test]
fn a_reconcile_that_takes_too_long_is_dropped_counted_and_tried_again() {
    World::run(6, |world| async move {
        let calls = Arc::new(AtomicU32::new(0));
        let called = calls.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .timeout(Duration::from_secs(7))
            .build(move |context: Context, _: Request| {
                let call = called.fetch_add(1, Ordering::Relaxed);
                async move {
                    // Not its own deadline: a timeout of one of its own calls is an error like any other.
                    if call == 1 {
                        context.clock().timeout(Duration::ZERO, std::future::pending::<()>()).await?;
                    }
                    if call == 0 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Error>(Action::done())
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.until("it is done", || calls.load(Ordering::Relaxed) == 3).await;
        assert_eq!(
            world.history(),
            [
                "default/a: took too long (ConfigMap created)",
                "default/a: failed: not done within 0ns (ConfigMap created)",
                "default/a: done (ConfigMap created)",
            ]
        );
        let runs = world.cluster.history().runs();
        assert_eq!(runs[0].took, Duration::from_secs(7));
        let metric = |name| world.metric(&format!("controller_runtime_{name}{{controller=\"configmap\"}}"));
        assert_eq!(metric("reconcile_timeouts_total"), 1);
        assert_eq!(metric("reconcile_errors_total"), 2);
    });
}

#[test]
fn a_stop_while_the_controller_waits_for_what_it_watches_is_no_error() {
    World::run(7, |world| async move {
        world.forbid("configmaps");
        let controller = world.cluster.controller::<ConfigMap>().build(nothing).unwrap();
        let run = controller.clone();
        let running = world.scope().spawn("run", async move { run.run().await });
        world.settle().await;
        assert_eq!(controller.waiting_for().len(), 1);
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
        assert_eq!(running.await.unwrap(), Ok(()));
        assert!(controller.waiting_for().is_empty());
    });
}

#[test]
fn dropping_the_future_of_run_stops_the_controller() {
    World::run(8, |world| async move {
        let (controller, _) = noting(&world).await;
        let _ = controller.stop().await.unwrap();
        let _ = world.clock.timeout(Duration::from_secs(1), controller.run()).await;
        let _ = controller.wait_ended().await.unwrap();
        assert!(!controller.is_running());
    });
}

#[test]
fn a_controller_ends_with_the_scope_of_its_cluster() {
    World::run(9, |world| async move {
        let scope = world.clock.scope("short");
        let cluster = Cluster::new(&scope.spawner(), world.client.clone()).unwrap();
        cluster.start();
        let controller = cluster.controller::<ConfigMap>().build(nothing).unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        scope.abort();
        let error = controller.wait_ended().await.unwrap_err();
        assert_eq!(error, ControllerError::Aborted { controller: "configmap".to_owned() });
        assert!(!controller.is_running());
    });
}

#[test]
fn a_controller_that_may_not_survive_a_panic_ends_with_it() {
    World::run(10, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .recover_panics(false)
            .build(|_: Context, _: Request| async { panics() })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        let error = controller.wait_ended().await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("default/a") && text.contains("on purpose"), "{text}");
    });
}

fn panics() -> Result<Action, Error> {
    panic!("on purpose")
}

#[test]
fn no_reconcile_begins_after_a_stop_was_asked_for() {
    World::run(11, |world| async move {
        let (controller, notes) = noting(&world).await;
        // The worker wakes before the task that stops it.
        controller.trigger(Request::new("default", "a"));
        let stopped = controller.stop().await.unwrap();
        assert_eq!(notes.requests(), Vec::<String>::new());
        assert_eq!(stopped.waiting(), 1);
    });
}

#[test]
fn what_is_in_a_channel_when_a_controller_is_stopped_is_there_when_it_starts_again() {
    World::run(12, |world| async move {
        let (sender, source) = source::channel::<ConfigMap>("webhook");
        let notes = Notes::default();
        let written = notes.clone();
        let controller = Controller::builder(&world.cluster)
            .named("signalled")
            .watches(Watch::new(source, handler::object()))
            .build(move |context: Context, request: Request| {
                written.write(&context, &request);
                async { Ok::<_, Error>(Action::done()) }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.settle().await;
        sender.try_send(world.create("a").await).unwrap();
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
        assert_eq!(notes.len(), 0);
        controller.start().unwrap();
        world.settle().await;
        assert_eq!(notes.triggers(), ["webhook generic"]);
    });
}

#[test]
fn a_controller_that_does_not_run_is_not_ready() {
    World::run(13, |world| async move {
        let controller = world.cluster.controller::<ConfigMap>().build(nothing).unwrap();
        let not_running = ControllerError::NotRunning { controller: "configmap".to_owned() };
        assert_eq!(controller.wait_ready().await, Err(not_running.clone()));
        world.forbid("configmaps");
        controller.start().unwrap();
        world.settle().await;
        let waiting = controller.clone();
        let ready = world.scope().spawn("ready", async move { waiting.wait_ready().await });
        world.settle().await;
        let _ = controller.stop().await.unwrap();
        assert_eq!(ready.await.unwrap(), Err(not_running.clone()));
        assert_eq!(controller.wait_ready().await, Err(not_running));
    });
}

#[test]
fn gauges_show_whether_a_controller_runs_is_ready_and_has_something_to_do() {
    World::run(14, |world| async move {
        let gauges = || {
            ["running", "ready"]
                .map(|name| world.metric(&format!("bowline_controller_{name}{{controller=\"configmap\"}}")))
        };
        let depth =
            || world.metric("workqueue_depth{name=\"configmap\",controller=\"configmap\",priority=\"0\"}");
        world.forbid("configmaps");
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .stop_timeout(Duration::ZERO)
            .build(|_: Context, _: Request| std::future::pending::<Result<Action, Error>>())
            .unwrap();
        assert_eq!(gauges(), [0, 0]);
        controller.start().unwrap();
        world.settle().await;
        assert_eq!(gauges(), [1, 0]);
        world.heal();
        controller.wait_ready().await.unwrap();
        assert_eq!(gauges(), [1, 1]);
        world.create("a").await;
        world.create("b").await;
        world.settle().await;
        assert_eq!(depth(), 1);
        assert_eq!(controller.stop().await.unwrap().waiting(), 1);
        assert_eq!((gauges(), depth()), ([0, 0], 0));
        // One that ended by itself shows it as well.
        world.forbid("configmaps");
        drop(controller);
        let controller = world.cluster.controller::<ConfigMap>().named("gone").build(nothing).unwrap();
        let text = world.cluster.metrics().encode();
        assert!(
            !text.contains("\"configmap\""),
            "a controller that is gone takes its metrics with it: {text}"
        );
        drop(controller);
        assert!(!world.cluster.metrics().encode().contains("\"gone\""));
    });
}

#[test]
fn clusters_that_share_metrics_share_names() {
    World::run(15, |world| async move {
        let other = Cluster::builder(&world.scope().spawner(), world.client.clone())
            .metrics(world.cluster.metrics().clone())
            .build()
            .unwrap();
        let first = world.cluster.controller::<ConfigMap>().build(nothing).unwrap();
        let error = other.controller::<ConfigMap>().build(nothing).unwrap_err();
        assert_eq!(error, BuildError::NameTaken { name: "configmap".to_owned() });
        drop(first);
        other.controller::<ConfigMap>().build(nothing).unwrap();
    });
}

#[test]
fn a_controller_with_very_many_watches_has_metrics_for_some() {
    World::run(16, |world| async move {
        let (controller, notes) = noting(&world).await;
        for number in 0..100 {
            let found = source::function(
                format!("tenant-{number}"),
                |mut sink: source::Sink<ConfigMap>| async move {
                    sink.request(Request::new("default", "a"));
                },
            );
            let watch = controller.watch(Watch::new(found, handler::object())).unwrap();
            world.settle().await;
            watch.unregister().await;
        }
        assert_eq!(notes.triggers()[99], "tenant-99 generic");
        let text = world.cluster.metrics().encode();
        let count = text.lines().filter(|line| line.starts_with("bowline_reconcile_triggers_total")).count();
        assert_eq!(
            count,
            64 - 2 + 1,
            "without those of the kind and of `trigger`, which did not come: {text}"
        );
        let rest = "bowline_reconcile_triggers_total{controller=\"configmap\",source=\"exceeded_cardinality_limit\",\
                    cause=\"generic\"}";
        assert_eq!(world.metric(rest), 100 - 62);
    });
}
