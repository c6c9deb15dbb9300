//! A controller that ends releases its declarations, bindings and informers.

use bowline_cache::Kind;
use bowline_machinery::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::World;
use super::managed::Seen;
use crate::{Cluster, Controller, Watch, handler, source};

impl World {
    fn cluster(&self) -> Cluster {
        let cluster = Cluster::new(&self.scope.spawner(), self.kube.clone()).expect("it can be made");
        cluster.start();
        cluster
    }
}

/// Numbers of informers, bindings, and resources with pending writes.
fn counts(cluster: &Cluster) -> (usize, (usize, usize)) {
    (cluster.cache().stats().len(), cluster.client().bindings())
}

fn is_cached(cluster: &Cluster) -> bool {
    cluster.client().is_cached(&Kind::<ConfigMap>::typed())
}

async fn read(cluster: &Cluster) {
    let _ =
        cluster.client().find::<ConfigMap>(&ObjectKey::new("default", "a")).await.expect("it can be read");
}

async fn start(controller: &Controller) {
    controller.start().expect("it does not run");
    controller.wait_ready().await.expect("it can begin");
}

#[test]
fn a_stopped_controller_leaves_no_declaration_no_binding_and_no_informer() {
    World::run(1, |world| async move {
        let cluster = world.cluster();
        let controller = Seen::default().by(cluster.controller::<ConfigMap>().owns::<Secret>());
        for _ in 0..2 {
            start(&controller).await;
            // A read keeps the informer, too.
            read(&cluster).await;
            assert!(is_cached(&cluster));
            assert_eq!(counts(&cluster), (2, (2, 2)));
            let _ = controller.stop().await.expect("it runs");
            assert!(!is_cached(&cluster));
            assert_eq!(counts(&cluster), (0, (0, 0)));
            read(&cluster).await;
            assert_eq!(counts(&cluster).0, 0, "the API server is asked");
        }
    });
}

#[test]
fn what_was_written_is_remembered_for_two_minutes_after_the_last_controller() {
    World::run(5, |world| async move {
        let cluster = world.cluster();
        let controller = Seen::default().by(cluster.controller::<ConfigMap>());
        start(&controller).await;
        cluster.client().create(&super::map("a")).await.expect("created");
        let _ = controller.stop().await.expect("it runs");
        assert_eq!(counts(&cluster), (0, (0, 1)), "another informer may list without it");
        cluster.clock().sleep(std::time::Duration::from_secs(130)).await;
        start(&controller).await;
        let _ = controller.stop().await.expect("it runs");
        assert_eq!(counts(&cluster), (0, (0, 0)));
    });
}

#[test]
fn the_last_controller_of_a_kind_takes_it_along() {
    World::run(2, |world| async move {
        let cluster = world.cluster();
        let [one, other] =
            ["one", "other"].map(|name| Seen::default().by(cluster.controller::<ConfigMap>().named(name)));
        start(&one).await;
        start(&other).await;
        read(&cluster).await;
        let _ = one.stop().await.expect("it runs");
        assert!(is_cached(&cluster));
        assert_eq!(counts(&cluster), (1, (1, 1)));
        let _ = other.stop().await.expect("it runs");
        assert!(!is_cached(&cluster));
        assert_eq!(counts(&cluster), (0, (0, 0)));
    });
}

#[test]
fn a_watch_that_is_removed_takes_its_kind_along_and_so_does_a_controller_that_never_ran() {
    World::run(3, |world| async move {
        let cluster = world.cluster();
        let controller = Seen::default().by(cluster.controller::<ConfigMap>());
        start(&controller).await;
        let before = counts(&cluster);
        let watch = Watch::new(source::kind::<Secret>(), handler::object());
        let watch = controller.watch(watch).expect("it can begin");
        watch.wait_synced().await;
        assert_ne!(counts(&cluster), before);
        watch.unregister().await;
        assert_eq!(counts(&cluster), before);
        let never = Seen::default().by(cluster.controller::<ConfigMap>().named("never").owns::<Secret>());
        assert!(cluster.client().is_cached(&Kind::<Secret>::typed()));
        drop(never);
        assert_eq!(counts(&cluster), before);
    });
}

#[test]
fn a_client_of_a_kind_that_is_kept_reads_as_the_others_do_after_a_stop_and_a_start() {
    World::run(4, |world| async move {
        let cluster = world.cluster();
        let client = cluster.client().live();
        client.create(&super::map("a")).await.expect("created");
        let kept = cluster.client().for_kind(&Kind::<ConfigMap>::typed());
        let controller = Seen::default().by(cluster.controller::<ConfigMap>());
        for _ in 0..2 {
            start(&controller).await;
            let gets = world.watches().len();
            kept.get(&ObjectKey::new("default", "a")).await.expect("it is there");
            assert_eq!(counts(&cluster), (1, (1, 1)), "there is one binding for all");
            assert_eq!(world.watches().len(), gets);
            let _ = controller.stop().await.expect("it runs");
            kept.get(&ObjectKey::new("default", "a")).await.expect("it is there");
            assert_eq!(counts(&cluster).0, 0, "the API server is asked");
        }
    });
}
