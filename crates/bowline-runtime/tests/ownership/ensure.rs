//! `ensure`, `create_or_update` and `create_or_patch`.

use std::sync::Arc;

use bowline_cache::{Kind, ObjectKey};
use bowline_machinery::LabelSelector;
use bowline_runtime::ownership::{
    Claim, Owner, OwnerExt as _, controller_of, has_controller_reference, has_owner_reference,
    remove_controller_reference, remove_owner_reference, set_controller_reference, set_owner_reference,
};
use bowline_runtime::{EnsureError, EnsureOutcome, Error, finalizer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::world::World;

fn named(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map
}

fn set(value: &str) -> impl FnMut(&mut ConfigMap) {
    move |map| {
        map.data.get_or_insert_default().insert("value".to_owned(), value.to_owned());
    }
}

/// An operator's desired Deployment.
fn web(deployment: &mut Deployment) {
    let labels = [("app".to_owned(), "web".to_owned())];
    let spec = deployment.spec.get_or_insert_default();
    spec.replicas = Some(3);
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
    pod.containers[0].resources =
        Some(ResourceRequirements { limits: Some(limits.into()), ..Default::default() });
}

#[test]
fn an_object_is_created_changed_and_left_alone_and_it_says_which() {
    World::run(|world| async move {
        let client = world.client();
        let created = client.ensure(named("a"), set("1")).await.unwrap();
        assert_eq!((created.outcome(), created.is_changed()), (EnsureOutcome::Created, true));
        assert_eq!(created.data.as_ref().unwrap()["value"], "1");
        assert_eq!(world.writes(), ["Create configmaps"]);
        let unchanged = client.ensure(named("a"), set("1")).await.unwrap();
        assert_eq!((unchanged.outcome(), unchanged.is_changed()), (EnsureOutcome::Unchanged, false));
        assert_eq!(unchanged.resource_version(), created.resource_version());
        assert!(world.writes().is_empty());
        let updated = client.ensure(named("a"), set("2")).await.unwrap();
        assert_eq!(updated.outcome(), EnsureOutcome::Updated);
        assert_eq!(updated.into_object().data.as_ref().unwrap()["value"], "2");
        assert_eq!(world.writes(), ["Patch configmaps"]);
    });
}

#[test]
fn nothing_is_written_when_only_the_server_filled_something_in() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        let created = world.client().ensure(owner.child::<Deployment>("web"), web).await.unwrap();
        assert_eq!(created.outcome(), EnsureOutcome::Created);
        let pod = created.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        assert_eq!(pod.containers[0].image_pull_policy.as_deref(), Some("Always"), "the server has defaults");
        world.writes();
        for _ in 0..3 {
            for outcome in [
                world.client().ensure(owner.child::<Deployment>("web"), web).await.unwrap().outcome(),
                world
                    .client()
                    .create_or_update(owner.child::<Deployment>("web"), web)
                    .await
                    .unwrap()
                    .outcome(),
                world
                    .client()
                    .create_or_patch(owner.child::<Deployment>("web"), web)
                    .await
                    .unwrap()
                    .outcome(),
            ] {
                assert_eq!(outcome, EnsureOutcome::Unchanged);
            }
        }
        assert!(world.writes().is_empty());
    });
}

#[test]
fn what_others_wrote_stays() {
    World::run(|world| async move {
        let client = world.client();
        client.ensure(named("a"), set("1")).await.unwrap();
        world.meddle("a", [json!({"data": {"other": "theirs"}})]);
        let map = client.ensure(named("a"), set("2")).await.unwrap();
        assert_eq!(map.outcome(), EnsureOutcome::Updated);
        let data = map.data.as_ref().unwrap();
        assert_eq!((data["value"].as_str(), data["other"].as_str()), ("2", "theirs"));
        assert_eq!(world.writes(), ["Create configmaps", "Patch configmaps", "Patch configmaps"]);
    });
}

