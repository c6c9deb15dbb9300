//! The order of starts and stops.

use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_apiserver::faults::Faults;
use bowline_runtime::{ClusterBuilder, ManagerError, Runnable, Stage};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{SECOND, World, failure};

#[test]
fn stages_start_and_stop_in_their_orders() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        // Added out of order.
        manager.add(world.noting("leader")).unwrap();
        manager.add(world.noting("other").on_every_replica()).unwrap();
        manager.add(world.noting("webhook").in_stage(Stage::Webhook)).unwrap();
        manager.add(world.noting("server").in_stage(Stage::Server)).unwrap();
        manager.add(world.noting("cache").in_stage(Stage::Cache)).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        let begins = ["server begins", "webhook begins", "cache begins", "other begins", "leader begins"];
        assert_eq!(world.record.take(), begins);
        manager.request_stop();
        start.await.unwrap().unwrap();
        let ends = ["other ends", "leader ends", "cache ends", "webhook ends", "server ends"];
        assert_eq!(world.record.take(), ends);
    });
}

#[test]
fn a_function_for_the_end_runs_after_everything_else_and_before_run_returns() {
    World::run(1, |world| async move {
        let (record, clock) = (world.record.clone(), world.clock.clone());
        let builder = world.builder().runnable(world.noting("early")).on_stopped(move || async move {
            clock.sleep(SECOND).await;
            record.add("function ends");
        });
        let manager = builder.build().unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.take(), ["early begins", "early ends", "function ends"]);
    });
}

#[test]
fn a_function_for_the_end_that_panics_hides_neither_the_others_nor_the_result() {
    World::run(1, |world| async move {
        let record = world.record.clone();
        let broken = Runnable::new("broken", |_| async { Err::<(), _>(std::io::Error::other("on purpose")) });
        let builder = world.builder().runnable(broken);
        let builder = builder.on_stopped::<std::future::Ready<()>>(|| panic!("before its future"));
        let builder = builder.on_stopped(|| async { panic!("in its future") });
        let manager = builder.on_stopped(move || async move { record.add("function ends") }).build().unwrap();
        let error = world.start(&manager).await.expect("no panic leaves `run`").unwrap_err();
        assert!(error.to_string().contains("on purpose"), "{error}");
        assert_eq!(world.record.take(), ["function ends"]);
    });
}

#[test]
fn informers_of_its_own_cluster_list_before_anything_else_runs() {
    World::run(1, |world| async move {
        world.create("a").await;
        let cached = |cluster: ClusterBuilder| cluster.cached::<ConfigMap>().cached::<Secret>();
        let manager = world.builder().cluster(cached).build().unwrap();
        // Both are slow to be listed: the server is away at first.
        world
            .faults
            .all()
            .filter(|request| matches!(&*request.resource, "configmaps" | "secrets"))
            .fail(failure(500, "InternalError", "not yet"));
        manager.add(world.noting("webhook").in_stage(Stage::Webhook)).unwrap();
        manager.add(world.noting("other").on_every_replica()).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(world.record.lines(), ["webhook begins"]);
        world.faults.remove_all();
        world.until("others begin", || world.record.has("other begins")).await;
        assert!(manager.cluster().cache().stats().iter().all(|(_, stats)| stats.lists == 1));
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn the_lease_is_released_last() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        let (clock, record, faults) = (world.clock.clone(), world.record.clone(), world.faults.clone());
        manager
            .add(Runnable::new("slow", move |cancelled| async move {
                cancelled.cancelled().await;
                // Long enough to detect an early release, and too short for a renewal.
                clock.sleep(SECOND).await;
                record.add(format!("ends after {} lease writes", lease_writes(&faults)));
                Ok::<_, std::io::Error>(())
            }))
            .unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        let before = lease_writes(&world.faults);
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), [format!("ends after {before} lease writes")]);
        assert_eq!(lease_writes(&world.faults), before + 1);
        // The next need not wait.
        let next = world.replica("b");
        let start = world.start(&next);
        assert!(world.clock.timeout(2 * SECOND, next.wait_elected()).await.is_ok());
        next.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn the_lease_is_renewed_while_leader_only_work_ends() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        manager.add(world.slow(&manager, 22 * SECOND)).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), ["leads at its end: true"]);
    });
}

#[test]
fn a_runnable_that_ignores_its_cancellation_is_aborted_and_named() {
    World::run(1, |world| async move {
        let manager = world.builder().shutdown_timeout(30 * SECOND).build().unwrap();
        manager.add(Runnable::new("deaf", |_| std::future::pending::<std::io::Result<()>>())).unwrap();
        manager.add(world.noting("polite")).unwrap();
        manager.add(world.noting("server").in_stage(Stage::Server)).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        let began = world.clock.now();
        manager.request_stop();
        let error = start.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "did not end in time: deaf");
        let took = world.clock.now().duration_since(began);
        // The last five seconds are reserved.
        assert!(took >= 25 * SECOND && took < 30 * SECOND, "{took:?}");
        assert!(world.record.has("polite ends") && world.record.has("server ends"));
    });
}

#[test]
fn without_a_graceful_stop_everything_is_aborted_and_that_is_no_error() {
    World::run(1, |world| async move {
        let manager = world.builder().shutdown_timeout(Duration::ZERO).build().unwrap();
        manager.add(Runnable::new("deaf", |_| std::future::pending::<std::io::Result<()>>())).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        let began = world.clock.now();
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(world.clock.now().duration_since(began) < SECOND);
    });
}

#[test]
fn errors_of_all_runnables_are_collected() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let clock = world.clock.clone();
        manager
            .add(Runnable::new("first", move |_| async move {
                clock.sleep(SECOND).await;
                Err(std::io::Error::other("out of paper"))
            }))
            .unwrap();
        manager
            .add(Runnable::new("second", |cancelled| async move {
                cancelled.cancelled().await;
                Err(std::io::Error::other("in a bad mood"))
            }))
            .unwrap();
        manager
            .add(Runnable::new("third", |cancelled| async move {
                cancelled.cancelled().await;
                assert!(!cancelled.is_cancelled(), "on the way out");
                Ok::<_, std::io::Error>(())
            }))
            .unwrap();
        let error = manager.run().await.unwrap_err();
        let ManagerError::Ended { failures, left_behind } = &error else { panic!("{error:?}") };
        assert_eq!(left_behind.len(), 0);
        assert_eq!(failures.len(), 3);
        assert_eq!(failures[0].to_string(), "first: out of paper");
        let text = error.to_string();
        assert!(text.contains("second: in a bad mood"), "{text}");
        assert!(text.contains("third: it panicked: on the way out"), "{text}");
        assert!(!error.is_leadership_lost());
    });
}

#[test]
fn a_manager_that_is_dropped_aborts_everything() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(world.noting("other")).unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        assert!(world.clock.timeout(5 * SECOND, manager.run()).await.is_err());
        world.create("late").await;
        world.settle().await;
        assert_eq!(world.record.lines(), ["other begins"]);
        assert!(matches!(manager.run().await, Err(ManagerError::AlreadyStarted)));
    });
}

#[test]
fn a_stop_before_the_start_and_one_while_informers_list_end_it() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(world.noting("other")).unwrap();
        manager.request_stop();
        manager.run().await.unwrap();
        assert_eq!(world.record.lines(), [""; 0]);

        let manager = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>).build().unwrap();
        world.faults.all().fail(failure(500, "InternalError", "never"));
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(2)).await;
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

fn lease_writes(faults: &Faults) -> usize {
    faults.requests().verb([Verb::Create, Verb::Update]).resource("leases").count()
}
