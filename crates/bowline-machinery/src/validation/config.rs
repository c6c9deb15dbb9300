//! Config maps and secrets.

use serde_json::Value;

use super::check::{Errors, invalid, text};
use crate::{FieldError, FieldPath, validate_config_map_key};

/// Maximum bytes of all values together.
const LIMIT: usize = 1024 * 1024;

const FIXED: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(map: &Value) -> Errors {
    let mut errors = Vec::new();
    let mut size = 0;
    let path = FieldPath::new("data");
    for (key, value) in map["data"].as_object().into_iter().flatten() {
        errors.extend(invalid(&path.key(key), key, validate_config_map_key(key)));
        if map["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(&path.key(key), key.as_str(), detail));
        }
        size += value.as_str().map_or(0, str::len);
    }
    let path = FieldPath::new("binaryData");
    for (key, value) in map["binaryData"].as_object().into_iter().flatten() {
        errors.extend(invalid(&path.key(key), key, validate_config_map_key(key)));
        size += length(value);
    }
    if size > LIMIT {
        // The path in Kubernetes' error is a field without a name.
        errors.push(FieldError::too_long(&FieldPath::new("[]"), LIMIT));
    }
    errors
}

pub(super) fn config_map_update(new: &Value, old: &Value) -> Errors {
    let mut errors = fixed(new, old, &["data", "binaryData"]);
    errors.extend(config_map(new));
    errors
}

pub(super) fn secret(secret: &Value) -> Errors {
    let path = FieldPath::new("data");
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        errors.extend(invalid(&path.key(key), key, validate_config_map_key(key)));
        size += length(value);
    }
    if size > LIMIT {
        errors.push(FieldError::too_long(&path, LIMIT));
    }
    errors.extend(by_type(secret, &path));
    errors
}

pub(super) fn secret_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Vec::new();
    if text(new, "type") != text(old, "type") {
        let path = FieldPath::new("type");
        errors.push(FieldError::invalid(&path, text(new, "type"), "field is immutable"));
    }
    errors.extend(fixed(new, old, &["data"]));
    errors.extend(secret(new));
    errors
}

fn fixed(new: &Value, old: &Value, fields: &[&str]) -> Errors {
    let mut errors = Vec::new();
    if old["immutable"] != true {
        return errors;
    }
    if new["immutable"] != true {
        errors.push(FieldError::forbidden(&FieldPath::new("immutable"), FIXED));
    }
    for field in fields.iter().filter(|field| new[**field] != old[**field]) {
        errors.push(FieldError::forbidden(&FieldPath::new(field), FIXED));
    }
    errors
}

/// Checks the keys that a secret of its type requires.
fn by_type(secret: &Value, path: &FieldPath) -> Errors {
    let has = |key: &str| secret["data"].get(key).is_some();
    let missing = |key: &str| FieldError::required(&path.key(key), "");
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            let name = secret["metadata"]["annotations"][key].as_str().unwrap_or_default();
            let path = FieldPath::new("metadata").child("annotations").key(key);
            if name.is_empty() { vec![FieldError::required(&path, "")] } else { Vec::new() }
        }
        "kubernetes.io/dockercfg" => document(secret, ".dockercfg", path),
        "kubernetes.io/dockerconfigjson" => document(secret, ".dockerconfigjson", path),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            vec![missing("username"), missing("password")]
        }
        "kubernetes.io/ssh-auth" if length(&secret["data"]["ssh-privatekey"]) == 0 => {
            vec![missing("ssh-privatekey")]
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| !has(key)).map(missing).collect()
        }
        _ => Vec::new(),
    }
}

/// Checks that a value is a JSON object.
fn document(secret: &Value, key: &str, path: &FieldPath) -> Errors {
    let Some(text) = secret["data"][key].as_str() else {
        return vec![FieldError::required(&path.key(key), "")];
    };
    let bytes = decoded(text);
    let what = match crate::parse_json(&bytes) {
        Ok(parsed) if parsed.value.is_object() => return Vec::new(),
        Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
        Err(_) if bytes.is_empty() => "unexpected end of JSON input".to_owned(),
        Err(error) => error.to_string(),
    };
    vec![FieldError::invalid(&path.key(key), "<secret contents redacted>", what)]
}

/// Decodes base64, which was validated when the object was read.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<_> = text.bytes().map_while(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3);
    for group in digits.chunks(4) {
        let bits = (0..4).fold(0, |bits, place| bits << 6 | group.get(place).copied().unwrap_or(0));
        bytes.extend(bits.to_be_bytes()[1..].iter().take(group.len().saturating_sub(1)));
    }
    bytes
}

/// The number of bytes that a base64 value encodes.
fn length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}