#[test]
fn a_create_that_another_was_quicker_with_goes_on_with_that_object() {
    World::run(|world| async move {
        let maps = world.maps();
        world.before_next_write(move || async move {
            let mut map = named("a");
            map.data = Some([("other".to_owned(), "theirs".to_owned())].into());
            maps.create(&PostParams::default(), &map).await.expect("created");
        });
        let map = world.client().ensure(named("a"), set("1")).await.unwrap();
        assert_eq!(map.outcome(), EnsureOutcome::Updated);
        assert_eq!(map.data.as_ref().unwrap().len(), 2);
        assert_eq!(world.writes(), ["Create configmaps", "Patch configmaps"]);
    });
}

#[test]
fn an_object_that_is_deleted_in_between_is_created_again() {
    World::run(|world| async move {
        let before = world.client().ensure(named("a"), set("1")).await.unwrap();
        let maps = world.maps();
        world.before_next_write(move || async move {
            maps.delete("a", &DeleteParams::default()).await.expect("deleted");
        });
        let after = world.client().ensure(named("a"), set("2")).await.unwrap();
        assert_eq!(after.outcome(), EnsureOutcome::Created);
        assert_ne!(after.metadata.uid, before.metadata.uid);
    });
}

#[test]
fn a_cache_that_is_behind_is_passed_by_after_the_first_conflict() {
    World::run(|world| async move {
        let client = world.client();
        client.declare(&Kind::<ConfigMap>::typed());
        world.map("a", json!({})).await;
        let key = ObjectKey::new("default", "a");
        assert!(client.find::<ConfigMap>(&key).await.unwrap().is_some(), "it is cached");
        world.delay_watches();
        let patch = Patch::Merge(json!({"data": {"other": "theirs"}}));
        world.maps().patch("a", &PatchParams::default(), &patch).await.unwrap();
        world.maps().create(&PostParams::default(), &named("b")).await.unwrap();
        world.writes();
        let map = client.ensure(named("a"), set("1")).await.unwrap();
        assert_eq!(map.data.as_ref().unwrap().len(), 2);
        assert_eq!(world.writes(), ["Patch configmaps", "Patch configmaps"]);
        let map = client.ensure(named("b"), set("1")).await.unwrap();
        assert_eq!(map.outcome(), EnsureOutcome::Updated, "it is there, and the cache does not know");
        assert_eq!(world.writes(), ["Create configmaps", "Patch configmaps"]);
    });
}

#[test]
fn a_conflict_that_does_not_end_is_an_error_after_five_tries() {
    World::run(|world| async move {
        world.client().ensure(named("a"), set("1")).await.unwrap();
        world.writes();
        world.meddle("a", (0..100).map(|number| json!({"data": {"other": number.to_string()}})));
        let error = world.client().ensure(named("a"), set("2")).await.unwrap_err();
        assert!(matches!(&error, EnsureError::Client(error) if error.is_conflict()), "{error}");
        assert!(error.is_retryable());
        assert_eq!(world.writes().len(), 5);
    });
}

#[test]
fn an_object_of_another_controller_or_of_none_is_never_touched() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        let other = world.map("other", json!({})).await;
        world.map("orphan", json!({})).await;
        world.client().ensure(other.child::<ConfigMap>("theirs"), set("1")).await.unwrap();
        world.writes();
        let error = world.client().ensure(owner.child::<ConfigMap>("theirs"), set("2")).await.unwrap_err();
        assert!(error.is_not_controlled());
        assert_eq!(
            error.to_string(),
            "ConfigMap default/theirs exists and is controlled by ConfigMap other, not by ConfigMap owner: it is left alone; \
             delete it, or use another name"
        );
        let error = world.client().ensure(owner.child::<ConfigMap>("orphan"), set("2")).await.unwrap_err();
        assert!(error.is_not_controlled() && error.to_string().contains("controlled by nobody"), "{error}");
        assert!(world.writes().is_empty());
    });
}

