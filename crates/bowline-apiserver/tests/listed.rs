//! Every resource that discovery lists is served.

use bowline_apiserver::ApiServer;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tower::ServiceExt as _;

async fn call(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: &str,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Body::from(body.as_bytes().to_vec())).expect("a request can be made");
    let response = server.clone().oneshot(request).await.expect("the server answers");
    let code = response.status().as_u16();
    if path.ends_with("watch=true") {
        return (code, Value::Null);
    }
    let bytes = response.into_body().collect().await.expect("the whole answer comes").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn every_verb_that_is_listed_leads_somewhere() {
    let server = ApiServer::builder().build().expect("a server can be built");
    let (_, groups) = call(&server, Method::GET, "/apis", "", "").await;
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let versions = groups.iter().flat_map(|group| group["versions"].as_array().cloned().unwrap_or_default());
    let mut roots = vec!["/api/v1".to_owned()];
    roots.extend(versions.filter_map(|version| Some(format!("/apis/{}", version["groupVersion"].as_str()?))));
    let mut tried = 0;
    for root in roots {
        let (_, list) = call(&server, Method::GET, &root, "", "").await;
        for entry in list["resources"].as_array().expect("there are resources") {
            let (resource, below) = match entry["name"].as_str().expect("it has a name").split_once('/') {
                Some((resource, below)) => (resource, format!("/nothing/{below}")),
                None => (entry["name"].as_str().unwrap_or_default(), String::new()),
            };
            let namespace = if entry["namespaced"] == true { "/namespaces/default" } else { "" };
            let all = format!("{root}{namespace}/{resource}");
            let one = if below.is_empty() { format!("{all}/nothing") } else { format!("{all}{below}") };
            for verb in entry["verbs"].as_array().expect("it has verbs") {
                let (json, merge) = ("application/json", "application/merge-patch+json");
                let (method, path, content_type, body) = match verb.as_str().unwrap_or_default() {
                    "get" => (Method::GET, one.clone(), "", ""),
                    "list" => (Method::GET, all.clone(), "", ""),
                    "watch" => (Method::GET, format!("{all}?watch=true"), "", ""),
                    "create" if below.is_empty() => (Method::POST, all.clone(), json, "{}"),
                    "create" => (Method::POST, one.clone(), json, "{}"),
                    "update" => (Method::PUT, one.clone(), json, "{}"),
                    "patch" => (Method::PATCH, one.clone(), merge, "{}"),
                    "delete" => (Method::DELETE, one.clone(), "", ""),
                    "deletecollection" => (Method::DELETE, format!("{all}?dryRun=All"), "", ""),
                    other => panic!("{other} is no verb of {entry:#}"),
                };
                let (code, body) = call(&server, method.clone(), &path, content_type, body).await;
                let message = body["message"].as_str().unwrap_or_default();
                let is_nowhere = matches!(code, 405 | 415 | 500..) || message.contains("could not find");
                assert!(!is_nowhere, "{method} {path}: {code} {message}");
                tried += 1;
            }
        }
    }
    assert!(tried > 500, "only {tried} were tried");
}
