//! Rules for writing jobs: a job selects its pods by labels with its own UID.

use serde_json::{Value, json};

use crate::object::{child_mut, into_map, meta_str, metadata_mut};

/// A job selects by its own uid, unless its author wants to select otherwise.
pub(super) fn prepare_create(job: &mut Value) {
    let spec = child_mut(job, "spec");
    if spec.get("manualSelector").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let (uid, name) = (meta_str(job, "uid").to_owned(), meta_str(job, "name").to_owned());
    // A new job has the labels of its template if it had none: those that are generated among them.
    let shares_labels = {
        let of_template = job.pointer("/spec/template/metadata/labels");
        job.pointer("/metadata/labels") == of_template
    };
    let template = into_map(child_mut(job, "spec").entry("template").or_insert(Value::Null));
    let metadata = into_map(template.entry("metadata").or_insert(Value::Null));
    let labels = into_map(metadata.entry("labels").or_insert(Value::Null));
    for (label, value) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        labels.entry(label).or_insert_with(|| value.as_str().into());
    }
    let labels = Value::Object(labels.clone());
    if shares_labels {
        metadata_mut(job).insert("labels".to_owned(), labels);
    }
    let selector = child_mut(job, "spec").entry("selector").or_insert_with(|| json!({}));
    let match_labels = into_map(into_map(selector).entry("matchLabels").or_insert_with(|| json!({})));
    match_labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.into());
}
