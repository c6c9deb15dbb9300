//! Rules for names: of objects, label keys and values, config map keys, ports, environment variables. Owns the rules
//! and their messages. The caller knows the field and builds the path of an error.
//!
//! Each rule takes a text and returns its errors with the messages of Kubernetes. An empty list means that the text is
//! valid.

mod dns;
mod key;
mod object_name;

pub use dns::{
    validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain,
    validate_wildcard_dns1123_subdomain,
};
pub use key::{
    validate_c_identifier, validate_config_map_key, validate_env_var_name, validate_ip, validate_label_value,
    validate_port_name, validate_qualified_name, validate_relaxed_env_var_name,
};
pub use object_name::{
    GENERATED_NAME_ALPHABET, GENERATED_SUFFIX_LENGTH, NameValidator, generate_name, name_is_dns_label,
    name_is_dns_subdomain, name_is_dns1035_label, name_is_path_segment, validate_path_segment_name,
};

/// The message for a text that does not match a regular expression.
fn mismatch(message: &str, expression: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{expression}')");
    }
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

/// The message for a text that is too long, where Kubernetes writes "characters" but counts bytes.
fn longer_than(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

/// The message for a text that is too long, where Kubernetes writes "bytes".
fn more_bytes_than(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// Whether the first and last byte are in one class and all bytes between them in another.
fn framed(text: &str, ends: fn(u8) -> bool, between: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => ends(*only),
        [first, middle @ .., last] => ends(*first) && ends(*last) && middle.iter().all(|byte| between(*byte)),
    }
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
