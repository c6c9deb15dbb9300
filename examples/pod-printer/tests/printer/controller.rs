//! The lines of a controller without failures.

use std::num::NonZeroUsize;

use pod_printer::{Controller, Demo};

use crate::world::{World, pod};

#[test]
fn additions_updates_and_deletions_are_printed() {
    World::run(|world| async move {
        world.create("early").await;
        let (_stop, _running) = world.start();
        world.settle().await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod early"]);

        world.create("late").await;
        world.settle().await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod late"]);

        world.change("early").await;
        world.settle().await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod early"]);

        world.delete("early").await;
        world.settle().await;
        assert_eq!(world.paper.printed().last().unwrap(), "Pod default/early does not exist anymore");
    });
}

#[test]
fn a_pod_that_went_while_nobody_watched_is_seen_to_be_gone() {
    World::run(|world| async move {
        world.create("there").await;
        world.controller.remember(pod("mypod"));
        world.controller.remember(pod("there"));
        let (_stop, _running) = world.start();
        world.settle().await;
        let mut printed = world.paper.printed();
        printed.sort();
        assert_eq!(printed, ["Pod default/mypod does not exist anymore", "Sync/Add/Update for Pod there"]);
    });
}

#[test]
fn pods_of_other_namespaces_are_not_looked_at() {
    World::run(|world| async move {
        let (_stop, _running) = world.start();
        let others = kube::Api::namespaced(world.client.clone(), "kube-system");
        let mut other = pod("other");
        other.metadata.namespace = None;
        others.create(&kube::api::PostParams::default(), &other).await.unwrap();
        world.settle().await;
        assert!(world.paper.printed().is_empty());
    });
}

#[test]
fn several_workers_print_each_pod_once() {
    World::run(|world| async move {
        for number in 0..20 {
            world.create(&format!("pod-{number:02}")).await;
        }
        let _running = world.start_until(4, std::future::pending());
        world.settle().await;
        let mut printed = world.paper.printed();
        printed.sort();
        let expected: Vec<_> =
            (0..20).map(|number| format!("Sync/Add/Update for Pod pod-{number:02}")).collect();
        assert_eq!(printed, expected);
    });
}

#[test]
fn the_demo_shows_everything_and_leaves_nothing_behind() {
    World::run(|world| async move {
        let demo = Demo::new(world.clock.clone(), world.client.clone(), "default", world.paper.printer());
        let controller =
            Controller::new(&world.spawner(), world.client.clone(), "default", demo.output()).unwrap();
        controller.remember(pod("mypod"));
        controller.run(NonZeroUsize::MIN, async { demo.play().await.unwrap() }).await.unwrap();
        insta::assert_snapshot!(world.paper.printed().join("\n"), @"
        Pod default/mypod does not exist anymore
        -- creating pod web-1
        Sync/Add/Update for Pod web-1
        -- creating pod web-2
        Sync/Add/Update for Pod web-2
        -- creating pod unprintable, which fails five more times and is dropped
        -- changing pod web-1
        Sync/Add/Update for Pod web-1
        -- deleting pod web-1
        Pod default/web-1 does not exist anymore
        -- deleting pod web-2
        Pod default/web-2 does not exist anymore
        -- deleting pod unprintable
        Pod default/unprintable does not exist anymore
        ");
        assert!(world.logged().contains(r#"dropped out of the queue key="default/unprintable" attempts=6"#));
        assert!(world.pods().list(&kube::api::ListParams::default()).await.unwrap().items.is_empty());
    });
}
