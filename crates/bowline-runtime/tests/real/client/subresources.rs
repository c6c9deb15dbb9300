//! Subresources: status, scale, eviction, approval, token.

use std::time::Duration;

use bowline_cache::ListQuery;
use bowline_runtime::{ClientError, ClusterBuilder, ErrorPredicates as _, Patch};
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::world::World;

/// A certificate signing request in PEM for the name `test`, as base64.
const CERTIFICATE_REQUEST: &str = concat!(
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWRHVn",
    "pkREJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkpTTFBEb21mWTVpTHduRWRuQVZiMVdMNFIrc2hl",
    "d1ZwbVNtMVk5YWpKYzBGNmxRSjZSR1dGTnU2L1F5ClBETEtKQXc5d2VDS1hLZnF4dnU3MnIxNGFDbWdBREFLQmdncW",
    "hrak9QUVFEQWdOSUFEQkZBaUVBbXUrT2U4ZU0KeHVNdW9hcFRPazBwV1FLa0ZXZWFQRCtCOUxFc2YwbEtteUlDSUNy",
    "NUF2NEZUUzhvTVhZdHhaZnFSSlBZRjFQWQpuQ1l0bmZHNys5MTJjSkRICi0tLS0tRU5EIENFUlRJRklDQVRFIFJFUV",
    "VFU1QtLS0tLQo=",
);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "client.example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {
    host: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct WebsiteStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visits: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<String>,
}

fn deployment(world: &World) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"namespace": world.namespace, "name": "a"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .expect("a deployment")
}

#[test]
fn a_status_is_written_apart_from_the_rest() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let (client, key) = (cluster.client(), world.key("a"));
        let mut object = client.create(&deployment(&world)).await.unwrap();
        object.status.get_or_insert_default().replicas = Some(7);
        object.spec.get_or_insert_default().replicas = Some(9);
        client.status().update(&object).await.unwrap();
        let read = client.get::<Deployment>(&key).await.unwrap();
        assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(7));
        assert_eq!(read.spec.as_ref().and_then(|spec| spec.replicas), Some(1), "only the status counts");
        let patch = Patch::merge(&json!({"status": {"replicas": 8}})).unwrap();
        client.status().patch::<Deployment>(&key, &patch).await.unwrap();
        let read = client.get::<Deployment>(&key).await.unwrap();
        assert_eq!(read.status.as_ref().and_then(|status| status.replicas), Some(8));
    });
}

#[test]
fn a_scale_is_of_another_kind_than_what_it_scales() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let (client, key) = (cluster.client(), world.key("a"));
        client.create(&deployment(&world)).await.unwrap();
        let deployments = client.typed::<Deployment>();
        let mut size = client.scale::<Deployment>(&key).await.unwrap();
        size.spec.get_or_insert_default().replicas = Some(3);
        deployments.update_subresource(&key, "scale", &size).await.unwrap();
        let replicas = async || {
            let read = client.get::<Deployment>(&key).await.unwrap();
            read.spec.as_ref().and_then(|spec| spec.replicas)
        };
        assert_eq!(replicas().await, Some(3), "it is read at once");
        let patch = Patch::merge(&json!({"spec": {"replicas": 4}})).unwrap();
        let size: Scale = deployments.patch_subresource(&key, "scale", &patch).await.unwrap();
        assert_eq!(size.spec.as_ref().and_then(|spec| spec.replicas), Some(4));
        assert_eq!(replicas().await, Some(4));
        let stale = deployments.update_subresource(&key, "scale", &size_before(&size)).await.unwrap_err();
        assert!(stale.is_conflict(), "{stale}");
        let size = client.set_replicas::<Deployment>(&key, 0).await.unwrap();
        assert_eq!(size.spec.and_then(|spec| spec.replicas), Some(0), "also where the server omits it");
        let size = client.scale::<Deployment>(&key).await.unwrap();
        assert_eq!(size.spec.and_then(|spec| spec.replicas), Some(0));
        assert_eq!(replicas().await, Some(0));
        let negative = client.set_replicas::<Deployment>(&key, -1).await.unwrap_err();
        assert!(negative.is_invalid(), "{negative}");
        let missing = client.scale::<Deployment>(&world.key("nobody")).await.unwrap_err();
        assert!(missing.is_missing_object(), "{missing}");
    });
}

