//! In which form clients get their objects: whole, or their metadata alone; and what the server does not have.

use http::Method;
use serde_json::{Value, json};

use crate::{Answer, Env, event_names, names, revision};

const OBJECT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn get(env: &Env, path: &str, accept: &str) -> Answer {
    env.call(Method::GET, path, &[("accept", accept)], "").await
}

async fn with_one() -> (Env, String, Value) {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let object = json!({"metadata": {"name": "a", "annotations": {"x": "{\"y\""}}, "data": {"k": "v"}});
    let made = env.post(&path, object).await.expect(201);
    (env, path, made)
}

#[tokio::test]
async fn the_metadata_of_an_object_is_read_alone() {
    let (env, path, made) = with_one().await;
    for version in ["v1", "v1beta1"] {
        let accept = format!("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v={version}");
        let answer = get(&env, &format!("{path}/a"), &accept).await;
        assert_eq!(answer.headers["content-type"], "application/json");
        let expected = json!({
            "kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"),
            "metadata": made["metadata"],
        });
        assert_eq!(answer.expect(200), expected);
    }
    let missing = get(&env, &format!("{path}/b"), OBJECT).await;
    missing.expect_status(404, "NotFound", "configmaps \"b\" not found");
}

#[tokio::test]
async fn the_metadata_of_a_list_is_read_alone() {
    let (env, path, made) = with_one().await;
    env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    let list = get(&env, &format!("{path}?limit=1"), LIST).await.expect(200);
    let kind = (&list["kind"], &list["apiVersion"]);
    assert_eq!(kind, (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    let item = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"],
    });
    assert_eq!(list["items"], json!([item]));
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    let token = list["metadata"]["continue"].as_str().expect("it goes on");
    let beta = LIST.replace("v=v1", "v=v1beta1");
    let rest = get(&env, &format!("{path}?continue={token}"), &beta).await.expect(200);
    assert_eq!((names(&rest), revision(&rest)), (vec!["b"], revision(&list)));
    assert_eq!(rest["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(rest["items"][0]["apiVersion"], "meta.k8s.io/v1beta1");
    // As Go writes a nil slice.
    let none = get(&env, &env.core("secrets"), LIST).await.expect(200);
    assert_eq!(none["items"], Value::Null);
}

#[tokio::test]
async fn the_metadata_of_changes_is_watched_alone() {
    let (env, path, made) = with_one().await;
    let query =
        "watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let events = env.events(&format!("{path}?{query}"), &[("accept", OBJECT)], 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a"), ("BOOKMARK", "")]);
    let object = |metadata: &Value| json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    assert_eq!(events[0]["object"], object(&made["metadata"]));
    let bookmark = json!({
        "resourceVersion": events[1]["object"]["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    assert_eq!(events[1]["object"], object(&bookmark));
    env.delete(&format!("{path}/a")).await.expect(200);
    let watch = format!("{path}?watch=true&resourceVersion={}", revision(&made));
    let events = env.events(&watch, &[("accept", OBJECT)], 1).await;
    assert_eq!(event_names(&events), [("DELETED", "a")]);
    assert_eq!(events[0]["object"]["data"], Value::Null);
}

#[tokio::test]
async fn an_object_is_no_list_and_a_list_no_object() {
    let (env, path, _) = with_one().await;
    for (path, accept, begin) in [
        (
            format!("{path}/a"),
            LIST,
            "you requested PartialObjectMetadataList, but the requested object is not a list (",
        ),
        (path, OBJECT, "you requested PartialObjectMetadata, but the requested object is a list ("),
    ] {
        let status = get(&env, &path, accept).await.expect(406);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(begin), "{message}");
        assert_eq!((&status["reason"], &status["code"]), (&json!("NotAcceptable"), &json!(406)));
    }
}

#[tokio::test]
async fn writes_answer_with_metadata_too() {
    let (env, path, _) = with_one().await;
    let headers = [("accept", OBJECT), ("content-type", "application/json")];
    let object = json!({"metadata": {"name": "b"}, "data": {"k": "v"}});
    let made = env.call(Method::POST, &path, &headers, object).await.expect(201);
    assert_eq!((&made["kind"], &made["data"]), (&json!("PartialObjectMetadata"), &Value::Null));
    let object = json!({"metadata": {"name": "b"}, "data": {"k": "w"}});
    let put = env.call(Method::PUT, &format!("{path}/b"), &headers, object).await.expect(200);
    assert_eq!((&put["kind"], &put["data"]), (&json!("PartialObjectMetadata"), &Value::Null));
    assert!(revision(&put) > revision(&made));
    // A status stays one.
    let deleted = env.call(Method::DELETE, &format!("{path}/b"), &headers, "").await.expect(200);
    assert_eq!(deleted["kind"], "Status");
}

#[tokio::test]
async fn the_first_form_that_the_server_has_is_taken() {
    let (env, path, _) = with_one().await;
    let path = format!("{path}/a");
    let odd = "application/json;as=Table;g=meta.k8s.io;v=v9";
    for (accept, kind) in [
        (String::new(), "ConfigMap"),
        ("*/*".to_owned(), "ConfigMap"),
        ("text/html, */*;q=0.1".to_owned(), "ConfigMap"),
        ("application/json;odd=yes".to_owned(), "ConfigMap"),
        ("application/json; charset=utf-8".to_owned(), "ConfigMap"),
        (format!("{odd},application/json"), "ConfigMap"),
        (format!("{odd}, {OBJECT}, application/json"), "PartialObjectMetadata"),
        (format!("application/json,{OBJECT}"), "ConfigMap"),
        (format!("application/json;q=0.5,{OBJECT}"), "PartialObjectMetadata"),
        (format!("{OBJECT};q=0.5,application/json;q=0.9"), "ConfigMap"),
        (format!("*/*,{OBJECT}"), "PartialObjectMetadata"),
    ] {
        let answer = get(&env, &path, &accept).await;
        assert_eq!(answer.headers["content-type"], "application/json", "{accept}");
        assert_eq!(answer.expect(200)["kind"], kind, "{accept}");
    }
}

#[tokio::test]
async fn who_wants_only_what_the_server_does_not_have_is_told_what_it_has() {
    let (env, path, _) = with_one().await;
    let object = format!("{path}/a");
    for (path, accept, begin) in [
        (object.clone(), "text/html", "406: Not Acceptable\n\nAvailable representations: application/json"),
        (
            object.clone(),
            "application/*",
            "406: Not Acceptable\n\nAvailable representations: application/json",
        ),
        (
            format!("{path}?watch=true"),
            "text/html",
            "406: Not Acceptable\n\nAvailable representations: application/json",
        ),
        (
            object.clone(),
            "application/json;as=Table;g=meta.k8s.io;v=v9",
            "only the following media types are accepted: application/json",
        ),
        (
            object.clone(),
            "application/json;as=Thing;g=meta.k8s.io;v=v1",
            "only the following media types are accepted: application/json",
        ),
        (
            object.clone(),
            "application/json;as=PartialObjectMetadata;g=example.com;v=v1",
            "only the following media types are accepted: application/json",
        ),
    ] {
        let status = get(&env, &path, accept).await.expect(406);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(begin), "{accept}: {message}");
        assert_eq!((&status["reason"], &status["code"]), (&json!("NotAcceptable"), &json!(406)), "{accept}");
        assert_eq!(status["details"].is_object(), begin.starts_with("406"), "{accept}: {status:#}");
    }
    // Nothing is written if the client cannot read the answer.
    let headers = [("accept", "text/html"), ("content-type", "application/json")];
    env.call(Method::POST, &path, &headers, json!({"metadata": {"name": "b"}})).await.expect(406);
    assert_eq!(names(&env.get(&path).await.expect(200)), ["a"]);
}
