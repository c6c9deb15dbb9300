//! The fields of a span or an event, kept as they are shown.

use std::error::Error;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

/// The field that holds what an event says.
const MESSAGE: &str = "message";

/// Fields in the order in which they were given, each name once.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) message: String,
    entries: Vec<(&'static str, Value)>,
}

/// What a field is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(String),
    /// A number or a truth value, which looks the same everywhere.
    Plain(String),
}

impl Fields {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(name, value)| (*name, value))
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.entries.retain(|(name, _)| is_kept(name));
    }

    /// Newer values in the place of older ones.
    pub(super) fn merge(&mut self, newer: Self) {
        for (name, value) in newer.entries {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.entries.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.entries.push((name, value)),
        }
    }

    fn text(&mut self, field: &Field, text: String) {
        match field.name() {
            MESSAGE => self.message = text,
            // For the exporter of traces, which knows what they mean.
            name if name.starts_with("otel.") => {}
            name => self.set(name, Value::Text(text)),
        }
    }

    fn plain(&mut self, field: &Field, value: impl fmt::Display) {
        self.set(field.name(), Value::Plain(value.to_string()));
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            // Some errors say what their source says.
            let said = error.to_string();
            if !text.ends_with(&said) {
                let _ = write!(text, ": {said}");
            }
            source = error.source();
        }
        self.text(field, text);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no words for infinity.
        if value.is_finite() { self.plain(field, value) } else { self.text(field, value.to_string()) }
    }
}
