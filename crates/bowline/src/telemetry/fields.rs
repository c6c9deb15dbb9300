//! The fields of a span or an event, kept as they are shown.

use std::error::Error;
use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};

/// The field with the message of an event.
const MESSAGE: &str = "message";

/// Room for what the span of a reconcile has, so that its memory is got at once.
const ROOM: (usize, usize) = (256, 8);

/// Fields in the order in which they were given, their values in one piece: there is a span for each reconcile, and memory for
/// each of its fields is most of what it costs.
#[derive(Debug)]
pub(super) struct Fields {
    values: String,
    entries: Vec<Entry>,
}

/// A field whose value goes on from where that of the one before ends.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    is_text: bool,
    end: usize,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(&'a str),
    /// A number or a truth value, which looks the same everywhere.
    Plain(&'a str),
}

impl Fields {
    pub(super) fn new() -> Self {
        let (values, entries) = ROOM;
        Self { values: String::with_capacity(values), entries: Vec::with_capacity(entries) }
    }

    /// The message of an event.
    pub(super) fn message(&self) -> &str {
        self.get(MESSAGE).map_or("", |(Value::Text(value) | Value::Plain(value))| value)
    }

    /// All but the message. A name that was given twice is there twice.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.all().filter(|(name, _)| *name != MESSAGE)
    }

    /// Newer values in the place of older ones.
    pub(super) fn merge(&mut self, newer: &Self) {
        if newer.entries.is_empty() {
            return;
        }
        // Made anew, so that it does not grow however often a value is replaced.
        let mut merged = Self::new();
        for (name, older) in self.all() {
            merged.push(name, newer.get(name).unwrap_or(older));
        }
        for (name, value) in newer.all().filter(|(name, _)| self.get(name).is_none()) {
            merged.push(name, value);
        }
        *self = merged;
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        let mut start = 0;
        self.entries.iter().map(move |Entry { name, is_text, end }| {
            let value = &self.values[start..*end];
            start = *end;
            (*name, if *is_text { Value::Text(value) } else { Value::Plain(value) })
        })
    }

    fn get(&self, name: &str) -> Option<Value<'_>> {
        self.all().filter(|(known, _)| *known == name).last().map(|(_, value)| value)
    }

    fn push(&mut self, name: &'static str, value: Value<'_>) {
        let (is_text, value) = match value {
            Value::Text(value) => (true, value),
            Value::Plain(value) => (false, value),
        };
        self.values.push_str(value);
        self.entries.push(Entry { name, is_text, end: self.values.len() });
    }

    fn write(&mut self, field: &Field, is_text: bool, value: fmt::Arguments<'_>) {
        let name = field.name();
        // For the exporter of traces, which knows what they mean.
        if name.starts_with("otel.") {
            return;
        }
        // A value whose formatting fails is shown as far as it got: there is no one to report it to.
        let _ = self.values.write_fmt(value);
        self.entries.push(Entry { name, is_text, end: self.values.len() });
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, true, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, true, format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            // Some errors repeat their source.
            let said = error.to_string();
            if !text.ends_with(&said) {
                let _ = write!(text, ": {said}");
            }
            source = error.source();
        }
        self.write(field, true, format_args!("{text}"));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, false, format_args!("{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, false, format_args!("{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, false, format_args!("{value}"));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no words for infinity.
        self.write(field, !value.is_finite(), format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_replaced_leave_nothing_behind() {
        let (mut fields, mut newer) = (Fields::new(), Fields::new());
        fields.push("name", Value::Text("web"));
        newer.push("step", Value::Plain("1000"));
        newer.push("phase", Value::Text("done"));
        for _ in 0..1000 {
            fields.merge(&newer);
            fields.merge(&Fields::new());
        }
        assert_eq!((&*fields.values, fields.entries.len()), ("web1000done", 3));
        assert!(fields.values.capacity() <= ROOM.0);
    }

    #[test]
    fn of_two_messages_the_last_counts() {
        let mut fields = Fields::new();
        assert_eq!(fields.message(), "");
        fields.push(MESSAGE, Value::Text("failed"));
        fields.push("attempt", Value::Plain("2"));
        fields.push(MESSAGE, Value::Text("no luck"));
        assert_eq!(fields.message(), "no luck");
        assert_eq!(fields.iter().count(), 1);
    }
}
