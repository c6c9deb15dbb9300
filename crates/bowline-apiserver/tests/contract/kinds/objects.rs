//! Created objects as they are read back, for every built-in kind.
//!
//! The objects that a real server stored are in `objects/`, one file for a kind or a group of kinds. To record them anew, run the suite
//! against a real server with `BOWLINE_RECORD=1`, one test at a time.

use serde_json::{Map, Value, json};

use super::recorded::{Recorded, fill, neutral_text, remove};
use crate::Env;

/// Each test is a kind: every object of its file is stored as a real server stores it.
macro_rules! kinds {
    ($($name:ident: $file:literal,)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                hold($file).await;
            }
        )+
    };
}

kinds! {
    an_admission_webhook_or_policy_is_stored_as_a_real_server_stores_it: "admission",
    an_api_service_is_stored_as_a_real_server_stores_it: "api_service",
    an_autoscaler_is_one_object_in_two_versions: "autoscaler",
    a_certificate_request_is_stored_with_who_made_it: "certificate",
    a_claim_is_protected_and_pending: "claim",
    a_config_map_is_stored_as_a_real_server_stores_it: "config_map",
    a_controller_revision_is_stored_as_a_real_server_stores_it: "controller_revision",
    a_cron_job_is_stored_as_a_real_server_stores_it: "cron_job",
    a_daemon_set_is_stored_as_a_real_server_stores_it: "daemon_set",
    a_deployment_is_stored_as_a_real_server_stores_it: "deployment",
    a_disruption_budget_is_stored_as_a_real_server_stores_it: "disruption_budget",
    an_endpoint_slice_is_stored_as_a_real_server_stores_it: "endpoint_slice",
    endpoints_are_stored_as_a_real_server_stores_them: "endpoints",
    an_event_is_one_object_in_two_groups: "event",
    flow_control_is_stored_as_a_real_server_stores_it: "flow_control",
    a_job_selects_its_pods_by_its_own_uid: "job",
    a_lease_is_stored_as_a_real_server_stores_it: "lease",
    a_namespace_is_active_and_has_its_name_as_a_label: "namespace",
    ingresses_and_network_policies_are_stored_as_a_real_server_stores_them: "networking",
    a_node_is_tainted_until_it_is_ready: "node",
    a_pod_is_pending_with_its_class_of_service_priority_and_tolerations: "pod",
    a_pod_template_is_stored_as_a_real_server_stores_it: "pod_template",
    quotas_and_limits_are_stored_as_a_real_server_stores_them: "quota",
    roles_and_bindings_are_stored_as_a_real_server_stores_them: "rbac",
    a_replica_set_is_stored_as_a_real_server_stores_it: "replica_set",
    a_replication_controller_is_stored_as_a_real_server_stores_it: "replication_controller",
    priority_and_runtime_classes_are_stored_as_a_real_server_stores_them: "scheduling",
    a_secret_is_stored_as_a_real_server_stores_it: "secret",
    a_service_gets_addresses_and_ports: "service",
    a_service_account_is_stored_as_a_real_server_stores_it: "service_account",
    a_stateful_set_is_stored_as_a_real_server_stores_it: "stateful_set",
    storage_classes_and_drivers_are_stored_as_a_real_server_stores_them: "storage",
    a_volume_is_protected_and_pending: "volume",
}

async fn hold(file: &str) {
    let env = Env::new().await;
    let mut recorded = Recorded::read("objects", file);
    let mut wrong = Vec::new();
    for case in recorded.rows(|_| true) {
        let stored = stored(&env, case).await;
        if Recorded::is_recording() {
            case["stored"] = stored;
        } else if case["stored"] != stored {
            let differences = differences(&case["stored"], &stored, "");
            wrong.push(format!("{}:\n  {}", case["what"], differences.join("\n  ")));
        }
    }
    recorded.write();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A case's object after its creation, by the version it is read in, without values that differ from run
/// to run.
async fn stored(env: &Env, case: &Value) -> Value {
    let filled = fill(env, case);
    let path = filled["path"].as_str().expect("a case has a path");
    let made = env.post(path, filled["object"].clone()).await;
    assert_eq!(made.code, 201, "{}: {:#}", case["what"], made.body);
    let name = made.body["metadata"]["name"].as_str().expect("it has a name").to_owned();
    let mut stored = Map::new();
    let others = filled["also"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for path in [path].into_iter().chain(others) {
        let mut read = env.get(&format!("{path}/{name}")).await.expect(200);
        for field in filled["loose"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (place, name) = field.rsplit_once('/').expect("a loose field is a pointer");
            let object = read.pointer_mut(place).and_then(Value::as_object_mut);
            object.and_then(|object| object.remove(name));
        }
        let version = read["apiVersion"].as_str().expect("it has a version").to_owned();
        stored.insert(version, neutral(env, read, &filled["object"]));
    }
    remove(env, &format!("{path}/{name}")).await;
    Value::Object(stored)
}

/// An object without what differs from run to run.
fn neutral(env: &Env, mut object: Value, sent: &Value) -> Value {
    let uid = object["metadata"]["uid"].as_str().expect("it has a uid").to_owned();
    let generated = object["metadata"]["generateName"].is_string();
    let metadata = object["metadata"].as_object_mut().expect("it has metadata");
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    if generated {
        metadata.insert("name".to_owned(), "<generated>".into());
    }
    if let Some(spec) = object.get_mut("spec") {
        hide(spec, &sent["spec"], "clusterIP");
        hide(spec, &sent["spec"], "healthCheckNodePort");
        if sent["spec"]["clusterIP"].is_null() && spec["clusterIPs"].is_array() {
            spec["clusterIPs"] = json!(["<allocated>"]);
        }
        hide_each(spec, "ports", "nodePort");
        hide_each(spec, "taints", "timeAdded");
    }
    if let Some(status) = object.get_mut("status") {
        hide_each(status, "conditions", "lastTransitionTime");
        hide(status, &Value::Null, "lastPhaseTransitionTime");
    }
    let text = neutral_text(env, &object.to_string().replace(&uid, "<uid>"));
    serde_json::from_str(&text).expect("names need no escapes")
}

fn hide_each(object: &mut Value, list: &str, field: &str) {
    for item in object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        hide(item, &Value::Null, field);
    }
}

/// Hides a value that the server chose.
fn hide(object: &mut Value, sent: &Value, field: &str) {
    if sent[field].is_null() && object.get(field).is_some_and(|value| !value.is_null()) {
        object[field] = "<allocated>".into();
    }
}

/// Where two values differ, a line for each place.
fn differences(expected: &Value, found: &Value, path: &str) -> Vec<String> {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
            keys.flat_map(|key| differences(&expected[key], &found[key], &format!("{path}.{key}"))).collect()
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs
                .flat_map(|(index, (left, right))| differences(left, right, &format!("{path}[{index}]")))
                .collect()
        }
        _ if expected == found => Vec::new(),
        _ => vec![format!("{path}: expected {expected}, found {found}")],
    }
}
