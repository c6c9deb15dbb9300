//! Where kinds are served, asked of a server and not too often.

use std::sync::Arc;
use std::time::Duration;

use bowline_machinery::{GroupKind, GroupVersionKind, GroupVersionResource};
use bowline_runtime::{DiscoveryMapper, RestMapper as _, Scheme};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

use crate::world::World;

fn website() -> GroupVersionKind {
    GroupVersionKind::new("demo.example.com", "v1", "Website")
}

/// Installs a custom kind.
async fn install(world: &World) {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "websites.demo.example.com"},
        "spec": {
            "group": "demo.example.com", "scope": "Namespaced",
            "names": {"kind": "Website", "plural": "websites", "singular": "website", "listKind": "WebsiteList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    }))
    .expect("a definition");
    let client = bowline_runtime::Client::builder(world.kube.clone()).clock(world.clock.clone()).build();
    client.create(&definition).await.expect("created");
    world.clock.sleep(Duration::from_millis(100)).await;
}

fn discoveries(world: &World) -> usize {
    world.asked().iter().filter(|asked| asked.trim() == "get").count()
}

#[test]
fn kinds_and_resources_are_found_in_each_other() {
    World::run(|world| async move {
        let mapper = DiscoveryMapper::new(world.kube.clone(), world.clock.clone());
        let kind = GroupVersionKind::new("apps", "v1", "Deployment");
        let mapping = mapper.mapping(&kind).await.unwrap();
        assert_eq!((mapping.resource.plural.as_str(), mapping.namespaced), ("deployments", true));
        let node = mapper.mapping_of(&GroupVersionResource::new("", "v1", "nodes")).await.unwrap();
        assert_eq!((node.kind(), node.namespaced), (GroupVersionKind::new("", "v1", "Node"), false));
        let versions =
            mapper.mappings(&GroupKind::new("autoscaling", "HorizontalPodAutoscaler")).await.unwrap();
        let versions: Vec<_> = versions.iter().map(|mapping| mapping.resource.version.as_str()).collect();
        assert_eq!(versions, ["v2", "v1"]);
        assert_eq!(discoveries(&world), 2, "one question for all of it");
    });
}

#[test]
fn a_kind_that_is_installed_later_is_found() {
    World::run(|world| async move {
        let cluster = world.cluster(|builder| builder);
        let error = cluster.client().kind(&website()).await.unwrap_err();
        assert!(error.is_no_match(), "{error}");
        install(&world).await;
        let kind = cluster.client().kind(&website()).await.unwrap();
        assert_eq!(kind.to_string(), "websites.demo.example.com/v1");
    });
}

#[test]
fn what_was_found_once_stays_known() {
    World::run(|world| async move {
        install(&world).await;
        let mapper = DiscoveryMapper::new(world.kube.clone(), world.clock.clone());
        mapper.mapping(&website()).await.unwrap();
        let definition = bowline_cache::ObjectKey::cluster_scoped("websites.demo.example.com");
        world.other().delete::<CustomResourceDefinition>(&definition).await.unwrap();
        world.clock.sleep(Duration::from_secs(2)).await;
        let unknown = GroupVersionKind::new("nowhere.example.com", "v1", "Kind");
        assert!(mapper.mapping(&unknown).await.unwrap_err().is_no_match());
        discoveries(&world);
        assert_eq!(mapper.mapping(&website()).await.unwrap().resource.plural, "websites");
        let group_kind = GroupKind::new("demo.example.com", "Website");
        assert_eq!(mapper.mappings(&group_kind).await.unwrap().len(), 1);
        let node = GroupKind::new("", "Node");
        assert_eq!(mapper.mappings(&node).await.unwrap().len(), 1, "nothing is there twice");
        assert_eq!(discoveries(&world), 0);
    });
}

#[test]
fn a_storm_of_unknown_kinds_asks_once_in_a_while() {
    World::run(|world| async move {
        let mapper = Arc::new(DiscoveryMapper::new(world.kube.clone(), world.clock.clone()));
        let scope = world.clock.scope("storm");
        let start = world.clock.now();
        let storm: Vec<_> = (0..500)
            .map(|number: u64| {
                let (mapper, clock) = (mapper.clone(), world.clock.clone());
                scope.spawn("asks", async move {
                    clock.sleep(Duration::from_millis(number * 4)).await;
                    let kind = GroupVersionKind::new("nowhere.example.com", "v1", &format!("Kind{number}"));
                    assert!(mapper.mapping(&kind).await.unwrap_err().is_no_match());
                })
            })
            .collect();
        for asks in storm {
            asks.await.unwrap();
        }
        assert!((2.0..3.1).contains(&world.since(start)), "{}", world.since(start));
        let asked = discoveries(&world);
        assert!((2..=8).contains(&asked), "{asked} requests, two each time");
    });
}

#[test]
fn a_scheme_is_a_mapper_that_asks_nobody() {
    World::run(|world| async move {
        let scheme = Scheme::new().with::<Deployment>().unwrap();
        let cluster = world.cluster(|builder| builder.scheme(scheme.clone()).mapper(Arc::new(scheme)));
        let kind = GroupVersionKind::new("apps", "v1", "Deployment");
        assert_eq!(cluster.client().kind(&kind).await.unwrap().to_string(), "deployments.apps/v1");
        assert!(cluster.client().mapper().mapping(&kind).await.unwrap().namespaced);
        assert!(cluster.client().kind(&website()).await.unwrap_err().is_no_match());
        assert_eq!(discoveries(&world), 0);
    });
}