#[test]
fn a_change_may_fail_and_may_not_rename() {
    World::run(|world| async move {
        let failing = |_: &mut ConfigMap| Err::<(), _>(std::io::Error::other("no idea"));
        let error = world.client().ensure(named("a"), failing).await.unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap default/a cannot be brought to its desired state: no idea");
        let renaming = |map: &mut ConfigMap| map.metadata.name = Some("b".to_owned());
        let error = world.client().ensure(named("a"), renaming).await.unwrap_err();
        assert!(matches!(error, EnsureError::Identity { .. }), "{error}");
        let moving = |map: &mut ConfigMap| map.metadata.namespace = Some("kube-system".to_owned());
        assert!(matches!(
            world.client().create_or_update(named("a"), moving).await.unwrap_err(),
            EnsureError::Identity { .. }
        ));
        assert!(world.writes().is_empty());
    });
}

#[test]
fn what_only_the_server_sets_is_put_back() {
    World::run(|world| async move {
        let created = world.client().ensure(named("a"), set("1")).await.unwrap();
        world.writes();
        let replaced = world.client().ensure(named("a"), |map| {
            *map = named("a");
            set("1")(map);
        });
        assert_eq!(replaced.await.unwrap().outcome(), EnsureOutcome::Unchanged);
        let replaced = world.client().create_or_update(named("a"), |map| {
            *map = named("a");
            set("2")(map);
        });
        let replaced = replaced.await.unwrap();
        assert_eq!(replaced.outcome(), EnsureOutcome::Updated);
        assert_eq!(replaced.metadata.uid, created.metadata.uid);
        assert_eq!(world.writes(), ["Update configmaps"]);
    });
}

#[test]
fn a_status_goes_through_its_subresource() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        let available = |number: i32| {
            move |deployment: &mut Deployment| {
                web(deployment);
                deployment.status.get_or_insert_default().observed_generation = Some(i64::from(number));
            }
        };
        let ensure = async |number| {
            let desired = owner.child::<Deployment>("web");
            world.client().create_or_patch(desired, available(number)).await.unwrap()
        };
        let created = ensure(1).await;
        assert_eq!(created.outcome(), EnsureOutcome::Created);
        assert_eq!(created.status.as_ref().unwrap().observed_generation, Some(1));
        assert_eq!(world.writes(), ["Create deployments", "Patch deployments/status"]);
        assert_eq!(ensure(1).await.outcome(), EnsureOutcome::Unchanged);
        assert_eq!(ensure(2).await.outcome(), EnsureOutcome::UpdatedStatusOnly);
        assert_eq!(world.writes(), ["Patch deployments/status"]);
        let desired = owner.child::<Deployment>("web");
        let both = world.client().create_or_patch(desired, |deployment: &mut Deployment| {
            available(3)(deployment);
            deployment.spec.get_or_insert_default().replicas = Some(5);
        });
        let both = both.await.unwrap();
        assert_eq!(both.outcome(), EnsureOutcome::UpdatedStatus);
        assert_eq!(both.status.as_ref().unwrap().observed_generation, Some(3));
        assert_eq!(both.spec.as_ref().unwrap().replicas, Some(5));
        assert_eq!(world.writes(), ["Patch deployments", "Patch deployments/status"]);
    });
}

#[test]
fn a_status_that_conflicts_after_the_object_was_written_does_not_hide_that_it_was() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        let deployments: Api<Deployment> = Api::namespaced(world.kube.clone(), "default");
        let meddle = |writes: u64, value: &'static str| {
            let deployments = deployments.clone();
            world.before_write_after(writes, move || async move {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {"other": value}}}));
                deployments.patch("web", &PatchParams::default(), &patch).await.expect("patched");
            });
        };
        let ensure = async |replicas: i32| {
            let desired = owner.child::<Deployment>("web");
            let ensured = world.client().ensure(desired, |deployment| {
                web(deployment);
                deployment.spec.get_or_insert_default().replicas = Some(replicas);
                deployment.status.get_or_insert_default().observed_generation = Some(i64::from(replicas));
            });
            ensured.await.unwrap()
        };
        meddle(1, "1");
        let created = ensure(1).await;
        assert_eq!(created.outcome(), EnsureOutcome::Created);
        assert_eq!(created.annotations()["other"], "1", "what others wrote stays");
        assert_eq!(created.status.as_ref().unwrap().observed_generation, Some(1));
        let status = "Patch deployments/status";
        assert_eq!(world.writes(), ["Create deployments", status, status]);
        meddle(1, "2");
        let updated = ensure(2).await;
        assert_eq!(updated.outcome(), EnsureOutcome::UpdatedStatus);
        assert_eq!(updated.status.as_ref().unwrap().observed_generation, Some(2));
        assert_eq!(world.writes(), ["Patch deployments", status, status]);
    });
}

