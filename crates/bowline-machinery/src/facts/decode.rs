//! Decodes JSON into a Go type and encodes it again, in place. Owns structs, lists, maps and scalars. Types with their
//! own unmarshalling code in Go are in `special.rs`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::base64;
use crate::go_text::go_kind;

use super::encode::{canonicalise_float, is_empty, present, zero_of};
use super::go_type::{Field, GoType, Shape, TypeRef};
use super::place::Place;
use super::slot::Slot;
use super::{DecodeError, Normalised, UnknownFields};

/// Maximum number of reported unknown fields, as in Kubernetes.
const UNKNOWN_LIMIT: usize = 100;

/// Maximum bytes of all reports of unknown fields, as each contains the full path.
const UNKNOWN_TEXT_LIMIT: usize = 1 << 20;

pub(super) const INT32: RangeInclusive<i64> = -0x8000_0000..=0x7fff_ffff;

impl TypeRef {
    /// Decodes an object into the Go type of its kind and encodes it again, as kube-apiserver does, without defaults.
    ///
    /// - Unknown fields are dropped. Names are case-sensitive.
    /// - Fields that Go omits when empty are dropped when empty. Fields that Go always writes are present: `status:
    ///   {}`, `containers: null`. An explicit empty value behind a pointer stays.
    /// - A null counts as absent. So do empty lists and maps in kinds that are stored as protobuf, which cannot
    ///   distinguish them; kinds that are stored as JSON keep them. For the same reason an object within another, in a
    ///   stateful set's claim templates, loses its apiVersion and kind.
    /// - Quantities, times, binary data and floating point numbers are written in Go's canonical way.
    ///
    /// Duplicate fields and the spelling of numbers are not visible in a `serde_json::Value`.
    ///
    /// # Errors
    /// The first value that cannot be decoded, in Go's words. First is by the order of the object's keys, which may
    /// differ from the order in the request's text.
    pub fn normalise(self, object: Value, unknown_fields: UnknownFields) -> Result<Normalised, DecodeError> {
        let mut decoder = Decoder {
            unknown: Vec::new(),
            unknown_text: 0,
            mute: usize::from(unknown_fields == UnknownFields::Ignore),
            keeps_empty: self.is_kept_in_json(),
            inside: 0,
            saved: None,
            fatal: None,
        };
        let mut value = object;
        decoder.structure(self.slot(), &mut value, self.name(), &Place::Root);
        match decoder.fatal.or(decoder.saved) {
            Some(error) => Err(error),
            None => Ok(Normalised { value, unknown_fields: decoder.unknown }),
        }
    }
}

#[derive(Debug)]
pub(super) struct Decoder {
    unknown: Vec<String>,
    /// Bytes of all reports of unknown fields.
    unknown_text: usize,
    /// Unknown fields are reported while this is zero.
    mute: usize,
    /// Whether an empty list or map differs from an absent one.
    keeps_empty: bool,
    /// The number of enclosing types with their own unmarshalling code.
    inside: usize,
    /// The first error after which Go's decoder continues.
    saved: Option<DecodeError>,
    /// The error at which Go's decoder stops. It takes precedence over a saved one.
    fatal: Option<DecodeError>,
}

