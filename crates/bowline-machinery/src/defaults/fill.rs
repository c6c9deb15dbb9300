//! Setting absent fields.

use serde_json::{Map, Value};

use crate::Quantity;

pub(super) type Object = Map<String, Value>;

/// Sets a field that is absent or null: a nil pointer in Go.
pub(super) fn absent(object: &mut Object, field: &str, value: impl Into<Value>) {
    if object.get(field).is_none_or(Value::is_null) {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets a field that is absent, null, or empty: a zero value in Go.
pub(super) fn empty(object: &mut Object, field: &str, value: impl Into<Value>) {
    let is_empty = match object.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Bool(_)) => false,
    };
    if is_empty {
        object.insert(field.to_owned(), value.into());
    }
}

/// An object field, if present.
pub(super) fn child<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.get_mut(field)?.as_object_mut()
}

/// An object field, created if absent.
pub(super) fn made<'a>(object: &'a mut Object, field: &str) -> &'a mut Object {
    absent(object, field, Object::new());
    match &mut object[field] {
        Value::Object(child) => child,
        // A normalised object has an object here.
        other => {
            *other = Value::Object(Object::new());
            other.as_object_mut().expect("it has just been made an object")
        }
    }
}

/// The objects in a list.
pub(super) fn each<'a>(object: &'a mut Object, field: &str) -> impl Iterator<Item = &'a mut Object> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Rounds the quantities in some lists up to thousandths, the smallest unit of resources.
pub(super) fn quantities(object: &mut Object, lists: &[&str]) {
    for list in lists {
        for value in child(object, list).into_iter().flat_map(|list| list.values_mut()) {
            let rounded = Quantity::from_value(value).ok().and_then(|quantity| quantity.rounded_to_milli());
            if let Some(rounded) = rounded {
                *value = rounded.canonical().into();
            }
        }
    }
}

pub(super) fn text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
