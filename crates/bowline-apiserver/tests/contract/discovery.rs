//! Discovery: version, groups, resources.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::{Answer, Env};

/// All built-in resources that the embedded server has, one on a line, as a real server describes them.
const RESOURCES: &str = include_str!("discovery/resources.txt");

/// The document about all groups at once.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn accepting(env: &Env, path: &str, accept: &str) -> Answer {
    env.call(Method::GET, path, &[("accept", accept)], "").await
}

/// One line of [`RESOURCES`].
fn line(group_version: &str, name: &str, kind: &str, namespaced: bool, entry: &Value, short: &str) -> String {
    let mut line =
        format!("{group_version} {name} {kind} {}", if namespaced { "namespaced" } else { "cluster" });
    let texts = |field: &str| {
        let items = entry[field].as_array().into_iter().flatten();
        items.map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(",")
    };
    let singular = entry[short].as_str().unwrap_or_default().to_owned();
    let fields =
        [("singular", singular), ("short", texts("shortNames")), ("categories", texts("categories"))];
    for (field, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        line = format!("{line} {field}={value}");
    }
    format!("{line} verbs={}", texts("verbs"))
}

/// `KIND`, or `GROUP/VERSION/KIND` where it is of another group.
fn kind(of: &Value) -> String {
    let text = |field: &str| of[field].as_str().unwrap_or_default();
    let kind = text("kind").to_owned();
    if text("version").is_empty() { kind } else { format!("{}/{}/{kind}", text("group"), text("version")) }
}

/// A resource and its subresources in the document of its version.
fn plain_lines(list: &Value) -> Vec<String> {
    let group_version = list["groupVersion"].as_str().expect("it has a version");
    let entries = list["resources"].as_array().expect("it has resources").iter();
    let line = |entry: &Value| {
        let name = entry["name"].as_str().expect("it has a name");
        let namespaced = entry["namespaced"].as_bool().expect("it has a scope");
        line(group_version, name, &kind(entry), namespaced, entry, "singularName")
    };
    entries.map(line).collect()
}

/// Likewise in the document of all groups.
fn aggregated_lines(document: &Value) -> Vec<String> {
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    for group in list(document, "items") {
        for version in list(&group, "versions") {
            let version_name = version["version"].as_str().expect("it has a name");
            let group_version = match group["metadata"]["name"].as_str() {
                Some(group) => format!("{group}/{version_name}"),
                None => version_name.to_owned(),
            };
            for resource in list(&version, "resources") {
                let name = resource["resource"].as_str().expect("it has a name");
                let namespaced = resource["scope"] == "Namespaced";
                let singular = "singularResource";
                let own_kind = kind(&resource["responseKind"]);
                lines.push(line(&group_version, name, &own_kind, namespaced, &resource, singular));
                for below in list(&resource, "subresources") {
                    let name = format!("{name}/{}", below["subresource"].as_str().expect("it has a name"));
                    let kind = kind(&below["responseKind"]);
                    lines.push(line(&group_version, &name, &kind, namespaced, &below, singular));
                }
            }
        }
    }
    lines
}

/// Everything that is expected is there, in the same words and in the same order.
#[track_caller]
fn assert_listed(lines: &[String]) {
    let expected: Vec<_> = RESOURCES.lines().collect();
    let found: BTreeSet<_> = lines.iter().map(String::as_str).collect();
    let missing: Vec<_> = expected.iter().filter(|line| !found.contains(**line)).collect();
    assert!(missing.is_empty(), "not listed like this: {missing:#?}");
}

