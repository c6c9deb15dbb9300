//! Errors of decoding JSON into a Go type, in Go's words.

use std::fmt;

use super::place::Place;
use crate::QuantityError;
use crate::quote::quoted;

/// An object cannot be decoded into the Go type of its kind.
///
/// Prints the message of Go's decoder. kube-apiserver puts `Deployment in version "v1" cannot be handled as a
/// Deployment: ` before it and responds with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The JSON has another type than the field, or a number does not fit.
    Type {
        /// The value found, `string` or `number 3000000000`.
        found: String,
        /// The struct and the path of its field; `None` for the object itself.
        field: Option<(&'static str, String)>,
        /// Go's name for the expected type.
        expected: String,
    },
    /// Binary data is not base64.
    Base64 {
        /// The position of the first wrong byte.
        at: usize,
    },
    /// A text is not a time.
    Time(String),
    /// A quantity is malformed.
    Quantity(QuantityError),
    /// The value is neither a JSON schema nor a boolean.
    SchemaOrBool,
}

impl DecodeError {
    pub(super) fn of_type(found: impl Into<String>, place: &Place<'_>, expected: &str) -> Self {
        Self::Type { found: found.into(), field: place.go_field(), expected: without_directories(expected) }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type { found, field, expected } => {
                write!(f, "json: cannot unmarshal {found} into Go ")?;
                match field {
                    Some((structure, field)) => {
                        write!(f, "struct field {structure}.{field} of type {expected}")
                    }
                    None => write!(f, "value of type {expected}"),
                }
            }
            Self::Base64 { at } => write!(f, "illegal base64 data at input byte {at}"),
            Self::Time(text) => f.write_str(text),
            Self::Quantity(error) => error.fmt(f),
            Self::SchemaOrBool => f.write_str("boolean or JSON schema expected"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// The parts of Go's message for an invalid time.
pub(super) fn time_error(text: &str, detail: &str) -> DecodeError {
    DecodeError::Time(format!("parsing time {}{detail}", quoted(text)))
}

/// `[]v1.Container` of `[]core/v1.Container`: Go's messages contain package names without their path.
fn without_directories(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut word = 0;
    for character in name.chars() {
        match character {
            '/' => short.truncate(word),
            '[' | ']' => {
                short.push(character);
                word = short.len();
            }
            other => short.push(other),
        }
    }
    short
}
