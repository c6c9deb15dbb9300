//! What starts before what, and what stops before what.

use std::time::Duration;

use bowline_runtime::{ClusterBuilder, ManagerError, Runnable, Stage};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{SECOND, World, failure};

#[test]
fn stages_start_in_order_and_stop_in_theirs() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        // Added in no order.
        manager.add(world.noting("leader")).unwrap();
        manager.add(world.noting("other").on_every_replica()).unwrap();
        manager.add(world.noting("webhook").in_stage(Stage::Webhook)).unwrap();
        manager.add(world.noting("server").in_stage(Stage::Server)).unwrap();
        manager.add(world.noting("cache").in_stage(Stage::Cache)).unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        let begins = ["server begins", "webhook begins", "cache begins", "other begins", "leader begins"];
        assert_eq!(world.record.take(), begins);
        manager.stop();
        start.await.unwrap().unwrap();
        let ends = ["other ends", "leader ends", "cache ends", "webhook ends", "server ends"];
        assert_eq!(world.record.take(), ends);
    });
}

#[test]
fn informers_of_all_clusters_list_before_anything_else_runs() {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>).build().unwrap();
        let further = manager.connect(world.client.clone()).unwrap().cached::<Secret>();
        let further = manager.add_cluster("further", further).unwrap();
        // Both are slow to be listed: the server is away at first.
        world.gate.decide(|call| match &*call.resource {
            "configmaps" | "secrets" => failure(500, "InternalError", "not yet"),
            _ => bowline_apiserver::Verdict::Proceed,
        });
        manager.add(world.noting("webhook").in_stage(Stage::Webhook)).unwrap();
        manager.add(world.noting("other").on_every_replica()).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(world.record.lines(), ["webhook begins"]);
        world.gate.heal();
        world.until("others begin", || world.record.has("other begins")).await;
        assert!(manager.cluster().cache().stats().iter().all(|(_, stats)| stats.lists == 1));
        assert!(further.cache().stats().iter().all(|(_, stats)| stats.lists == 1));
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn the_lease_is_given_up_last() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        let (clock, record, gate) = (world.clock.clone(), world.record.clone(), world.gate.clone());
        manager
            .add(Runnable::new("slow", move |cancelled| async move {
                cancelled.cancelled().await;
                // Long enough for whoever gives it up too early, and too short for a renewal.
                clock.sleep(SECOND).await;
                record.add(format!("ends after {} lease writes", lease_writes(&gate)));
                Ok::<_, std::io::Error>(())
            }))
            .unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        let before = lease_writes(&world.gate);
        manager.stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), [format!("ends after {before} lease writes")]);
        assert_eq!(lease_writes(&world.gate), before + 1);
        // The next need not wait.
        let next = world.replica("b");
        let start = world.start(&next);
        assert!(world.clock.timeout(2 * SECOND, next.elected()).await.is_ok());
        next.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn the_lease_is_renewed_while_what_needs_it_ends() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        manager.add(world.slow(&manager, 22 * SECOND)).unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        manager.stop();
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), ["leads at its end: true"]);
    });
}

#[test]
fn what_ignores_its_cancellation_is_named_and_left_behind() {
    World::run(1, |world| async move {
        let manager = world.builder().graceful_shutdown(30 * SECOND).build().unwrap();
        manager.add(Runnable::new("deaf", |_| std::future::pending::<std::io::Result<()>>())).unwrap();
        manager.add(world.noting("polite")).unwrap();
        manager.add(world.noting("server").in_stage(Stage::Server)).unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        let began = world.clock.now();
        manager.stop();
        let error = start.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "did not end in time: deaf");
        let took = world.clock.now().since(began);
        // The last five seconds are for what comes after.
        assert!(took >= 25 * SECOND && took < 30 * SECOND, "{took:?}");
        assert!(world.record.has("polite ends") && world.record.has("server ends"));
    });
}

#[test]
fn without_a_graceful_stop_everything_is_aborted_and_that_is_no_error() {
    World::run(1, |world| async move {
        let manager = world.builder().graceful_shutdown(Duration::ZERO).build().unwrap();
        manager.add(Runnable::new("deaf", |_| std::future::pending::<std::io::Result<()>>())).unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        let began = world.clock.now();
        manager.stop();
        start.await.unwrap().unwrap();
        assert!(world.clock.now().since(began) < SECOND);
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
        let error = manager.start().await.unwrap_err();
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
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        assert!(world.clock.timeout(5 * SECOND, manager.start()).await.is_err());
        world.create("late").await;
        world.settle().await;
        assert_eq!(world.record.lines(), ["other begins"]);
        assert!(matches!(manager.start().await, Err(ManagerError::AlreadyStarted)));
    });
}

#[test]
fn a_stop_before_the_start_and_one_while_informers_list_end_it() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(world.noting("other")).unwrap();
        manager.stop();
        manager.start().await.unwrap();
        assert_eq!(world.record.lines(), [""; 0]);

        let manager = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>).build().unwrap();
        world.gate.decide(|_| failure(500, "InternalError", "never"));
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(2)).await;
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

fn lease_writes(gate: &crate::world::Gate) -> usize {
    use bowline_apiserver::Verb;
    let calls = gate.calls();
    calls
        .iter()
        .filter(|call| call.resource == "leases" && matches!(call.verb, Verb::Update | Verb::Create))
        .count()
}
