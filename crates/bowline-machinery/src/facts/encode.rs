//! The output of Go's encoder, and of protobuf, for values that are zero, empty or absent.

use serde_json::{Number, Value};

use super::go_type::{Field, GoType, Shape};

/// In protobuf, a list or binary data that is the value of a map is never absent.
pub(super) fn present(value: &mut Value, shape: &Shape) {
    match shape {
        Shape::Bytes if value.is_null() => *value = Value::String(String::new()),
        Shape::List(_) if value.is_null() => *value = Value::Array(Vec::new()),
        _ => {}
    }
}

/// The output of Go's encoder for a field that is always written, if it is absent.
pub(super) fn zero_of(field: &Field) -> Value {
    if field.pointer { Value::Null } else { zero(&field.go_type) }
}

fn zero(go_type: &GoType) -> Value {
    match &go_type.shape {
        Shape::String => Value::String(String::new()),
        Shape::Bool | Shape::SchemaOrBool(_) => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Float | Shape::IntOrString => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::Struct(slot) => {
            let fields = slot.fields().always_written();
            Value::Object(fields.map(|field| (field.name.to_owned(), zero_of(field))).collect())
        }
        Shape::Bytes
        | Shape::Raw
        | Shape::Any
        | Shape::Time
        | Shape::MicroTime
        | Shape::SchemaOrArray(_)
        | Shape::SchemaOrStrings(_)
        | Shape::List(_)
        | Shape::Map(_) => Value::Null,
    }
}

/// Go's omitempty, for the types that can be empty.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(bool) => !bool,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(string) => string.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Go writes a floating point number without a fraction as an integer.
pub(super) fn canonicalise_float(number: &mut Number) {
    // From here on a float has no integers of its own: 2^63 is exact.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let Some(float) = number.as_f64() else { return };
    if float.fract() == 0.0 && float.abs() < LIMIT && !(float == 0.0 && float.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and fits")]
        let integer = float as i64;
        *number = Number::from(integer);
    } else if let Some(float) = Number::from_f64(float) {
        *number = float;
    }
}
