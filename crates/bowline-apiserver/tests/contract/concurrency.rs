//! Writers that do not know of each other: revisions and uids as preconditions.

use serde_json::{Value, json};

use crate::Env;

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

async fn config_map(env: &Env) -> (String, Value) {
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    (format!("{path}/a"), made)
}

#[tokio::test]
async fn an_update_with_an_old_revision_is_a_conflict() {
    let env = Env::new().await;
    let (path, made) = config_map(&env).await;
    env.merge(&path, json!({"data": {"k": "w"}})).await.expect(200);
    let revision = &made["metadata"]["resourceVersion"];
    let message = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    let sent = json!({"metadata": {"name": "a", "resourceVersion": revision}});
    let status = env.put(&path, sent).await.expect_status(409, "Conflict", &message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    let patch = json!({"metadata": {"resourceVersion": revision}, "data": {"k": "x"}});
    env.merge(&path, patch).await.expect_status(409, "Conflict", &message);
    assert_eq!(env.get(&path).await.expect(200)["data"]["k"], "w");
}

#[tokio::test]
async fn an_update_with_the_present_revision_is_done() {
    let env = Env::new().await;
    let (path, made) = config_map(&env).await;
    let revision = &made["metadata"]["resourceVersion"];
    let sent = json!({"metadata": {"name": "a", "resourceVersion": revision}, "data": {"k": "w"}});
    let put = env.put(&path, sent).await.expect(200);
    let revision = &put["metadata"]["resourceVersion"];
    env.merge(&path, json!({"metadata": {"resourceVersion": revision}, "data": {"k": "x"}}))
        .await
        .expect(200);
}

#[tokio::test]
async fn an_update_without_a_revision_overwrites() {
    let env = Env::new().await;
    let (path, _) = config_map(&env).await;
    for none in [json!({"name": "a"}), json!({"name": "a", "resourceVersion": "0"})] {
        env.put(&path, json!({"metadata": none, "data": {}})).await.expect(200);
    }
}

#[tokio::test]
async fn some_kinds_are_never_overwritten_unseen() {
    let env = Env::new().await;
    let lease = env.group("coordination.k8s.io/v1", "leases");
    env.post(&lease, json!({"metadata": {"name": "a"}})).await.expect(201);
    let budget = env.group("policy/v1", "poddisruptionbudgets");
    let sent = json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1}});
    env.post(&budget, sent.clone()).await.expect(201);
    for (path, sent, group, kind) in [
        (lease, json!({"metadata": {"name": "a"}}), "coordination.k8s.io", "leases"),
        (budget, sent, "policy", "poddisruptionbudgets"),
    ] {
        let message = format!(
            "{kind}.{group} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        );
        let path = format!("{path}/a");
        let status = env.put(&path, sent).await.expect_status(422, "Invalid", &message);
        assert_eq!((&status["details"]["kind"], &status["details"]["group"]), (&json!(kind), &json!(group)));
        let patch = json!({"metadata": {"resourceVersion": null}});
        env.merge(&path, patch).await.expect_status(422, "Invalid", &message);
        // A patch that does not touch the revision keeps the one that it was applied to.
        env.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    }
}

#[tokio::test]
async fn a_revision_that_is_no_number_is_an_error() {
    let env = Env::new().await;
    let (path, _) = config_map(&env).await;
    let message = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    let sent = json!({"metadata": {"name": "a", "resourceVersion": "abc"}});
    env.put(&path, sent.clone()).await.expect_status(500, "", message);
    env.merge(&path, sent).await.expect_status(500, "", message);
}

#[tokio::test]
async fn an_update_with_another_uid_is_a_conflict() {
    let env = Env::new().await;
    let (path, made) = config_map(&env).await;
    let uid = made["metadata"]["uid"].as_str().expect("it has a uid");
    let message = format!(
        "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
         /registry/configmaps/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, \
         UID in object meta: {uid}",
        env.namespace
    );
    let sent = json!({"metadata": {"name": "a", "uid": "u"}});
    env.put(&path, sent).await.expect_status(409, "Conflict", &message);
    env.put(&path, json!({"metadata": {"name": "a", "uid": uid}})).await.expect(200);
}

#[tokio::test]
async fn a_patch_cannot_change_a_uid_but_may_leave_it_out() {
    let env = Env::new().await;
    let (path, made) = config_map(&env).await;
    let message = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable";
    env.merge(&path, json!({"metadata": {"uid": "u"}})).await.expect_status(422, "Invalid", message);
    let patch = json!({"metadata": {"uid": null, "creationTimestamp": null}});
    let same = env.merge(&path, patch).await.expect(200);
    for field in ["uid", "creationTimestamp", "resourceVersion"] {
        assert_eq!(same["metadata"][field], made["metadata"][field]);
    }
}

#[tokio::test]
async fn patches_of_several_writers_all_count() {
    let env = Env::new().await;
    let (path, _) = config_map(&env).await;
    let patches: Vec<_> = (0..8).map(|n| json!({"data": {format!("k{n}"): "v"}})).collect();
    let answers = futures::future::join_all(patches.into_iter().map(|patch| env.merge(&path, patch))).await;
    for answer in answers {
        answer.expect(200);
    }
    let data = env.get(&path).await.expect(200)["data"].clone();
    assert_eq!(data.as_object().map(serde_json::Map::len), Some(9), "{data:#}");
}

#[tokio::test]
async fn a_delete_takes_a_uid_and_a_revision_as_preconditions() {
    let env = Env::new().await;
    let (path, made) = config_map(&env).await;
    let (uid, revision) = (&made["metadata"]["uid"], &made["metadata"]["resourceVersion"]);
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (u) does not match the UID in \
         record ({}). The object might have been deleted and then recreated",
        uid.as_str().unwrap_or_default()
    );
    let options = json!({"preconditions": {"uid": "u"}});
    let status = env.delete_with(&path, options).await.expect_status(409, "Conflict", &message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "ConfigMap"}));
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) does not match \
         the ResourceVersion in record ({}). The object might have been modified",
        revision.as_str().unwrap_or_default()
    );
    let options = json!({"preconditions": {"uid": uid, "resourceVersion": "1"}});
    env.delete_with(&path, options).await.expect_status(409, "Conflict", &message);
    let options = json!({"preconditions": {"uid": uid, "resourceVersion": revision}});
    env.delete_with(&path, options).await.expect(200);
}
