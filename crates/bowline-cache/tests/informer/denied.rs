//! Forbidden and missing kinds: only their own users wait, with an error that names the reason.

use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::{Kind, Namespaces, Selectors, SharedInformer};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::{Witness, World, held, refuse};

#[test]
fn a_forbidden_informer_reports_the_reason_and_recovers() {
    World::run(1, |world| async move {
        world.create("a", "1").await;
        let reads = world.faults.on([Verb::List, Verb::Watch]).resource("configmaps");
        reads.fail(refuse(403, "Forbidden", "configmaps is forbidden: not today"));
        let informer = world.informer();
        informer.start();
        let error = informer.wait_for_sync(Duration::from_secs(60)).await.unwrap_err();
        let text = error.to_string();
        for part in [
            "configmaps (v1)",
            "all namespaces",
            "waiting for retry",
            "configmaps is forbidden: not today",
            "403",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(error.missing().len(), 1);
        let asked = world.asked(Verb::Watch) + world.asked(Verb::List);
        assert!((4..40).contains(&asked), "{asked} requests");
        world.faults.remove_all();
        informer.wait_for_sync(Duration::from_secs(61)).await.unwrap();
        assert_eq!(held(&informer), world.truth().await);
    });
}

#[test]
fn after_a_revoked_permission_the_objects_stay_and_the_informer_recovers() {
    World::run(2, |world| async move {
        world.create("a", "1").await;
        world.create("b", "1").await;
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        world.gap().await;
        world.faults.remove_all();
        world.faults.on([Verb::List, Verb::Watch]).fail(refuse(403, "Forbidden", "no longer"));
        world.delete("a").await;
        world.clock.sleep(Duration::from_secs(300)).await;
        assert_eq!((held(&informer).len(), witness.count()), (2, 2));
        world.faults.remove_all();
        world.settled(&informer).await;
        assert_eq!(witness.lines()[2..], ["-a=1?"]);
    });
}

#[test]
fn a_forbidden_streaming_list_falls_back_to_a_list() {
    World::run(3, |world| async move {
        world.create("a", "1").await;
        world.faults.on(Verb::Watch).times(1).fail(refuse(403, "Forbidden", "no"));
        let informer = world.informer();
        informer.start();
        informer.wait_for_sync(Duration::from_millis(10)).await.unwrap();
        assert_eq!(world.asked(Verb::List), 1);
    });
}

#[test]
fn a_kind_that_is_installed_later_is_found() {
    World::run(4, |world| async move {
        let gvk = GroupVersionKind::gvk("late.example.com", "v1", "Guest");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "guests");
        let informer =
            SharedInformer::<DynamicObject>::builder(&world.spawner(), Kind::dynamic(resource.clone(), true))
                .client(world.client.clone())
                .build()
                .unwrap();
        informer.start();
        let maps = world.synced().await;
        let (witness, _registration) = Witness::of(&maps);
        let error = informer.wait_for_sync(Duration::from_secs(30)).await.unwrap_err().to_string();
        assert!(error.contains("guests.late.example.com") && error.contains("404"), "{error}");
        world.create("a", "1").await;
        world.until("other kinds continue", || witness.count() == 1).await;

        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "guests.late.example.com"},
            "spec": {
                "group": "late.example.com",
                "scope": "Namespaced",
                "names": {"kind": "Guest", "listKind": "GuestList", "plural": "guests", "singular": "guest"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        ));
        let api = Api::<DynamicObject>::all_with(world.client.clone(), &definitions);
        let definition = serde_json::from_value(definition).unwrap();
        api.create(&kube::api::PostParams::default(), &definition).await.unwrap();
        informer.wait_for_sync(Duration::from_secs(70)).await.unwrap();
        let guests = Api::<DynamicObject>::namespaced_with(world.client.clone(), "default", &resource);
        let guest = DynamicObject::new("first", &resource);
        guests.create(&kube::api::PostParams::default(), &guest).await.unwrap();
        world.until("it is there", || informer.indexer().len() == 1).await;
        assert_eq!(informer.indexer().list()[0].name_any(), "first");
    });
}

#[test]
fn a_forbidden_namespace_delays_only_itself() {
    World::run(5, |world| async move {
        world.create("a", "1").await;
        let reads = world.faults.on([Verb::List, Verb::Watch]).namespace("kube-system");
        reads.fail(refuse(403, "Forbidden", "not there"));
        let namespace = |name: &str| Namespaces::One(name.to_owned());
        let informer = SharedInformer::builder(&world.spawner(), Kind::typed())
            .selected(world.client.clone(), namespace("default"), Selectors::default())
            .selected(world.client.clone(), namespace("kube-system"), Selectors::default())
            .build()
            .unwrap();
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        let error = informer.wait_for_sync(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.missing().len(), 1);
        assert!(error.to_string().contains("namespace kube-system"), "{error}");
        assert!(!error.to_string().contains("namespace default"), "{error}");
        world.update("a", "2").await;
        world.until("the event arrives", || witness.count() == 2).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2"]);
        assert!(!informer.has_synced() && !registration.has_synced());
        assert_eq!(informer.last_sync_resource_version(), None);
        world.faults.remove_all();
        informer.wait_for_sync(Duration::from_secs(61)).await.unwrap();
        assert!(registration.wait_synced().await);
    });
}
