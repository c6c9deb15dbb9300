//! Regular expressions in the syntax of Go.

use regex::bytes::Regex;

/// A regular expression; it may be one that does not compile.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    source: String,
    compiled: Result<Regex, String>,
}

impl Pattern {
    /// `None` for the empty pattern, which matches everything.
    pub(super) fn new(source: String) -> Option<Self> {
        if source.is_empty() {
            return None;
        }
        let compiled = Regex::new(&source).map_err(|error| error.to_string());
        Some(Self { source, compiled })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Why it does not compile.
    pub(super) fn error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }

    /// Whether it matches somewhere in `text`. One that does not compile matches nothing.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.compiled.as_ref().is_ok_and(|regex| regex.is_match(text.as_bytes()))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}
