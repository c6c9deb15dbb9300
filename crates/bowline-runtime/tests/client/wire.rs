//! Requests on the wire, as a recording server sees them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bowline_cache::{CacheOptions, InformerCache, Kind, ListQuery, Representation, SelectionSettings};
use bowline_clock::Simulation;
use bowline_machinery::{FieldSelector, LabelSelector};
use bowline_runtime::{Client, ClientBuilder, FieldValidation, Patch, Propagation};
use http::{Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::client::Body;
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

use crate::world::{key, map};

/// A server with the same response to every request, and the received requests.
#[derive(Clone, Default)]
struct Listener {
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
struct Asked {
    method: String,
    uri: String,
    accept: String,
    accept_encoding: String,
    content_type: String,
    body: Value,
}

impl Listener {
    fn client(&self, answer: Value) -> ClientBuilder {
        let asked = self.asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (asked, answer) = (asked.clone(), answer.to_string());
            async move {
                let (parts, body) = request.into_parts();
                let header = |name| {
                    let value =
                        parts.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
                    value.unwrap_or_default().to_owned()
                };
                let body = body.collect_bytes().await.expect("a body");
                asked.lock().expect("nobody panics with it").push(Asked {
                    method: parts.method.to_string(),
                    uri: parts.uri.to_string(),
                    accept: header("accept"),
                    accept_encoding: header("accept-encoding"),
                    content_type: header("content-type"),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                });
                let response = Response::builder()
                    .header("warning", r#"299 - "be careful""#)
                    .header("warning", r#"299 - "twice \"over\"""#)
                    .body(Body::from(answer.into_bytes()));
                Ok::<_, Infallible>(response.expect("an answer"))
            }
        });
        Client::builder(kube::Client::new(service, "default"))
    }

    fn last(&self) -> Asked {
        self.asked.lock().expect("nobody panics with it").last().cloned().expect("something was asked")
    }

    fn count(&self) -> usize {
        self.asked.lock().expect("nobody panics with it").len()
    }
}

fn stored() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    })
}

/// Runs a test with a client of a recording server.
fn listen<F: Future<Output = ()>>(test: impl FnOnce(Client, Listener) -> F) {
    Simulation::new(1).run(|clock| async move {
        let listener = Listener::default();
        let client = listener.client(stored()).clock(clock).build();
        test(client, listener).await;
    });
}

#[test]
fn an_apply_says_who_owns_the_fields() {
    listen(|client, listener| async move {
        let error = client.apply(&map("a", "1")).await.unwrap_err();
        assert!(error.to_string().contains("Client::field_owner"), "{error}");
        assert_eq!(listener.count(), 0, "nothing was sent");
        let mut object = map("a", "1");
        object.metadata.managed_fields = Some(Vec::new());
        client.field_owner("my operator").apply(&object).force().await.unwrap();
        let asked = listener.last();
        assert_eq!(asked.method, "PATCH");
        assert_eq!(asked.uri, "/api/v1/namespaces/default/configmaps/a?fieldManager=my+operator&force=true");
        assert_eq!(asked.content_type, "application/apply-patch+yaml");
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "1"},
            "metadata": {"name": "a", "namespace": "default"},
        });
        assert_eq!(asked.body, expected);
        client.field_owner("o").apply(&object).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a?fieldManager=o");
        client.field_owner("o").status().apply(&object).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a/status?fieldManager=o");
        let deployments = client.field_owner("o").typed::<Deployment>();
        let scale = json!({"kind": "Scale"});
        let answer: Value = deployments.apply_subresource(&key("a"), "scale", &scale, true).await.unwrap();
        assert_eq!(answer, stored());
        let asked = listener.last();
        assert_eq!(
            asked.uri,
            "/apis/apps/v1/namespaces/default/deployments/a/scale?fieldManager=o&force=true"
        );
        assert_eq!(asked.content_type, "application/apply-patch+yaml");
    });
}

