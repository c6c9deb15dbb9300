//! Values as Go prints them, for the messages of Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::quote::quoted;

/// A float as `%v` prints it: the shortest digits, with an exponent from a million on and below 0.0001.
pub(crate) fn float(number: f64) -> String {
    let (digits, exponent) = shortest(number);
    if number == 0.0 || (-4..6).contains(&exponent) {
        number.to_string()
    } else {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

/// A value as errors print it: scalars as `%v` and `%q`, all else as `json.Marshal`.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Number(number) if number.as_i64().is_none() => number.as_f64().map_or_else(String::new, float),
        value => json(value),
    }
}

/// A value as `json.Marshal` writes it.
pub(crate) fn json(value: &Value) -> String {
    let mut text = String::new();
    write_json(value, &mut text);
    text
}

fn write_json(value: &Value, text: &mut String) {
    match value {
        Value::Number(number) if number.as_i64().is_none() => {
            text.push_str(&json_float(number.as_f64().unwrap_or_default()));
        }
        Value::String(string) => write_json_string(string, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_json_string(name, text);
                text.push(':');
                write_json(value, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

fn write_json_string(string: &str, text: &mut String) {
    let escaped = Value::from(string).to_string();
    for c in escaped.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
}

fn json_float(number: f64) -> String {
    let (digits, exponent) = shortest(number);
    if number == 0.0 || (1e-6..1e21).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{digits}e{}{}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    }
}

/// The shortest digits for this number, with the point after the first, and the exponent.
fn shortest(number: f64) -> (String, i32) {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or_default())
}

/// Go's name for the type of a JSON value.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected texts were printed by Go.
    #[test]
    fn floats_are_printed_as_go_prints_them() {
        let rows = [
            (0.0, "0", "0"),
            (1.5, "1.5", "1.5"),
            (-2.25, "-2.25", "-2.25"),
            (100_000.0, "100000", "100000"),
            (1_000_000.0, "1e+06", "1000000"),
            (1_234_567.0, "1.234567e+06", "1234567"),
            (1e20, "1e+20", "100000000000000000000"),
            (1e21, "1e+21", "1e+21"),
            (0.000_15, "0.00015", "0.00015"),
            (1e-5, "1e-05", "0.00001"),
            (1e-7, "1e-07", "1e-7"),
            (5e-324, "5e-324", "5e-324"),
            (1e100, "1e+100", "1e+100"),
        ];
        for (number, v, json) in rows {
            assert_eq!((float(number).as_str(), json_float(number).as_str()), (v, json));
        }
    }

    #[test]
    fn values_in_values_are_json() {
        assert_eq!(shown(&json!([1e6, "<", { "a": null }])), r#"[1000000,"\u003c",{"a":null}]"#);
        assert_eq!(shown(&json!(1e6)), "1e+06");
        assert_eq!(shown(&Value::Null), "null");
    }
}
