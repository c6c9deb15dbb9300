//! Failed writes and responses without the object: later reads are current nevertheless.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::{Kind, ListQuery};
use bowline_runtime::{ClientError, ClusterBuilder, IgnoreErrors as _, Patch};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, Status};
use kube::{Resource, ResourceExt as _};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::world::{World, key, map, value};

const LATE: Duration = Duration::from_secs(2);

/// Config maps with numbers as values: those with strings cannot be decoded.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Numbers {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, u64>>,
}

impl Resource for Numbers {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn new_value(value: &str) -> Patch {
    Patch::merge(&json!({"data": {"value": value}})).expect("a patch")
}

#[test]
fn a_patch_and_a_deletion_that_were_refused_are_followed_by_a_read_of_what_they_were_about() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        let old = client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        world.other().update(&map("a", "2")).await.unwrap();
        let mut new = (*old).clone();
        new.data = map("a", "3").data;
        let patch = Patch::merge_from_locked(&*old, &new).unwrap();
        assert!(client.patch::<ConfigMap>(&key("a"), &patch).await.unwrap_err().is_conflict());
        let second = client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(value(&second), "2");
        world.other().update(&map("a", "4")).await.unwrap();
        let version = second.resource_version().unwrap();
        let refused = client.delete::<ConfigMap>(&key("a")).resource_version(version).await.unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "4");
    });
}

#[test]
fn fields_that_belong_to_somebody_else_are_not_tried_again() {
    World::run(|world| async move {
        let tries = AtomicUsize::new(0);
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "Apply failed with 1 conflict: conflict with \"x\": .data.value",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".data.value"}]},
        }))
        .unwrap();
        let client = world.other();
        let refused = client.retry_on_conflict(|| {
            tries.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Err::<(), _>(kube::Error::Api(Box::new(status.clone()))))
        });
        refused.await.unwrap_err();
        assert_eq!(tries.into_inner(), 1, "it would be refused each time");
    });
}

#[test]
fn a_write_whose_answer_cannot_be_read_is_waited_for() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.delay(LATE);
        let numbers = client.for_kind(&Kind::<Numbers>::typed());
        let error = numbers.patch(&key("a"), &new_value("2")).await.unwrap_err();
        assert!(matches!(error, ClientError::Answer { .. }), "{error}");
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "2");
    });
}

#[test]
fn a_write_whose_answer_is_lost_is_looked_for_on_the_server() {
    World::run(|world| async move {
        let cluster = world.cached(|builder| builder).await;
        let client = cluster.client();
        client.create(&map("a", "1")).await.unwrap();
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        world.hold();
        world.faults.writes().lose_response();
        let start = world.clock.now();
        client.patch::<ConfigMap>(&key("a"), &new_value("2")).await.unwrap_err();
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "2");
        client.create(&map("b", "1")).await.unwrap_err();
        let all = client.list::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.unwrap();
        assert_eq!(all.iter().map(|map| value(map)).collect::<Vec<_>>(), ["2", "1"]);
        client.delete::<ConfigMap>(&key("a")).await.unwrap_err();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert!(world.since(start) < 0.1, "{}", world.since(start));
        // Not for ever: when the writes must have ended, one more request goes to the server.
        world.clock.sleep(Duration::from_secs(61)).await;
        world.asked();
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert_eq!(world.asked(), ["get configmaps a"]);
        world.release();
        world.clock.sleep(Duration::from_secs(1)).await;
        assert!(client.find::<ConfigMap>(&key("a")).await.unwrap().is_none());
        assert_eq!(world.asked(), [""; 0]);
    });
}

#[test]
fn a_pod_that_was_evicted_is_not_read_as_it_was() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Pod>);
        let client = cluster.client();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        client.create(&pod).await.unwrap();
        client.get::<Pod>(&key("p")).await.unwrap();
        world.hold();
        client.evict(&key("p")).await.unwrap();
        assert!(client.get::<Pod>(&key("p")).await.unwrap().metadata.deletion_timestamp.is_some());
    });
}

#[test]
fn a_kind_that_is_missing_is_no_object_that_is_missing() {
    World::run(|world| async move {
        let (group, version) = ("apps".to_owned(), "v1".to_owned());
        let api_version = "apps/v1".to_owned();
        let (kind, plural) = ("Website".to_owned(), "websites".to_owned());
        let websites = Kind::dynamic(ApiResource { group, version, api_version, kind, plural }, true);
        let client = world.other();
        let error = client.for_kind(&websites).delete(&key("a")).await.ignore_not_found().unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let mut elsewhere = map("a", "1");
        elsewhere.metadata.namespace = Some("nowhere".to_owned());
        let error = client.create(&elsewhere).await.ignore_not_found().unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert!(client.delete::<ConfigMap>(&key("a")).await.ignore_not_found().unwrap().is_none());
    });
}

#[test]
fn what_was_written_before_a_kind_was_declared_is_read() {
    World::run(|world| async move {
        let cluster = world.cluster(|builder| builder);
        let (client, kind) = (cluster.client(), Kind::<ConfigMap>::typed());
        let informer = cluster.cache().get_informer(&kind).unwrap();
        informer.wait_synced().await;
        world.delay(LATE);
        client.create(&map("a", "1")).await.unwrap();
        client.declare(&kind);
        assert_eq!(value(&client.get::<ConfigMap>(&key("a")).await.unwrap()), "1");
    });
}

#[test]
fn a_late_list_leaves_out_what_cannot_be_read() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Numbers>);
        let client = cluster.client();
        world.other().create(&map("texts", "x")).await.unwrap();
        let query = ListQuery::new().in_namespace("default");
        assert!(client.list::<Numbers>(&query).await.unwrap().is_empty());
        world.hold();
        let mut numbers = Numbers::default();
        numbers.metadata.namespace = Some("default".to_owned());
        numbers.metadata.name = Some("numbers".to_owned());
        client.create(&numbers).await.unwrap();
        let all = client.list::<Numbers>(&query).await.unwrap();
        assert_eq!(all.iter().map(|numbers| numbers.name_any()).collect::<Vec<_>>(), ["numbers"]);
        assert!(world.asked().contains(&"get configmaps numbers".to_owned()), "it was asked for");
        // One that cannot be read is left out as well if it was written late.
        let texts = Patch::merge(&json!({"data": {"value": "y"}})).unwrap();
        client.patch::<ConfigMap>(&key("numbers"), &texts).await.unwrap();
        assert!(client.list::<Numbers>(&query).await.unwrap().is_empty());
    });
}

#[test]
fn a_discovery_that_fails_is_no_answer_to_anybody() {
    use bowline_machinery::GroupVersionKind;
    use bowline_runtime::{DiscoveryMapper, RestMapper as _};
    World::run(|world| async move {
        let mapper = DiscoveryMapper::new(world.kube.clone(), world.clock.clone());
        let discovery = world.faults.on(Verb::Get).filter(|request| request.path.starts_with("/api"));
        discovery.times(1).lose_request();
        let kind = GroupVersionKind::new("", "v1", "ConfigMap");
        let all = futures::future::join_all((0..5).map(|_| mapper.mapping(&kind))).await;
        for error in all.into_iter().map(|found| found.expect_err("nobody was answered")) {
            assert!(!error.is_no_match(), "{error}");
        }
        world.clock.sleep(Duration::from_millis(1)).await;
        mapper.mapping(&kind).await.expect("the server is back");
    });
}
