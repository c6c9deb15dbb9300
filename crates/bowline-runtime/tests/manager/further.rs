//! Unreachable further clusters delay only their own controllers.

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_apiserver::faults::Faults;
use bowline_runtime::health::HealthServer;
use bowline_runtime::{Cluster, Controller, Manager, Watch, handler, source};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::PostParams;
use kube::{Api, Client, Config};
use tokio::net::TcpListener;

use crate::servers::{anywhere, get};
use crate::world::{SECOND, World};

/// Adds a controller of the manager's own cluster, one of the further one, and one of its own that watches both.
fn add(manager: &Manager, hub: &Cluster, world: &World, required: bool) {
    manager.controller::<ConfigMap>().register(world.reconciler("own")).expect("it can be built");
    let there = Controller::builder(hub).for_::<ConfigMap>().named("there").required(required);
    manager.add(there.build(world.reconciler("there")).expect("it can be built")).expect("it can be built");
    let secrets = Watch::new(source::kind::<Secret>().in_cluster(hub), handler::object());
    let both = manager.controller::<ConfigMap>().named("both").watches(secrets);
    both.register(world.reconciler("both")).expect("it can be built");
}

#[test]
fn a_cluster_that_refuses_connections_delays_only_its_own_controllers() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        for required in [false, true] {
            let config = Config::new(format!("http://{closed}").parse().unwrap());
            let manager = world.builder().health_server(HealthServer::new(anywhere())).build().unwrap();
            let hub = manager.connect(config).unwrap().cached::<Secret>();
            let hub = manager.add_cluster("hub", hub).unwrap();
            add(&manager, &hub, &world, required);
            let start = world.start(&manager);
            world.until("its own reconciles", || world.record.has("own reconciles a")).await;
            let is_refused = || {
                let missing = hub.cache().not_synced();
                missing.len() == 2 && missing.iter().all(|missing| missing.error.is_some())
            };
            world.until("the other one was asked", is_refused).await;
            let address = manager.health_address().unwrap();
            let (status, text) = get(address, "/readyz?verbose").await;
            assert_eq!(status, if required { 500 } else { 200 }, "{text}");
            assert!(text.contains("[+]manager ok") && text.contains("[+]controller-both ok"), "{text}");
            assert_eq!(text.contains("[-]controller-hub-there failed"), required, "{text}");
            let (status, text) = get(address, "/readyz/sync").await;
            assert_eq!(status, 500, "{text}");
            let both = "\"both\" waits for secrets (v1) in all namespaces (the server cannot be reached) in cluster hub";
            assert!(text.contains(both), "{text}");
            assert!(text.contains("\"there\" waits for configmaps (v1) in all namespaces (the"), "{text}");
            assert!(!world.record.take().iter().any(|line| line.contains("there") || line.contains("both")));
            manager.request_stop();
            start.await.unwrap().unwrap();
        }
    });
}

#[test]
fn an_unreachable_cluster_delays_neither_election_nor_stages() {
    World::run(1, |world| async move {
        world.create("a").await;
        let faults = Faults::new();
        let server = ApiServer::builder().clock(world.clock.clone()).faults(&faults).build().unwrap();
        let client = Client::new(server, "default");
        for name in ["m", "n"] {
            let map = serde_json::json!({"metadata": {"name": name}});
            let maps = Api::<ConfigMap>::default_namespaced(client.clone());
            maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        }
        faults.all().lose_request();
        let manager = world.replica("one");
        let hub = manager.add_cluster("hub", manager.connect(client).unwrap().cached::<Secret>()).unwrap();
        add(&manager, &hub, &world, false);
        manager.add(world.noting("everywhere").on_every_replica()).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(5 * SECOND).await;
        assert_eq!(world.record.take(), ["everywhere begins", "own reconciles a"]);
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(world.record.lines(), [""; 0]);
        faults.remove_all();
        manager.wait_ready().await.unwrap();
        world.settle().await;
        let mut lines = world.record.take();
        lines.sort();
        assert_eq!(lines, ["both reconciles a", "there reconciles m", "there reconciles n"]);
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}