#[test]
fn a_pod_is_evicted() {
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("p"));
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": world.namespace, "name": "p"},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        world.until("there is a service account", || async { client.create(&pod).await.is_ok() }).await;
        client.dry_run().evict(&key).await.unwrap();
        assert!(client.find::<Pod>(&key).await.unwrap().is_some(), "a dry run evicts nothing");
        let other = client.evict(&key).uid("another").await.unwrap_err();
        assert!(other.is_conflict(), "{other}");
        client.evict(&key).grace_period(Duration::ZERO).await.unwrap();
        assert!(client.find::<Pod>(&key).await.unwrap().is_none());
        let missing = client.evict(&key).await.unwrap_err();
        assert!(missing.is_missing_object() && !missing.is_blocked_by_disruption_budget(), "{missing}");
    });
}

#[test]
fn an_eviction_that_a_disruption_budget_forbids_is_recognized() {
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("p"));
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"namespace": world.namespace, "name": "p", "labels": {"app": "web"}},
            "spec": {"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]},
        }))
        .unwrap();
        world.until("there is a service account", || async { client.create(&pod).await.is_ok() }).await;
        // Pods that do not run yet may always be evicted.
        let running = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        }});
        client.status().patch::<Pod>(&key, &Patch::merge(&running).unwrap()).await.unwrap();
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"namespace": world.namespace, "name": "web"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
        }))
        .unwrap();
        client.create(&budget).await.unwrap();
        let blocked = client.evict(&key).await.unwrap_err();
        assert!(blocked.is_blocked_by_disruption_budget() && blocked.is_retryable(), "{blocked}");
        assert_eq!(blocked.code(), Some(429));
        assert!(client.find::<Pod>(&key).await.unwrap().is_some());
    });
}

#[test]
fn a_client_of_a_subresource_has_the_verbs_of_a_subresource() {
    World::run(|world| async move {
        let cluster = world.cluster(ClusterBuilder::cached::<Deployment>);
        let (client, key) = (cluster.client(), world.key("a"));
        let created = client.create(&deployment(&world)).await.unwrap();
        let read = client.status().get::<Deployment>(&key).await.unwrap();
        assert_eq!(read.metadata.uid, created.metadata.uid);
        assert!(client.status().find::<Deployment>(&world.key("nobody")).await.unwrap().is_none());
        let query = ListQuery::new().in_namespace(&world.namespace);
        let (status, scale) = (client.status(), client.typed::<Deployment>().subresource("scale"));
        let refused = [
            status.create(&deployment(&world)).await.err(),
            status.list::<Deployment>(&query).await.err(),
            status.list_stream::<Deployment>(&query).try_next().await.err(),
            status.watch::<Deployment>(&query).await.err(),
            status.delete::<Deployment>(&key).await.err(),
            status.delete_object(&created).await.err(),
            status.delete_all_of::<Deployment>(&query).await.err(),
            scale.create(&deployment(&world)).await.err(),
        ];
        for refused in refused {
            let error = refused.expect("it has no such verb");
            assert!(matches!(error, ClientError::Invalid { .. }), "{error}");
            assert!(error.to_string().contains("can only get, update, patch and apply"), "{error}");
        }
        assert!(client.find::<Deployment>(&key).await.unwrap().is_some());
    });
}

#[test]
fn a_certificate_is_approved_or_denied_once() {
    World::run(|world| async move {
        let client = world.client();
        let request = |name: &str| -> CertificateSigningRequest {
            serde_json::from_value(json!({
                "metadata": {"name": name},
                "spec": {
                    "request": CERTIFICATE_REQUEST, "signerName": "example.com/test", "usages": ["client auth"],
                },
            }))
            .unwrap()
        };
        let conditions = |request: &CertificateSigningRequest| {
            let conditions = request.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions
                .map(|condition| format!("{} {}", condition.type_, condition.status))
                .collect::<Vec<_>>()
        };
        let (web, bad) = (format!("{}-web", world.namespace), format!("{}-bad", world.namespace));
        for name in [&web, &bad] {
            client.create(&request(name)).await.unwrap();
        }
        let approved = client.approve_certificate(&web, "Known", "it is in the inventory").await.unwrap();
        assert_eq!(conditions(&approved), ["Approved True"]);
        let again = client.approve_certificate(&web, "Known", "").await.unwrap();
        assert_eq!(again.metadata.resource_version, approved.metadata.resource_version);
        let denied = client.deny_certificate(&bad, "Unknown", "it is not").await.unwrap();
        assert_eq!(conditions(&denied), ["Denied True"]);
        let both = client.approve_certificate(&bad, "Known", "").await.unwrap_err();
        assert!(matches!(both, ClientError::Invalid { .. }) && both.to_string().contains("Denied"), "{both}");
        let missing = client.approve_certificate("nobody", "Known", "").await.unwrap_err();
        assert!(missing.is_missing_object(), "{missing}");
        for name in [&web, &bad] {
            client
                .delete::<CertificateSigningRequest>(&bowline_cache::ObjectKey::cluster_scoped(name))
                .await
                .unwrap();
        }
    });
}