#[test]
fn a_write_returns_managed_fields_unless_reads_never_have_them() {
    let mut answer = stored();
    answer["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update"}]);
    for (keep, form, expected) in [
        (false, None, 1),
        (false, Some(Representation::Typed), 0),
        (true, Some(Representation::Typed), 1),
        (false, Some(Representation::Packed), 0),
        (true, Some(Representation::Packed), 1),
        (false, Some(Representation::Dynamic), 1),
    ] {
        let answer = answer.clone();
        Simulation::new(1).run(|clock| async move {
            let kube = Listener::default().client(answer.clone()).build().kube_client().clone();
            let options = CacheOptions::new().settings(SelectionSettings::new().keep_managed_fields(keep));
            let scope = clock.scope("test");
            let cache = InformerCache::new(&scope.spawner(), kube, options);
            let client = Listener::default().client(answer).cache(cache).clock(clock).build();
            let typed = Kind::<ConfigMap>::typed();
            match form {
                Some(Representation::Typed) => client.declare(&typed),
                Some(Representation::Packed) => client.declare(&Kind::packed::<ConfigMap>()),
                Some(_) => client.declare(&Kind::dynamic(typed.resource().clone(), true)),
                None => {}
            }
            let count = |map: &ConfigMap| map.metadata.managed_fields.as_ref().map_or(0, Vec::len);
            let patch = Patch::strategic(&json!({})).unwrap();
            for written in [
                client.create(&map("a", "1")).await.unwrap(),
                client.update(&map("a", "1")).await.unwrap(),
                client.status().update(&map("a", "1")).await.unwrap(),
                client.patch(&key("a"), &patch).await.unwrap(),
            ] {
                assert_eq!(count(&written), expected, "kept: {keep}, declared: {form:?}");
                assert_eq!(written.metadata.uid.as_deref(), Some("u"));
            }
            assert_eq!(count(&client.live().update(&map("a", "1")).await.unwrap()), 1);
            assert_eq!(count(&client.field_owner("o").apply(&map("a", "1")).await.unwrap()), 1);
        });
    }
}

#[test]
fn wrappers_are_in_the_query_of_writes_and_not_of_reads() {
    listen(|client, listener| async move {
        let client = client.dry_run().field_owner("o").field_validation(FieldValidation::Strict);
        let query = "?dryRun=All&fieldManager=o&fieldValidation=Strict";
        client.create(&map("a", "1")).await.unwrap();
        assert_eq!(listener.last().uri, format!("/api/v1/namespaces/default/configmaps{query}"));
        client.update(&map("a", "1")).await.unwrap();
        assert_eq!(listener.last().uri, format!("/api/v1/namespaces/default/configmaps/a{query}"));
        client.status().update(&map("a", "1")).await.unwrap();
        assert_eq!(listener.last().uri, format!("/api/v1/namespaces/default/configmaps/a/status{query}"));
        client.patch::<ConfigMap>(&key("a"), &Patch::strategic(&json!({})).unwrap()).await.unwrap();
        let asked = listener.last();
        assert_eq!(asked.uri, format!("/api/v1/namespaces/default/configmaps/a{query}"));
        assert_eq!(asked.content_type, "application/strategic-merge-patch+json");
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a?dryRun=All");
        assert_eq!(
            listener.last().body["dryRun"],
            json!(["All"]),
            "a server reads the query only without a body"
        );
        client.get::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a");
    });
}

#[test]
fn a_deletion_says_what_it_is_told_to() {
    listen(|client, listener| async move {
        client.delete::<ConfigMap>(&key("a")).await.unwrap();
        assert_eq!(listener.last().body, Value::Null);
        client
            .delete::<ConfigMap>(&key("a"))
            .propagation(Propagation::Foreground)
            .grace_period(std::time::Duration::from_secs(3))
            .uid("u")
            .resource_version("7")
            .await
            .unwrap();
        let expected = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3,
            "propagationPolicy": "Foreground", "preconditions": {"uid": "u", "resourceVersion": "7"},
        });
        assert_eq!(listener.last().body, expected);
        let object: ConfigMap = serde_json::from_value(stored()).unwrap();
        client.delete_object(&object).await.unwrap();
        assert_eq!(listener.last().body["preconditions"], json!({"uid": "u"}));
        let labels = LabelSelector::parse("app in (a,b)").unwrap();
        let query = ListQuery::new().in_namespace("web").labels(labels);
        client.delete_all_of::<ConfigMap>(&query).propagation(Propagation::Orphan).await.unwrap();
        let asked = listener.last();
        assert_eq!(asked.uri, "/api/v1/namespaces/web/configmaps?labelSelector=app+in+%28a%2Cb%29");
        assert_eq!((asked.method.as_str(), &asked.body["propagationPolicy"]), ("DELETE", &json!("Orphan")));
    });
}

