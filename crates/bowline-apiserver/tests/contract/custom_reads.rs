//! Lists, watches and forms of custom objects, where they differ from those of built-in kinds.

use http::Method;
use serde_json::{Value, json};

use crate::{Env, event_names, names, revision};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A namespace, a kind in a group of its own, and where its objects are.
struct Things {
    env: Env,
    api_version: String,
    definition: String,
    path: String,
}

impl Things {
    async fn new() -> Self {
        let env = Env::new().await;
        let group = format!("{}.example.com", env.namespace);
        let spec = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": schema,
            "selectableFields": [{"jsonPath": ".spec.colour"}],
        });
        let definition = json!({
            "metadata": {"name": format!("things.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [version],
            },
        });
        env.post(DEFINITIONS, definition).await.expect(201);
        let api_version = format!("{group}/v1");
        let path = env.group(&api_version, "things");
        env.until(&path, |answer| answer.code == 200).await;
        Self { env, definition: format!("{DEFINITIONS}/things.{group}"), api_version, path }
    }

    async fn make(&self, name: &str) -> Value {
        let thing = json!({
            "apiVersion": self.api_version, "kind": "Thing", "metadata": {"name": name},
            "spec": {"colour": "red"},
        });
        self.env.post(&self.path, thing).await.expect(201)
    }

    async fn forget(self) {
        self.env.delete(&self.definition).await.expect(200);
    }
}

#[tokio::test]
async fn a_list_of_custom_objects_says_of_each_what_it_is() {
    let things = Things::new().await;
    let (env, path) = (&things.env, &things.path);
    let none = env.get(path).await.expect(200);
    assert_eq!((&none["kind"], &none["apiVersion"]), (&json!("ThingList"), &json!(things.api_version)));
    assert_eq!((&none["items"], &none["metadata"]["continue"]), (&json!([]), &json!("")));
    things.make("a").await;
    let b = things.make("b").await;
    let first = env.get(&format!("{path}?limit=1")).await.expect(200);
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a"], &json!(1)));
    let token = first["metadata"]["continue"].as_str().expect("it goes on");
    things.make("aa").await;
    let rest = env.get(&format!("{path}?continue={token}")).await.expect(200);
    assert_eq!(rest["items"], json!([b]));
    assert_eq!(rest["items"][0]["kind"], "Thing");
    assert_eq!((revision(&rest), &rest["metadata"]["continue"]), (revision(&first), &json!("")));
    things.forget().await;
}

#[tokio::test]
async fn custom_kinds_know_head_and_a_wildcard() {
    let things = Things::new().await;
    things.make("a").await;
    let (env, path) = (&things.env, &things.path);
    for (path, code) in [(path.clone(), 200), (format!("{path}/a"), 200), (format!("{path}/b"), 404)] {
        let answer = env.call(Method::HEAD, &path, &[], "").await;
        assert_eq!((answer.code, answer.text.as_str()), (code, ""), "{path}");
        assert!(answer.headers.contains_key("content-length"), "{path}: {:?}", answer.headers);
    }
    let list = env.call(Method::GET, path, &[("accept", "application/*")], "").await.expect(200);
    assert_eq!(names(&list), ["a"]);
    let status = env.call(Method::GET, path, &[("accept", "text/html")], "").await.expect(406);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with("only the following media types are accepted: application/json"),
        "{message}"
    );
    assert_eq!(status["reason"], "NotAcceptable");
    things.forget().await;
}

#[tokio::test]
async fn the_metadata_of_custom_objects_is_read_alone() {
    let things = Things::new().await;
    let made = things.make("a").await;
    let (env, path) = (&things.env, &things.path);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let alone = json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"],
    });
    let read = env.call(Method::GET, &format!("{path}/a"), &[("accept", accept)], "").await;
    assert_eq!(read.expect(200), alone);
    let list = accept.replace("Metadata;", "MetadataList;");
    let list = env.call(Method::GET, path, &[("accept", &list)], "").await.expect(200);
    assert_eq!(list["items"], json!([alone]));
    assert_eq!(list["metadata"], json!({"resourceVersion": revision(&list).to_string()}));
    let watch = format!("{path}?watch=true&allowWatchBookmarks=true");
    let events = env.events(&watch, &[("accept", accept)], 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a"), ("BOOKMARK", "")]);
    assert_eq!(events[0]["object"], alone);
    assert_eq!(events[1]["object"]["kind"], "PartialObjectMetadata");
    things.forget().await;
}

#[tokio::test]
async fn custom_objects_come_and_go_with_the_fields_that_their_definition_names() {
    let things = Things::new().await;
    let made = things.make("a").await;
    let (env, path) = (&things.env, &things.path);
    for colour in ["blue", "green"] {
        env.merge(&format!("{path}/a"), json!({"spec": {"colour": colour}})).await.expect(200);
    }
    let watch = format!("{path}?resourceVersion={}&fieldSelector=spec.colour%3Dblue", revision(&made));
    let events = env.watch(&watch, 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a"), ("DELETED", "a")]);
    assert_eq!(events[1]["object"]["spec"]["colour"], "blue");
    assert!(revision(&events[1]["object"]) > revision(&events[0]["object"]));
    let answer = env.get(&format!("{path}?fieldSelector=spec.size%3D1")).await;
    answer.expect_status(400, "BadRequest", "field label not supported: spec.size");
    things.forget().await;
}

#[tokio::test]
async fn a_bookmark_of_a_custom_kind_has_metadata_and_no_more() {
    let things = Things::new().await;
    let events = things.env.watch(&format!("{}?allowWatchBookmarks=true", things.path), 1).await;
    let bookmark = &events[0]["object"];
    let metadata = json!({
        "resourceVersion": revision(bookmark).to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"},
    });
    let expected = json!({"kind": "Thing", "apiVersion": things.api_version, "metadata": metadata});
    assert_eq!(bookmark, &expected);
    things.forget().await;
}

#[tokio::test]
async fn a_watch_from_before_all_that_is_known_is_told_so_in_an_event() {
    let things = Things::new().await;
    // Nothing is known about the time before there were such things.
    let events = things.env.watch(&format!("{}?resourceVersion=1&timeoutSeconds=5", things.path), 2).await;
    assert_eq!(event_names(&events), [("ERROR", "")]);
    let status = &events[0]["object"];
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Expired")));
    assert_eq!((&status["code"], &status["status"]), (&json!(410), &json!("Failure")));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("too old resource version: 1 ("), "{message}");
    things.forget().await;
}
