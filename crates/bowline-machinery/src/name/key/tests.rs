//! Messages of Kubernetes for keys, values, ports and addresses, taken from `k8s.io/apimachinery` 0.36.4.

use super::*;

const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                   alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                   is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn a_qualified_name_may_have_a_domain_in_front() {
    let name = format!("name part {KEY}");
    let long = "a".repeat(64);
    let rows: &[(&str, &[&str])] = &[
        ("a", &[]),
        ("A_b.C-1", &[]),
        ("example.com/MyName", &[]),
        ("", &["name part must be non-empty", &name]),
        ("-a", &[&name]),
        ("a b", &[&name]),
        ("/a", &["prefix part must be non-empty"]),
        ("a/", &["name part must be non-empty", &name]),
        (&long, &["name part must be no more than 63 bytes"]),
    ];
    for (value, wrong) in rows {
        assert_eq!(validate_qualified_name(value), *wrong, "{value}");
    }
    let slashes = format!(
        "a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
    );
    assert_eq!(validate_qualified_name("a/b/c"), [slashes]);
    let prefix = validate_qualified_name("A/b");
    assert!(
        prefix[0].starts_with("prefix part a lowercase RFC 1123 subdomain must consist of"),
        "{prefix:?}"
    );
    let long = format!("{}/b", "a".repeat(254));
    assert_eq!(validate_qualified_name(&long), ["prefix part must be no more than 253 bytes"]);
}

#[test]
fn a_label_value_may_be_empty() {
    assert_eq!(validate_label_value(""), [""; 0]);
    assert_eq!(validate_label_value("a_B.1"), [""; 0]);
    assert_eq!(validate_label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    let said = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    for wrong in ["-", "a b", "a/b", "ä", "a."] {
        assert_eq!(validate_label_value(wrong), [said], "{wrong}");
    }
}

#[test]
fn a_config_key_is_a_file_name() {
    let said = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    assert_eq!(validate_config_map_key("a.-_B"), [""; 0]);
    assert_eq!(validate_config_map_key(""), [said]);
    assert_eq!(validate_config_map_key("a/b"), [said]);
    assert_eq!(validate_config_map_key("."), ["must not be '.'"]);
    assert_eq!(validate_config_map_key(".."), ["must not be '..'"]);
    assert_eq!(validate_config_map_key("..a"), ["must not start with '..'"]);
    assert_eq!(validate_config_map_key(&"a".repeat(254)), ["must be no more than 253 characters"]);
}

#[test]
fn variables_have_three_rules() {
    assert_eq!(validate_c_identifier("_a1"), [""; 0]);
    assert_eq!(validate_c_identifier("1a").len(), 1);
    assert_eq!(validate_env_var_name("a.b-C"), [""; 0]);
    assert_eq!(validate_env_var_name("1a").len(), 1);
    assert_eq!(validate_relaxed_env_var_name("1 a!"), [""; 0]);
    let said =
        "a valid environment variable name must consist only of printable ASCII characters other than '='";
    assert_eq!(validate_relaxed_env_var_name("a=b"), [said]);
    assert_eq!(validate_relaxed_env_var_name("ä"), [said]);
    assert_eq!(validate_relaxed_env_var_name(""), ["environment variable name must be non-empty"]);
}

#[test]
fn all_errors_of_a_port_name_are_reported() {
    assert_eq!(validate_port_name("http-2"), [""; 0]);
    assert_eq!(
        validate_port_name("1--2345678901234-"),
        [
            "must be no more than 15 characters",
            "must contain at least one letter (a-z)",
            "must not contain consecutive hyphens",
            "must not begin or end with a hyphen",
        ]
    );
    assert_eq!(
        validate_port_name("A"),
        [
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            "must contain at least one letter (a-z)",
        ]
    );
}

#[test]
fn the_error_of_an_address_shows_its_canonical_form() {
    for right in ["10.9.8.7", "::", "2001:db8::ffff"] {
        assert_eq!(validate_ip(right), [""; 0], "{right}");
    }
    for wrong in ["", "1.2.3", "1.2.3.256", "a", "1.2.3.4/8", "fe80::1%eth0", "::1.2.3"] {
        assert_eq!(
            validate_ip(wrong),
            ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"],
            "{wrong}"
        );
    }
    assert_eq!(validate_ip("010.9.8.7"), ["must not have leading 0s"]);
    assert_eq!(validate_ip("::ffff:1.2.3.4"), ["must not be an IPv4-mapped IPv6 address"]);
    assert_eq!(validate_ip("2001:DB8::0"), ["must be in canonical form (\"2001:db8::\")"]);
}