#[test]
fn what_would_touch_more_than_is_meant_is_not_sent() {
    listen(|client, listener| async move {
        // An empty name would delete them all.
        for name in ["", "..", "a/b", "a?x=y"] {
            let error = client.delete::<ConfigMap>(&key(name)).await.unwrap_err();
            assert!(error.to_string().contains("is not the name of an object"), "{error}");
            client.get::<ConfigMap>(&key(name)).await.unwrap_err();
        }
        client.delete_all_of::<ConfigMap>(&ListQuery::new()).await.unwrap_err();
        let one = ListQuery::new().in_namespace("default").limit(1);
        client.delete_all_of::<ConfigMap>(&one).await.unwrap_err();
        let nothing = ListQuery::new().in_namespace("default").labels(LabelSelector::nothing());
        client.delete_all_of::<ConfigMap>(&nothing).await.unwrap();
        assert!(client.list::<ConfigMap>(&nothing).await.unwrap().is_empty());
        let mut homeless = map("a", "1");
        homeless.metadata.namespace = None;
        let error = client.create(&homeless).await.unwrap_err();
        assert!(error.to_string().contains("Client::namespaced"), "{error}");
        assert_eq!(listener.count(), 0, "nothing was sent");
    });
}

#[test]
fn a_client_of_one_namespace_stays_in_it() {
    listen(|client, listener| async move {
        let client = client.namespaced("default");
        let mut homeless = map("a", "1");
        homeless.metadata.namespace = None;
        client.create(&homeless).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps");
        client.get::<ConfigMap>(&bowline_cache::ObjectKey::cluster_scoped("a")).await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a");
        let before = listener.count();
        let other = bowline_cache::ObjectKey::new("other", "a");
        let error = client.get::<ConfigMap>(&other).await.unwrap_err();
        assert!(error.to_string().contains("limited to namespace default"), "{error}");
        client.list::<ConfigMap>(&ListQuery::new().in_namespace("other")).await.unwrap_err();
        assert_eq!(listener.count(), before, "nothing was sent");
        // The response is not a node, although a node was requested.
        client.get::<Node>(&other).await.unwrap_err();
        assert_eq!(listener.last().uri, "/api/v1/nodes/a");
    });
}

#[test]
fn selectors_and_limits_of_a_live_list_are_the_servers_to_follow() {
    Simulation::new(1).run(|clock| async move {
        let listener = Listener::default();
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
            {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}},
            {"metadata": {"name": "b", "namespace": "default", "uid": "v", "resourceVersion": "8"}},
        ]});
        let client = listener.client(list).clock(clock).build();
        let query = ListQuery::new()
            .labels(LabelSelector::parse("app=web").unwrap())
            .fields(FieldSelector::parse("metadata.name!=c").unwrap())
            .limit(1);
        assert_eq!(client.list::<ConfigMap>(&query).await.unwrap().len(), 1);
        let asked = listener.last();
        assert_eq!(asked.uri, "/api/v1/configmaps?labelSelector=app%3Dweb&fieldSelector=metadata.name%21%3Dc&limit=1");
        let error = client.list::<ConfigMap>(&ListQuery::new().index("node", "a")).await.unwrap_err();
        assert!(error.to_string().contains("index \"node\" exists only in the cache"), "{error}");
        assert!(error.to_string().contains("use a client with a cache, or use a field selector"), "{error}");
        let names = client.for_kind(&Kind::<PartialObjectMeta<ConfigMap>>::metadata());
        assert_eq!(names.list(&ListQuery::new()).await.unwrap().len(), 2);
        assert!(listener.last().accept.contains("as=PartialObjectMetadataList"));
    });
}

#[test]
fn a_certificate_is_read_from_the_main_resource_and_approved_through_the_subresource() {
    Simulation::new(1).run(|clock| async move {
        let listener = Listener::default();
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"request": "", "signerName": "example.com/test"},
        });
        let client = listener.client(request).clock(clock).build();
        client.subresource("status").approve_certificate("web", "Known", "").await.unwrap();
        let asked = listener.asked.lock().unwrap();
        let asked: Vec<_> = asked.iter().map(|it| format!("{} {}", it.method, it.uri)).collect();
        let main = "/apis/certificates.k8s.io/v1/certificatesigningrequests/web";
        assert_eq!(asked, [format!("GET {main}"), format!("PUT {main}/approval")]);
    });
}

