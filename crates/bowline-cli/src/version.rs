//! `bowline version`.

use crate::arguments::Output;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version in the form that was asked for, as one line.
pub(crate) fn text(output: Output) -> Vec<u8> {
    match output {
        Output::Text => format!("bowline {VERSION}\n"),
        // A version has no character that JSON would escape.
        Output::Json => format!("{{\"version\":\"{VERSION}\"}}\n"),
    }
    .into_bytes()
}
