//! One kind in several representations.

use bowline_cache::{Kind, KindOptions, SelectionSettings};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::core::{ApiResource, PartialObjectMeta};

use crate::arm::{Arm, PATIENCE, value};

#[test]
fn three_representations_of_one_kind_are_three_watches() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let cache = arm.cache();
        let typed = cache.get_informer(&Kind::<ConfigMap>::typed()).expect("an informer");
        let resource = ApiResource::erase::<ConfigMap>(&());
        let dynamic = cache.get_informer(&Kind::dynamic(resource, true)).expect("an informer");
        let metadata =
            cache.get_informer(&Kind::<PartialObjectMeta<ConfigMap>>::metadata()).expect("an informer");
        cache.start();
        cache.wait_for_sync(PATIENCE).await.expect("in sync");
        arm.update("a", "2").await;
        let version = arm.create("b", "1").await.resource_version();
        arm.until("b is held in all forms", || {
            typed.indexer().len() == 2 && dynamic.indexer().len() == 2 && metadata.indexer().len() == 2
        })
        .await;
        let (typed, dynamic, metadata) =
            (typed.indexer().list(), dynamic.indexer().list(), metadata.indexer().list());
        assert_eq!((value(&typed[0]), value(&typed[1])), ("2", "1"));
        assert_eq!(dynamic[0].data["data"]["value"], "2");
        assert_eq!(dynamic[0].types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
        assert_eq!(metadata[0].types.as_ref().map(|types| types.kind.as_str()), Some("ConfigMap"));
        assert_eq!(metadata[0].uid(), typed[0].uid());
        for found in
            [typed[1].resource_version(), dynamic[1].resource_version(), metadata[1].resource_version()]
        {
            assert_eq!(found, version);
        }
        let mut managed = typed.iter().map(|object| object.managed_fields());
        assert!(managed.all(<[_]>::is_empty));
        assert!(dynamic.iter().all(|object| object.managed_fields().is_empty()));
        assert!(metadata.iter().all(|object| object.managed_fields().is_empty()));
        let mut accepted: Vec<_> =
            arm.traffic.open("configmaps").into_iter().map(|asked| asked.accept).collect();
        accepted.sort();
        assert_eq!(
            accepted,
            [
                "application/json",
                "application/json",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
            ]
        );
    });
}

#[test]
fn managed_fields_are_kept_for_a_kind_with_that_option() {
    Arm::run(|arm| async move {
        arm.create("a", "1").await;
        let (maps, metadata) = (Kind::<ConfigMap>::typed(), Kind::<PartialObjectMeta<ConfigMap>>::metadata());
        let keep = SelectionSettings::new().keep_managed_fields(true);
        let cache = arm.cache_with(arm.options().kind(KindOptions::new(maps.clone()).settings(keep)));
        cache.start();
        let key = format!("{}/a", arm.namespace).parse().expect("a key");
        let a = cache.get(&maps, &key).await.expect("in sync").expect("it is there");
        assert_eq!(!a.managed_fields().is_empty(), has_managed_fields());
        let a = cache.get(&metadata, &key).await.expect("in sync").expect("it is there");
        let is_kept = !a.managed_fields().is_empty();
        assert_eq!(is_kept, has_managed_fields(), "settings are of a kind in all its forms");
    });
}

#[test]
fn managed_fields_are_kept_in_namespaces_with_that_option() {
    Arm::run(|arm| async move {
        let other = arm.another_namespace().await;
        arm.create("a", "1").await;
        arm.create_in(&other, "b", "1").await;
        let options = bowline_cache::CacheOptions::new().namespaces([
            (arm.namespace.as_str(), SelectionSettings::new().keep_managed_fields(true)),
            (other.as_str(), SelectionSettings::new()),
        ]);
        let cache = arm.cache_with(options);
        cache.start();
        let maps = cache.lister(&Kind::<ConfigMap>::typed()).await.expect("in sync");
        let kept = maps.namespace(&arm.namespace).get("a").expect("it is there");
        assert_eq!(!kept.managed_fields().is_empty(), has_managed_fields());
        let skipped = maps.namespace(&other).get("b").expect("it is there");
        assert!(skipped.managed_fields().is_empty());
    });
}

/// The embedded server keeps none; `tests/cache` tests them on that arm.
fn has_managed_fields() -> bool {
    Arm::is_real()
}
