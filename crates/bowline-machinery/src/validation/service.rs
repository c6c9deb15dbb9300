//! Services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::check::{
    Errors, cidr, dns_label, dns_subdomain, integer, invalid, ip, is_set, items, list, one_of, port,
    port_number, supported_or_empty, text, texts,
};
use crate::{FieldError, FieldPath, validate_labels, validate_qualified_name};

const UNCHANGEABLE: &str = "may not change once set";
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn create(service: &Value) -> Errors {
    whole(service, None)
}

pub(super) fn update(new: &Value, old: &Value) -> Errors {
    let mut errors = changed_addresses(new, old);
    let spec = FieldPath::new("spec");
    let class = |service: &Value| service["spec"]["loadBalancerClass"].clone();
    let balances = |service: &Value| kind(service) == "LoadBalancer";
    if balances(new) && balances(old) && class(new) != class(old) {
        errors.push(FieldError::invalid(&spec.child("loadBalancerClass"), class(new), UNCHANGEABLE));
    }
    errors.extend(balancer_class(new));
    let health = |service: &Value| service["spec"]["healthCheckNodePort"].clone();
    if needs_health_port(new) && needs_health_port(old) && health(new) != health(old) {
        errors.push(FieldError::forbidden(&spec.child("healthCheckNodePort"), "field is immutable"));
    }
    errors.extend(whole(new, Some(old)));
    errors
}

/// The first cluster IP, and with it the first family, is immutable once set.
fn changed_addresses(new: &Value, old: &Value) -> Errors {
    if kind(new) == "ExternalName" || kind(old) == "ExternalName" || is_headless(new) && is_headless(old) {
        return Vec::new();
    }
    let spec = FieldPath::new("spec");
    let mut errors = Vec::new();
    let (now, before) = (list(&new["spec"], "clusterIPs"), list(&old["spec"], "clusterIPs"));
    let first = spec.child("clusterIPs").index(0);
    let all = new["spec"]["clusterIPs"].clone();
    match now.first() {
        None if !before.is_empty() => {
            errors.push(FieldError::invalid(&first, all, "primary clusterIP can not be unset"));
        }
        Some(address) if before.first().is_some_and(|before| before != address) => {
            errors.push(FieldError::invalid(&first, all, UNCHANGEABLE));
        }
        _ => {}
    }
    if is_headless(new) == is_headless(old) {
        let families = |service: &Value| service["spec"]["ipFamilies"].clone();
        if families(new)[0] != families(old)[0] {
            let path = spec.child("ipFamilies").index(0);
            errors.push(FieldError::invalid(&path, families(new), UNCHANGEABLE));
        }
    }
    errors
}

fn whole(service: &Value, old: Option<&Value>) -> Errors {
    let path = FieldPath::new("spec");
    let spec = &service["spec"];
    let mut errors = Vec::new();
    if list(spec, "ports").is_empty() && !is_headless(service) && kind(service) != "ExternalName" {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    errors.extend(by_type(service, &path));
    let mut names = BTreeSet::new();
    for (item, path) in items(spec, "ports", &path) {
        errors.extend(service_port(item, list(spec, "ports").len() > 1, &mut names, &path));
    }
    errors.extend(validate_labels(&spec["selector"], &path.child("selector")));
    errors.extend(one_of(
        text(spec, "sessionAffinity"),
        &["ClientIP", "None"],
        &path.child("sessionAffinity"),
    ));
    errors.extend(affinity(spec, &path));
    errors.extend(validate_service_addresses(service, old));
    errors.extend(external_addresses(spec, old, &path));
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    errors.extend(one_of(kind(service), &kinds, &path.child("type")));
    errors.extend(node_ports(service, &path));
    errors.extend(source_ranges(service, &path));
    let allocate = "allocateLoadBalancerNodePorts";
    if is_set(spec, allocate) && kind(service) != "LoadBalancer" {
        errors.push(FieldError::forbidden(&path.child(allocate), BALANCER_ONLY));
    }
    errors.extend(balancer_class(service));
    errors.extend(traffic(service, &path));
    errors
}

fn by_type(service: &Value, path: &FieldPath) -> Errors {
    let spec = &service["spec"];
    let mut errors = Vec::new();
    match kind(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), "None", detail));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let set = is_set(spec, field) && spec[field].as_array().is_none_or(|list| !list.is_empty());
                if set {
                    let detail = "may not be set for ExternalName services";
                    errors.push(FieldError::forbidden(&path.child(field), detail));
                }
            }
            let path = path.child("externalName");
            let name = text(spec, "externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(FieldError::required(&path, "")),
                name => errors.extend(dns_subdomain(name, &path)),
            }
        }
        _ => {}
    }
    errors
}

