//! Refused creates and updates of built-in kinds, with their messages.
//!
//! The answers of a real server are in `refusals/`, one file for a kind or a group of kinds, and recorded as in `objects`.

use serde_json::{Value, json};

use super::recorded::Recorded;
use crate::Env;

/// Each test is a rule: every row of its file that belongs to it is refused as a real server refuses it.
macro_rules! refusals {
    ($($name:ident: $file:literal $rule:literal,)+) => {
        $(
            #[tokio::test]
            async fn $name() {
                hold($file, $rule).await;
            }
        )+
    };
}

refusals! {
    a_pod_needs_containers_with_names_and_images: "pod" "containers",
    a_container_port_has_a_number_and_its_name_once: "pod" "ports",
    a_variable_has_a_name_and_one_source: "pod" "environment",
    a_volume_is_of_one_kind_and_is_mounted_by_its_name: "pod" "volumes",
    resources_are_standard_or_qualified_and_below_their_limits: "pod" "resources",
    a_probe_does_one_thing: "pod" "probes",
    the_policies_of_a_pod_are_known: "pod" "policies",
    the_names_in_a_pod_are_names: "pod" "names",
    where_a_pod_can_run_is_said_correctly: "pod" "placing",
    a_pod_names_classes_that_are_there: "pod" "priority",
    a_pod_can_hardly_be_changed: "pod" "update",
    a_deployment_selects_the_pods_of_its_template_for_good: "deployment" "selector",
    the_numbers_of_a_deployment_are_not_negative: "deployment" "numbers",
    a_deployment_has_a_strategy_that_can_move: "deployment" "strategy",
    the_template_of_a_deployment_is_checked_as_a_pod: "deployment" "template",
    a_deployment_cannot_have_less_than_no_replicas: "deployment" "scale",
    a_replica_set_selects_the_pods_of_its_template: "replica_set" "replica set",
    a_stateful_set_is_checked_when_it_is_created: "stateful_set" "stateful set",
    a_stateful_set_keeps_its_service_and_its_claims: "stateful_set" "stateful set update",
    a_daemon_set_is_checked: "daemon_set" "daemon set",
    a_job_ends: "job" "job",
    a_job_keeps_its_template: "job" "job update",
    a_schedule_has_five_fields: "job" "schedule",
    a_cron_job_is_checked: "job" "cron job",
    a_service_has_ports_with_names_and_numbers: "service" "ports",
    the_type_of_a_service_says_what_else_it_can_have: "service" "types",
    the_address_of_a_service_is_of_the_range_and_stays: "service" "addresses",
    the_keys_of_a_config_map_are_names_of_files: "config" "config map",
    a_secret_has_what_its_type_needs: "config" "secret",
    what_is_immutable_does_not_change: "config" "immutable",
    a_rule_of_a_role_says_what_may_be_done_with_what: "access" "role",
    a_binding_is_to_one_role_for_good: "access" "binding",
    an_autoscaler_has_bounds_a_target_and_metrics: "autoscaler" "autoscaler",
    an_ingress_has_backends_and_absolute_paths: "network" "ingress",
    a_network_policy_has_peers_and_ports: "network" "network policy",
    an_endpoint_slice_has_addresses_of_one_type: "network" "endpoint slice",
    a_disruption_budget_is_a_number_or_a_share: "small" "disruption budget",
    a_priority_class_keeps_its_value_below_the_systems: "small" "priority class",
    a_storage_class_has_a_provisioner_and_keeps_it: "small" "storage class",
    the_numbers_of_a_lease_are_not_negative: "small" "lease",
    a_runtime_class_has_a_handler: "small" "runtime class",
    an_event_is_in_the_namespace_of_what_it_is_about: "event" "event",
    a_webhook_has_a_client_rules_and_versions: "system" "webhook",
    an_admission_policy_says_what_it_is_about: "system" "admission policy",
    a_certificate_request_has_a_signer_and_usages: "system" "certificate",
    an_api_service_is_called_after_its_version_and_group: "system" "api service",
    flow_control_has_levels: "system" "flow control",
    the_taints_of_a_node_are_unique: "node" "node",
    endpoints_have_addresses_and_ports: "node" "endpoints",
    a_controller_revision_has_data_for_good: "node" "controller revision",
    limits_are_consistent: "node" "limits",
    drivers_and_controllers_have_names: "node" "drivers",
    a_claim_asks_for_something_and_stays_as_it_is: "claim" "claim",
    a_volume_has_a_capacity_and_a_kind: "claim" "volume",
}

async fn hold(file: &str, rule: &str) {
    let env = Env::new().await;
    let mut recorded = Recorded::read("refusals", file);
    let mut wrong = Vec::new();
    for row in recorded.rows(|row| row["rule"] == rule) {
        let refusal = refusal(&env, row).await;
        if Recorded::is_recording() {
            row["refusal"] = refusal;
        } else if row["refusal"] != refusal {
            wrong.push(format!("{}:\n  expected {}\n  found    {refusal}", row["what"], row["refusal"]));
        }
    }
    recorded.write();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A server's answer to a create, or to an update of an object that it accepted.
async fn refusal(env: &Env, row: &Value) -> Value {
    let filled = super::recorded::fill(env, row);
    let path = filled["path"].as_str().expect("a row has a path");
    let mut answer = env.post(path, filled["object"].clone()).await;
    if filled["change"].is_object() {
        assert_eq!(answer.code, 201, "{}: {:#}", row["what"], answer.body);
        let name = answer.body["metadata"]["name"].as_str().expect("it has a name").to_owned();
        answer = env.merge(&format!("{path}/{name}"), filled["change"].clone()).await;
        super::recorded::remove(env, &format!("{path}/{name}")).await;
    } else if answer.code == 201 {
        let name = answer.body["metadata"]["name"].as_str().expect("it has a name").to_owned();
        super::recorded::remove(env, &format!("{path}/{name}")).await;
        return json!("it is taken");
    }
    let message = answer.body["message"].as_str().unwrap_or_default();
    let message = match row["until"].as_str() {
        Some(end) => message.split(end).next().unwrap_or_default(),
        None => message,
    };
    let message = super::recorded::neutral_text(env, message);
    json!({"code": answer.code, "reason": answer.body["reason"], "message": message})
}
