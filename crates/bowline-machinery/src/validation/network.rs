//! Ingresses, network policies and other network kinds.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::check::{
    Errors, cidr, dns_label, dns_subdomain, integer, invalid, ip, is_set, items, list, one_of, port,
    port_number, text, texts,
};
use super::service::special;
use crate::{
    FieldError, FieldPath, validate_dns1123_subdomain, validate_label_selector, validate_port_name,
    validate_qualified_name, validate_wildcard_dns1123_subdomain,
};

pub(super) fn ingress(ingress: &Value) -> Errors {
    let (spec, path) = (&ingress["spec"], FieldPath::new("spec"));
    let mut errors = Vec::new();
    if list(spec, "rules").is_empty() && !is_set(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, Value::Null, detail));
    }
    if is_set(spec, "defaultBackend") {
        errors.extend(backend(&spec["defaultBackend"], &path.child("defaultBackend")));
    }
    for (rule, path) in items(spec, "rules", &path) {
        errors.extend(host(text(rule, "host"), &path.child("host")));
        if is_set(rule, "http") {
            let path = path.child("http");
            if list(&rule["http"], "paths").is_empty() {
                errors.push(FieldError::required(&path.child("paths"), ""));
            }
            for (place, path) in items(&rule["http"], "paths", &path) {
                errors.extend(http_path(place, &path));
            }
        }
    }
    for (tls, path) in items(spec, "tls", &path) {
        for (name, path) in items(tls, "hosts", &path) {
            errors.extend(invalid(&path, name.as_str().unwrap_or_default(), host_name(name)));
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        errors.extend(dns_subdomain(class, &path.child("ingressClassName")));
    }
    errors
}

fn host_name(name: &Value) -> Vec<String> {
    let name = name.as_str().unwrap_or_default();
    if name.contains('*') {
        validate_wildcard_dns1123_subdomain(name)
    } else {
        validate_dns1123_subdomain(name)
    }
}

fn host(host: &str, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if host.is_empty() {
        return errors;
    }
    if host.parse::<IpAddr>().is_ok() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    errors.extend(invalid(path, host, host_name(&host.into())));
    errors
}

fn http_path(place: &Value, path: &FieldPath) -> Errors {
    let (way, at) = (text(place, "path"), path.child("path"));
    let mut errors = Vec::new();
    match text(place, "pathType") {
        "" => return vec![FieldError::required(&path.child("pathType"), "pathType must be specified")],
        "Exact" | "Prefix" => {
            if !way.starts_with('/') {
                errors.push(FieldError::invalid(&at, way, "must be an absolute path"));
            }
            for wrong in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|wrong| way.contains(wrong)) {
                errors.push(FieldError::invalid(&at, way, format!("must not contain '{wrong}'")));
            }
            for wrong in ["/..", "/."].into_iter().filter(|wrong| way.ends_with(wrong)) {
                errors.push(FieldError::invalid(&at, way, format!("cannot end with '{wrong}'")));
            }
        }
        "ImplementationSpecific" => {
            if !way.is_empty() && !way.starts_with('/') {
                errors.push(FieldError::invalid(&at, way, "must be an absolute path"));
            }
        }
        other => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(&path.child("pathType"), other, &kinds));
        }
    }
    errors.extend(backend(&place["backend"], &path.child("backend")));
    errors
}

fn backend(backend: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    match (is_set(backend, "resource"), is_set(backend, "service")) {
        (true, true) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (true, false) => {
            for field in ["kind", "name"] {
                if text(&backend["resource"], field).is_empty() {
                    errors.push(FieldError::required(&path.child("resource").child(field), ""));
                }
            }
        }
        (false, true) => {
            let (service, at) = (&backend["service"], path.child("service"));
            match text(service, "name") {
                "" => errors.push(FieldError::required(&at.child("name"), "")),
                name => errors.extend(dns_label(name, &at.child("name"))),
            }
            let (name, number) = (text(&service["port"], "name"), integer(&service["port"], "number"));
            let at = at.child("port");
            if !name.is_empty() && number != 0 {
                errors.push(FieldError::invalid(path, "", "cannot set both port name & port number"));
            } else if !name.is_empty() {
                errors.extend(invalid(&at.child("name"), name, validate_port_name(name)));
            } else if number != 0 {
                errors.extend(port_number(number, &at.child("number")));
            } else {
                errors.push(FieldError::required(path, "port name or number is required"));
            }
        }
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "resource or service backend is required"));
        }
    }
    errors
}