#[test]
fn a_token_of_a_service_account_is_created_and_not_shown() {
    if !World::is_real() {
        return; // The embedded server issues no tokens; `tests/client/wire.rs` checks the request.
    }
    World::run(|world| async move {
        let (client, key) = (world.client(), world.key("builder"));
        let mut account = ServiceAccount::default();
        account.metadata.namespace = Some(world.namespace.clone());
        account.metadata.name = Some("builder".to_owned());
        client.create(&account).await.unwrap();
        let token = client.create_token(&key).expires_in(Duration::from_secs(1800)).await.unwrap();
        assert_eq!(token.expose().split('.').count(), 3, "it is a JSON web token");
        let lifetime = token.expires_at().duration_since(world.clock.system_time()).unwrap();
        assert!((1700..=1900).contains(&lifetime.as_secs()), "{lifetime:?}");
        assert!(!format!("{token:?}").contains(token.expose()));
        let missing = client.create_token(&world.key("nobody")).await.unwrap_err();
        assert!(missing.is_missing_object(), "{missing}");
        let short = client.create_token(&key).expires_in(Duration::from_secs(1)).await.unwrap_err();
        assert!(short.is_invalid(), "{short}");
    });
}

/// The same scale in a version that the server does not have any more.
fn size_before(size: &Scale) -> Scale {
    let mut size = size.clone();
    size.metadata.resource_version = Some("1".to_owned());
    size
}

#[test]
fn a_status_update_writes_only_what_changes_and_keeps_what_others_write() {
    World::run(|world| async move {
        let client = world.client();
        let definition: CustomResourceDefinition = Website::crd();
        client.create(&definition).await.unwrap();
        let mut website = Website::new("a", WebsiteSpec { host: "example.com".to_owned() });
        website.metadata.namespace = Some(world.namespace.clone());
        world.until("the kind is served", || async { client.create(&website).await.is_ok() }).await;
        let key = world.key("a");
        let read = client.get::<Website>(&key).await.unwrap();

        let set = |status: &mut WebsiteStatus| status.visits = Some(1);
        let written = client.update_status(&read, set).await.unwrap().expect("written");
        assert_eq!(written.status, Some(WebsiteStatus { visits: Some(1), ..WebsiteStatus::default() }));
        assert!(client.update_status(&written, set).await.unwrap().is_none());

        // Others write a label, a field and an item of the list. The object that was read is old.
        let label = Patch::merge(&json!({"metadata": {"labels": {"theirs": "yes"}}})).unwrap();
        client.patch::<Website>(&key, &label).await.unwrap();
        let status = Patch::merge(&json!({"status": {"owner": "them", "mirrors": ["theirs"]}})).unwrap();
        client.status().patch::<Website>(&key, &status).await.unwrap();
        let written = client.update_status(&read, |status| status.mirrors.push("ours".to_owned()));
        let written = written.await.unwrap().expect("written");
        let mirrors = vec!["theirs".to_owned(), "ours".to_owned()];
        let expected = WebsiteStatus { visits: Some(1), owner: Some("them".to_owned()), mirrors };
        assert_eq!(written.status.as_ref(), Some(&expected));
        assert_eq!(written.metadata.labels.as_ref().unwrap()["theirs"], "yes");

        let written = client.update_status(&read, |status| *status = WebsiteStatus::default()).await.unwrap();
        assert!(written.is_none(), "the old object has no status, and the closure none either");
        let written = client.get::<Website>(&key).await.unwrap();
        let cleared = client.update_status(&written, |status| *status = WebsiteStatus::default());
        assert_eq!(cleared.await.unwrap().expect("written").status, Some(WebsiteStatus::default()));

        // Another object of this name: an old one does not reach its status, with and without a list.
        client.delete::<Website>(&key).await.unwrap();
        world.until("it is gone", || async { client.find::<Website>(&key).await.unwrap().is_none() }).await;
        let new = client.create(&website).await.unwrap();
        let error = client.update_status(&written, |status| status.visits = Some(9)).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let list = |status: &mut WebsiteStatus| status.mirrors = vec!["ours".to_owned()];
        let error = client.update_status(&written, list).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let left = client.get::<Website>(&key).await.unwrap();
        assert_eq!(left.metadata.resource_version, new.metadata.resource_version);
        client
            .delete::<CustomResourceDefinition>(&bowline_cache::ObjectKey::cluster_scoped(
                "websites.client.example.com",
            ))
            .await
            .unwrap();
    });
}
