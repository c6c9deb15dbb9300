//! JSON from a client: parsed into a [`Value`], with the duplicate fields that strict decoding reports. Owns the size
//! and depth limits of the input. Unknown fields are reported by schemas.

mod depth;
mod order;
mod replace;
mod syntax;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

pub(crate) use self::depth::is_nested_within;
pub use self::order::sort_by_document_order;
use self::replace::replaced;
use self::syntax::syntax_error;
use crate::quote::quoted;

/// Maximum nesting of objects and lists. A deeper body is refused before it can exhaust the stack.
pub const MAX_JSON_DEPTH: usize = 126;

/// Maximum number of reported duplicates.
const MAX_DUPLICATES: usize = 100;

/// Maximum bytes of all paths of duplicates: a long name above many duplicates would repeat in each path.
const MAX_PATHS: usize = 1 << 20;

/// The result of [`parse_json`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ParsedJson {
    /// The value. The last one of a duplicate field wins.
    pub value: Value,
    /// The errors of strict decoding, in the order of the text, each once: `duplicate field "spec.replicas"`. At most
    /// 100.
    pub duplicates: Vec<String>,
}

/// The text is not valid JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text violates the grammar, continues after its value, or contains something that cannot be represented.
    #[error("{message}")]
    Syntax {
        /// The message: for grammar errors that of Go's `encoding/json`, as clients of Kubernetes see it.
        message: String,
    },
    /// The value is nested deeper than [`MAX_JSON_DEPTH`].
    #[error("invalid character '{opening}' exceeded max depth")]
    TooDeep {
        /// The bracket that opens the first level too deep.
        opening: char,
    },
}

/// Parses one value and the end of the text.
///
/// Numbers are kept as [`serde_json`] does: integers that fit `i64` or `u64`, and others as `f64`. Invalid Unicode is
/// replaced, as in Go.
///
/// # Errors
/// If the text is not JSON, continues after the value, or is nested too deep.
pub fn parse_json(text: &[u8]) -> Result<ParsedJson, JsonError> {
    let error = match read(text) {
        Err(JsonError::Syntax { message }) => message,
        read => return read,
    };
    if let Some(message) = syntax_error(text) {
        return Err(JsonError::Syntax { message });
    }
    // The grammar is valid, so the text contains something that cannot be represented.
    match replaced(text) {
        Some(text) => read(&text),
        None => Err(JsonError::Syntax { message: error }),
    }
}

fn read(text: &[u8]) -> Result<ParsedJson, JsonError> {
    let mut report = Report::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let seed = Seed { place: Place::Root, depth: 0, report: &mut report };
    let parsed = seed.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    match (parsed, report.too_deep) {
        (Ok(value), _) => Ok(ParsedJson { value, duplicates: report.into_duplicates() }),
        (Err(_), Some(opening)) => Err(JsonError::TooDeep { opening }),
        (Err(error), None) => Err(JsonError::Syntax { message: error.to_string() }),
    }
}

/// The parser's position in the value: a linked list on the stack. A path is built only for a report.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Place::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Default)]
struct Report {
    /// Paths in the order of the text, each once.
    duplicates: Vec<String>,
    /// Bytes of all paths built.
    made: usize,
    /// The bracket that opens the first level too deep.
    too_deep: Option<char>,
}

impl Report {
    /// Reports a duplicate that stands in the text before those found after `position`.
    fn duplicate(&mut self, position: usize, place: &Place<'_>) {
        if position >= MAX_DUPLICATES || self.made > MAX_PATHS {
            return;
        }
        let path = place.to_string();
        self.made += path.len();
        if !self.duplicates.contains(&path) {
            self.duplicates.insert(position, path);
            self.duplicates.truncate(MAX_DUPLICATES);
        }
    }

    fn into_duplicates(self) -> Vec<String> {
        self.duplicates.iter().map(|path| format!("duplicate field {}", quoted(path))).collect()
    }
}

struct Seed<'a> {
    place: Place<'a>,
    depth: usize,
    report: &'a mut Report,
}