fn service_port(item: &Value, named: bool, names: &mut BTreeSet<String>, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    let (name, at) = (text(item, "name"), path.child("name"));
    if name.is_empty() {
        if named {
            errors.push(FieldError::required(&at, ""));
        }
    } else {
        errors.extend(dns_label(name, &at));
        if !names.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
    errors.extend(port_number(integer(item, "port"), &path.child("port")));
    errors.extend(one_of(text(item, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol")));
    errors.extend(port(&item["targetPort"], &path.child("targetPort")));
    if let Some(protocol) = item["appProtocol"].as_str() {
        errors.extend(invalid(&path.child("appProtocol"), protocol, validate_qualified_name(protocol)));
    }
    errors
}

fn affinity(spec: &Value, path: &FieldPath) -> Option<FieldError> {
    let path = path.child("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64().unwrap_or(0);
            let right = (1..=86_400).contains(&seconds);
            let path = path.child("clientIP").child("timeoutSeconds");
            (!right)
                .then(|| FieldError::invalid(&path, seconds, "must be greater than 0 and less than 86400"))
        }
        "None" if is_set(spec, "sessionAffinityConfig") => {
            Some(FieldError::forbidden(&path, "must not be set when session affinity is None"))
        }
        _ => None,
    }
}

/// Validates the fields for a service's cluster IPs.
#[must_use]
pub fn validate_service_addresses(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if kind(service) == "ExternalName" {
        return Vec::new();
    }
    let path = FieldPath::new("spec");
    let spec = &service["spec"];
    let at = path.child("clusterIPs");
    let addresses = list(spec, "clusterIPs");
    let all = || spec["clusterIPs"].clone();
    let mut errors = Vec::new();
    match (text(spec, "clusterIP"), addresses) {
        ("", []) => {}
        ("", _) => {
            errors.push(FieldError::invalid(&at, all(), "must be empty when `clusterIP` is not specified"));
        }
        (_, []) => errors.push(FieldError::required(&at, "")),
        (one, [first, ..]) if first == one => {}
        _ => errors.push(FieldError::invalid(&at, all(), "first value must match `clusterIP`")),
    }
    let mut seen = BTreeSet::new();
    for (family, path) in items(spec, "ipFamilies", &path) {
        let family = family.as_str().unwrap_or_default();
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(&path, family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(&path, family));
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    let policy = text(spec, "ipFamilyPolicy");
    errors.extend(supported_or_empty(policy, &policies, &path.child("ipFamilyPolicy")));
    let mut unreadable = false;
    for (index, address) in addresses.iter().enumerate() {
        let known = old.is_some_and(|old| list(&old["spec"], "clusterIPs").contains(address));
        match address.as_str().unwrap_or_default() {
            "None" if index == 0 => {
                if addresses.len() > 1 {
                    unreadable = true;
                    let detail = "'None' must be the first and only value";
                    errors.push(FieldError::invalid(&at, all(), detail));
                }
            }
            _ if known => {}
            address => {
                let wrong = invalid(&at.index(index), address, ip(address));
                unreadable |= !wrong.is_empty();
                errors.extend(wrong);
            }
        }
    }
    if addresses.len() > 2 {
        errors.push(FieldError::invalid(&at, all(), "may only hold up to 2 values"));
    }
    if !unreadable {
        errors.extend(families_of(spec, &at));
    }
    errors
}

/// Checks that the IPs have different families, and that the families match.
fn families_of(spec: &Value, path: &FieldPath) -> Errors {
    let is_v6 = |address: &str| address.contains(':');
    let addresses: Vec<_> = texts(&spec["clusterIPs"]).filter(|address| *address != "None").collect();
    let mut errors = Vec::new();
    if addresses.len() > 1 {
        let six = addresses.iter().filter(|address| is_v6(address)).count();
        if six != 1 || addresses.len() != 2 {
            let detail = "may specify no more than one IP for each IP family";
            errors.push(FieldError::invalid(path, spec["clusterIPs"].clone(), detail));
        }
    }
    for (index, (address, family)) in addresses.iter().zip(texts(&spec["ipFamilies"])).enumerate() {
        if (family == "IPv6") != is_v6(address) {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.push(FieldError::invalid(&path.index(index), *address, detail));
        }
    }
    errors
}

fn external_addresses(spec: &Value, old: Option<&Value>, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for (value, path) in items(spec, "externalIPs", path) {
        let address = value.as_str().unwrap_or_default();
        let known = old.is_some_and(|old| list(&old["spec"], "externalIPs").contains(value));
        let wrong = if known { Vec::new() } else { invalid(&path, address, ip(address)) };
        if wrong.is_empty() {
            errors.extend(special(address).map(|wrong| FieldError::invalid(&path, address, wrong)));
        }
        errors.extend(wrong);
    }
    errors
}

/// The reason why traffic cannot be routed to an address.
pub(super) fn special(address: &str) -> Option<&'static str> {
    let address: IpAddr = address.parse().ok()?;
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let local_multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    if address.is_unspecified() {
        Some("may not be unspecified (0.0.0.0 or ::)")
    } else if address.is_loopback() {
        Some("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    } else if link_local {
        Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    } else if local_multicast {
        Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    } else {
        None
    }
}

fn node_ports(service: &Value, path: &FieldPath) -> Errors {
    let spec = &service["spec"];
    let mut errors = Vec::new();
    if kind(service) == "ClusterIP" {
        for (item, path) in items(spec, "ports", path) {
            if integer(item, "nodePort") != 0 {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(FieldError::forbidden(&path.child("nodePort"), detail));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (item, path) in items(spec, "ports", path) {
        let port = integer(item, "nodePort");
        if port != 0 && !seen.insert((text(item, "protocol"), port)) {
            errors.push(FieldError::duplicate(&path.child("nodePort"), port));
        }
    }
    let mut seen = BTreeSet::new();
    for (item, path) in items(spec, "ports", path) {
        let (protocol, port) = (text(item, "protocol"), integer(item, "port"));
        if !seen.insert((protocol, port)) {
            let shown = format!(
                r#"{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{port},"TargetPort":0,"NodePort":0}}"#
            );
            errors.push(FieldError::duplicate_shown(&path, shown));
        }
    }
    errors
}

fn source_ranges(service: &Value, path: &FieldPath) -> Errors {
    let spec = &service["spec"];
    let ranges = list(spec, "loadBalancerSourceRanges");
    // Kubernetes writes the path with a capital letter.
    let path = path.child("LoadBalancerSourceRanges");
    let mut errors = Vec::new();
    if !ranges.is_empty() && kind(service) != "LoadBalancer" {
        errors.push(FieldError::forbidden(&path, BALANCER_ONLY));
    }
    for (index, range) in texts(&spec["loadBalancerSourceRanges"]).enumerate() {
        let range = range.trim();
        errors.extend(invalid(&path.index(index), range, cidr(range)));
    }
    errors
}

fn balancer_class(service: &Value) -> Errors {
    let path = FieldPath::new("spec").child("loadBalancerClass");
    match service["spec"]["loadBalancerClass"].as_str() {
        Some(class) if kind(service) == "LoadBalancer" => {
            invalid(&path, class, validate_qualified_name(class))
        }
        Some(_) => vec![FieldError::forbidden(&path, BALANCER_ONLY)],
        None => Vec::new(),
    }
}

fn traffic(service: &Value, path: &FieldPath) -> Errors {
    let spec = &service["spec"];
    let mut errors = Vec::new();
    let (policy, at) = (text(spec, "externalTrafficPolicy"), path.child("externalTrafficPolicy"));
    if is_external(service) {
        errors.extend(one_of(policy, &["Cluster", "Local"], &at));
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(&at, policy, detail));
    }
    let (health, at) = (integer(spec, "healthCheckNodePort"), path.child("healthCheckNodePort"));
    if needs_health_port(service) {
        if health == 0 {
            errors.push(FieldError::required(&at, ""));
        } else {
            errors.extend(port_number(health, &at));
        }
    } else if health != 0 {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(&at, health, detail));
    }
    let policy = text(spec, "internalTrafficPolicy");
    errors.extend(supported_or_empty(policy, &["Cluster", "Local"], &path.child("internalTrafficPolicy")));
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = text(spec, "trafficDistribution");
    errors.extend(supported_or_empty(distribution, &distributions, &path.child("trafficDistribution")));
    errors
}

fn kind(service: &Value) -> &str {
    text(&service["spec"], "type")
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIPs"][0] == "None" && list(&service["spec"], "clusterIPs").len() == 1
}

fn is_external(service: &Value) -> bool {
    match kind(service) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(&service["spec"], "externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_port(service: &Value) -> bool {
    kind(service) == "LoadBalancer" && text(&service["spec"], "externalTrafficPolicy") == "Local"
}
