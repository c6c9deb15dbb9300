//! Types with their own JSON code in Go.

use serde_json::Value;

use super::DecodeError;
use super::decode::{Decoder, INT32};
use super::place::Place;
use super::slot::Slot;
use super::time::{self, Precision, Written};
use crate::Quantity;

impl Decoder {
    pub(super) fn quantity(&mut self, value: &mut Value) {
        match Quantity::from_value(value) {
            Ok(quantity) => *value = Value::String(quantity.to_string()),
            Err(error) => self.stop(DecodeError::Quantity(error)),
        }
    }

    pub(super) fn int_or_string(&mut self, value: &mut Value, place: &Place<'_>) {
        if !value.is_string() {
            self.inside(|decoder| {
                decoder.integer(value, INT32, place, "int32");
            });
        }
    }

    pub(super) fn time(&mut self, value: &mut Value, place: &Place<'_>) {
        self.any_time(value, place, Precision::Seconds);
    }

    pub(super) fn micro_time(&mut self, value: &mut Value, place: &Place<'_>) {
        self.any_time(value, place, Precision::Micros);
    }

    fn any_time(&mut self, value: &mut Value, place: &Place<'_>, precision: Precision) {
        match value {
            Value::String(text) => match time::written(text, precision) {
                Ok(Written::AsRead) => {}
                Ok(Written::Otherwise(written)) => *text = written,
                Ok(Written::Nothing) => *value = Value::Null,
                Err(error) => self.stop(error),
            },
            Value::Null => {}
            other => self.inside(|decoder| decoder.mismatch(other, place, "string")),
        }
    }

    pub(super) fn schema_or_bool(&mut self, schema: &'static Slot, value: &mut Value, place: &Place<'_>) {
        match value {
            Value::Object(_) => {
                self.inside(|decoder| decoder.structure(schema, value, schema.name(), &Place::Inside(place)));
            }
            Value::Bool(_) => {}
            _ => self.stop(DecodeError::SchemaOrBool),
        }
    }

    pub(super) fn schema_or_array(&mut self, schema: &'static Slot, value: &mut Value, place: &Place<'_>) {
        let place = Place::Inside(place);
        self.inside(|decoder| match value {
            Value::Object(_) => decoder.structure(schema, value, schema.name(), &place),
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter_mut().enumerate() {
                    decoder.structure(schema, item, schema.name(), &Place::Index(&place, index));
                }
            }
            // Any other value is ignored.
            other => *other = Value::Null,
        });
    }

    pub(super) fn schema_or_strings(&mut self, schema: &'static Slot, value: &mut Value, place: &Place<'_>) {
        let place = Place::Inside(place);
        self.inside(|decoder| match value {
            Value::Object(_) => decoder.structure(schema, value, schema.name(), &place),
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    match item {
                        Value::String(_) => {}
                        Value::Null => *item = Value::String(String::new()),
                        other => decoder.mismatch(other, &place, "string"),
                    }
                }
            }
            other => *other = Value::Null,
        });
    }
}