#[tokio::test]
async fn the_document_of_a_version_describes_its_resources() {
    let env = Env::new().await;
    let versions: BTreeSet<_> = RESOURCES.lines().filter_map(|line| line.split(' ').next()).collect();
    let mut lines = Vec::new();
    for version in versions {
        let root = if version.contains('/') { "/apis" } else { "/api" };
        let list = env.get(&format!("{root}/{version}")).await.expect(200);
        assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!(version)));
        // The core group is older than the field.
        assert_eq!(list.get("apiVersion"), version.contains('/').then_some(&json!("v1")));
        let entries = list["resources"].as_array().expect("it has resources");
        for entry in entries.iter().filter(|entry| !entry["name"].as_str().unwrap_or_default().contains('/'))
        {
            let stored = entry["verbs"].as_array().expect("it has verbs").contains(&json!("list"));
            let is_hash = |hash: &str| hash.len() == 12 && hash.ends_with('=');
            let hashed = entry["storageVersionHash"].as_str().is_some_and(is_hash);
            assert!(hashed || !stored || entry["name"] == "componentstatuses", "{entry:#}");
        }
        lines.extend(plain_lines(&list));
    }
    assert_listed(&lines);
}

#[tokio::test]
async fn the_aggregated_documents_describe_all_resources_at_once() {
    let env = Env::new().await;
    let mut lines = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = accepting(&env, path, AGGREGATED).await;
        assert_eq!(answer.headers["content-type"], AGGREGATED);
        let document = answer.expect(200);
        assert_eq!(document["kind"], "APIGroupDiscoveryList");
        assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(document["metadata"], json!({}));
        lines.extend(aggregated_lines(&document));
    }
    assert_listed(&lines);
}

#[tokio::test]
async fn an_aggregated_document_can_be_kept_and_asked_for_again() {
    let env = Env::new().await;
    let first = accepting(&env, "/api", AGGREGATED).await;
    assert_eq!(first.headers["vary"], "Accept");
    assert_eq!(first.headers["cache-control"], "public");
    let etag = first.headers["etag"].to_str().expect("it is text").to_owned();
    assert!(etag.len() == 130 && etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    let headers = [("accept", AGGREGATED), ("if-none-match", etag.as_str())];
    let again = env.call(Method::GET, "/api", &headers, "").await;
    assert_eq!((again.code, &again.body), (304, &json!("")));
    assert_eq!(again.headers["etag"], etag.as_str());
    assert_eq!(again.headers.get("content-type"), None);
    let other = [("accept", AGGREGATED), ("if-none-match", "\"another\"")];
    assert_eq!(env.call(Method::GET, "/api", &other, "").await.code, 200);
}

#[tokio::test]
async fn whoever_accepts_the_aggregated_form_among_others_gets_it() {
    let env = Env::new().await;
    let unknown = AGGREGATED.replace("v=v2", "v=v9");
    for (accept, kind) in [
        (format!("{unknown},application/json"), "APIVersions"),
        (format!("{unknown},{AGGREGATED}"), "APIGroupDiscoveryList"),
        (format!("{AGGREGATED},application/json"), "APIGroupDiscoveryList"),
        (format!("application/json,{AGGREGATED}"), "APIGroupDiscoveryList"),
        (format!("{AGGREGATED};profile=nopeer"), "APIGroupDiscoveryList"),
        ("*/*".to_owned(), "APIVersions"),
        (String::new(), "APIVersions"),
    ] {
        let answer = accepting(&env, "/api", &accept).await;
        let document = answer.expect(200);
        assert_eq!(document["kind"], kind, "{accept}");
    }
    let answer = accepting(&env, "/api", &unknown).await;
    let status = answer.expect(406);
    assert_eq!(status["reason"], "NotAcceptable");
}

#[tokio::test]
async fn only_the_roots_have_an_aggregated_form() {
    let env = Env::new().await;
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1"] {
        let answer = accepting(&env, path, AGGREGATED).await;
        let message = answer.expect(406)["message"].as_str().unwrap_or_default().to_owned();
        let expected = "only the following media types are accepted: application/json";
        assert!(message.starts_with(expected), "{path}: {message}");
    }
}