pub(super) fn policy(policy: &Value) -> Errors {
    let (spec, path) = (&policy["spec"], FieldPath::new("spec"));
    let mut errors = validate_label_selector(&spec["podSelector"], &path.child("podSelector"));
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for (rule, path) in items(spec, rules, &path) {
            for (item, path) in items(rule, "ports", &path) {
                errors.extend(policy_port(item, &path));
            }
            for (item, path) in items(rule, peers, &path) {
                errors.extend(peer(item, &path));
            }
        }
    }
    let types = &spec["policyTypes"];
    if list(spec, "policyTypes").len() > 2 {
        let detail = "may not specify more than two policyTypes";
        errors.push(FieldError::invalid(&path.child("policyTypes"), types.clone(), detail));
        return errors;
    }
    for (index, kind) in texts(types).enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            let path = path.child("policyTypes").index(index);
            errors.push(FieldError::not_supported(&path, kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

fn policy_port(item: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    if let Some(protocol) = item["protocol"].as_str()
        && !matches!(protocol, "TCP" | "UDP" | "SCTP")
    {
        let path = path.child("protocol");
        errors.push(FieldError::not_supported(&path, protocol, &["TCP", "UDP", "SCTP"]));
    }
    if is_set(item, "port") {
        errors.extend(port(&item["port"], &path.child("port")));
    } else if let Some(end) = item["endPort"].as_i64() {
        let detail = "may not be specified when `port` is not specified";
        errors.push(FieldError::invalid(&path.child("endPort"), end, detail));
    }
    errors
}

fn peer(peer: &Value, path: &FieldPath) -> Errors {
    let mut errors = Vec::new();
    for field in ["podSelector", "namespaceSelector"] {
        errors.extend(validate_label_selector(&peer[field], &path.child(field)));
    }
    let block = &peer["ipBlock"];
    if block.is_object() {
        let at = path.child("ipBlock");
        match text(block, "cidr") {
            "" => errors.push(FieldError::required(&at.child("cidr"), "")),
            range => {
                errors.extend(invalid(&at.child("cidr"), range, cidr(range)));
                for (except, path) in items(block, "except", &at) {
                    let except = except.as_str().unwrap_or_default();
                    let wrong = cidr(except);
                    if wrong.is_empty() && cidr(range).is_empty() && !is_inside(except, range) {
                        let detail = "must be a strict subset of `cidr`";
                        errors.push(FieldError::invalid(&path, except, detail));
                    }
                    errors.extend(invalid(&path, except, wrong));
                }
            }
        }
    }
    let others = ["podSelector", "namespaceSelector"].iter().any(|field| is_set(peer, field));
    match (block.is_object(), others) {
        (false, false) => errors.push(FieldError::required(path, "must specify a peer")),
        (true, true) => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"));
        }
        _ => {}
    }
    errors
}

/// Whether a range is a proper part of another. Both are valid.
fn is_inside(inner: &str, outer: &str) -> bool {
    let parse = |text: &str| -> Option<(u128, u32, bool)> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        match address.parse().ok()? {
            IpAddr::V4(address) => Some((u128::from(address.to_bits()) << 96, length, true)),
            IpAddr::V6(address) => Some((address.to_bits(), length, false)),
        }
    };
    let (Some(inner), Some(outer)) = (parse(inner), parse(outer)) else { return false };
    let mask = u128::MAX.checked_shl(128 - outer.1.min(128)).unwrap_or(0);
    inner.2 == outer.2 && inner.1 > outer.1 && inner.0 & mask == outer.0 & mask
}

pub(super) fn endpoint_slice(slice: &Value) -> Errors {
    let kind = text(slice, "addressType");
    let mut errors: Errors =
        one_of(kind, &["FQDN", "IPv4", "IPv6"], &FieldPath::new("addressType")).into_iter().collect();
    let mut names = BTreeSet::new();
    for (item, path) in items(slice, "ports", &FieldPath::root()) {
        let name = text(item, "name");
        if !name.is_empty() {
            errors.extend(dns_label(name, &path.child("name")));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        errors.extend(one_of(text(item, "protocol"), &["SCTP", "TCP", "UDP"], &path.child("protocol")));
        if let Some(protocol) = item["appProtocol"].as_str() {
            errors.extend(invalid(&path.child("appProtocol"), protocol, validate_qualified_name(protocol)));
        }
    }
    for (endpoint, path) in items(slice, "endpoints", &FieldPath::root()) {
        let at = path.child("addresses");
        if list(endpoint, "addresses").is_empty() {
            errors.push(FieldError::required(&at, "must contain at least 1 address"));
        }
        for (index, address) in texts(&endpoint["addresses"]).enumerate() {
            errors.extend(endpoint_address(kind, address, &at, index));
        }
        if let Some(name) = endpoint["nodeName"].as_str() {
            errors.extend(dns_subdomain(name, &path.child("nodeName")));
        }
        if let Some(name) = endpoint["hostname"].as_str() {
            errors.extend(dns_label(name, &path.child("hostname")));
        }
    }
    errors
}

fn endpoint_address(kind: &str, address: &str, path: &FieldPath, index: usize) -> Errors {
    let at = path.index(index);
    if !matches!(kind, "IPv4" | "IPv6") {
        return Vec::new();
    }
    let mut errors = invalid(&at, address, ip(address));
    if errors.is_empty() {
        if (kind == "IPv6") != address.contains(':') {
            errors.push(FieldError::invalid(path, address, format!("must be an {kind} address")));
        }
        errors.extend(special(address).map(|wrong| FieldError::invalid(&at, address, wrong)));
    }
    errors
}

pub(super) fn endpoint_slice_update(new: &Value, old: &Value) -> Errors {
    let mut errors = endpoint_slice(new);
    if new["addressType"] != old["addressType"] {
        let path = FieldPath::new("addressType");
        errors.push(FieldError::invalid(&path, new["addressType"].clone(), "field is immutable"));
    }
    errors
}