#[test]
fn a_watch_says_where_it_begins() {
    listen(|client, listener| async move {
        let query = ListQuery::new().in_namespace("web").labels(LabelSelector::parse("app").unwrap());
        let second = std::time::Duration::from_secs(1);
        let here = "/api/v1/namespaces/web/configmaps?watch=true&labelSelector=app&timeoutSeconds=9";
        let watch = || client.watch::<ConfigMap>(&query).timeout(9 * second);
        drop(watch().await.unwrap());
        assert_eq!(listener.last().uri, here);
        assert_eq!(listener.last().accept_encoding, "identity");
        drop(watch().resource_version("7").await.unwrap());
        assert_eq!(listener.last().uri, format!("{here}&resourceVersion=7"));
        drop(watch().resource_version("7").bookmarks().await.unwrap());
        assert_eq!(listener.last().uri, format!("{here}&allowWatchBookmarks=true&resourceVersion=7"));
        drop(watch().bookmarks().await.unwrap());
        let initial = "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        assert_eq!(listener.last().uri, format!("{here}{initial}"));
        let names = client.for_kind(&Kind::<PartialObjectMeta<ConfigMap>>::metadata());
        drop(names.watch(&query).await.unwrap());
        assert!(listener.last().accept.contains("as=PartialObjectMetadata;"));
        let before = listener.count();
        for refused in [
            watch().timeout(second / 2).await,
            client.watch::<ConfigMap>(&query.clone().index("node", "a")).await,
            client.watch::<ConfigMap>(&query.clone().limit(1)).await,
            client.watch::<ConfigMap>(&ListQuery::new().labels(LabelSelector::nothing())).await,
        ] {
            assert!(matches!(refused, Err(bowline_runtime::ClientError::Invalid { .. })), "{refused:?}");
        }
        assert_eq!(listener.count(), before, "nothing was sent");
    });
}

#[test]
fn an_eviction_has_options_of_a_deletion() {
    listen(|client, listener| async move {
        client.evict(&key("a")).await.unwrap();
        let mut expected = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "default", "name": "a"},
        });
        let asked = listener.last();
        assert_eq!(asked.uri, "/api/v1/namespaces/default/pods/a/eviction");
        assert_eq!((asked.method.as_str(), &asked.body), ("POST", &expected));
        let grace = std::time::Duration::from_secs(3);
        let client = client.dry_run().namespaced("default");
        let homeless = bowline_cache::ObjectKey::cluster_scoped("a");
        client.evict(&homeless).grace_period(grace).uid("u").resource_version("7").await.unwrap();
        expected["deleteOptions"] = json!({
            "gracePeriodSeconds": 3, "preconditions": {"uid": "u", "resourceVersion": "7"}, "dryRun": ["All"],
        });
        let asked = listener.last();
        assert_eq!(asked.uri, "/api/v1/namespaces/default/pods/a/eviction?dryRun=All");
        assert_eq!(asked.body, expected);
    });
}

#[test]
fn a_busy_server_is_no_disruption_budget() {
    Simulation::new(1).run(|clock| async move {
        for (causes, expected) in [
            (json!([]), false),
            (json!([{"reason": "DisruptionBudget", "message": "it needs 2 healthy pods"}]), true),
        ] {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "message": "no",
                "reason": "TooManyRequests", "details": {"name": "a", "causes": causes},
            });
            let refuse = tower::service_fn(move |_: Request<Body>| {
                let body = Body::from(status.to_string().into_bytes());
                std::future::ready(Ok::<_, Infallible>(Response::builder().status(429).body(body).unwrap()))
            });
            let client = Client::builder(kube::Client::new(refuse, "default")).clock(clock.clone()).build();
            let error = client.evict(&key("a")).await.unwrap_err();
            assert_eq!(error.is_blocked_by_disruption_budget(), expected, "{error}");
        }
    });
}

#[test]
fn a_token_is_asked_for_with_its_options_and_not_shown() {
    Simulation::new(1).run(|clock| async move {
        let listener = Listener::default();
        let answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "status": {"token": "hunter2", "expirationTimestamp": "2030-01-01T00:00:00Z"},
        });
        let client = listener.client(answer).clock(clock.clone()).build();
        let token = client.create_token(&key("builder")).await.unwrap();
        assert_eq!(listener.last().body["spec"], json!({"audiences": []}));
        assert_eq!(token.expose(), "hunter2");
        let seconds = token.expires_at().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(seconds, 1_893_456_000);
        assert!(!format!("{token:?}").contains("hunter2"), "{token:?}");
        let object: ConfigMap = serde_json::from_value(stored()).unwrap();
        let token = client.create_token(&key("builder")).audience("a").audience("b").bound_to(&object);
        token.expires_in(std::time::Duration::from_secs(600)).await.unwrap();
        let asked = listener.last();
        assert_eq!(asked.uri, "/api/v1/namespaces/default/serviceaccounts/builder/token");
        let expected = json!({
            "audiences": ["a", "b"], "expirationSeconds": 600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"},
        });
        assert_eq!((asked.method.as_str(), &asked.body["spec"]), ("POST", &expected));
        // A response that cannot be decoded is not quoted.
        let broken = json!({"status": {"token": ["hunter2"], "expirationTimestamp": "hunter2"}});
        let client = Listener::default().client(broken).clock(clock).build();
        let error = client.create_token(&key("builder")).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    });
}

