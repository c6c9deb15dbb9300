//! Compares the handling of schemas, objects and definitions with that of Kubernetes.
//!
//! A Go program wrote the tables beside this file: it ran each case through `k8s.io/apiextensions-apiserver` v0.36.4.
//! Go walks maps in random order, so errors are compared sorted.

mod properties;

use bowline_machinery::{FieldError, FieldPath, Schema, default_crd, validate_crd, validate_crd_update};
use serde_json::{Value, json};

/// Runs every line of a table, and prints all differences at once.
fn run(table: &str, of: impl Fn(&Value) -> Value) {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in table.lines() {
        let case: Value = serde_json::from_str(line).expect("a line is JSON");
        let found = of(&case);
        if found != case["want"] {
            wrong.push(format!("{}\n  want  {}\n  found {found}", case["name"], case["want"]));
        }
        count += 1;
    }
    assert!(count > 0);
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn messages(errors: &[FieldError]) -> Value {
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.into()
}

fn schema(case: &Value) -> Result<Schema, Value> {
    Schema::compile(&case["schema"], &FieldPath::root())
        .map_err(|errors| json!({ "compile": messages(&errors) }))
}

#[test]
fn objects_are_refused_as_kubernetes_refuses_them() {
    run(include_str!("validate.jsonl"), |case| match schema(case) {
        Ok(schema) => messages(&schema.validate(&case["object"], &FieldPath::root())),
        Err(errors) => errors,
    });
}

#[test]
fn updates_are_refused_as_kubernetes_refuses_them() {
    run(include_str!("update.jsonl"), |case| match schema(case) {
        Ok(schema) => messages(&schema.validate_update(&case["object"], &case["old"])),
        Err(errors) => errors,
    });
}

#[test]
fn unknown_fields_and_nulls_are_pruned_as_in_kubernetes() {
    run(include_str!("prune.jsonl"), |case| {
        let schema = match schema(case) {
            Ok(schema) => schema,
            Err(errors) => return errors,
        };
        let unknown = schema.unknown_fields(&case["object"]);
        let mut object = case["object"].clone();
        schema.prune(&mut object);
        match schema.coerce(&mut object) {
            Ok(()) => json!({ "object": object, "unknown": unknown }),
            Err(error) => json!({ "error": error.to_string() }),
        }
    });
}

#[test]
fn defaults_are_set_as_in_kubernetes() {
    run(include_str!("default.jsonl"), |case| match schema(case) {
        Ok(schema) => {
            let mut object = case["object"].clone();
            schema.default(&mut object);
            object
        }
        Err(errors) => errors,
    });
}

#[test]
fn definitions_are_refused_as_kubernetes_refuses_them() {
    run(include_str!("crd.jsonl"), |case| {
        let mut crd = case["object"].clone();
        default_crd(&mut crd);
        messages(&validate_crd(&crd))
    });
}

#[test]
fn updates_of_definitions_are_refused_as_kubernetes_refuses_them() {
    run(include_str!("crd_update.jsonl"), |case| {
        let (mut new, mut old) = (case["object"].clone(), case["old"].clone());
        default_crd(&mut new);
        default_crd(&mut old);
        messages(&validate_crd_update(&new, &old))
    });
}
