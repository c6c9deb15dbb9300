//! Messages of Kubernetes for metadata.

use serde_json::json;

use super::*;
use crate::name_is_dns_subdomain;

fn created(namespaced: bool, meta: &Value) -> Vec<String> {
    messages(&validate_object_meta(meta, namespaced, name_is_dns_subdomain, &FieldPath::new("metadata")))
}

fn updated(new: &Value, old: &Value) -> Vec<String> {
    messages(&validate_object_meta_update(new, old, &FieldPath::new("metadata")))
}

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The errors on create of valid metadata with one more field.
fn about(field: &str, value: &Value) -> Vec<String> {
    created(true, &json!({"name": "a", "namespace": "b", field: value}))
}

#[test]
fn an_object_has_a_name_and_a_namespace_if_its_kind_has() {
    assert_eq!(created(true, &json!({"name": "a", "namespace": "b"})), [""; 0]);
    assert_eq!(created(false, &json!({"name": "a"})), [""; 0]);
    assert_eq!(
        created(true, &json!({})),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value",
        ]
    );
    assert_eq!(
        created(false, &json!({"name": "a", "namespace": "b"})),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    assert_eq!(
        created(true, &json!({"name": "a", "namespace": "b.c"})),
        ["metadata.namespace: Invalid value: \"b.c\": must not contain dots"]
    );
}

#[test]
fn an_invalid_prefix_is_reported_for_prefix_and_name() {
    let errors = created(false, &json!({"generateName": "AB-", "name": "A-x"}));
    assert!(
        errors[0].starts_with("metadata.generateName: Invalid value: \"AB-\": a lowercase RFC 1123"),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("metadata.name: Invalid value: \"A-x\": a lowercase RFC 1123"),
        "{errors:?}"
    );
    assert_eq!(created(false, &json!({"generateName": "a-", "name": "a-x"})), [""; 0]);
}

#[test]
fn a_generation_is_not_negative() {
    assert_eq!(
        about("generation", &json!(-1)),
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[test]
fn labels_and_annotations_are_named_by_their_map() {
    let errors = about("labels", &json!({"a b": "c d"}));
    assert!(
        errors[0].starts_with("metadata.labels: Invalid value: \"a b\": name part must consist of"),
        "{errors:?}"
    );
    assert!(
        errors[1].starts_with("metadata.labels: Invalid value: \"c d\": a valid label must be"),
        "{errors:?}"
    );
    let errors = about("annotations", &json!({"a b": "c d", "Example.COM/A": ""}));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("metadata.annotations: Invalid value: \"a b\": name part must consist of"));
}

#[test]
fn annotations_have_256_kib_for_keys_and_values() {
    assert_eq!(about("annotations", &json!({"a": "x".repeat(256 * 1024 - 1)})), [""; 0]);
    assert_eq!(
        about("annotations", &json!({"a": "x".repeat(256 * 1024)})),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn an_owner_is_named_in_full() {
    assert_eq!(
        about("ownerReferences", &json!([{}])),
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    let event = json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}]);
    assert_eq!(
        about("ownerReferences", &event),
        [
            "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"a\",\
          \"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner"
        ]
    );
}

#[test]
fn only_one_owner_controls() {
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": "u", "controller": true});
    assert_eq!(about("ownerReferences", &json!([owner("a")])), [""; 0]);
    let shown = |name: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"K","name":"{name}","uid":"u","controller":true}}"#)
    };
    assert_eq!(
        about("ownerReferences", &json!([owner("a"), owner("b")])),
        [format!(
            "metadata.ownerReferences: Invalid value: [{},{}]: Only one reference can have Controller set to true. \
             Found \"true\" in references for K/a and K/b",
            shown("a"),
            shown("b")
        )]
    );
}

#[test]
fn finalizers_are_qualified_and_do_not_contradict_each_other() {
    assert_eq!(about("finalizers", &json!(["orphan", "example.com/a"])), [""; 0]);
    assert_eq!(
        about("finalizers", &json!(["orphan", "foregroundDeletion"])),
        ["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
          foregroundDeletion cannot be both set"]
    );
    let errors = about("finalizers", &json!(["a b"]));
    assert!(errors[0].starts_with("metadata.finalizers: Invalid value: \"a b\": name part must consist of"));
}

#[test]
fn managed_fields_are_checked_entry_by_entry() {
    let entry =
        json!({"operation": "Do", "fieldsType": "V2", "manager": "a\u{7}", "subresource": "s".repeat(257)});
    assert_eq!(
        about("managedFields", &json!([{"operation": "Apply"}, entry])),
        [
            "metadata.managedFields[1].operation: Invalid value: \"Do\": must be `Apply` or `Update`",
            "metadata.managedFields[1].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
            "metadata.managedFields[1].manager: Invalid value: \"a\\a\": invalid character U+0007 (at position 1)",
            "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
        ]
    );
    let path = FieldPath::new("fieldManager");
    assert_eq!(messages(&validate_field_manager("é ☃ e\u{301}", &path)), [""; 0]);
    assert_eq!(
        messages(&validate_field_manager(&"a".repeat(129), &path)),
        ["fieldManager: Too long: may not be more than 128 bytes"]
    );
}

#[test]
fn an_update_must_keep_fields_that_the_server_set() {
    let old = json!({"name": "a", "namespace": "b", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                     "generation": 2, "resourceVersion": "7"});
    assert_eq!(updated(&old, &old), [""; 0]);
    let new = json!({"name": "x", "uid": "y", "generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z",
                     "deletionGracePeriodSeconds": 0});
    assert_eq!(
        updated(&new, &old),
        [
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"x\": field is immutable",
            "metadata.namespace: Invalid value: \"\": field is immutable",
            "metadata.uid: Invalid value: \"y\": field is immutable",
            "metadata.creationTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: 0: field is immutable",
        ]
    );
}

#[test]
fn an_object_that_is_being_deleted_gets_no_new_finalizers() {
    let with = |finalizers: Value| {
        json!({"name": "a", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
               "finalizers": finalizers})
    };
    assert_eq!(updated(&with(json!([])), &with(json!(["e/a"]))), [""; 0]);
    assert_eq!(
        updated(&with(json!(["e/c", "e/a", "e/b"])), &with(json!(["e/a"]))),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
          finalizers []string{\"e/b\", \"e/c\"}"
        ]
    );
}
