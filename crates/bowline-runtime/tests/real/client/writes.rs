//! Writes and their results.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{Kind, ListQuery};
use bowline_runtime::{ClientError, ClusterBuilder, FieldValidation, IgnoreErrors as _, Patch, Propagation};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::json;

use super::world::{World, labels, names, value};

#[test]
fn an_object_is_created_updated_patched_and_deleted() {
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("a"));
        let created = client.create(&world.map("a", "1")).await.unwrap();
        assert!(created.metadata.uid.is_some() && created.metadata.resource_version.is_some());
        let again = client.create(&world.map("a", "1")).await;
        assert!(again.as_ref().is_err_and(ClientError::is_already_exists), "{again:?}");
        assert!(again.ignore_already_exists().unwrap().is_none());
        let mut changed = created.clone();
        changed.data = world.map("a", "2").data;
        let updated = client.update(&changed).await.unwrap();
        assert_eq!(value(&updated), "2");
        assert_eq!(value(&client.get::<ConfigMap>(&key).await.unwrap()), "2");
        let conflict = client.update(&changed).await.unwrap_err();
        assert!(conflict.is_conflict() && !conflict.is_already_exists(), "{conflict}");
        assert_eq!(conflict.code(), Some(409));
        let place = format!("update configmaps (v1) {key}: ");
        assert!(conflict.to_string().starts_with(&place), "{conflict}");

        let json = Patch::json(&json!([{"op": "replace", "path": "/data/value", "value": "3"}])).unwrap();
        assert_eq!(value(&client.patch::<ConfigMap>(&key, &json).await.unwrap()), "3");
        let merge = Patch::merge(&json!({"data": {"value": "4"}})).unwrap();
        let patched: ConfigMap = client.patch(&key, &merge).await.unwrap();
        assert_eq!(value(&patched), "4");
        let mut wanted = patched.clone();
        wanted.data = world.map("a", "5").data;
        let locked = Patch::merge_from_locked(&patched, &wanted).unwrap();
        assert_eq!(value(&client.patch::<ConfigMap>(&key, &locked).await.unwrap()), "5");
        let stale = client.patch::<ConfigMap>(&key, &locked).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");
        let unlocked = Patch::merge_from(&patched, &wanted).unwrap();
        client.patch::<ConfigMap>(&key, &unlocked).await.unwrap();

        assert!(client.delete::<ConfigMap>(&key).await.is_ok());
        let missing = client.delete::<ConfigMap>(&key).await;
        assert!(missing.as_ref().is_err_and(ClientError::is_not_found), "{missing:?}");
        assert!(missing.ignore_not_found().unwrap().is_none());
        assert!(
            client.update(&updated).await.unwrap_err().code().is_some_and(|code| code == 404 || code == 409)
        );
    });
}

#[test]
fn strategic_patches_and_applies_are_understood_by_a_real_server() {
    if !World::is_real() {
        return; // The embedded server has neither yet; what is sent is tested elsewhere.
    }
    World::run(|world| async move {
        let (client, key) = (world.client().field_owner("test"), world.key("a"));
        let applied = client.apply(&world.map("a", "1")).await.unwrap();
        assert_eq!(value(&applied), "1");
        assert!(applied.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some("test")));
        let conflict = client.field_owner("other").apply(&world.map("a", "2")).await.unwrap_err();
        assert!(conflict.is_conflict(), "{conflict}");
        // An object that was read has managed fields, and can be applied nevertheless.
        let mut read = client.field_owner("other").apply(&world.map("a", "2")).force().await.unwrap();
        assert_eq!(value(&read), "2");
        read.metadata.resource_version = None;
        client.field_owner("other").apply(&read).force().await.unwrap();
        let patch = Patch::strategic(&json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        let patched: ConfigMap = client.patch(&key, &patch).await.unwrap();
        assert_eq!(patched.labels()["a"], "b");
    });
}

#[test]
fn a_deletion_has_conditions_and_may_take_its_time() {
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("a"));
        let first = client.create(&world.map("a", "1")).await.unwrap();
        let wrong = client.delete::<ConfigMap>(&key).uid("another").await.unwrap_err();
        assert!(wrong.is_conflict(), "{wrong}");
        let wrong = client.delete::<ConfigMap>(&key).resource_version("1").await.unwrap_err();
        assert!(wrong.is_conflict(), "{wrong}");
        client.delete_object(&first).propagation(Propagation::Background).await.unwrap();
        // Another object has its name.
        client.create(&world.map("a", "2")).await.unwrap();
        let gone = client.delete_object(&first).await.unwrap_err();
        assert!(gone.is_conflict(), "{gone}");
        let mut kept = world.map("b", "1");
        kept.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        client.create(&kept).await.unwrap();
        let ending = client.delete::<ConfigMap>(&world.key("b")).await.unwrap().expect("it is kept");
        assert!(ending.metadata.deletion_timestamp.is_some());
        let free = Patch::merge(&json!({"metadata": {"finalizers": null}})).unwrap();
        client.patch::<ConfigMap>(&world.key("b"), &free).await.unwrap();
        assert!(client.find::<ConfigMap>(&world.key("b")).await.unwrap().is_none());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": world.namespace, "name": "p"},
            "spec": {
                "nodeName": "n", "automountServiceAccountToken": false,
                "containers": [{"name": "c", "image": "i"}],
            },
        }))
        .unwrap();
        world.until("there is a service account", || async { client.create(&pod).await.is_ok() }).await;
        let ending =
            client.delete::<Pod>(&world.key("p")).grace_period(Duration::from_secs(7)).await.unwrap();
        assert_eq!(ending.expect("a grace").metadata.deletion_grace_period_seconds, Some(7));
        let cluster = world.cluster(ClusterBuilder::cached::<Pod>);
        let cached = cluster.client();
        cached.get::<Pod>(&world.key("p")).await.unwrap();
        cached.delete::<Pod>(&world.key("p")).grace_period(Duration::ZERO).await.unwrap();
        assert!(cached.find::<Pod>(&world.key("p")).await.unwrap().is_none());
        assert!(client.find::<Pod>(&world.key("p")).await.unwrap().is_none());
    });
}

