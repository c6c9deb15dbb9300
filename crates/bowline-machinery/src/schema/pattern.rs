//! Regular expressions in the syntax of Go, run by the `regex` crate.

mod class;
mod syntax;

use regex::bytes::{Regex, RegexBuilder};

/// How much memory one compiled pattern may take. Go has no such limit, but a limit of 1000 to a repetition.
const SIZE_LIMIT: usize = 16 << 20;

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
        let compiled = compile(&source);
        Some(Self { source, compiled })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Why it does not compile, in Go's words.
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

fn compile(source: &str) -> Result<Regex, String> {
    let told = |what: &str, part: &str| format!("error parsing regexp: {what}: `{part}`");
    let translated = syntax::translate(source).map_err(|error| told(error.what, error.part))?;
    RegexBuilder::new(&translated).size_limit(SIZE_LIMIT).nest_limit(1000).build().map_err(
        |error| match error {
            regex::Error::CompiledTooBig(_) => told("expression too large", source),
            _ => told("expression nests too deeply", source),
        },
    )
}
