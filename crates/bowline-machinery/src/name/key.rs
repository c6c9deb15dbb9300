//! Keys and values of labels, keys of config maps, names of variables and ports, addresses.

use std::net::{IpAddr, Ipv4Addr};

use super::dns::subdomain_mismatch;
use super::{framed, longer_than, mismatch, more_bytes_than};

/// A label or annotation key, a finalizer, or a condition type: a name of at most 63 bytes with an optional DNS
/// subdomain and slash in front: `example.com/MyName`.
#[must_use]
pub fn validate_qualified_name(value: &str) -> Vec<String> {
    let said = |about: &str| {
        let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                       alphanumeric character";
        let expression = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
        format!("{about} {}", mismatch(message, expression, &["MyName", "my.name", "123-abc"]))
    };
    let mut wrong = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("{} {optional}", said("a valid label key"))];
        }
        Some(("", name)) => {
            wrong.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let length = (prefix.len() > 253).then(|| more_bytes_than(253));
            wrong.extend(
                length
                    .into_iter()
                    .chain(subdomain_mismatch(prefix))
                    .map(|message| format!("prefix part {message}")),
            );
            name
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push(format!("name part {}", more_bytes_than(63)));
    }
    if !is_label_text(name) {
        wrong.push(said("name part"));
    }
    wrong
}

/// The value of a label: empty, or a name of at most 63 bytes.
#[must_use]
pub fn validate_label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 63 {
        wrong.push(more_bytes_than(63));
    }
    if !value.is_empty() && !is_label_text(value) {
        wrong.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
             must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A key of a config map or a secret. It becomes a file name when the object is mounted.
#[must_use]
pub fn validate_config_map_key(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > 253 {
        wrong.push(longer_than(253));
    }
    if value.is_empty() || !value.bytes().all(is_file_byte) {
        wrong.push(mismatch(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    wrong.extend(leads_elsewhere(value));
    wrong
}

/// The name of an environment variable, by the rules before Kubernetes 1.34.
#[must_use]
pub fn validate_env_var_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.is_empty()
        || !value.bytes().all(is_file_byte)
        || value.starts_with(|first: char| first.is_ascii_digit())
    {
        wrong.push(mismatch(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', \
             and must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    wrong.extend(leads_elsewhere(value));
    wrong
}

/// The name of an environment variable: printable ASCII without `=`.
#[must_use]
pub fn validate_relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.is_empty() {
        wrong.push("environment variable name must be non-empty".to_owned());
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        wrong.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    wrong
}

/// An identifier of the language C.
#[must_use]
pub fn validate_c_identifier(value: &str) -> Vec<String> {
    let right = !value.is_empty()
        && !value.starts_with(|first: char| first.is_ascii_digit())
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if right {
        return Vec::new();
    }
    vec![mismatch(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
         characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of a port: at most 15 lower case letters, digits and single inner dashes, with at least one letter.
#[must_use]
pub fn validate_port_name(value: &str) -> Vec<String> {
    let lower = |byte: u8| byte.is_ascii_lowercase();
    let mut wrong = Vec::new();
    if value.len() > 15 {
        wrong.push(longer_than(15));
    }
    let allowed = |byte: u8| lower(byte) || byte.is_ascii_digit() || byte == b'-';
    if value.is_empty() || !value.bytes().all(allowed) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(lower) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// An IP address in canonical form, as fields added after Kubernetes 1.34 require it.
#[must_use]
pub fn validate_ip(value: &str) -> Vec<String> {
    let Some((address, leading_zeros)) = lenient_ip(value) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()];
    };
    if leading_zeros {
        return vec!["must not have leading 0s".to_owned()];
    }
    if matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some()) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    let canonical = address.to_string();
    if canonical == value {
        return Vec::new();
    }
    vec![format!("must be in canonical form ({canonical:?})")]
}

/// The address, and whether it parsed only after leading zeros of a decimal were removed.
fn lenient_ip(value: &str) -> Option<(IpAddr, bool)> {
    if let Ok(address) = value.parse() {
        return Some((address, false));
    }
    let (before, decimals) =
        value.rsplit_once(':').map_or(("", value), |(before, behind)| (&value[..=before.len()], behind));
    let parts: Vec<_> = decimals.split('.').collect();
    if parts.len() != 4 || !parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let numbers: Vec<u8> = parts.iter().map_while(|part| part.parse().ok()).collect();
    let numbers: [u8; 4] = numbers.try_into().ok()?;
    let address = format!("{before}{}", Ipv4Addr::from(numbers)).parse().ok()?;
    Some((address, true))
}

fn is_label_text(text: &str) -> bool {
    framed(text, |byte| byte.is_ascii_alphanumeric(), is_file_byte)
}

fn is_file_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn leads_elsewhere(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