#[test]
fn many_are_deleted_by_their_labels() {
    World::run(|world| async move {
        let client = world.client();
        for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
            client.create(&world.labelled(name, label)).await.unwrap();
        }
        let all = ListQuery::new().in_namespace(&world.namespace).labels(labels("app"));
        client.delete_all_of::<ConfigMap>(&all.clone().labels(labels("app=x"))).await.unwrap();
        assert_eq!(names(&client.list::<ConfigMap>(&all).await.unwrap()), ["c"]);
        client
            .namespaced(&*world.namespace)
            .delete_all_of::<ConfigMap>(&ListQuery::new().labels(labels("app")))
            .await
            .unwrap();
        assert!(client.list::<ConfigMap>(&all).await.unwrap().is_empty());
    });
}

#[test]
fn a_dry_run_stores_nothing() {
    World::run(|world| async move {
        let client = world.client();
        let created = client.dry_run().create(&world.map("a", "1")).await.unwrap();
        assert_eq!(value(&created), "1");
        assert!(client.find::<ConfigMap>(&world.key("a")).await.unwrap().is_none());
        client.create(&world.map("a", "1")).await.unwrap();
        assert_eq!(value(&client.dry_run().update(&world.map("a", "2")).await.unwrap()), "2");
        client.dry_run().delete::<ConfigMap>(&world.key("a")).await.unwrap();
        let stored = client.get::<ConfigMap>(&world.key("a")).await.unwrap();
        // A dry run with options has a body, and a server ignores the query beside a body.
        client.dry_run().delete_object(&*stored).await.unwrap();
        client.get::<ConfigMap>(&world.key("a")).await.unwrap();
        let all = ListQuery::new().in_namespace(&world.namespace);
        client.dry_run().delete_all_of::<ConfigMap>(&all).propagation(Propagation::Background).await.unwrap();
        assert_eq!(value(&client.get::<ConfigMap>(&world.key("a")).await.unwrap()), "1");
    });
}

#[test]
fn fields_that_are_not_known_are_refused_or_warned_of() {
    World::run(|world| async move {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let tell = warnings.clone();
        let client = bowline_runtime::Client::builder(world.kube.clone())
            .clock(world.clock.clone())
            .on_warning(move |warning| tell.lock().unwrap().push(warning.text.clone()))
            .build();
        let maps = Kind::dynamic(Kind::<ConfigMap>::typed().resource().clone(), true);
        let mut object = DynamicObject::new("a", maps.resource()).within(&world.namespace);
        object.data = json!({"daat": {"x": "y"}});
        let refused = client
            .field_validation(FieldValidation::Strict)
            .for_kind(&maps)
            .create(&object)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), Some(400));
        assert!(refused.to_string().contains("daat"), "{refused}");
        client.field_validation(FieldValidation::Warn).for_kind(&maps).create(&object).await.unwrap();
        let warnings = warnings.lock().unwrap().clone();
        assert!(matches!(warnings.as_slice(), [one] if one.contains("daat")), "{warnings:?}");
    });
}

#[test]
fn writers_who_retry_on_conflict_lose_nothing() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<ConfigMap>);
        cluster.client().create(&world.map("a", "0")).await.unwrap();
        let scope = world.clock.scope("writers");
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (client, key) = (cluster.client().clone(), world.key("a"));
                scope.spawn("writer", async move {
                    for _ in 0..5 {
                        let increase = || async {
                            let mut map = (*client.get::<ConfigMap>(&key).await?).clone();
                            let number: u32 = value(&map).parse().expect("a number");
                            map.data
                                .get_or_insert_default()
                                .insert("value".to_owned(), (number + 1).to_string());
                            client.update(&map).await
                        };
                        client.retry_on_conflict(increase).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        let end = cluster.client().get::<ConfigMap>(&world.key("a")).await.unwrap();
        assert_eq!(value(&end), "15");
    });
}
