//! The containers of a pod.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{
    Errors, dns_label, integer, invalid, is_set, items, list, one_of, port_number, supported_or_empty, text,
};
use super::{handler, mount, resources};
use crate::{
    FieldError, FieldPath, validate_config_map_key, validate_dns1123_subdomain, validate_port_name,
    validate_qualified_name, validate_relaxed_env_var_name,
};

const SIDECARS_ONLY: &str = "may not be set for init containers without restartPolicy=Always";

/// Validates all containers of a pod; `volumes` are the names of the pod's volumes.
pub(super) fn containers(spec: &Value, volumes: &BTreeSet<String>, path: &FieldPath) -> Errors {
    let mut errors = main_containers(spec, volumes, path);
    let mut names: BTreeSet<_> = list(spec, "containers").iter().map(|one| text(one, "name")).collect();
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    for (container, at) in items(spec, "initContainers", path) {
        errors.extend(common(container, volumes, &at));
        let name = text(container, "name");
        if !names.insert(name) && !name.is_empty() {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        errors.extend(host_ports(std::slice::from_ref(container), &path.child("initContainers")));
        if text(container, "restartPolicy") == "Always" {
            errors.extend(handler::lifecycle(container, grace, &at));
            errors.extend(handler::probes(container, grace, &at));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(container, field) {
                errors.push(FieldError::forbidden(&at.child(field), SIDECARS_ONLY));
            }
        }
    }
    let others = names.clone();
    for (container, at) in items(spec, "ephemeralContainers", path) {
        errors.extend(common(container, volumes, &at));
        errors.extend(trimmed_image(container, &at));
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(&at.child("targetContainerName"), target));
        }
        errors.extend(not_for_ephemeral(container, &at));
    }
    errors
}

fn main_containers(spec: &Value, volumes: &BTreeSet<String>, path: &FieldPath) -> Errors {
    let containers = list(spec, "containers");
    if containers.is_empty() {
        return vec![FieldError::required(&path.child("containers"), "")];
    }
    let grace = spec["terminationGracePeriodSeconds"].as_i64();
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (container, path) in items(spec, "containers", path) {
        errors.extend(common(container, volumes, &path));
        let name = text(container, "name");
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        errors.extend(handler::lifecycle(container, grace, &path));
        errors.extend(handler::probes(container, grace, &path));
        let policies = ["Always", "Never", "OnFailure"];
        let policy = text(container, "restartPolicy");
        errors.extend(supported_or_empty(policy, &policies, &path.child("restartPolicy")));
    }
    errors.extend(host_ports(containers, &path.child("containers")));
    errors
}

/// Checks the fields that an ephemeral container must not have: it is never restarted, and no traffic reaches it.
fn not_for_ephemeral(container: &Value, path: &FieldPath) -> Errors {
    let forbidden =
        |path: &FieldPath| FieldError::forbidden(path, "cannot be set for an Ephemeral Container");
    let mut errors = Vec::new();
    for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
        if is_set(container, field) && container[field].as_array().is_none_or(|list| !list.is_empty()) {
            errors.push(forbidden(&path.child(field)));
        }
    }
    let resources = &container["resources"];
    if resources.as_object().is_some_and(|resources| !resources.is_empty()) {
        errors.push(forbidden(&path.child("resources")));
    }
    for (mount, path) in items(container, "volumeMounts", path) {
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, field).is_empty() {
                errors.push(forbidden(&path.child(field)));
            }
        }
    }
    errors
}

/// Rules shared by all types of containers.
fn common(container: &Value, volumes: &BTreeSet<String>, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    match text(container, "name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        name => errors.extend(dns_label(name, &path.child("name"))),
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(&path.child("image"), ""));
    }
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = text(container, "terminationMessagePolicy");
    errors.extend(one_of(policy, &policies, &path.child("terminationMessagePolicy")));
    errors.extend(ports(container, path));
    errors.extend(variables(container, path));
    errors.extend(variables_from(container, path));
    errors.extend(mount::mounts(container, volumes, path));
    let policies = ["Always", "IfNotPresent", "Never"];
    errors.extend(one_of(text(container, "imagePullPolicy"), &policies, &path.child("imagePullPolicy")));
    errors.extend(resources::requirements(&container["resources"], &path.child("resources")));
    errors.extend(security(&container["securityContext"], &path.child("securityContext")));
    errors
}

/// Checks that an image name has no surrounding white space.
pub(super) fn trimmed_image(container: &Value, path: &FieldPath) -> Option<FieldError> {
    let image = text(container, "image");
    let detail = "must not have leading or trailing whitespace";
    (image.trim() != image).then(|| FieldError::invalid(&path.child("image"), image, detail))
}

