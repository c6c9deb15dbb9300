//! A manager with a missing kind, or without a free port.

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

/// Spec of a website.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    host: String,
}

#[test]
fn a_missing_kind_is_reported_and_keeps_only_required_controllers_unready() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        // Also requested in the cache stage.
        let builder = world.builder().cluster(|cluster| cluster.cached::<Website>().cached::<ConfigMap>());
        let manager = builder.health_server(HealthServer::new(anywhere())).build().unwrap();
        let websites = manager.controller::<Website>().register(world.reconciler("websites")).unwrap();
        let required = manager.controller::<Website>().named("required").required(true);
        required.register(world.reconciler("required")).unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        world.until("the other reconciles", || world.record.has("maps reconciles a")).await;
        let is_reported = || websites.waiting_for().iter().any(|waiting| waiting.to_string().contains("404"));
        world.until("the missing kind is reported", is_reported).await;
        let address = manager.health_address().unwrap();
        let (status, text) = get(address, "/readyz?verbose").await;
        assert_eq!(status, 500, "{text}");
        assert!(text.contains("[+]manager ok") && text.contains("[+]controller-configmap ok"), "{text}");
        assert!(text.contains("[+]controller-website ok"), "{text}");
        let line = text.lines().find(|line| line.starts_with("[-]controller-required failed")).unwrap();
        let missing = "websites.demo.example.com/v1 in all namespaces (not found; is its CRD installed?)";
        assert!(line.ends_with(&format!("waits for {missing}")), "{line}");
        assert_eq!(get(address, "/readyz?exclude=controller-required").await.0, 200);
        let (status, text) = get(address, "/readyz/sync").await;
        assert!(status == 500 && text.contains(&format!("\"website\" waits for {missing}")), "{text}");
        let waiting = websites.waiting_for()[0].to_string();
        assert!(waiting.ends_with("; is its CRD installed?)"), "it is what the log says: {waiting}");
        assert_eq!(get(address, "/healthz").await.0, 200);

        let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
        definitions.create(&PostParams::default(), &Website::crd()).await.unwrap();
        let site = Website::new("blog", WebsiteSpec { host: "example.com".to_owned() });
        let sites = Api::<Website>::default_namespaced(world.client.clone());
        // A new kind is served with a delay.
        while sites.create(&PostParams::default(), &site).await.is_err() {
            world.settle().await;
        }
        manager.wait_ready().await.unwrap();
        world.until("it is reconciled", || world.record.has("websites reconciles blog")).await;
        let (status, text) = get(address, "/readyz?verbose").await;
        assert!(status == 200 && text.contains("[+]controller-required ok"), "{text}");
        assert_eq!(get(address, "/readyz/sync").await.0, 200);
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn a_taken_probe_port_is_reported_and_everything_stops() {
    World::run_in_real_time(|world| async move {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let server = HealthServer::new(address.parse().unwrap());
        let manager = world.builder().health_server(server).build().unwrap();
        manager.add(world.noting("elected")).unwrap();
        let error = manager.run().await.unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("health"), "{error}");
        assert_eq!(world.record.lines(), [""; 0]);
    });
}
