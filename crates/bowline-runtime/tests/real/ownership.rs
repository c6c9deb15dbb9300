//! Owners, finalizers and children as a server has them.

use std::sync::Arc;

use bowline_cache::{ListQuery, object_key};
use bowline_machinery::LabelSelector;
use bowline_runtime::finalizer::{Finalized, Finalizers};
use bowline_runtime::ownership::{
    Claim, OwnerExt as _, controller_of, has_controller_reference, set_controller_reference,
};
use bowline_runtime::{Client, EnsureOutcome};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::arm::Arm;

/// An operator's desired Deployment.
fn web(replicas: i32) -> impl FnMut(&mut Deployment) {
    move |deployment| {
        let labels = [("app".to_owned(), "web".to_owned())];
        let spec = deployment.spec.get_or_insert_default();
        spec.replicas = Some(replicas);
        spec.selector.match_labels = Some(labels.clone().into());
        spec.template.metadata.get_or_insert_default().labels = Some(labels.into());
        let pod: &mut PodSpec = spec.template.spec.get_or_insert_default();
        if pod.containers.is_empty() {
            pod.containers.push(Container::default());
        }
        "web".clone_into(&mut pod.containers[0].name);
        pod.containers[0].image = Some("nginx".to_owned());
        // The server writes this in another way.
        let limits = [("cpu".to_owned(), Quantity("1000m".to_owned()))];
        let limits = ResourceRequirements { limits: Some(limits.into()), ..ResourceRequirements::default() };
        pod.containers[0].resources = Some(limits);
    }
}

#[test]
fn a_deployment_is_ensured_and_its_defaults_are_no_difference() {
    Arm::run(|arm| async move {
        let owner = arm.map("owner", json!({})).await;
        let ensure = async |replicas| {
            let desired = owner.child::<Deployment>("web");
            arm.client().ensure(desired, web(replicas)).await.expect("ensured")
        };
        let created = ensure(2).await;
        assert_eq!(created.outcome(), EnsureOutcome::Created);
        assert!(has_controller_reference(&owner, &created));
        let unchanged = ensure(2).await;
        assert_eq!(unchanged.outcome(), EnsureOutcome::Unchanged);
        assert_eq!(unchanged.resource_version(), created.resource_version());
        let pod = unchanged.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        assert_eq!(pod.containers[0].image_pull_policy.as_deref(), Some("Always"));
        assert_eq!(pod.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap()["cpu"].0, "1");
        let updated = ensure(3).await;
        assert_eq!(updated.outcome(), EnsureOutcome::Updated);
        assert_eq!(updated.spec.as_ref().unwrap().replicas, Some(3));
        let status =
            arm.client().create_or_patch(owner.child::<Deployment>("web"), |deployment: &mut Deployment| {
                web(4)(deployment);
                deployment.status.get_or_insert_default().replicas = Some(1);
            });
        let status = status.await.unwrap();
        assert_eq!(status.outcome(), EnsureOutcome::UpdatedStatus);
        assert_eq!(status.status.as_ref().unwrap().replicas, Some(1));
        let update = arm.client().create_or_update(owner.child::<Deployment>("web"), web(4)).await.unwrap();
        assert_eq!(update.outcome(), EnsureOutcome::Unchanged);
        let update = arm.client().create_or_update(owner.child::<Deployment>("web"), web(5)).await.unwrap();
        assert_eq!(update.outcome(), EnsureOutcome::Updated);
        let other = arm.map("other", json!({})).await;
        let error = arm.client().ensure(other.child::<Deployment>("web"), web(1)).await.unwrap_err();
        assert!(error.is_not_controlled(), "{error}");
    });
}

