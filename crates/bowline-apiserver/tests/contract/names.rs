//! Valid names, labels and annotations.

use serde_json::{Value, json};

use crate::Env;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
     must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

fn cause(body: &Value, field: &str) -> Option<String> {
    let causes = body["details"]["causes"].as_array()?;
    let cause = causes.iter().find(|cause| cause["field"] == field)?;
    cause["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_name_is_generated_from_its_beginning() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let long = "a".repeat(70);
    for (base, kept) in [("web-", "web-"), ("web", "web"), (long.as_str(), &long[..58])] {
        let made = env.post(&path, json!({"metadata": {"generateName": base}})).await.expect(201);
        let name = made["metadata"]["name"].as_str().expect("it has a name");
        let end = name.strip_prefix(kept).unwrap_or_else(|| panic!("{name} begins with {kept}"));
        assert_eq!(end.len(), 5, "{name}");
        assert!(end.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)), "{name}");
        assert_eq!(made["metadata"]["generateName"], base);
    }
}

#[tokio::test]
async fn a_name_that_is_given_counts_more_than_one_to_generate() {
    let env = Env::new().await;
    let sent = json!({"metadata": {"name": "a", "generateName": "b-"}});
    let made = env.post(&env.core("configmaps"), sent).await.expect(201);
    assert_eq!((&made["metadata"]["name"], &made["metadata"]["generateName"]), (&json!("a"), &json!("b-")));
}

#[tokio::test]
async fn an_object_needs_a_name() {
    let env = Env::new().await;
    for (resource, kind) in [("configmaps", "ConfigMap"), ("secrets", "Secret")] {
        let message = format!(
            "{kind} \"\" is invalid: metadata.name: Required value: name or generateName is required"
        );
        let status = env.post(&env.core(resource), json!({})).await.expect_status(422, "Invalid", &message);
        let cause = json!({
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        });
        assert_eq!(status["details"], json!({"kind": kind, "causes": [cause]}));
    }
}

#[tokio::test]
async fn most_names_are_dns_subdomains() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for good in ["a", "1a", "a.b", "a-b.c", &"a".repeat(253)] {
        env.post(&path, json!({"metadata": {"name": good}})).await.expect(201);
    }
    for bad in ["A", "a_b", "-a", "a-", ".a", "a..b"] {
        let wrong = format!("metadata.name: Invalid value: {bad:?}: {SUBDOMAIN}");
        let message = format!("ConfigMap {bad:?} is invalid: {wrong}");
        env.post(&path, json!({"metadata": {"name": bad}})).await.expect_status(422, "Invalid", &message);
    }
    let long = "a".repeat(254);
    let message = format!(
        "ConfigMap {long:?} is invalid: metadata.name: Invalid value: {long:?}: must be no more than 253 characters"
    );
    env.post(&path, json!({"metadata": {"name": long}})).await.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn every_kind_has_its_rule_for_names() {
    let env = Env::new().await;
    let group = |group: &str, resource: &str| env.group(group, resource);
    for (path, rule) in [
        ("/api/v1/namespaces".to_owned(), Some(LABEL)),
        (env.core("services"), Some(LABEL)),
        (group("apps/v1", "statefulsets"), Some(LABEL)),
        ("/api/v1/nodes".to_owned(), Some(SUBDOMAIN)),
        ("/api/v1/persistentvolumes".to_owned(), Some(SUBDOMAIN)),
        (env.core("limitranges"), Some(SUBDOMAIN)),
        (env.core("serviceaccounts"), Some(SUBDOMAIN)),
        (group("coordination.k8s.io/v1", "leases"), Some(SUBDOMAIN)),
        (group("networking.k8s.io/v1", "networkpolicies"), Some(SUBDOMAIN)),
        ("/apis/storage.k8s.io/v1/csinodes".to_owned(), Some(SUBDOMAIN)),
        ("/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), Some(SUBDOMAIN)),
        (group("policy/v1", "poddisruptionbudgets"), None),
        (group("rbac.authorization.k8s.io/v1", "roles"), None),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(), None),
    ] {
        let answer = env.post(&format!("{path}?dryRun=All"), json!({"metadata": {"name": "A_b"}})).await;
        let wrong = rule.map(|rule| format!("Invalid value: \"A_b\": {rule}"));
        assert_eq!(cause(&answer.body, "metadata.name"), wrong, "{path}: {:#}", answer.body);
    }
    let answer = env.post("/api/v1/namespaces", json!({"metadata": {"name": "a.b"}})).await.expect(422);
    let wrong = "Invalid value: \"a.b\": must not contain dots".to_owned();
    assert_eq!(cause(&answer, "metadata.name"), Some(wrong));
}

#[tokio::test]
async fn the_beginning_of_a_generated_name_is_checked_too() {
    let env = Env::new().await;
    let sent = json!({"metadata": {"generateName": "Web-"}});
    let status = env.post(&env.core("configmaps"), sent).await.expect(422);
    let wrong = format!("Invalid value: \"Web-\": {SUBDOMAIN}");
    assert_eq!(cause(&status, "metadata.generateName"), Some(wrong));
    assert!(cause(&status, "metadata.name").is_some_and(|message| message.ends_with(SUBDOMAIN)));
}

#[tokio::test]
async fn labels_and_annotations_are_checked() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let sent = json!({"metadata": {
        "name": "a",
        "labels": {"-a": "b c"},
        "annotations": {"x y": "any value"},
    }});
    let key = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
               alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
               '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                 validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let message = format!(
        "ConfigMap \"a\" is invalid: [metadata.labels: Invalid value: \"-a\": {key}, metadata.labels: Invalid value: \
         \"b c\": {value}, metadata.annotations: Invalid value: \"x y\": {key}]"
    );
    env.post(&path, sent).await.expect_status(422, "Invalid", &message);
    let good = json!({"metadata": {
        "name": "a",
        "labels": {"a.example.com/b": "", "c": "D_e.f-1"},
        "annotations": {"UPPER.example.com/b": "{any}\n"},
    }});
    env.post(&path, good).await.expect(201);
    let message = format!("ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"b c\": {value}");
    let patch = json!({"metadata": {"labels": {"c": "b c"}}});
    env.merge(&format!("{path}/a"), patch).await.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn an_owner_must_be_named_in_full_and_one_may_control() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
    let sent = json!({"metadata": {"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]}});
    let message = "ConfigMap \"a\" is invalid: [metadata.ownerReferences.name: Invalid value: \"\": must not be empty, \
                   metadata.ownerReferences.uid: Invalid value: \"\": must not be empty]";
    env.post(&path, sent).await.expect_status(422, "Invalid", message);
    let sent = json!({"metadata": {"name": "a", "ownerReferences": [owner("x"), owner("y")]}});
    let status = env.post(&path, sent).await.expect(422);
    let message = status["message"].as_str().unwrap_or_default();
    let end = "Only one reference can have Controller set to true. Found \"true\" in references for Pod/x and Pod/y";
    assert!(message.ends_with(end), "{message}");
    let sent = json!({"metadata": {"name": "a", "ownerReferences": [owner("x")]}});
    env.post(&path, sent).await.expect(201);
}
