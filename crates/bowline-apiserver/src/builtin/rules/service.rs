//! Services: their addresses and ports come from ranges that all services share. The stored services are the only record of
//! taken ones, so services are written one at a time.

mod addresses;
mod ports;

use bowline_machinery::Status;
use serde_json::{Map, Value, json};

use crate::admission::Admission;
use crate::object::child_mut;
use crate::resource::WriteTarget;

/// Gives a service what it needs, or checks that what it asks for is free.
pub(super) fn admit(
    admission: &Admission<'_>,
    part: WriteTarget,
    new: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if part != WriteTarget::Main {
        return Ok(());
    }
    if let Some(old) = old {
        remember(new, old);
    }
    addresses::agree(new, old);
    addresses::families(admission, new, old)?;
    addresses::allocate(admission, new, old)?;
    ports::allocate(admission, new, old)
}

/// A client need not repeat what the server chose.
fn remember(new: &mut Value, old: &Value) {
    if has_address(old) && has_address(new) {
        for field in ["clusterIP", "clusterIPs"] {
            let missing = is_empty(&new["spec"][field]);
            if missing && !is_empty(&old["spec"][field]) {
                spec_mut(new).insert(field.to_owned(), old["spec"][field].clone());
            }
        }
    }
    if has_node_ports(old) && has_node_ports(new) {
        ports::remember(new, old);
    }
    if has_health_port(old) && has_health_port(new) && is_empty(&new["spec"]["healthCheckNodePort"]) {
        set(new, "healthCheckNodePort", old["spec"]["healthCheckNodePort"].clone());
    }
}

/// Clears fields that the new type does not have, unless the client changed them: then validation refuses them.
pub(super) fn prepare_update(part: WriteTarget, new: &mut Value, old: &Value) {
    if part != WriteTarget::Main {
        return;
    }
    let same = |new: &Value, field: &str| new["spec"][field] == old["spec"][field];
    if has_address(old) && !has_address(new) {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            remove(new, "clusterIP");
            remove(new, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, field) {
                remove(new, field);
            }
        }
    }
    if has_node_ports(old) && !has_node_ports(new) {
        let before = ports::node_ports(old);
        if ports::node_ports(new).iter().all(|port| before.contains(port)) {
            for port in ports::each_mut(new) {
                port.remove("nodePort");
            }
        }
    }
    if has_health_port(old) && !has_health_port(new) && same(new, "healthCheckNodePort") {
        remove(new, "healthCheckNodePort");
    }
    if kind(old) == "LoadBalancer" && kind(new) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(new, field) {
                remove(new, field);
            }
        }
    }
    if is_external(old) && !is_external(new) && same(new, "externalTrafficPolicy") {
        remove(new, "externalTrafficPolicy");
    }
    if kind(new) != "LoadBalancer" {
        child_mut(new, "status").insert("loadBalancer".to_owned(), json!({}));
    }
}

fn kind(service: &Value) -> &str {
    service["spec"]["type"].as_str().unwrap_or_default()
}

fn has_address(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

fn has_node_ports(service: &Value) -> bool {
    matches!(kind(service), "NodePort" | "LoadBalancer")
}

fn has_health_port(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && service["spec"]["externalTrafficPolicy"] == "Local"
}

fn is_external(service: &Value) -> bool {
    has_node_ports(service) || kind(service) == "ClusterIP" && !is_empty(&service["spec"]["externalIPs"])
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == "None" || service["spec"]["clusterIPs"][0] == "None"
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

fn spec_mut(service: &mut Value) -> &mut Map<String, Value> {
    child_mut(service, "spec")
}

fn set(service: &mut Value, field: &str, value: Value) {
    if !value.is_null() {
        spec_mut(service).insert(field.to_owned(), value);
    }
}

fn remove(service: &mut Value, field: &str) {
    spec_mut(service).remove(field);
}
