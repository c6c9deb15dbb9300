//! Many controllers, few watches.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::Resource;
use serde::de::DeserializeOwned;

use bowline_runtime::Manager;

use crate::world::World;

#[test]
fn twenty_controllers_of_five_kinds_share_five_watches() {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.replica("a");
        for number in 0..4 {
            add::<ConfigMap>(&manager, &world, number);
            add::<Secret>(&manager, &world, number);
            add::<Pod>(&manager, &world, number);
            add::<Service>(&manager, &world, number);
            add::<Deployment>(&manager, &world, number);
        }
        assert_eq!(manager.controllers().len(), 20);
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        // There is one config map and, from the start, one service.
        world.until("all of them reconcile", || world.record.lines().len() == 8).await;
        for resource in ["configmaps", "secrets", "pods", "services", "deployments"] {
            assert_eq!(world.watches(resource), 1, "{resource}");
        }
        assert_eq!(manager.cluster().cache().stats().len(), 5);
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

fn add<K>(manager: &Manager, world: &World, number: usize)
where
    K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Send + Sync + 'static,
{
    let name = format!("{}-{number}", K::plural(&()));
    manager.controller::<K>().named(name).register(world.reconciler("it")).expect("it can be built");
}
