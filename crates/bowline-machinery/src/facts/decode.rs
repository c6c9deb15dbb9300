//! What decoding into a Go type and encoding it again does to JSON, done in place. Owns structs, lists, maps and
//! scalars; the types that read themselves in Go are in `special.rs`.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::base64;
use crate::go_text::go_kind;

use super::encode::{canonicalise_float, is_empty, present, zero_of};
use super::go_type::{Field, GoType, Shape, TypeRef};
use super::place::Place;
use super::slot::Slot;
use super::{DecodeError, Normalised, UnknownFields};

/// As many unknown fields as Kubernetes reports.
const UNKNOWN_LIMIT: usize = 100;

/// How long the texts about them may become: each has the whole way there in it.
const UNKNOWN_TEXT_LIMIT: usize = 1 << 20;

pub(super) const INT32: RangeInclusive<i64> = -0x8000_0000..=0x7fff_ffff;

impl TypeRef {
    /// Makes of an object what a kube-apiserver makes of it by decoding it into the Go type of its kind and encoding
    /// it again, without defaults.
    ///
    /// - Fields that the type does not have are dropped. Names are case-sensitive.
    /// - Fields that Go leaves out when they are empty are dropped when they are empty; fields that it always writes
    ///   are there: `status: {}`, `containers: null`. What is explicitly empty behind a pointer stays.
    /// - null is as if nothing had been said. So are empty lists and maps, since what is kept in protobuf cannot tell
    ///   them apart; they stay as they are in the kinds that are kept in JSON. For the same reason an object within
    ///   another, in a stateful set's claim templates, loses its apiVersion and kind.
    /// - Quantities, times, binary data and floating point numbers are written in Go's canonical way.
    ///
    /// What the type of `serde_json::Value` cannot show is not seen: duplicate fields, and how a number was spelled.
    ///
    /// # Errors
    /// What cannot be decoded, in Go's words. If there is more than one such place it is the first in the order of the
    /// object's keys, which need not be the order of the request's text.
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
    /// The length of the texts about unknown fields.
    unknown_text: usize,
    /// Unknown fields are reported while this is zero.
    mute: usize,
    /// Whether an empty list or map is told from none.
    keeps_empty: bool,
    /// How many types that read themselves the decoder is in.
    inside: usize,
    /// The first error after which Go's decoder goes on.
    saved: Option<DecodeError>,
    /// The error at which Go's decoder stops. It goes before a saved one.
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

    /// Whether protobuf has no place for the field: apiVersion and kind of an object within another.
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

    /// Something else than what the type takes is here.
    pub(super) fn mismatch(&mut self, found: &Value, place: &Place<'_>, text: &str) {
        self.save(DecodeError::of_type(go_kind(found), place, text));
    }

    /// Notes an error after which Go's decoder goes on. Out of a type that reads itself it comes as one that stops it.
    pub(super) fn save(&mut self, error: DecodeError) {
        if self.inside > 0 {
            self.stop(error);
        } else if self.saved.is_none() {
            self.saved = Some(error);
        }
    }

    /// Notes an error at which Go's decoder stops.
    pub(super) fn stop(&mut self, error: DecodeError) {
        if self.fatal.is_none() {
            self.fatal = Some(error);
        }
    }

    /// Decodes as a type does that reads itself: nobody hears of the fields that are unknown in there.
    pub(super) fn inside(&mut self, decode: impl FnOnce(&mut Self)) {
        self.mute += 1;
        self.inside += 1;
        decode(self);
        self.inside -= 1;
        self.mute -= 1;
    }
}
