//! `LimitRange`s of a namespace: defaults and limits of containers.

use std::collections::BTreeMap;

use bowline_machinery::{GroupResource, Quantity, Status};
use serde_json::{Value, json};

use crate::admission::Admission;
use crate::object::{into_map, meta_str, metadata_mut};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The ranges of an object's namespace.
fn ranges(admission: &Admission<'_>, object: &Value) -> Vec<Value> {
    let ranges = GroupResource::new("", "limitranges");
    admission.list(&ranges, &format!("{}/", meta_str(object, "namespace")))
}

/// The limits of a range that are about one type of things.
fn limits<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let limits = range["spec"]["limits"].as_array().into_iter().flatten();
    limits.filter(move |limit| limit["type"] == kind)
}

/// Gives the containers of a new pod what they do not ask for themselves.
pub(super) fn set_defaults(admission: &Admission<'_>, pod: &mut Value) {
    for range in ranges(admission, pod) {
        let mut defaults: [BTreeMap<String, Value>; 2] = Default::default();
        for limit in limits(&range, "Container") {
            for (place, field) in ["default", "defaultRequest"].iter().enumerate() {
                let amounts = limit[*field].as_object().into_iter().flatten();
                defaults[place].extend(amounts.map(|(name, amount)| (name.clone(), amount.clone())));
            }
        }
        let mut notes = Vec::new();
        for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
            let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                merge(container, &defaults, what, &mut notes);
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            let annotations = metadata_mut(pod).entry("annotations").or_insert_with(|| json!({}));
            into_map(annotations).insert(ANNOTATION.to_owned(), note.into());
        }
    }
}

fn merge(
    container: &mut Value,
    defaults: &[BTreeMap<String, Value>; 2],
    what: &str,
    notes: &mut Vec<String>,
) {
    let name = container["name"].as_str().unwrap_or_default().to_owned();
    let mut set = [Vec::new(), Vec::new()];
    for (place, field) in ["limits", "requests"].iter().enumerate() {
        if defaults[place].is_empty() {
            continue;
        }
        let resources = into_map(into_map(container).entry("resources").or_insert_with(|| json!({})));
        let amounts = into_map(resources.entry(*field).or_insert_with(|| json!({})));
        for (resource, amount) in &defaults[place] {
            if !amounts.contains_key(resource) {
                amounts.insert(resource.clone(), amount.clone());
                set[place].push(resource.clone());
            }
        }
    }
    let [limits, requests] = set;
    for (field, resources) in [("request", requests), ("limit", limits)] {
        if !resources.is_empty() {
            notes.push(format!("{} {field} for {what} {name}", resources.join(", ")));
        }
    }
}

/// A new pod stays within the limits of its namespace.
pub(super) fn review_pod(admission: &Admission<'_>, pod: &Value) -> Result<(), Status> {
    for range in ranges(admission, pod) {
        let mut wrong = Vec::new();
        for limit in limits(&range, "Container") {
            for list in ["containers", "initContainers"] {
                for container in pod["spec"][list].as_array().into_iter().flatten() {
                    let resources = &container["resources"];
                    wrong.extend(least(limit, "Container", &resources["requests"], &resources["limits"]));
                    wrong.extend(most(limit, "Container", &resources["requests"], &resources["limits"]));
                }
            }
        }
        refuse(admission, pod, &wrong)?;
    }
    Ok(())
}

/// The same for a claim.
pub(super) fn review_claim(admission: &Admission<'_>, claim: &Value) -> Result<(), Status> {
    let requests = &claim["spec"]["resources"]["requests"];
    for range in ranges(admission, claim) {
        let mut wrong = Vec::new();
        for limit in limits(&range, "PersistentVolumeClaim") {
            wrong.extend(least(limit, "PersistentVolumeClaim", requests, &Value::Null));
            for (name, enforced) in amounts(&limit["max"]) {
                let said = format!("maximum {name} usage per PersistentVolumeClaim is {enforced}");
                match amount(requests, &name) {
                    None => wrong.push(format!("{said}.  No request is specified")),
                    Some(request) if request > enforced => {
                        wrong.push(format!("{said}, but request is {request}"));
                    }
                    Some(_) => {}
                }
            }
        }
        refuse(admission, claim, &wrong)?;
    }
    Ok(())
}

fn refuse(admission: &Admission<'_>, object: &Value, wrong: &[String]) -> Result<(), Status> {
    match wrong {
        [] => Ok(()),
        [one] => Err(admission.forbidden(object, one)),
        several => Err(admission.forbidden(object, &format!("[{}]", several.join(", ")))),
    }
}

fn least(limit: &Value, kind: &str, requests: &Value, limits: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, enforced) in amounts(&limit["min"]) {
        let said = format!("minimum {name} usage per {kind} is {enforced}");
        match (amount(requests, &name), amount(limits, &name)) {
            (None, _) => wrong.push(format!("{said}.  No request is specified")),
            (Some(request), _) if request < enforced => {
                wrong.push(format!("{said}, but request is {request}"));
            }
            (_, Some(limit)) if limit < enforced => wrong.push(format!("{said}, but limit is {limit}")),
            _ => {}
        }
    }
    wrong
}

fn most(limit: &Value, kind: &str, requests: &Value, limits: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, enforced) in amounts(&limit["max"]) {
        let said = format!("maximum {name} usage per {kind} is {enforced}");
        match (amount(requests, &name), amount(limits, &name)) {
            (_, None) => wrong.push(format!("{said}.  No limit is specified")),
            (_, Some(limit)) if limit > enforced => wrong.push(format!("{said}, but limit is {limit}")),
            (Some(request), _) if request > enforced => {
                wrong.push(format!("{said}, but request is {request}"));
            }
            _ => {}
        }
    }
    wrong
}

fn amounts(list: &Value) -> Vec<(String, Quantity)> {
    let list = list.as_object().into_iter().flatten();
    list.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?))).collect()
}

fn amount(list: &Value, name: &str) -> Option<Quantity> {
    Quantity::from_value(list.get(name)?).ok()
}
