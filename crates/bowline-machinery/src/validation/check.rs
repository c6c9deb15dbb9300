//! Checks shared by many kinds, and access to fields.

use std::net::IpAddr;

use serde_json::Value;

use crate::{
    FieldError, FieldPath, validate_dns1123_label, validate_dns1123_subdomain, validate_ip,
    validate_port_name,
};

/// A list of errors.
pub(super) type Errors = Vec<FieldError>;

/// A text field; empty if absent.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// The items of a field; empty if it is not a list.
pub(super) fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items of a field with their paths.
pub(super) fn items<'a>(
    object: &'a Value,
    field: &str,
    path: &FieldPath,
) -> impl Iterator<Item = (&'a Value, FieldPath)> {
    let path = path.child(field);
    list(object, field).iter().enumerate().map(move |(index, item)| (item, path.index(index)))
}

pub(super) fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether Go's pointer would be set.
pub(super) fn is_set(object: &Value, field: &str) -> bool {
    object.get(field).is_some_and(|value| !value.is_null())
}

pub(super) fn integer(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or(0)
}

/// One error per message about a text.
pub(super) fn invalid(path: &FieldPath, text: &str, wrong: Vec<String>) -> Errors {
    wrong.into_iter().map(|wrong| FieldError::invalid(path, text, wrong)).collect()
}

pub(super) fn dns_label(value: &str, path: &FieldPath) -> Errors {
    invalid(path, value, validate_dns1123_label(value))
}

pub(super) fn dns_subdomain(value: &str, path: &FieldPath) -> Errors {
    invalid(path, value, validate_dns1123_subdomain(value))
}

/// Checks a required value against a set. The error lists the set in alphabetical order.
pub(super) fn one_of(value: &str, supported: &[&str], path: &FieldPath) -> Option<FieldError> {
    if value.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    supported_or_empty(value, supported, path)
}

/// Checks an optional value against a set.
pub(super) fn supported_or_empty(value: &str, supported: &[&str], path: &FieldPath) -> Option<FieldError> {
    if value.is_empty() || supported.contains(&value) {
        return None;
    }
    Some(FieldError::not_supported(path, value, supported))
}

/// Checks that an optional field is not negative.
pub(super) fn not_negative(object: &Value, field: &str, path: &FieldPath) -> Option<FieldError> {
    let value = object[field].as_i64().filter(|value| *value < 0)?;
    Some(FieldError::invalid(&path.child(field), value, "must be greater than or equal to 0"))
}

pub(super) fn port_number(port: i64, path: &FieldPath) -> Option<FieldError> {
    let right = (1..=65_535).contains(&port);
    (!right).then(|| FieldError::invalid(path, port, "must be between 1 and 65535, inclusive"))
}

/// Validates a port's number or name.
pub(super) fn port(port: &Value, path: &FieldPath) -> Errors {
    match port {
        Value::String(name) => invalid(path, name, validate_port_name(name)),
        other => port_number(other.as_i64().unwrap_or(0), path).into_iter().collect(),
    }
}

/// Validates an IP address in any notation, as older fields allow.
pub(super) fn ip(value: &str) -> Vec<String> {
    let wrong = validate_ip(value).into_iter();
    wrong.filter(|wrong| !wrong.starts_with("must be in canonical form")).collect()
}

/// Validates a CIDR in any notation.
pub(super) fn cidr(value: &str) -> Vec<String> {
    let wrong = match value.split_once('/') {
        Some((address, length)) => match (address.parse::<IpAddr>(), length.parse::<u32>()) {
            (Ok(address), Ok(length)) => beyond(address, length),
            _ => Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
        },
        None => Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    };
    wrong.map(str::to_owned).into_iter().collect()
}

/// The error of a prefix length.
fn beyond(address: IpAddr, length: u32) -> Option<&'static str> {
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    if length > width {
        return Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
    }
    let rest = bits.checked_shl(length).unwrap_or(0);
    (rest != 0).then_some("must not have bits set beyond the prefix length")
}