impl Decoder {
    pub(super) fn value(&mut self, go_type: &GoType, value: &mut Value, place: &Place<'_>) {
        match &go_type.shape {
            Shape::Struct(slot) => self.structure(slot, value, go_type.text, place),
            Shape::List(element) => match value {
                Value::Array(items) => {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.value(element, item, &Place::Index(place, index));
                    }
                    if items.is_empty() && !self.keeps_empty {
                        *value = Value::Null;
                    }
                }
                Value::Null => {}
                other => self.mismatch(other, place, go_type.text),
            },
            Shape::Map(element) => match value {
                Value::Object(map) => {
                    for (key, item) in map.iter_mut() {
                        self.value(element, item, &Place::Key(place, key));
                        if !self.keeps_empty {
                            present(item, &element.shape);
                        }
                    }
                    if map.is_empty() && !self.keeps_empty {
                        *value = Value::Null;
                    }
                }
                Value::Null => {}
                other => self.mismatch(other, place, go_type.text),
            },
            Shape::String => match value {
                Value::String(_) => {}
                Value::Null => *value = Value::String(String::new()),
                other => self.mismatch(other, place, go_type.text),
            },
            Shape::Bool => match value {
                Value::Bool(_) => {}
                Value::Null => *value = Value::Bool(false),
                other => self.mismatch(other, place, go_type.text),
            },
            Shape::Int32 => self.integer(value, INT32, place, go_type.text),
            Shape::Int64 => self.integer(value, i64::MIN..=i64::MAX, place, go_type.text),
            Shape::Float => match value {
                Value::Number(number) => canonicalise_float(number),
                Value::Null => *value = Value::from(0),
                other => self.mismatch(other, place, go_type.text),
            },
            Shape::Bytes => self.bytes(value, place, go_type.text),
            Shape::Raw | Shape::Any => {}
            Shape::Quantity => self.quantity(value),
            Shape::IntOrString => self.int_or_string(value, place),
            Shape::Time => self.time(value, place),
            Shape::MicroTime => self.micro_time(value, place),
            Shape::SchemaOrBool(slot) => self.schema_or_bool(slot, value, place),
            Shape::SchemaOrArray(slot) => self.schema_or_array(slot, value, place),
            Shape::SchemaOrStrings(slot) => self.schema_or_strings(slot, value, place),
        }
    }

    pub(super) fn structure(
        &mut self,
        slot: &'static Slot,
        value: &mut Value,
        text: &str,
        place: &Place<'_>,
    ) {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let Value::Object(map) = value else { return self.mismatch(value, place, text) };
        let fields = slot.fields();
        map.retain(|key, value| {
            let Some(field) = fields.find(key) else {
                if self.mute == 0 {
                    self.report(place, key);
                }
                return false;
            };
            self.field(field, value, &Place::Field(place, slot.name(), field))
        });
        for field in fields.always_written() {
            if !map.contains_key(field.name) {
                map.insert(field.name.to_owned(), zero_of(field));
            }
        }
    }

    fn report(&mut self, place: &Place<'_>, field: &str) {
        if self.unknown.len() < UNKNOWN_LIMIT && self.unknown_text < UNKNOWN_TEXT_LIMIT {
            let text = place.unknown(field);
            self.unknown_text += text.len();
            self.unknown.push(text);
        }
    }

    /// Whether the field is written.
    fn field(&mut self, field: &Field, value: &mut Value, place: &Place<'_>) -> bool {
        if self.is_lost(field, place) {
            self.value(&field.go_type, value, place);
            return false;
        }
        if field.pointer {
            if value.is_null() {
                return !field.omit_empty;
            }
            self.value(&field.go_type, value, place);
            return true;
        }
        self.value(&field.go_type, value, place);
        let is_left_out = (field.omit_empty && field.go_type.shape.can_be_empty() && is_empty(value))
            || (field.omit_zero && value.is_null());
        !is_left_out
    }

    /// Whether protobuf drops the field: apiVersion and kind of an object within another.
    fn is_lost(&self, field: &Field, place: &Place<'_>) -> bool {
        !self.keeps_empty
            && field.embedded == "TypeMeta"
            && !matches!(place, Place::Field(Place::Root, ..))
            && field.protobuf_numbers().next().is_none()
    }

    pub(super) fn integer(
        &mut self,
        value: &mut Value,
        range: RangeInclusive<i64>,
        place: &Place<'_>,
        text: &str,
    ) {
        match value {
            Value::Number(number) => match number.as_i64() {
                Some(integer) if range.contains(&integer) => {}
                _ => self.save(DecodeError::of_type(format!("number {number}"), place, text)),
            },
            Value::Null => *value = Value::from(0),
            other => self.mismatch(other, place, text),
        }
    }

    fn bytes(&mut self, value: &mut Value, place: &Place<'_>, text: &str) {
        match value {
            Value::String(encoded) => match base64::canonicalise(encoded) {
                Ok(()) => {}
                Err(at) => self.save(DecodeError::Base64 { at }),
            },
            Value::Array(numbers) => {
                let mut bytes = Vec::with_capacity(numbers.len());
                for (index, number) in numbers.iter_mut().enumerate() {
                    self.integer(number, 0..=255, &Place::Index(place, index), "uint8");
                    bytes.push(
                        number.as_u64().and_then(|number| u8::try_from(number).ok()).unwrap_or_default(),
                    );
                }
                *value = Value::String(base64::encode(&bytes));
            }
            Value::Null => {}
            other => self.mismatch(other, place, text),
        }
    }

    /// Reports a value of another type than expected.
    pub(super) fn mismatch(&mut self, found: &Value, place: &Place<'_>, text: &str) {
        self.save(DecodeError::of_type(go_kind(found), place, text));
    }

    /// Records an error after which Go's decoder continues. Inside a type with its own unmarshalling code it stops the
    /// decoder.
    pub(super) fn save(&mut self, error: DecodeError) {
        if self.inside > 0 {
            self.stop(error);
        } else if self.saved.is_none() {
            self.saved = Some(error);
        }
    }

    /// Records an error at which Go's decoder stops.
    pub(super) fn stop(&mut self, error: DecodeError) {
        if self.fatal.is_none() {
            self.fatal = Some(error);
        }
    }

    /// Decodes a type with its own unmarshalling code: unknown fields inside are not reported.
    pub(super) fn inside(&mut self, decode: impl FnOnce(&mut Self)) {
        self.mute += 1;
        self.inside += 1;
        decode(self);
        self.inside -= 1;
        self.mute -= 1;
    }
}
