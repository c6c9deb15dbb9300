//! One line for each event, with the fields of the spans around it.

use std::fmt::Write as _;

use bowline_runtime::debug::is_deceptive;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_log::NormalizeEvent as _;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::Format;
use super::fields::{Fields, Value};

/// The keys that every line has.
const OWN: [&str; 4] = ["ts", "level", "logger", "msg"];

/// Writes a line for each event.
pub(super) struct Lines<W> {
    format: Format,
    is_colored: bool,
    write: W,
}

impl<W: Fn(&str)> Lines<W> {
    pub(super) fn new(format: Format, is_colored: bool, write: W) -> Self {
        Self { format, is_colored, write }
    }

    fn text(&self, line: &mut String, head: &Head<'_>, around: &Latest<'_>, own: &Latest<'_>) {
        let Head { level, logger, message } = head;
        let name = level.as_str();
        let (color, plain) = if self.is_colored { (color(*level), "\x1b[0m") } else { ("", "") };
        push_now(line);
        let _ = write!(line, " {color}{name:>5}{plain} {logger}: ");
        push_visible(line, message);
        // The message first, then its fields.
        for (name, value) in own.iter().chain(around.iter().filter(|(name, _)| !own.has(name))) {
            match value {
                Value::Text("") => {}
                Value::Text(text) if is_word(text) => _ = write!(line, " {name}={text}"),
                Value::Text(text) => _ = write!(line, " {name}={text:?}"),
                Value::Plain(value) => _ = write!(line, " {name}={value}"),
            }
        }
    }
}

/// Fields of every line.
struct Head<'a> {
    level: Level,
    logger: &'a str,
    message: &'a str,
}

/// Fields, each name once: with the value that it was given last.
#[derive(Default)]
struct Latest<'a>(Vec<(&'a str, Value<'a>)>);

impl<'a> Latest<'a> {
    fn put(&mut self, name: &'a str, value: Value<'a>) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        self.0.iter().copied()
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // Formatting a value may call foreign code, which may log: no lock is held here.
        let mut fields = Fields::new();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let mut newer = Fields::new();
        values.record(&mut newer);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.merge(&newer);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut given = Fields::new();
        event.record(&mut given);
        // One of the crate `log` has where it comes from in fields.
        let record = event.normalized_metadata();
        let mut own = Latest::default();
        for (name, value) in given.iter().filter(|(name, _)| record.is_none() || !name.starts_with("log.")) {
            own.put(name, value);
        }
        let spans: Vec<_> = context.event_scope(event).into_iter().flat_map(Scope::from_root).collect();
        let extensions: Vec<_> = spans.iter().map(|span| span.extensions()).collect();
        let mut around = Latest::default();
        for (name, value) in extensions.iter().filter_map(|all| all.get::<Fields>()).flat_map(Fields::iter) {
            around.put(name, value);
        }
        let metadata = record.as_ref().unwrap_or_else(|| event.metadata());
        let (level, logger, message) = (*metadata.level(), metadata.target(), given.message());
        let head = Head { level, logger, message };
        let mut line = String::with_capacity(256);
        match self.format {
            Format::Text => self.text(&mut line, &head, &around, &own),
            Format::Json => json(&mut line, &head, &around, &own),
        }
        drop(extensions);
        line.push('\n');
        (self.write)(&line);
    }
}

fn json(line: &mut String, head: &Head<'_>, around: &Latest<'_>, own: &Latest<'_>) {
    let Head { level, logger, message } = head;
    line.push_str(r#"{"ts":""#);
    push_now(line);
    let level = level.as_str().to_ascii_lowercase();
    let _ = write!(line, r#"","level":"{level}","logger":"#);
    push_quoted(line, logger);
    line.push_str(r#","msg":"#);
    push_quoted(line, message);
    let around = around.iter().filter(|(name, _)| !own.has(name));
    for (name, value) in around.chain(own.iter()) {
        line.push(',');
        if OWN.contains(&name) {
            push_quoted(line, &format!("fields.{name}"));
        } else {
            push_quoted(line, name);
        }
        line.push(':');
        match value {
            Value::Text(text) => push_quoted(line, text),
            Value::Plain(value) => line.push_str(value),
        }
    }
    line.push('}');
}

fn push_now(line: &mut String) {
    let _ = SystemTime.format_time(&mut Writer::new(line));
}

fn color(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}

/// Whether a value can be read without quotes.
fn is_word(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || is_deceptive(c) || matches!(c, '"' | '\\' | '=');
    !text.contains(is_odd)
}

/// A text in which no character moves the cursor, begins a line, turns the text around it or hides.
fn push_visible(line: &mut String, text: &str) {
    for character in text.chars() {
        if is_deceptive(character) {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
}

/// A text as JSON.
fn push_quoted(line: &mut String, text: &str) {
    let is_odd = |byte: u8| byte < 0x20 || matches!(byte, b'"' | b'\\');
    if text.bytes().any(is_odd) {
        line.push_str(&serde_json::Value::from(text).to_string());
        return;
    }
    line.push('"');
    line.push_str(text);
    line.push('"');
}
