//! Additions that are late, repeated or invalid.

use std::sync::Arc;

use bowline_runtime::{
    Action, Cluster, Context, Controller, Error, Manager, ManagerError, Request, Runnable, Stage,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{SECOND, World};

#[test]
fn late_runnables_start_at_once() {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.manager();
        let start = world.start(&manager);
        manager.wait_elected().await;
        manager.add(world.noting("late")).unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        manager.wait_ready().await.unwrap();
        world.until("it is reconciled", || world.record.has("maps reconciles a")).await;
        assert!(world.record.has("late begins"));
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(world.record.has("late ends"));
    });
}

#[test]
fn late_leader_only_runnables_wait_for_leadership() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (leader, standby) = (world.replica("a"), world.replica("b"));
        let first = world.start(&leader);
        leader.wait_elected().await;
        let second = world.start(&standby);
        world.settle().await;
        standby.add(world.noting("everywhere").on_every_replica()).unwrap();
        standby.add(world.noting("elected")).unwrap();
        standby.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        world.settle().await;
        assert_eq!(world.record.take(), ["everywhere begins"]);
        leader.request_stop();
        first.await.unwrap().unwrap();
        standby.wait_ready().await.unwrap();
        world.settle().await;
        assert!(world.record.has("elected begins") && world.record.has("maps reconciles a"));
        standby.request_stop();
        second.await.unwrap().unwrap();
    });
}

#[test]
fn late_clusters_start_at_once() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let start = world.start(&manager);
        manager.wait_elected().await;
        let further = || manager.connect(world.client.clone()).unwrap().cached::<Secret>();
        let cluster = manager.add_cluster("further", further()).unwrap();
        world.until("it has listed", || cluster.cache().stats()[0].1.lists == 1).await;
        let error = manager.add_cluster("further", further()).unwrap_err();
        assert_eq!(error.to_string(), "the manager already has a cluster \"further\": choose another name");
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn additions_during_or_after_a_stop_are_refused() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let start = world.start(&manager);
        manager.wait_elected().await;
        manager.request_stop();
        let error = manager.add(world.noting("late")).unwrap_err();
        assert_eq!(error.to_string(), "late cannot be added: the manager is stopping or has stopped");
        start.await.unwrap().unwrap();
        let error = manager.add(world.noting("later")).unwrap_err();
        assert!(matches!(error, ManagerError::Stopping { .. }), "{error}");
        let error = manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap_err();
        assert!(error.to_string().contains("controller configmap cannot be added"), "{error}");
        let further = manager.connect(world.client.clone()).unwrap();
        let error = manager.add_cluster("further", further).unwrap_err();
        assert!(error.to_string().contains("the cluster \"further\" cannot be added"), "{error}");
        assert!(matches!(manager.wait_ready().await, Err(ManagerError::Stopped)));
        assert_eq!(world.record.lines(), [""; 0]);
    });
}

#[test]
fn a_controller_of_a_foreign_cluster_is_refused() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let foreign = Cluster::new(&world.scope.spawner(), world.client.clone()).unwrap();
        let build = |cluster: &Cluster, name: &str| {
            Controller::builder(cluster).for_::<ConfigMap>().named(name).build(world.reconciler("foreign"))
        };
        let error = manager.add(build(&foreign, "maps").unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("\"maps\" does not belong to a cluster of this manager"),
            "{error}"
        );
        let known = manager.add_cluster("known", manager.connect(world.client.clone()).unwrap()).unwrap();
        manager.add(build(&known, "more-maps").unwrap()).unwrap();
        world.create("a").await;
        let start = world.start(&manager);
        world.until("it is reconciled", || world.record.has("foreign reconciles a")).await;
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn a_controller_is_added_once_and_where_it_belongs() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        let build = |name: &str, needs_leadership| {
            let builder = manager.controller::<ConfigMap>().named(name).needs_leadership(needs_leadership);
            builder.build(world.reconciler("maps")).unwrap()
        };
        let controller = build("once", true);
        manager.add(controller.clone()).unwrap();
        let error = manager.add(controller.clone()).unwrap_err();
        assert!(error.to_string().contains("\"once\""), "{error}");
        // Only the manager starts it.
        assert!(controller.start().is_err());
        for (name, needs_leadership, stage) in
            [("a", true, Stage::EveryReplica), ("b", false, Stage::Elected)]
        {
            let error =
                manager.add(Runnable::from(build(name, needs_leadership)).in_stage(stage)).unwrap_err();
            assert!(error.to_string().contains("set with `needs_leadership`"), "{error}");
        }
    });
}

#[test]
fn leader_only_runnables_can_write_behind_the_fence() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        let map = |name: &str| {
            serde_json::from_value::<ConfigMap>(
                serde_json::json!({"metadata": {"name": name, "namespace": "default"}}),
            )
        };
        assert!(manager.elected_client().create(&map("too-early").unwrap()).await.is_err());
        manager.client().create(&map("unfenced").unwrap()).await.unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        manager.elected_client().create(&map("fenced").unwrap()).await.unwrap();
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(manager.elected_client().create(&map("too-late").unwrap()).await.is_err());
    });
}

#[test]
fn the_end_of_the_scope_stops_the_manager_in_order() {
    World::run(1, |world| async move {
        let outer = world.scope.scope("outer");
        let election = bowline_runtime::leader_election::LeaderElectionConfig::new("default", "operator");
        let manager = Manager::builder(&outer.spawner(), world.client.clone()).leader_election(election);
        let manager = manager.build().unwrap();
        manager.add(world.slow(&manager, 5 * SECOND)).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        assert!(outer.drain(20 * SECOND).await.is_clean());
        start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), ["leads at its end: true"]);
    });
}

#[test]
fn a_manager_held_by_its_own_runnables_is_dropped_after_its_stop() {
    World::run(1, |world| async move {
        let kept = Arc::new(());
        let manager = world.builder().keep(kept.clone()).build().unwrap();
        let held = manager.clone();
        let reconcile = move |_: Context, _: Request| {
            let _manager = held.clone();
            async { Ok::<_, std::io::Error>(Action::done()) }
        };
        manager.controller::<ConfigMap>().register(reconcile).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        manager.request_stop();
        start.await.unwrap().unwrap();
        drop(manager);
        world.settle().await;
        assert_eq!(Arc::strong_count(&kept), 1);
    });
}

#[test]
fn a_manager_with_a_concurrency_of_zero_cannot_be_built_and_a_number_holds_for_its_controllers() {
    World::run(9, |world| async move {
        let error = world.builder().concurrency(0).build().unwrap_err();
        assert!(matches!(error, ManagerError::ZeroConcurrency), "{error}");
        assert!(
            error.to_string().ends_with("give `concurrency` at least 1, or leave it out for 1"),
            "{error}"
        );
        let manager = world.builder().concurrency(3).build().unwrap();
        manager
            .controller::<ConfigMap>()
            .register(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) })
            .unwrap();
        let text = manager.metrics().encode();
        assert!(
            text.contains("controller_runtime_max_concurrent_reconciles{controller=\"configmap\"} 3"),
            "{text}"
        );
    });
}