#[test]
fn metadata_alone_is_patched_and_never_written_whole() {
    listen(|client, listener| async move {
        let names = client.for_kind(&Kind::<PartialObjectMeta<ConfigMap>>::metadata());
        let object = names.get(&key("a")).await.unwrap();
        assert!(listener.last().accept.contains("as=PartialObjectMetadata;"));
        let before = listener.count();
        for refused in [names.create(&object).await, names.update(&object).await] {
            assert!(refused.unwrap_err().to_string().contains("use a patch"));
        }
        assert_eq!(listener.count(), before, "nothing was sent");
        let patch = Patch::merge(&json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
        names.patch(&key("a"), &patch).await.unwrap();
        assert!(listener.last().accept.contains("as=PartialObjectMetadata;"));
    });
}

#[test]
fn what_the_server_warns_of_is_told() {
    Simulation::new(1).run(|clock| async move {
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let tell = warnings.clone();
        let client = Listener::default()
            .client(stored())
            .clock(clock)
            .on_warning(move |warning| {
                tell.lock().unwrap().push(format!("{}: {}", warning.operation, warning.text));
            })
            .build();
        client.update(&map("a", "1")).await.unwrap();
        let warnings = warnings.lock().unwrap().clone();
        let place = "update configmaps (v1) default/a";
        assert_eq!(warnings, [format!("{place}: be careful"), format!("{place}: twice \"over\"")]);
    });
}

#[test]
fn an_answer_that_does_not_come_is_told_apart_from_one_that_is_no() {
    Simulation::new(1).run(|clock| async move {
        let away = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, _>(std::io::Error::other("nobody is there"))
        });
        let client = Client::builder(kube::Client::new(away, "default")).clock(clock.clone()).build();
        let error = client.update(&map("a", "1")).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("update configmaps (v1) default/a: no answer from the API server: "),
            "{text}"
        );
        assert!(text.contains("nobody is there"), "{text}");
        assert!(error.is_retryable() && error.status().is_none() && !error.is_conflict());

        let proxy = tower::service_fn(|_: Request<Body>| async {
            let response = Response::builder().status(503).body(Body::from(b"upstream is away".to_vec()));
            Ok::<_, Infallible>(response.expect("an answer"))
        });
        let client = Client::builder(kube::Client::new(proxy, "default")).clock(clock.clone()).build();
        let error = client.get::<ConfigMap>(&key("a")).await.unwrap_err();
        let text = "get configmaps (v1) default/a: upstream is away (503 Service Unavailable)";
        assert_eq!(error.to_string(), text);
        assert!(error.is_retryable());

        let client = Listener::default().client(json!({"kind": "Nonsense"})).clock(clock).build();
        let error = client.create(&map("a", "1")).await.unwrap_err();
        assert!(error.to_string().contains("cannot decode the response"), "{error}");
        assert!(!error.is_retryable(), "the write was done");
    });
}

#[test]
fn an_object_without_a_uid_is_not_deleted_as_such() {
    listen(|client, listener| async move {
        let error = client.delete_object(&map("a", "1")).await.unwrap_err();
        assert!(error.to_string().contains("has no uid"), "{error}");
        assert_eq!(listener.count(), 0, "nothing was sent");
        client.delete_object(&map("a", "1")).uid("u").await.unwrap();
        assert_eq!(listener.last().body["preconditions"], json!({"uid": "u"}));
    });
}

#[test]
fn a_subresource_leads_nowhere_else() {
    listen(|client, listener| async move {
        for name in ["../b/status", "", "status?dryRun=All", "a//b"] {
            let got = client.typed::<ConfigMap>().get_subresource::<Value>(&key("a"), name).await;
            let error = got.unwrap_err();
            assert!(error.to_string().contains("is not the name of a subresource"), "{error}");
            let error = client.subresource(name).update(&map("a", "1")).await.unwrap_err();
            assert!(error.to_string().contains("is not the name of a subresource"), "{error}");
        }
        assert_eq!(listener.count(), 0, "nothing was sent");
        client.typed::<ConfigMap>().get_subresource::<Value>(&key("a"), "proxy/metrics").await.unwrap();
        assert_eq!(listener.last().uri, "/api/v1/namespaces/default/configmaps/a/proxy/metrics");
    });
}

