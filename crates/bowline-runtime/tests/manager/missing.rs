//! What is not there when a manager starts: a kind, a port.

use bowline_runtime::health::HealthServer;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::servers::{anywhere, get};
use crate::world::World;

/// What a website is to be.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    host: String,
}

#[test]
fn a_kind_that_is_not_served_yet_is_named_until_it_is() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        // Asked for in the cache stage, too.
        let builder = world.builder().cluster(|cluster| cluster.cached::<Website>().cached::<ConfigMap>());
        let manager = builder.health_server(HealthServer::at(anywhere())).build().unwrap();
        let websites = manager.controller::<Website>().run(world.reconciler("websites")).unwrap();
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        world.until("the other reconciles", || world.record.has("maps reconciles a")).await;
        let is_told = || websites.waiting_for().iter().any(|waiting| waiting.to_string().contains("404"));
        world.until("it was told that there is no such kind", is_told).await;
        let address = manager.health_address().unwrap();
        let (status, text) = get(address, "/readyz?verbose").await;
        assert_eq!(status, 500, "{text}");
        assert!(text.contains("[+]manager ok") && text.contains("[+]controller-configmap ok"), "{text}");
        let line = text.lines().find(|line| line.starts_with("[-]controller-website failed")).unwrap();
        assert!(line.contains("waits for websites.demo.example.com/v1"), "{line}");
        assert_eq!(get(address, "/healthz").await.0, 200);

        let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
        definitions.create(&PostParams::default(), &Website::crd()).await.unwrap();
        let site = Website::new("blog", WebsiteSpec { host: "example.com".to_owned() });
        let sites = Api::<Website>::default_namespaced(world.client.clone());
        // A kind that was just defined is served a little later.
        while sites.create(&PostParams::default(), &site).await.is_err() {
            world.settle().await;
        }
        manager.ready().await.unwrap();
        world.until("it is reconciled", || world.record.has("websites reconciles blog")).await;
        let (status, text) = get(address, "/readyz?verbose").await;
        assert!(status == 200 && text.contains("[+]controller-website ok"), "{text}");
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn a_port_for_probes_that_is_taken_is_named_and_everything_stops() {
    World::run_in_real_time(|world| async move {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let server = HealthServer::at(address.parse().unwrap());
        let manager = world.builder().health_server(server).build().unwrap();
        manager.add(world.noting("elected")).unwrap();
        let error = manager.start().await.unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("health"), "{error}");
        assert_eq!(world.record.lines(), [""; 0]);
    });
}
