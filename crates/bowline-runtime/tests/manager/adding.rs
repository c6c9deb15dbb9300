//! What is added late, twice, or where it does not belong.

use bowline_runtime::{Cluster, Controller, ManagerError};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::World;

#[test]
fn what_is_added_late_starts_at_once() {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.manager();
        let start = world.start(&manager);
        manager.elected().await;
        manager.add(world.noting("late")).unwrap();
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        manager.ready().await.unwrap();
        world.until("it is reconciled", || world.record.has("maps reconciles a")).await;
        assert!(world.record.has("late begins"));
        manager.stop();
        start.await.unwrap().unwrap();
        assert!(world.record.has("late ends"));
    });
}

#[test]
fn what_needs_leadership_and_is_added_late_waits_for_it() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (leader, standby) = (world.replica("a"), world.replica("b"));
        let first = world.start(&leader);
        leader.elected().await;
        let second = world.start(&standby);
        world.settle().await;
        standby.add(world.noting("everywhere").on_every_replica()).unwrap();
        standby.add(world.noting("elected")).unwrap();
        standby.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        world.settle().await;
        assert_eq!(world.record.take(), ["everywhere begins"]);
        leader.stop();
        first.await.unwrap().unwrap();
        standby.ready().await.unwrap();
        world.settle().await;
        assert!(world.record.has("elected begins") && world.record.has("maps reconciles a"));
        standby.stop();
        second.await.unwrap().unwrap();
    });
}

#[test]
fn a_cluster_that_is_added_late_starts_at_once() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let start = world.start(&manager);
        manager.elected().await;
        let further = || manager.connect(world.client.clone()).unwrap().cached::<Secret>();
        let cluster = manager.add_cluster("further", further()).unwrap();
        world.until("it has listed", || cluster.cache().stats()[0].1.lists == 1).await;
        let error = manager.add_cluster("further", further()).unwrap_err();
        assert_eq!(error.to_string(), "the manager has a cluster \"further\" already");
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn nothing_is_added_while_it_stops_or_after() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let start = world.start(&manager);
        manager.elected().await;
        manager.stop();
        let error = manager.add(world.noting("late")).unwrap_err();
        assert_eq!(error.to_string(), "late cannot be added: the manager stops, or has stopped");
        start.await.unwrap().unwrap();
        let error = manager.add(world.noting("later")).unwrap_err();
        assert!(matches!(error, ManagerError::Stopping { .. }), "{error}");
        let error = manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap_err();
        assert!(error.to_string().contains("controller configmap cannot be added"), "{error}");
        let further = manager.connect(world.client.clone()).unwrap();
        let error = manager.add_cluster("further", further).unwrap_err();
        assert!(error.to_string().contains("the cluster \"further\" cannot be added"), "{error}");
        assert!(matches!(manager.ready().await, Err(ManagerError::Stopped)));
        assert_eq!(world.record.lines(), [""; 0]);
    });
}

#[test]
fn a_controller_of_a_cluster_that_nobody_starts_is_refused() {
    World::run(1, |world| async move {
        let manager = world.manager();
        let foreign = Cluster::new(&world.scope.spawner(), world.client.clone()).unwrap();
        let build = |cluster: &Cluster, name: &str| {
            Controller::builder(cluster).for_::<ConfigMap>().named(name).build(world.reconciler("foreign"))
        };
        let error = manager.add(build(&foreign, "maps").unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("\"maps\" belongs to a cluster that is not this manager's"),
            "{error}"
        );
        let known = manager.add_cluster("known", manager.connect(world.client.clone()).unwrap()).unwrap();
        manager.add(build(&known, "more-maps").unwrap()).unwrap();
        world.create("a").await;
        let start = world.start(&manager);
        world.until("it is reconciled", || world.record.has("foreign reconciles a")).await;
        manager.stop();
        start.await.unwrap().unwrap();
    });
}
