//! Creates and updates: results and errors.

use serde_json::{Value, json};

use crate::Env;

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_else(|| panic!("{field} is a text in {object:#}"))
}

fn revision(object: &Value) -> u64 {
    text(object, "resourceVersion").parse().expect("a revision is a number")
}

#[tokio::test]
async fn a_created_object_gets_what_the_server_gives() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(made["metadata"]["namespace"], env.namespace.as_str());
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(!text(&made, field).is_empty(), "{field}: {made:#}");
    }
    let mut read = env.get(&format!("{path}/a")).await.expect(200);
    let mut made = made;
    for object in [&mut made, &mut read] {
        object["metadata"].as_object_mut().expect("an object").remove("managedFields");
    }
    assert_eq!(made, read);
}

#[tokio::test]
async fn what_only_the_server_may_set_is_not_taken_from_a_client() {
    let env = Env::new().await;
    let sent = json!({"metadata": {
        "name": "a",
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 4,
        "selfLink": "/mine",
        "resourceVersion": "0",
    }});
    let made = env.post(&env.core("configmaps"), sent).await.expect(201);
    assert_eq!(text(&made, "uid").len(), 36);
    assert!(text(&made, "creationTimestamp") > "2020");
    assert!(revision(&made) > 0);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert_eq!(made["metadata"][field], Value::Null, "{made:#}");
    }
}

#[tokio::test]
async fn revisions_grow_with_every_write() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let first = env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let second = env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    let third = env.merge(&format!("{path}/a"), json!({"data": {"k": "v"}})).await.expect(200);
    assert!(revision(&first) < revision(&second) && revision(&second) < revision(&third));
    assert_eq!(text(&first, "uid"), text(&third, "uid"));
    assert_eq!(text(&first, "creationTimestamp"), text(&third, "creationTimestamp"));
}

#[tokio::test]
async fn an_object_that_exists_is_not_created_again() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let again = env.post(&path, json!({"metadata": {"name": "a"}})).await;
    let status = again.expect_status(409, "AlreadyExists", "configmaps \"a\" already exists");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn a_new_object_must_not_have_a_revision() {
    let env = Env::new().await;
    let sent = json!({"metadata": {"name": "a", "resourceVersion": "5"}});
    let message = "resourceVersion should not be set on objects to be created";
    env.post(&env.core("configmaps"), sent).await.expect_status(500, "", message);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_revision() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let object = json!({"metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"k": "v"}});
    let made = env.post(&path, object.clone()).await.expect(201);
    let path = format!("{path}/a");
    let put = env.put(&path, object).await.expect(200);
    let merged = env.merge(&path, json!({"data": {"k": "v"}})).await.expect(200);
    let patch = json!([{"op": "replace", "path": "/data/k", "value": "v"}]);
    let patched = env.json_patch(&path, patch).await.expect(200);
    for same in [put, merged, patched] {
        assert_eq!(revision(&same), revision(&made));
    }
}

#[tokio::test]
async fn an_update_replaces_everything_but_what_the_server_keeps() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let sent = json!({"metadata": {"generateName": "a-", "labels": {"a": "b"}}, "data": {"k": "v"}});
    let made = env.post(&path, sent).await.expect(201);
    let name = text(&made, "name").to_owned();
    let sent = json!({
        "metadata": {"name": name, "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9},
        "data": {"l": "w"},
    });
    let put = env.put(&format!("{path}/{name}"), sent).await.expect(200);
    assert_eq!(put["data"], json!({"l": "w"}));
    for field in ["labels", "generateName", "generation"] {
        assert_eq!(put["metadata"][field], Value::Null, "{put:#}");
    }
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(put["metadata"][field], made["metadata"][field]);
    }
}

#[tokio::test]
async fn an_update_of_what_is_not_there_is_not_found() {
    let env = Env::new().await;
    let path = format!("{}/a", env.core("configmaps"));
    let sent = json!({"metadata": {"name": "a"}});
    let status = env.put(&path, sent).await.expect_status(404, "NotFound", "configmaps \"a\" not found");
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    env.merge(&path, json!({})).await.expect_status(404, "NotFound", "configmaps \"a\" not found");
    env.delete(&path).await.expect_status(404, "NotFound", "configmaps \"a\" not found");
}

#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let env = Env::new().await;
    let lease = env.group("coordination.k8s.io/v1", "leases/a");
    // A revision does not matter to what is not there.
    let sent = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"holderIdentity": "me"}});
    let made = env.put(&lease, sent).await.expect(201);
    assert_eq!(made["spec"]["holderIdentity"], "me");
    assert!(revision(&made) > 5);
    let role = env.group("rbac.authorization.k8s.io/v1", "roles/a");
    env.put(&role, json!({"metadata": {"name": "a"}, "rules": []})).await.expect(201);
    let endpoints = env.core("endpoints/a");
    env.put(&endpoints, json!({"metadata": {"name": "a"}})).await.expect(201);
    // A patch has nothing to start from.
    let lease = env.group("coordination.k8s.io/v1", "leases/b");
    let message = "leases.coordination.k8s.io \"b\" not found";
    env.merge(&lease, json!({})).await.expect_status(404, "NotFound", message);
}

#[tokio::test]
async fn an_update_that_creates_wants_no_uid() {
    let env = Env::new().await;
    let lease = env.group("coordination.k8s.io/v1", "leases/a");
    let message = format!(
        "Operation cannot be fulfilled on leases.coordination.k8s.io \"a\": StorageError: invalid object, Code: 4, Key: \
         /registry/leases/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, UID \
         in object meta: ",
        env.namespace
    );
    let sent = json!({"metadata": {"name": "a", "uid": "u"}});
    env.put(&lease, sent).await.expect_status(409, "Conflict", &message);
}

#[tokio::test]
async fn a_watch_shows_what_happens_in_order() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let list = env.get(&path).await.expect(200);
    let revision = list["metadata"]["resourceVersion"].as_str().expect("a list has a revision").to_owned();
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    env.merge(&format!("{path}/a"), json!({"data": {"k": "v"}})).await.expect(200);
    env.delete(&format!("{path}/a")).await.expect(200);
    let events = env.watch(&format!("{path}?resourceVersion={revision}"), 3).await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
}

#[tokio::test]
async fn an_object_that_is_too_large_to_be_stored_is_refused() {
    let env = Env::new().await;
    let group = "x".repeat(1000);
    let rules: Vec<_> =
        (0..2000).map(|_| json!({"apiGroups": [group], "resources": ["a"], "verbs": ["get"]})).collect();
    let role = json!({"metadata": {"name": "a"}, "rules": rules});
    let path = env.group("rbac.authorization.k8s.io/v1", "roles");
    env.post(&path, role).await.expect_status(500, "", "etcdserver: request is too large");
}

#[tokio::test]
async fn whoever_may_generate_another_name_is_told_so_when_one_is_taken() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let named = json!({"metadata": {"name": "a", "generateName": "a-"}});
    env.post(&path, named.clone()).await.expect(201);
    let message =
        "configmaps \"a\" already exists, the server was not able to generate a unique name for the object";
    let status = env.post(&path, named).await.expect_status(409, "AlreadyExists", message);
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
}
