//! Orphans are adopted, and what does not match any more is released.

use std::sync::Arc;

use bowline_cache::ListQuery;
use bowline_machinery::LabelSelector;
use bowline_runtime::ownership::{
    Claim, ClaimError, Claimed, controller_of, has_controller_reference, set_controller_reference,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

fn web() -> Value {
    json!({"labels": {"app": "web"}})
}

async fn all(world: &World) -> Vec<Arc<ConfigMap>> {
    let query = ListQuery::new().in_namespace("default");
    let maps = world.client().live().list::<ConfigMap>(&query).await.expect("listed");
    maps.into_iter().filter(|map| map.metadata.name.as_deref() != Some("kube-root-ca.crt")).collect()
}

async fn claim(
    world: &World,
    owner: &ConfigMap,
    objects: Vec<Arc<ConfigMap>>,
) -> Result<Claimed<ConfigMap>, ClaimError<ConfigMap>> {
    let claim = Claim::new(owner, LabelSelector::parse("app=web").expect("a selector")).expect("an owner");
    claim.claim(world.client(), objects).await
}

fn names(maps: &[Arc<ConfigMap>]) -> Vec<&str> {
    maps.iter().filter_map(|map| map.metadata.name.as_deref()).collect()
}

/// A config map that is controlled by another.
async fn owned(world: &World, owner: &ConfigMap, name: &str, labels: Value) {
    let mut object = json!({"metadata": labels});
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = "default".into();
    let mut map: ConfigMap = serde_json::from_value(object).expect("a config map");
    set_controller_reference(owner, &mut map).expect("it can be owned");
    world.maps().create(&PostParams::default(), &map).await.expect("created");
    world.writes();
}

#[test]
fn orphans_that_match_are_adopted_and_children_that_do_not_are_released() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        let other = world.map("other", json!({})).await;
        world.map("orphan", web()).await;
        world.map("stranger", json!({})).await;
        owned(&world, &owner, "kept", web()).await;
        owned(&world, &owner, "left", json!({})).await;
        owned(&world, &other, "theirs", web()).await;
        let claimed = claim(&world, &owner, all(&world).await).await.unwrap();
        assert_eq!(names(&claimed.objects), ["kept", "orphan"]);
        assert_eq!((claimed.adopted, claimed.released), (1, 1));
        assert!(
            claimed.objects.iter().all(|map| has_controller_reference(&owner, map)),
            "as the server has them"
        );
        assert_eq!(world.writes(), ["Patch configmaps", "Patch configmaps"]);
        let now = all(&world).await;
        let controllers: Vec<_> =
            now.iter().map(|map| controller_of(map).map(|it| it.name.as_str())).collect();
        assert_eq!(names(&now), ["kept", "left", "orphan", "other", "owner", "stranger", "theirs"]);
        assert_eq!(controllers, [Some("owner"), None, Some("owner"), None, None, None, Some("other")]);
        let again = claim(&world, &owner, now).await.unwrap();
        assert_eq!((again.objects.len(), again.adopted, again.released), (2, 0, 0));
        assert!(world.writes().is_empty());
    });
}

#[test]
fn an_owner_that_was_deleted_or_made_again_adopts_nothing() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({"finalizers": ["example.com/a"]})).await;
        world.map("orphan", web()).await;
        world.map("orphan-2", web()).await;
        world.maps().delete("owner", &DeleteParams::default()).await.unwrap();
        world.writes();
        // The owner that the caller has is from an old cache: it does not know.
        let error = claim(&world, &owner, all(&world).await).await.unwrap_err();
        assert_eq!(error.errors.len(), 2);
        assert!(error.to_string().contains("ConfigMap default/owner is being deleted"), "{error}");
        let deleted = world.maps().get("owner").await.unwrap();
        let claimed = claim(&world, &deleted, all(&world).await).await.unwrap();
        assert!(claimed.objects.is_empty(), "who knows that it goes does not even try");
        let mut old = owner.clone();
        old.metadata.uid = Some("another".to_owned());
        let error = claim(&world, &old, all(&world).await).await.unwrap_err();
        assert!(error.to_string().contains("was deleted and made again"), "{error}");
        old.metadata.name = Some("never-was".to_owned());
        let error = claim(&world, &old, all(&world).await).await.unwrap_err();
        assert!(error.to_string().contains("is gone"), "{error}");
        assert!(world.writes().is_empty());
    });
}

#[test]
fn an_owner_that_goes_releases_nothing() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({"finalizers": ["example.com/a"]})).await;
        owned(&world, &owner, "left", json!({})).await;
        world.maps().delete("owner", &DeleteParams::default()).await.unwrap();
        let owner = world.maps().get("owner").await.unwrap();
        world.writes();
        let claimed = claim(&world, &owner, all(&world).await).await.unwrap();
        assert!(claimed.objects.is_empty() && world.writes().is_empty());
    });
}

#[test]
fn an_object_that_is_gone_is_no_error_and_one_that_was_changed_or_made_again_is_not_touched() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        for name in ["changed", "gone", "again"] {
            world.map(name, web()).await;
        }
        let old = all(&world).await;
        world.maps().delete("gone", &DeleteParams::default()).await.unwrap();
        world.maps().delete("again", &DeleteParams::default()).await.unwrap();
        world.map("again", json!({})).await;
        world.meddle("changed", [json!({"metadata": {"labels": {"app": "other"}}})]);
        world.client().ensure(owner.clone(), |_| {}).await.unwrap();
        let patched = world.client().create_or_patch(owner.clone(), |map| {
            map.data = Some([("a".to_owned(), "b".to_owned())].into());
        });
        patched.await.unwrap();
        let error = claim(&world, &owner, old).await.unwrap_err();
        let failed: Vec<_> = error.errors.iter().map(|(object, _)| object.as_str()).collect();
        assert_eq!(failed, ["default/again", "default/changed"]);
        assert!(all(&world).await.iter().all(|map| controller_of(map).is_none()));
    });
}

#[test]
fn what_could_be_claimed_is_in_the_error() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        world.map("changed", web()).await;
        owned(&world, &owner, "kept", web()).await;
        world.map("orphan", web()).await;
        owned(&world, &owner, "released", json!({})).await;
        let objects = all(&world).await;
        world.meddle("changed", [json!({"data": {"a": "b"}})]);
        let error = claim(&world, &owner, objects).await.unwrap_err();
        assert_eq!(error.errors.len(), 1);
        assert_eq!(names(&error.claimed.objects), ["kept", "orphan"]);
        assert_eq!((error.claimed.adopted, error.claimed.released), (1, 1));
        let shared = bowline_runtime::Error::from(error);
        assert!(shared.find::<ClaimError<ConfigMap>>().is_some(), "a reconciler gets at it");
    });
}

#[test]
fn an_orphan_that_is_being_deleted_is_not_adopted_and_none_is_if_that_is_not_wanted() {
    World::run(|world| async move {
        let owner = world.map("owner", json!({})).await;
        world.map("going", json!({"labels": {"app": "web"}, "finalizers": ["example.com/a"]})).await;
        world.maps().delete("going", &DeleteParams::default()).await.unwrap();
        world.map("orphan", web()).await;
        let selector = LabelSelector::parse("app=web").unwrap();
        let careful = Claim::new(&owner, selector).unwrap().adopt(false);
        assert!(careful.claim(world.client(), all(&world).await).await.unwrap().objects.is_empty());
        let claimed = claim(&world, &owner, all(&world).await).await.unwrap();
        assert_eq!(names(&claimed.objects), ["orphan"]);
    });
}