#[test]
fn what_is_created_or_updated_for_an_owner_is_its_own_unless_it_is_anothers() {
    World::run(|world| async move {
        let owner = Arc::new(world.map("owner", json!({})).await);
        let other = world.map("other", json!({})).await;
        let client = world.client();
        for name in ["updated", "patched"] {
            world.map(name, json!({})).await;
        }
        let desired = |name: &str| owner.child::<ConfigMap>(name);
        // The change replaces all of it, and with it the owners.
        let replace = |name: &'static str| move |map: &mut ConfigMap| *map = named(name);
        let updated = client.create_or_update(desired("updated"), replace("updated")).await.unwrap();
        assert!(has_controller_reference(&owner, &updated));
        let patched = client.create_or_patch(desired("patched"), replace("patched")).await.unwrap();
        assert!(has_controller_reference(&owner, &patched));
        let created = client.create_or_update(desired("created"), replace("created")).await.unwrap();
        assert!(has_controller_reference(&owner, &created));
        world.writes();
        let again = client.create_or_update(desired("updated"), replace("updated")).await.unwrap();
        assert_eq!(again.outcome(), EnsureOutcome::Unchanged);
        let theirs = other.child::<ConfigMap>("updated");
        let error = client.create_or_update(theirs, set("theirs")).await.unwrap_err();
        assert!(error.is_not_controlled(), "{error}");
        let theirs = other.child::<ConfigMap>("patched");
        assert!(client.create_or_patch(theirs, set("theirs")).await.unwrap_err().is_not_controlled());
        assert!(world.writes().is_empty());
    });
}

#[test]
fn what_a_reconciler_holds_does_for_every_function_that_reads_an_object() {
    World::run(|world| async move {
        let owner = Arc::new(world.map("owner", json!({"finalizers": ["example.com/a"]})).await);
        let mut map = named("a");
        assert!(set_controller_reference(&owner, &mut map).unwrap());
        assert!(remove_controller_reference(&owner, &mut map));
        assert!(set_owner_reference(&owner, &mut map).unwrap() && has_owner_reference(&owner, &map));
        assert!(remove_owner_reference(&owner, &mut map));
        Owner::controller(&owner).unwrap().set_on(&mut map).unwrap();
        let map = Arc::new(map);
        assert!(has_controller_reference(&owner, &map) && controller_of(&map).is_some());
        assert!(finalizer::contains(&owner, "example.com/a"));
        assert!(Claim::new(&owner, LabelSelector::parse("a=b").unwrap()).is_ok());
        let ensured = world.client().ensure(named("b"), set("1")).await.unwrap();
        world.client().delete_object(&ensured.into_object()).await.unwrap();
    });
}

#[test]
fn an_object_without_a_namespace_or_in_one_that_is_missing_is_an_error_at_once() {
    World::run(|world| async move {
        let mut map = named("a");
        map.metadata.namespace = Some("missing".to_owned());
        let error = world.client().ensure(map, set("1")).await.unwrap_err();
        assert!(matches!(&error, EnsureError::Client(error) if error.is_not_found()), "{error}");
        assert_eq!(world.writes().len(), 1);
        let key = ObjectKey::new("missing", "a");
        assert!(world.client().find::<ConfigMap>(&key).await.unwrap().is_none());
    });
}

#[test]
fn a_conflict_in_all_attempts_is_retried_by_retry_on_conflict() {
    World::run(|world| async move {
        let client = world.client();
        world.map("a", json!({})).await;
        world.meddle("a", (0..5).map(|write| json!({"data": {"other": write.to_string()}})));
        let ensured = client.retry_on_conflict(|| async {
            client.ensure(named("a"), set("1")).await?;
            Ok::<_, Error>(())
        });
        ensured.await.unwrap();
        assert_eq!(world.writes().len(), 6);
    });
}