fn ports(container: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (port, path) in items(container, "ports", path) {
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = validate_port_name(name);
            if !wrong.is_empty() {
                errors.extend(invalid(&path.child("name"), name, wrong));
            } else if !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
        match integer(port, "containerPort") {
            0 => errors.push(FieldError::required(&path.child("containerPort"), "")),
            number => errors.extend(port_number(number, &path.child("containerPort"))),
        }
        match integer(port, "hostPort") {
            0 => {}
            number => errors.extend(port_number(number, &path.child("hostPort"))),
        }
        errors.extend(one_of(text(port, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol")));
    }
    errors
}

/// Checks that each host port is used by one container only.
fn host_ports(containers: &[Value], path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (port, path) in items(container, "ports", &path.index(index)) {
            let number = integer(port, "hostPort");
            let shown = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if number != 0 && !seen.insert(shown.clone()) {
                errors.push(FieldError::duplicate(&path.child("hostPort"), shown));
            }
        }
    }
    errors
}

fn variables(container: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for (variable, path) in items(container, "env", path) {
        match text(variable, "name") {
            "" => errors.push(FieldError::required(&path.child("name"), "")),
            name => errors.extend(invalid(&path.child("name"), name, validate_relaxed_env_var_name(name))),
        }
        if is_set(variable, "valueFrom") {
            errors.extend(value_from(variable, &path.child("valueFrom")));
        }
    }
    errors
}

fn value_from(variable: &Value, path: &FieldPath) -> Errors {
    let from = &variable["valueFrom"];
    let mut errors = Vec::new();
    let mut sources = 0;
    if is_set(from, "fieldRef") {
        sources += 1;
        errors.extend(mount::field_reference(
            &from["fieldRef"],
            mount::OF_VARIABLES,
            &path.child("fieldRef"),
        ));
    }
    if is_set(from, "resourceFieldRef") {
        sources += 1;
        let path = path.child("resourceFieldRef");
        errors.extend(mount::resource_reference(&from["resourceFieldRef"], false, &path));
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if is_set(from, field) {
            sources += 1;
            errors.extend(key_reference(&from[field], &path.child(field)));
        }
    }
    if is_set(from, "fileKeyRef") {
        sources += 1;
    }
    let detail = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !text(variable, "value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        "may not have more than one field specified at a time"
    } else {
        return errors;
    };
    errors.push(FieldError::invalid(path, "", detail));
    errors
}

fn key_reference(reference: &Value, path: &FieldPath) -> Errors {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    let mut errors = invalid(&path.child("name"), name, validate_dns1123_subdomain(name));
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("key"), ""));
    } else {
        errors.extend(invalid(&path.child("key"), key, validate_config_map_key(key)));
    }
    errors
}

fn variables_from(container: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let whole = path.child("envFrom");
    for (from, path) in items(container, "envFrom", path) {
        let prefix = text(from, "prefix");
        if !prefix.is_empty() {
            let wrong = validate_relaxed_env_var_name(prefix);
            errors.extend(invalid(&path.child("prefix"), prefix, wrong));
        }
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if !is_set(from, field) {
                continue;
            }
            sources += 1;
            match text(&from[field], "name") {
                "" => errors.push(FieldError::required(&path.child(field).child("name"), "")),
                name => {
                    let wrong = validate_dns1123_subdomain(name);
                    errors.extend(invalid(&path.child(field).child("name"), name, wrong));
                }
            }
        }
        match sources {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                errors.push(FieldError::invalid(&whole, "", detail));
            }
            1 => {}
            _ => {
                let detail = "may not have more than one field specified at a time";
                errors.push(FieldError::invalid(&whole, "", detail));
            }
        }
    }
    errors
}

fn security(context: &Value, path: &FieldPath) -> Errors {
    let mut errors = ids(context, &["runAsUser", "runAsGroup"], path);
    let kinds = ["Default", "Unmasked"];
    errors.extend(supported_or_empty(text(context, "procMount"), &kinds, &path.child("procMount")));
    errors.extend(seccomp(&context["seccompProfile"], &path.child("seccompProfile")));
    if context["allowPrivilegeEscalation"] == false && context["privileged"] == true {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid(path, context.clone(), detail));
    }
    errors
}

pub(super) fn ids(context: &Value, fields: &[&str], path: &FieldPath) -> Errors {
    let numbers = fields.iter().filter_map(|field| Some((field, context[*field].as_i64()?)));
    numbers.filter_map(|(field, number)| id(number, &path.child(field))).collect()
}

/// Validates a user or group ID.
pub(super) fn id(number: i64, path: &FieldPath) -> Option<FieldError> {
    let right = (0..=i64::from(i32::MAX)).contains(&number);
    (!right).then(|| FieldError::invalid(path, number, "must be between 0 and 2147483647, inclusive"))
}

pub(super) fn seccomp(profile: &Value, path: &FieldPath) -> Errors {
    if !profile.is_object() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let kind = text(profile, "type");
    let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
    if !kinds.contains(&kind) {
        errors.extend(one_of(kind, &kinds, &path.child("type")));
    }
    let at = path.child("localhostProfile");
    match (kind, profile["localhostProfile"].as_str()) {
        ("Localhost", None) => {
            errors.push(FieldError::required(&at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(place)) => errors.extend(mount::descending(place, &at)),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(&at, profile.clone(), detail));
        }
        _ => {}
    }
    errors
}

/// Validates a name as a label key.
pub(super) fn label_name(name: &str, path: &FieldPath) -> Errors {
    invalid(path, name, validate_qualified_name(name))
}
