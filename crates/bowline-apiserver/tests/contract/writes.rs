//! Creating and changing objects.

use serde_json::json;

use crate::Env;

#[tokio::test]
async fn a_created_object_gets_what_the_server_gives() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(made["metadata"]["namespace"], env.namespace.as_str());
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(made["metadata"][field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {made:#}");
    }
    let mut read = env.get(&format!("{path}/a")).await.expect(200);
    let mut made = made;
    for object in [&mut made, &mut read] {
        object["metadata"].as_object_mut().expect("an object").remove("managedFields");
    }
    assert_eq!(made, read);
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