#[test]
fn what_cannot_be_read_is_not_quoted() {
    Simulation::new(1).run(|clock| async move {
        let answer = json!({"metadata": {"name": "a"}, "spec": {"replicas": "hunter2"}});
        let client = Listener::default().client(answer).clock(clock).build();
        let read = client.scale::<Deployment>(&key("a")).await.unwrap_err();
        assert!(!read.to_string().contains("hunter2"), "{read}");
        assert!(read.to_string().contains("invalid type"), "{read}");
    });
}

#[test]
fn a_live_list_is_in_the_order_of_keys() {
    Simulation::new(1).run(|clock| async move {
        let item = |namespace: &str, name: &str| {
            json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}})
        };
        let items = [item("z", "a"), item("default", "c"), item("default", "b")];
        let answer = json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
        let client = Listener::default().client(answer).clock(clock).build();
        let all = client.list::<ConfigMap>(&ListQuery::new()).await.unwrap();
        let names: Vec<_> = all.iter().map(|map| map.metadata.name.as_deref().unwrap_or_default()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    });
}

/// A server with endless responses.
fn endless(code: u16) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        let chunks = futures::stream::repeat_with(|| {
            Ok::<_, Infallible>(http_body::Frame::data(bytes::Bytes::from(vec![b'x'; 65_536])))
        });
        let body = http_body_util::StreamBody::new(chunks);
        std::future::ready(Ok::<_, Infallible>(
            Response::builder().status(code).body(body).expect("an answer"),
        ))
    });
    Client::builder(kube::Client::new(service, "default")).build()
}

/// A chunk of a body that is counted while it is in memory.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn an_answer_with_many_deleted_objects_is_not_kept_in_memory() {
    Simulation::new(1).run(|_| async {
        let most = Arc::new(AtomicUsize::new(0));
        let seen = most.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let (seen, kept) = (seen.clone(), Arc::new(AtomicUsize::new(0)));
            let item = json!({
                "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"},
                "data": {"k": "v".repeat(10_000)},
            });
            let start =
                r#"{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": ["#.to_owned();
            let items = (0..999).map(move |_| format!("{item},"));
            let end = r#"{"metadata": {}}]}"#.to_owned();
            let texts = std::iter::once(start).chain(items).chain([end]);
            let chunks = texts.map(move |text| {
                seen.fetch_max(1 + kept.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                let chunk = Counted(text.into_bytes(), kept.clone());
                Ok::<_, Infallible>(http_body::Frame::data(bytes::Bytes::from_owner(chunk)))
            });
            let body = http_body_util::StreamBody::new(futures::stream::iter(chunks));
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        let client = Client::builder(kube::Client::new(service, "default")).build();
        client.delete_all_of::<ConfigMap>(&ListQuery::new().in_namespace("default")).await.unwrap();
        let most = most.load(Ordering::Relaxed);
        assert!((1..10).contains(&most), "{most} chunks were in memory");
    });
}

#[test]
fn an_answer_that_does_not_end_is_given_up() {
    Simulation::new(1).run(|_| async {
        let error = endless(200).get::<ConfigMap>(&key("a")).await.expect_err("it is too long");
        let text = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let text: Vec<_> = text.map(ToString::to_string).collect();
        assert!(text.concat().contains("longer than 16 MiB"), "{text:?}");
        let query = ListQuery::new().in_namespace("default");
        endless(200).delete_all_of::<ConfigMap>(&query).await.expect("the objects are deleted");
        let error = endless(500).get::<ConfigMap>(&key("a")).await.expect_err("it is an error");
        assert!(error.to_string().len() < 2_000, "{}", error.to_string().len());
    });
}

#[test]
fn a_long_error_keeps_its_kind() {
    Simulation::new(1).run(|_| async {
        let error = endless(422).update(&map("a", "1")).await.expect_err("it is refused");
        assert_eq!(error.status().map(|status| status.reason.as_str()), Some("Invalid"));
        assert!(endless(409).update(&map("a", "1")).await.expect_err("it is refused").is_conflict());
        assert!(endless(409).create(&map("a", "1")).await.expect_err("it is refused").is_already_exists());
    });
}