#[tokio::test]
async fn the_core_group_has_one_version() {
    let env = Env::new().await;
    let document = env.get("/api").await.expect(200);
    assert_eq!((&document["kind"], &document["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    let addresses = document["serverAddressByClientCIDRs"].as_array().expect("there are some");
    assert_eq!(addresses[0]["clientCIDR"], "0.0.0.0/0");
    assert!(addresses[0]["serverAddress"].is_string());
    assert_eq!(document.get("apiVersion"), None);
}

#[tokio::test]
async fn groups_are_listed_by_their_priority() {
    let env = Env::new().await;
    let list = env.get("/apis").await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let aggregated = accepting(&env, "/apis", AGGREGATED).await.expect(200);
    let served: BTreeSet<_> = RESOURCES
        .lines()
        .filter_map(|line| line.split(' ').next().and_then(|version| version.split_once('/')))
        .map(|(group, _)| group)
        .collect();
    let names = |groups: &Value, name: fn(&Value) -> &Value| {
        let groups = groups.as_array().expect("a list").iter();
        let names = groups.filter_map(|group| name(group).as_str());
        names.filter(|name| served.contains(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = [
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "resource.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ];
    assert_eq!(names(&list["groups"], |group| &group["name"]), expected);
    assert_eq!(names(&aggregated["items"], |group| &group["metadata"]["name"]), expected);
}

#[tokio::test]
async fn a_group_tells_its_versions_the_preferred_one_first() {
    let env = Env::new().await;
    let version =
        |version: &str| json!({"groupVersion": format!("autoscaling/{version}"), "version": version});
    let group = json!({
        "name": "autoscaling",
        "versions": [version("v2"), version("v1")],
        "preferredVersion": version("v2"),
    });
    let listed = env.get("/apis").await.expect(200);
    assert!(listed["groups"].as_array().expect("a list").contains(&group), "{listed:#}");
    let mut alone = group;
    alone["kind"] = json!("APIGroup");
    alone["apiVersion"] = json!("v1");
    assert_eq!(env.get("/apis/autoscaling").await.expect(200), alone);
}

#[tokio::test]
async fn the_version_is_told_in_texts() {
    let env = Env::new().await;
    let version = env.get("/version").await.expect(200);
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().is_some_and(|text| text.starts_with("v1.36.")), "{version:#}");
    let fields: Vec<_> = version.as_object().expect("an object").keys().map(String::as_str).collect();
    let mut expected = [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ];
    expected.sort_unstable();
    let mut sorted = fields.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert!(version.as_object().into_iter().flatten().all(|(_, value)| value.is_string()), "{version:#}");
}

#[tokio::test]
async fn the_root_lists_all_paths() {
    let env = Env::new().await;
    let document = env.get("/").await.expect(200);
    let paths: Vec<_> =
        document["paths"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(paths.is_sorted(), "{paths:#?}");
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/etcd",
        "/readyz",
        "/readyz/poststarthook/bootstrap-controller",
        "/version",
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:#?}");
    }
}

#[tokio::test]
async fn a_slash_at_the_end_makes_no_difference() {
    let env = Env::new().await;
    for (path, kind) in [
        ("/api/", "APIVersions"),
        ("/api/v1/", "APIResourceList"),
        ("/apis/", "APIGroupList"),
        ("/apis/apps/", "APIGroup"),
        ("/apis/apps/v1/", "APIResourceList"),
        ("/api/v1/namespaces/", "NamespaceList"),
        ("/api/v1/namespaces/default/", "Namespace"),
        ("/api/v1/namespaces/default/configmaps/", "ConfigMapList"),
    ] {
        assert_eq!(env.get(path).await.expect(200)["kind"], kind, "{path}");
    }
    assert_eq!(env.get("/version/").await.expect(200)["major"], "1");
}

#[tokio::test]
async fn a_version_that_a_built_in_group_does_not_have_is_not_found() {
    let env = Env::new().await;
    for path in ["/api/v2", "/apis/apps/v9", "/api//v1"] {
        let answer = env.get(path).await;
        let message = "the server could not find the requested resource";
        assert_eq!(answer.expect_status(404, "NotFound", message)["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn a_group_that_does_not_exist_is_no_page() {
    let env = Env::new().await;
    for path in ["/apis/nothing", "/apis/nothing/v1", "/apis/nothing/v1/things", "/nothing", "//api", "/Api"]
    {
        let answer = env.get(path).await;
        assert_eq!((answer.code, &answer.body), (404, &json!("404 page not found\n")), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    }
}

#[tokio::test]
async fn custom_resources_are_discovered_like_built_in_ones() {
    let env = Env::new().await;
    let group = format!("{}.example.com", env.namespace);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, served: bool| json!({"name": name, "served": served, "storage": name == "v1", "schema": schema});
    let mut first = version("v1", true);
    first["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    let definition = json!({
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"],
                "categories": ["all"],
            },
            "versions": [first, version("v1alpha1", false), version("v2", true)],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    env.post(definitions, definition).await.expect(201);
    env.until(&format!("/apis/{group}/v2"), |answer| answer.code == 200).await;
    let described = |document: &Value| {
        let items = document["items"].as_array().cloned().unwrap_or_default();
        let group = items.into_iter().find(|item| item["metadata"]["name"] == group.as_str())?;
        // A real server gathers the document now and then.
        group["versions"].as_array().filter(|versions| versions.len() == 2)?;
        Some(group)
    };
    let headers = [("accept", AGGREGATED)];
    let aggregated = env.until_with("/apis", &headers, |answer| described(&answer.body).is_some()).await;
    let aggregated = described(&aggregated.body).expect("it is there");
    let verbs = json!(["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]);
    let below = json!(["get", "patch", "update"]);
    let kind = |version: &str| json!({"group": group, "version": version, "kind": "Gadget"});
    let scale = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
    let resource = |version: &str| {
        json!({
            "resource": "gadgets", "responseKind": kind(version), "scope": "Namespaced",
            "singularResource": "gadget", "verbs": verbs, "shortNames": ["gd"], "categories": ["all"],
        })
    };
    let mut with_subresources = resource("v1");
    with_subresources["subresources"] = json!([
        {"subresource": "status", "responseKind": kind("v1"), "verbs": below},
        {"subresource": "scale", "responseKind": scale, "verbs": below},
    ]);
    assert_eq!(
        aggregated,
        json!({"metadata": {"name": group}, "versions": [
            {"version": "v2", "resources": [resource("v2")], "freshness": "Current"},
            {"version": "v1", "resources": [with_subresources], "freshness": "Current"},
        ]})
    );
    let mut list = env.get(&format!("/apis/{group}/v1")).await.expect(200);
    let hash = list["resources"][0].as_object_mut().expect("an object").remove("storageVersionHash");
    assert!(hash.is_some_and(|hash| hash.is_string()));
    assert_eq!(
        list["resources"],
        json!([
            {
                "name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget",
                "verbs": verbs, "shortNames": ["gd"], "categories": ["all"],
            },
            {"name": "gadgets/status", "singularName": "", "namespaced": true, "kind": "Gadget", "verbs": below},
            {
                "name": "gadgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
                "version": "v1", "kind": "Scale", "verbs": below,
            },
        ])
    );
    // The answer for an unserved group or path is not even a `Status`.
    for path in ["v1alpha1", "v7", "v7/gadgets", "v1/nothings"] {
        assert_eq!(
            env.get(&format!("/apis/{group}/{path}")).await.expect(404),
            json!("404 page not found\n")
        );
    }
    env.delete(&format!("{definitions}/gadgets.{group}")).await.expect(200);
}

#[tokio::test]
async fn documents_about_the_server_can_only_be_read() {
    let env = Env::new().await;
    for path in ["/version", "/api", "/api/v1", "/apis/apps/v1"] {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            let answer = env.call(method, path, &[], "").await;
            let message = "the server does not allow this method on the requested resource";
            assert_eq!(answer.expect_status(405, "MethodNotAllowed", message)["details"], json!({}));
        }
        assert_eq!(env.call(Method::HEAD, path, &[], "").await.code, 405, "{path}");
    }
    // These ignore the method.
    for path in ["/apis", "/apis/apps", "/"] {
        assert_eq!(env.call(Method::POST, path, &[], "").await.code, 200, "{path}");
    }
}
