//! Which verbs there are, and for what.

use http::Method;
use serde_json::{Value, json};

use crate::Env;

const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";

#[tokio::test]
async fn a_verb_that_a_path_does_not_have_is_not_allowed() {
    let env = Env::new().await;
    let config_maps = env.core("configmaps");
    env.post(&config_maps, json!({"metadata": {"name": "a"}})).await.expect(201);
    let merge = ("content-type", "application/merge-patch+json");
    for (method, path) in [
        (Method::PUT, config_maps.clone()),
        (Method::PATCH, config_maps.clone()),
        (Method::POST, format!("{config_maps}/a")),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
        (Method::DELETE, "/api/v1/configmaps".to_owned()),
        (Method::POST, "/api/v1/configmaps".to_owned()),
    ] {
        let answer = env.call(method, &path, &[merge], "{}").await;
        let status = answer.expect_status(405, "MethodNotAllowed", NOT_ALLOWED);
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn a_delete_answers_with_what_is_gone() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let status = env.delete(&format!("{path}/a")).await.expect(200);
    let details = json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]});
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
    assert_eq!(status, expected);
    let path = env.group("rbac.authorization.k8s.io/v1", "roles");
    env.post(&path, json!({"metadata": {"name": "a"}, "rules": []})).await.expect(201);
    let status = env.delete(&format!("{path}/a")).await.expect(200);
    assert_eq!(status["details"]["group"], "rbac.authorization.k8s.io");
}

#[tokio::test]
async fn a_delete_of_some_kinds_answers_with_the_object() {
    let env = Env::new().await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let name = env.unique("class");
    for (path, sent, kind) in [
        (env.core("serviceaccounts"), json!({"metadata": {"name": name}}), "ServiceAccount"),
        (env.core("resourcequotas"), json!({"metadata": {"name": name}}), "ResourceQuota"),
        (env.core("podtemplates"), json!({"metadata": {"name": name}, "template": template}), "PodTemplate"),
        (
            "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
            json!({"metadata": {"name": name}, "provisioner": "example.com/none"}),
            "StorageClass",
        ),
        (
            "/apis/storage.k8s.io/v1/csinodes".to_owned(),
            json!({"metadata": {"name": name}, "spec": {"drivers": []}}),
            "CSINode",
        ),
    ] {
        let made = env.post(&path, sent).await.expect(201);
        let deleted = env.delete(&format!("{path}/{name}")).await.expect(200);
        assert_eq!(deleted["kind"], kind, "{deleted:#}");
        assert_eq!(deleted["metadata"]["uid"], made["metadata"]["uid"]);
        assert_ne!(deleted["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
        env.get(&format!("{path}/{name}")).await.expect(404);
    }
}

#[tokio::test]
async fn a_deleted_object_is_shown_as_it_last_was() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    env.delete(&format!("{path}/a")).await.expect(200);
    let revision = made["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let events = env.watch(&format!("{path}?resourceVersion={revision}"), 1).await;
    let (kind, object) = (&events[0]["type"], &events[0]["object"]);
    assert_eq!((kind, &object["data"]), (&json!("DELETED"), &json!({"k": "v"})));
    assert_eq!(object["metadata"]["uid"], made["metadata"]["uid"]);
    assert_ne!(object["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selectors_and_shown_as_it_was() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        env.post(&path, json!({"metadata": {"name": name, "labels": {"l": label}}})).await.expect(201);
    }
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let list =
        env.delete(&format!("{path}?fieldSelector=metadata.name%3Da&labelSelector=l%3Dx")).await.expect(200);
    assert_eq!((&list["kind"], names(&list)), (&json!("ConfigMapList"), vec!["a".to_owned()]));
    assert_eq!(list["items"][0]["kind"], Value::Null);
    let list = env.delete(&format!("{path}?labelSelector=l%3Dx")).await.expect(200);
    assert_eq!(names(&list), ["b"]);
    assert_eq!(names(&env.get(&path).await.expect(200)), ["c"]);
    let list = env.delete(&path).await.expect(200);
    assert_eq!(names(&list), ["c"]);
    assert_eq!(env.delete(&path).await.expect(200)["items"], json!([]));
    let wrong = env.delete(&format!("{path}?fieldSelector=data.k%3Dv")).await;
    let message = "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    wrong.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn a_collection_is_deleted_page_by_page() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b", "c"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let page = env.delete(&format!("{path}?limit=2")).await.expect(200);
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let left = env.get(&path).await.expect(200);
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["items"][0]["metadata"]["name"], "c");
}

#[tokio::test]
async fn a_deleted_collection_leaves_what_is_kept() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a", "finalizers": ["example.com/f"]}})).await.expect(201);
    env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    let list = env.delete(&path).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(list["items"][0]["metadata"]["deletionTimestamp"], Value::Null);
    let kept = env.get(&format!("{path}/a")).await.expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    env.get(&format!("{path}/b")).await.expect(404);
    env.merge(&format!("{path}/a"), json!({"metadata": {"finalizers": null}})).await.expect(200);
}

#[tokio::test]
async fn options_of_a_delete_are_checked() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let path = format!("{path}/a");
    let invalid = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: ";
    let message = format!(
        "{invalid}Unsupported value: \"Sideways\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    env.delete_with(&path, json!({"propagationPolicy": "Sideways"}))
        .await
        .expect_status(422, "Invalid", &message);
    env.delete(&format!("{path}?propagationPolicy=Sideways")).await.expect_status(422, "Invalid", &message);
    let message = format!(
        "{invalid}Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"
    );
    let options = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    env.delete_with(&path, options).await.expect_status(422, "Invalid", &message);
    let message =
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64";
    let options = json!({"gracePeriodSeconds": "x"});
    env.delete_with(&path, options).await.expect_status(400, "BadRequest", message);
    let status = env.delete_with(&path, json!({"kind": "ConfigMap", "apiVersion": "v1"})).await.expect(400);
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("no kind \"ConfigMap\" is registered for version \"v1\""), "{message}");
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "unknown": 1});
    env.delete_with(&path, options).await.expect(200);
}