#[test]
fn an_old_copy_does_not_overwrite_what_others_wrote() {
    Arm::run(|arm| async move {
        let map = Arc::new(arm.map("a", json!({"finalizers": ["other.org/x"]})).await);
        let patch = json!({"metadata": {"finalizers": ["other.org/x", "other.org/y"]}});
        arm.maps().patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let finalizers = Finalizers::new()
            .register("example.com/a", |_: Client, _: Arc<ConfigMap>| async { Ok::<_, std::io::Error>(()) });
        let finalizers = finalizers.unwrap();
        let Finalized::Alive(map) = finalizers.run(arm.client(), &map).await.unwrap() else {
            panic!("it lives")
        };
        assert_eq!(map.finalizers(), ["other.org/x", "other.org/y", "example.com/a"]);
        arm.maps().delete("a", &DeleteParams::default()).await.unwrap();
        // The copy is old: it does not even know that the object goes.
        let fresh = arm.client().live().get::<ConfigMap>(&object_key(&*map)).await.unwrap();
        assert!(matches!(finalizers.run(arm.client(), &fresh).await.unwrap(), Finalized::Done));
        let patch = json!({"metadata": {"finalizers": null}});
        let left = arm.maps().get("a").await.unwrap();
        assert_eq!(left.finalizers(), ["other.org/x", "other.org/y"]);
        arm.maps().patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    });
}

#[test]
fn the_last_finalizer_lets_an_object_go() {
    Arm::run(|arm| async move {
        let finalizers = Finalizers::new()
            .register("example.com/a", |_: Client, _: Arc<ConfigMap>| async { Ok::<_, std::io::Error>(()) });
        let finalizers = finalizers.unwrap();
        let map = arm.map("a", json!({"finalizers": ["example.com/a"]})).await;
        arm.maps().delete("a", &DeleteParams::default()).await.unwrap();
        let map = arm.client().live().get::<ConfigMap>(&object_key(&map)).await.unwrap();
        assert!(matches!(finalizers.run(arm.client(), &map).await.unwrap(), Finalized::Done));
        assert!(arm.maps().get_opt("a").await.unwrap().is_none());
        assert!(matches!(finalizers.run(arm.client(), &map).await.unwrap(), Finalized::Done));
    });
}

#[test]
fn orphans_are_adopted_children_released_and_other_versions_left_alone() {
    Arm::run(|arm| async move {
        let owner = arm.map("owner", json!({})).await;
        arm.map("orphan", json!({"labels": {"app": "web"}})).await;
        let mut left = arm.map("left", json!({})).await;
        set_controller_reference(&owner, &mut left).unwrap();
        let left = arm.client().update(&left).await.unwrap();
        assert!(has_controller_reference(&owner, &left));
        let changed = arm.map("changed", json!({"labels": {"app": "web"}})).await;
        let patch = json!({"data": {"a": "b"}});
        let query = ListQuery::new().in_namespace(&arm.namespace);
        let maps = arm.client().live().list::<ConfigMap>(&query).await.unwrap();
        arm.maps().patch("changed", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let claim = Claim::new(&owner, LabelSelector::parse("app=web").unwrap()).unwrap();
        let error = claim.claim(arm.client(), maps).await.unwrap_err();
        assert_eq!(error.errors.len(), 1, "{error}");
        assert_eq!(error.errors[0].0, object_key(&changed).to_string());
        let maps = arm.client().live().list::<ConfigMap>(&query).await.unwrap();
        let controlled = |name: &str| {
            let map = maps.iter().find(|map| map.name_any() == name).expect("it is there");
            controller_of(map).is_some()
        };
        assert_eq!((controlled("orphan"), controlled("left"), controlled("changed")), (true, false, false));
        let claimed = claim.claim(arm.client(), maps).await.unwrap();
        assert_eq!((claimed.objects.len(), claimed.adopted, claimed.released), (2, 1, 0));
        assert_eq!(
            claimed.objects.iter().map(|map| map.name_any()).collect::<Vec<_>>(),
            ["changed", "orphan"]
        );
    });
}

#[test]
fn an_object_of_the_same_name_is_not_adopted_in_place_of_the_one_that_was_read() {
    Arm::run(|arm| async move {
        let owner = arm.map("owner", json!({})).await;
        let old = arm.map("again", json!({"labels": {"app": "web"}})).await;
        arm.maps().delete("again", &DeleteParams::default()).await.unwrap();
        arm.map("again", json!({"labels": {"app": "web"}})).await;
        let claim = Claim::new(&owner, LabelSelector::parse("app=web").unwrap()).unwrap();
        assert!(claim.claim(arm.client(), [Arc::new(old)]).await.is_err());
        assert!(controller_of(&arm.maps().get("again").await.unwrap()).is_none());
    });
}
