//! Facts taken from `k8s.io/apimachinery` 0.36.4.

use serde_json::json;

use super::*;

/// The input, the printed text, the integer value and the value in thousandths.
const FACTS: [(&str, &str, i64, i64); 44] = [
    ("0", "0", 0, 0),
    ("1", "1", 1, 1000),
    ("0.5", "500m", 1, 500),
    (".5", "500m", 1, 500),
    ("1.5", "1500m", 2, 1500),
    ("100m", "100m", 1, 100),
    ("1000m", "1", 1, 1000),
    ("1000", "1k", 1000, 1_000_000),
    ("1024", "1024", 1024, 1_024_000),
    ("1000k", "1M", 1_000_000, 1_000_000_000),
    ("1e3", "1e3", 1000, 1_000_000),
    ("1E3", "1E3", 1000, 1_000_000),
    ("1e03", "1e03", 1000, 1_000_000),
    ("1000e3", "1e6", 1_000_000, 1_000_000_000),
    ("1e1", "10", 10, 10_000),
    ("1e+3", "1e+3", 1000, 1_000_000),
    ("1e-3", "1e-3", 1, 1),
    ("1024Mi", "1Gi", 1 << 30, (1 << 30) * 1000),
    ("1500Mi", "1500Mi", 1500 << 20, (1500 << 20) * 1000),
    ("1.5Gi", "1536Mi", 1536 << 20, (1536 << 20) * 1000),
    ("1023Ki", "1023Ki", 1023 << 10, (1023 << 10) * 1000),
    ("1024Ki", "1Mi", 1 << 20, (1 << 20) * 1000),
    ("0.5Ki", "512", 512, 512_000),
    ("1.0005Ki", "1024512m", 1025, 1_024_512),
    ("0.0001Ki", "102400u", 1, 103),
    ("0Ki", "0", 0, 0),
    ("-1", "-1", -1, -1000),
    ("-1.5", "-1500m", -2, -1500),
    ("-1024Ki", "-1Mi", -(1 << 20), -(1 << 20) * 1000),
    ("+1", "+1", 1, 1000),
    ("0500m", "0500m", 1, 500),
    ("1.", "1.", 1, 1000),
    (".", "0", 0, 0),
    ("-", "0", 0, 0),
    ("-0", "0", 0, 0),
    ("00", "0", 0, 0),
    ("1n", "1n", 1, 1),
    ("0.1n", "1n", 1, 1),
    ("1.1n", "2n", 1, 1),
    ("1e-10", "1e-9", 1, 1),
    ("0.123456789123456789", "123456790n", 1, 124),
    ("999n", "999n", 1, 1),
    ("1000001n", "1000001n", 1, 2),
    ("5.5E6", "5500e3", 5_500_000, 5_500_000_000),
];

#[test]
fn a_quantity_is_written_and_rounded_as_kubernetes_does() {
    for (read, written, value, milli_value) in FACTS {
        let quantity = Quantity::parse(read).unwrap();
        assert_eq!(quantity.to_string(), written, "{read}");
        assert_eq!((quantity.value(), quantity.milli_value()), (Some(value), Some(milli_value)), "{read}");
        let again = Quantity::parse(&quantity.canonical()).unwrap();
        assert_eq!(again, quantity, "{read}");
    }
}

#[test]
fn very_large_quantities_are_bounded_or_lose_their_unit() {
    let rows = [
        ("7Ei", "7Ei", Some(7 << 60)),
        ("8Ei", "9223372036854775807", Some(i64::MAX)),
        ("-9Ei", "-9223372036854775807", Some(-i64::MAX)),
        ("9223372036854775807", "9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", "-9223372036854775808", Some(i64::MIN)),
        ("9223372036854775808", "9223372036854775808", None),
        ("12345678901234567890", "12345678901234567890", None),
        ("1000E", "1", None),
        ("1e100", "10e99", None),
        ("1e2147483647", "10e2147483646", None),
        ("1e-2147483648", "1e-9", Some(1)),
    ];
    for (read, written, value) in rows {
        let quantity = Quantity::parse(read).unwrap();
        assert_eq!((quantity.to_string().as_str(), quantity.value()), (written, value), "{read}");
    }
}

#[test]
fn invalid_quantities_get_the_message_of_kubernetes() {
    let format =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for text in ["", "1..5", "abc", "1,5", "0x10", "1 m", "1e1.5", "1K-x"] {
        assert_eq!(Quantity::parse(text).unwrap_err().to_string(), format, "{text}");
    }
    for text in ["1e", "1i", "1m5", "1K", "1mi", "--1", "1e2147483648"] {
        let message = Quantity::parse(text).unwrap_err().to_string();
        assert_eq!(message, "unable to parse quantity's suffix", "{text}");
    }
    let message = Quantity::parse(".e-20").unwrap_err().to_string();
    assert_eq!(message, "unable to parse numeric part of quantity");
}

#[test]
fn quantities_are_ordered_by_their_numbers() {
    let ordered =
        ["-1e100", "-2", "-1.5", "-1", "0", "1n", "1m", "0.5", "1", "1001m", "1k", "1Ki", "1e4", "1G", "1Gi"];
    let ordered: Vec<_> = ordered.iter().map(|text| Quantity::parse(text).unwrap()).collect();
    assert!(ordered.is_sorted_by(|a, b| a < b));
    for (one, other) in [("1000m", "1"), ("1Ki", "1024"), ("1e3", "1k"), ("0", "-0"), ("0.5Gi", "512Mi")] {
        assert_eq!(Quantity::parse(one).unwrap(), Quantity::parse(other).unwrap());
    }
}

#[test]
fn json_has_quantities_as_strings_numbers_and_null() {
    let rows =
        [(json!(" 1 "), "1"), (json!(1), "1"), (json!(0.5), "500m"), (json!(-3), "-3"), (json!(null), "0")];
    for (value, written) in rows {
        assert_eq!(Quantity::from_value(&value).unwrap().to_string(), written, "{value}");
    }
    assert_eq!(Quantity::from_value(&json!(true)), Err(QuantityError::Format));
    assert_eq!(Quantity::from_value(&json!({})), Err(QuantityError::Format));
}
