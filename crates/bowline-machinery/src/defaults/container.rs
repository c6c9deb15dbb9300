//! Containers and their fields.

use super::fill::{Object, absent, child, each, empty, quantities, text};

pub(super) fn container(container: &mut Object) {
    let policy = pull_policy(text(container, "image"));
    empty(container, "imagePullPolicy", policy);
    empty(container, "terminationMessagePath", "/dev/termination-log");
    empty(container, "terminationMessagePolicy", "File");
    if let Some(resources) = child(container, "resources") {
        quantities(resources, &["requests", "limits"]);
    }
    for port in each(container, "ports") {
        empty(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        let Some(source) = child(variable, "valueFrom") else { continue };
        if let Some(field) = child(source, "fieldRef") {
            field_ref(field);
        }
        if let Some(file) = child(source, "fileKeyRef") {
            absent(file, "optional", false);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = child(container, probe) {
            self::probe(probe);
        }
    }
    if let Some(lifecycle) = child(container, "lifecycle") {
        for handler in ["postStart", "preStop"] {
            if let Some(get) = child(lifecycle, handler).and_then(|handler| child(handler, "httpGet")) {
                http_get(get);
            }
        }
    }
}

pub(super) fn field_ref(field: &mut Object) {
    empty(field, "apiVersion", "v1");
}

fn probe(probe: &mut Object) {
    empty(probe, "timeoutSeconds", 1);
    empty(probe, "periodSeconds", 10);
    empty(probe, "successThreshold", 1);
    empty(probe, "failureThreshold", 3);
    if let Some(get) = child(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = child(probe, "grpc") {
        absent(grpc, "service", "");
    }
}

fn http_get(get: &mut Object) {
    empty(get, "path", "/");
    empty(get, "scheme", "HTTP");
}

/// The default pull policy. Images with the tag `latest`, explicit or implied, are always pulled.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = match (name.split_once('@'), name.rsplit_once(':')) {
        (Some(_), _) => name.split('@').next().is_some_and(|name| name.ends_with(":latest")),
        (None, Some((_, tag))) => tag == "latest",
        (None, None) => !name.is_empty(),
    };
    // An invalid name has no tag.
    let is_name = image.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte));
    if latest && is_name { "Always" } else { "IfNotPresent" }
}