impl Seed<'_> {
    /// Enters one more level.
    fn deeper<E: serde::de::Error>(&mut self, opening: char) -> Result<(), E> {
        self.depth += 1;
        if self.depth > MAX_JSON_DEPTH {
            self.report.too_deep = Some(opening);
            return Err(E::custom("nested too deep"));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.deeper('[')?;
        let mut list = Vec::new();
        loop {
            let place = Place::Item(&self.place, list.len());
            let seed = Seed { place, depth: self.depth, report: self.report };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        self.deeper('{')?;
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let found_before = self.report.duplicates.len();
            let place = Place::Field(&self.place, &name);
            let value = fields.next_value_seed(Seed { place, depth: self.depth, report: self.report })?;
            match object.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    // Duplicates inside the value were found first, but stand after the name in the text.
                    self.report.duplicate(found_before, &Place::Field(&self.place, entry.key()));
                    entry.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn duplicates(text: &str) -> Vec<String> {
        parse_json(text.as_bytes()).unwrap().duplicates
    }

    #[test]
    fn a_value_is_what_serde_json_reads() {
        let texts = [
            r#"{"a": [1, -2, 3.5, 18446744073709551615, -9223372036854775808, true, null, "x\ny"], "b": {}}"#,
            " 7 ",
            "1.0",
            "1e3",
            "-0",
            r#""é\u00e9""#,
            "[]",
        ];
        for text in texts {
            let parsed = parse_json(text.as_bytes()).unwrap();
            assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap(), "{text}");
            assert_eq!(parsed.duplicates, [""; 0], "{text}");
        }
    }

    #[test]
    fn duplicate_fields_are_reported_in_document_order() {
        assert_eq!(
            duplicates(r#"{"spec":{"replicas":1,"replicas":2}}"#),
            [r#"duplicate field "spec.replicas""#]
        );
        assert_eq!(
            duplicates(r#"{"a":[{"b":1},{"b":1,"c":[[{"d":1,"d":2}]],"b":2}]}"#),
            [r#"duplicate field "a[1].c[0][0].d""#, r#"duplicate field "a[1].b""#]
        );
        assert_eq!(
            duplicates(r#"{"a":1,"a":{"x y":1,"x y":2},"a":3}"#),
            [r#"duplicate field "a""#, r#"duplicate field "a.x y""#]
        );
        assert_eq!(duplicates(r#"[{"a":1,"a":2}]"#), [r#"duplicate field "[0].a""#]);
    }

    #[test]
    fn the_last_duplicate_field_wins() {
        assert_eq!(parse_json(br#"{"a":{"b":1},"a":{"c":2}}"#).unwrap().value, json!({"a": {"c": 2}}));
    }

    #[test]
    fn at_most_a_hundred_duplicates_are_reported() {
        let fields: Vec<_> = (0..150).map(|n| format!("\"{n}\":0,\"{n}\":0")).collect();
        assert_eq!(duplicates(&format!("{{{}}}", fields.join(","))).len(), 100);
    }

    #[test]
    fn a_long_name_above_many_duplicates_takes_bounded_work() {
        let inner = vec!["\"b\":0"; 100_000].join(",");
        let text = format!("{{\"{}\":{{{inner}}}}}", "a".repeat(100_000));
        assert_eq!(duplicates(&text).len(), 1);
    }

    #[test]
    fn invalid_json_is_refused() {
        for text in
            ["", " ", "{", "[1,]", "{\"a\":1,}", "1 2", "{} x", "nul", "\"\u{1}\"", "1e999", "'a'", "{a:1}"]
        {
            assert!(matches!(parse_json(text.as_bytes()), Err(JsonError::Syntax { .. })), "{text}");
        }
    }

    #[test]
    fn invalid_unicode_is_replaced() {
        assert_eq!(parse_json(b"\"a\xff\"").unwrap().value, "a\u{fffd}");
    }

    #[test]
    fn json_that_is_nested_too_deep_is_refused() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_json(nested(MAX_JSON_DEPTH).as_bytes()).is_ok());
        for levels in [MAX_JSON_DEPTH + 1, MAX_JSON_DEPTH + 2, 100_000] {
            let error = parse_json(nested(levels).as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
        }
        assert!(matches!(
            parse_json("{\"a\":".repeat(1000).as_bytes()),
            Err(JsonError::TooDeep { opening: '{' })
        ));
    }
}
