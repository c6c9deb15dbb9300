//! Nodes, endpoints, revisions and quotas.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{
    Errors, cidr, integer, invalid, ip, is_set, items, list, not_negative, one_of, port_number,
    supported_or_empty, text,
};
use super::container::label_name;
use super::resources;
use super::service::special;
use crate::{FieldError, FieldPath, Quantity, validate_dns1123_label};

pub(super) fn node(node: &Value) -> Errors {
    let spec = &node["spec"];
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    // The path in Kubernetes' errors is that of the metadata.
    for (taint, path) in items(spec, "taints", &FieldPath::new("metadata")) {
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        errors.extend(label_name(key, &path.child("key")));
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.extend(one_of(effect, &effects, &path.child("effect")));
        if !seen.insert((key, effect)) {
            let field = |name: &str| Value::from(text(taint, name)).to_string();
            let shown = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":null}}"#,
                field("key"),
                field("value"),
                field("effect")
            );
            let mut error = FieldError::duplicate_shown(&path, shown);
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
    for (range, path) in items(spec, "podCIDRs", &FieldPath::new("spec")) {
        let range = range.as_str().unwrap_or_default();
        errors.extend(invalid(&path, range, cidr(range)));
    }
    errors
}

pub(super) fn endpoints(endpoints: &Value) -> Errors {
    let mut errors = Vec::new();
    for (subset, path) in items(endpoints, "subsets", &FieldPath::root()) {
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            let detail = "must specify `addresses` or `notReadyAddresses`";
            errors.push(FieldError::required(&path, detail));
        }
        for field in ["addresses", "notReadyAddresses"] {
            for (address, path) in items(subset, field, &path) {
                let (value, at) = (text(address, "ip"), path.child("ip"));
                let wrong = ip(value);
                let unreadable = wrong.iter().any(|wrong| wrong.starts_with("must be a valid IP address"));
                errors.extend(invalid(&at, value, wrong));
                if unreadable {
                    errors.push(FieldError::invalid(&at, value, "must be a valid IP address"));
                }
                errors.extend(special(value).map(|wrong| FieldError::invalid(&at, value, wrong)));
            }
        }
        let named = list(subset, "ports").len() > 1;
        for (port, path) in items(subset, "ports", &path) {
            match text(port, "name") {
                "" if named => errors.push(FieldError::required(&path.child("name"), "")),
                "" => {}
                name => errors.extend(invalid(&path.child("name"), name, validate_dns1123_label(name))),
            }
            errors.extend(port_number(integer(port, "port"), &path.child("port")));
            errors.extend(one_of(text(port, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol")));
        }
    }
    errors
}

pub(super) fn revision(revision: &Value) -> Errors {
    let mut errors: Errors = not_negative(revision, "revision", &FieldPath::root()).into_iter().collect();
    if !is_set(revision, "data") {
        errors.push(FieldError::required(&FieldPath::new("data"), "data is mandatory"));
    }
    errors
}

pub(super) fn revision_update(new: &Value, old: &Value) -> Errors {
    let mut errors = revision(new);
    if new["data"] != old["data"] {
        let path = FieldPath::new("data");
        errors.push(FieldError::invalid(&path, new["data"].clone(), "field is immutable"));
    }
    errors
}

pub(super) fn quota(quota: &Value) -> Errors {
    let path = FieldPath::new("spec").child("hard");
    let mut errors = Vec::new();
    for (name, value) in quota["spec"]["hard"].as_object().into_iter().flatten() {
        let Ok(quantity) = Quantity::from_value(value) else { continue };
        errors.extend(resources::not_negative(&quantity, &path.key(name)));
    }
    errors
}

pub(super) fn limit_range(range: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut types = BTreeSet::new();
    for (limit, path) in items(&range["spec"], "limits", &FieldPath::new("spec")) {
        let kind = text(limit, "type");
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(&path.child("type"), kind));
            continue;
        }
        if kind == "Pod" {
            for field in ["default", "defaultRequest"] {
                if limit[field].as_object().is_some_and(|list| !list.is_empty()) {
                    let detail = "may not be specified when `type` is 'Pod'";
                    errors.push(FieldError::forbidden(&path.child(field), detail));
                }
            }
        }
        let amount = |field: &str, name: &str| Quantity::from_value(limit[field].get(name)?).ok();
        let names: BTreeSet<_> = ["min", "max", "default", "defaultRequest"]
            .iter()
            .flat_map(|field| limit[*field].as_object().into_iter().flatten().map(|(name, _)| name))
            .collect();
        for name in names {
            let (min, max) = (amount("min", name), amount("max", name));
            if let (Some(min), Some(max)) = (&min, &max)
                && min > max
            {
                let detail = format!("min value {min} is greater than max value {max}");
                errors.push(FieldError::invalid(&path.child("min").key(name), min.to_string(), detail));
            }
            for (field, what) in [("defaultRequest", "default request"), ("default", "default")] {
                let (Some(value), Some(max)) = (amount(field, name), &max) else { continue };
                if value > *max {
                    // For defaults Kubernetes prints the bound.
                    let shown = if field == "default" { max.to_string() } else { value.to_string() };
                    let detail = format!("{what} value {value} is greater than max value {max}");
                    errors.push(FieldError::invalid(&path.child(field).key(name), shown, detail));
                }
            }
        }
    }
    errors
}

pub(super) fn ingress_class(class: &Value) -> Errors {
    let path = FieldPath::new("spec").child("controller");
    let controller = text(&class["spec"], "controller");
    if controller.is_empty() {
        return vec![FieldError::required(&path, "")];
    }
    if controller.split_once('/').is_none_or(|(domain, rest)| domain.is_empty() || rest.is_empty()) {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return vec![FieldError::invalid(&path, controller, detail)];
    }
    Vec::new()
}

pub(super) fn ingress_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = ingress_class(new);
    let controller = |class: &Value| class["spec"]["controller"].clone();
    if controller(new) != controller(old) {
        let path = FieldPath::new("spec").child("controller");
        errors.push(FieldError::invalid(&path, controller(new), "field is immutable"));
    }
    errors
}

pub(super) fn csi_driver(driver: &Value) -> Errors {
    let path = FieldPath::new("spec").child("volumeLifecycleModes");
    let modes = list(&driver["spec"], "volumeLifecycleModes").iter().filter_map(Value::as_str);
    modes.filter_map(|mode| supported_or_empty(mode, &["Persistent", "Ephemeral"], &path)).collect()
}

pub(super) fn csi_node(node: &Value) -> Errors {
    let mut errors = Vec::new();
    for (driver, path) in items(&node["spec"], "drivers", &FieldPath::new("spec")) {
        for field in ["name", "nodeID"] {
            if text(driver, field).is_empty() {
                errors.push(FieldError::required(&path.child(field), ""));
            }
        }
    }
    errors
}

pub(super) fn volume_attachment(attachment: &Value) -> Errors {
    let (spec, path) = (&attachment["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if text(spec, "attacher").is_empty() {
        errors.push(FieldError::required(&path.child("attacher"), ""));
    }
    let source = &spec["source"];
    if is_set(source, "inlineVolumeSpec") == is_set(source, "persistentVolumeName") {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        errors.push(FieldError::required(&path.child("source"), detail));
    }
    errors.extend(super::check::dns_subdomain(text(spec, "nodeName"), &path.child("nodeName")));
    errors
}
