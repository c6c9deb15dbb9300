//! The embedded API server accepts all manifests with strict field validation.

use bowline_apiserver::ApiServer;
use bowline_clock::Simulation;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::description::{documents, file, render};

/// The resources of the kinds in manifests.
const RESOURCES: [(&str, &str); 12] = [
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("CustomResourceDefinition", "customresourcedefinitions"),
    ("Deployment", "deployments"),
    ("Namespace", "namespaces"),
    ("NetworkPolicy", "networkpolicies"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
    ("Service", "services"),
    ("ServiceAccount", "serviceaccounts"),
    ("ConfigMap", "configmaps"),
];

async fn create(client: &Client, object: &Value) {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion").expect("it has a version");
    let api = if version.contains('/') { "apis" } else { "api" };
    let namespace =
        text("/metadata/namespace").map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    let resource = RESOURCES.iter().find(|(kind, _)| text("/kind") == Some(kind));
    let (_, resource) = resource.unwrap_or_else(|| panic!("{} is not in the table", object["kind"]));
    let path = format!("/{api}/{version}/{namespace}{resource}?fieldValidation=Strict");
    let body = object.to_string().into_bytes();
    let request =
        Request::post(&path).header("content-type", "application/json").body(body).expect("it is a request");
    let created = client.request::<Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(created["metadata"]["name"], object["metadata"]["name"]);
}

fn accepts(limited: &'static [&'static str]) {
    Simulation::new(1).run(|clock| async move {
        let server = ApiServer::builder().clock(clock).build().expect("defaults are valid");
        let client = Client::new(server, "default");
        for namespace in limited.iter().chain(&["vault"]) {
            create(
                &client,
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            )
            .await;
        }
        let files = render(|options| options.namespaces(limited.iter().copied()));
        for object in documents(file(&files, "install.yaml")) {
            create(&client, &object).await;
        }
    });
}

#[test]
fn the_server_accepts_an_operator_for_all_namespaces() {
    accepts(&[]);
}

#[test]
fn the_server_accepts_an_operator_limited_to_namespaces() {
    accepts(&["blue", "red"]);
}
