//! Regular expressions in the syntax of Go, run by the `regex` crate.

mod class;
mod syntax;

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};

/// Maximum memory of one compiled pattern. Go limits repetitions to 1000 instead.
const SIZE_LIMIT: usize = 16 << 20;

/// Maximum memory of all compiled patterns of a schema, in MiB.
const TOTAL_LIMIT: usize = 32;

/// Maximum memory of the lazy automaton of one match. Beyond it the match continues, but slower.
const MATCH_LIMIT: usize = 1 << 20;

/// Maximum number of different patterns in a schema.
const MAX_PATTERNS: usize = 4096;

/// The first size limit to try. A compiled pattern does not report its size; it is found by doubling.
const FIRST_SIZE: usize = 4 << 10;

/// A regular expression, possibly one that does not compile. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    source: Arc<str>,
    compiled: Result<Regex, Arc<str>>,
}

impl Pattern {
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The compile error, in Go's words.
    pub(super) fn error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(|error| &**error)
    }

    /// Whether it matches somewhere in `text`. A pattern that does not compile matches nothing.
    pub(super) fn matches(&self, text: &str, matcher: &mut Matcher) -> bool {
        self.compiled.as_ref().is_ok_and(|regex| matcher.matches(&self.source, regex, text))
    }
}

/// The scratch memory of the last matched pattern.
///
/// A regex keeps megabytes of scratch memory per thread. A clone has its own scratch memory, which is freed with it, so
/// that a schema keeps only its compiled patterns. Creating it anew for each text of a list would cost more than the
/// matches.
#[derive(Debug, Default)]
pub(super) struct Matcher(Option<(Arc<str>, Regex)>);

impl Matcher {
    fn matches(&mut self, source: &Arc<str>, regex: &Regex, text: &str) -> bool {
        let last = self.0.take().filter(|(last, _)| last == source);
        let (_, regex) = self.0.insert(last.unwrap_or_else(|| (source.clone(), regex.clone())));
        regex.is_match(text.as_bytes())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The patterns of a schema, or of all schemas of a definition. Equal ones are compiled once. A pattern that exceeds
/// the common memory limit counts as one that does not compile, so that its schema is refused.
#[derive(Debug)]
pub(super) struct Patterns {
    known: BTreeMap<Arc<str>, Pattern>,
    /// The remaining memory, in bytes.
    left: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self { known: BTreeMap::new(), left: TOTAL_LIMIT << 20 }
    }
}

impl Patterns {
    /// `None` for the empty pattern, which matches everything.
    pub(super) fn pattern(&mut self, source: &str) -> Option<Pattern> {
        if source.is_empty() {
            return None;
        }
        if let Some(known) = self.known.get(source) {
            return Some(known.clone());
        }
        let compiled = if self.known.len() < MAX_PATTERNS { self.compile(source) } else { Err(too_many()) };
        let pattern = Pattern { source: source.into(), compiled: compiled.map_err(Into::into) };
        self.known.insert(pattern.source.clone(), pattern.clone());
        Some(pattern)
    }

    /// A failed attempt also consumes the limit, since it took work.
    fn compile(&mut self, source: &str) -> Result<Regex, String> {
        let message = |what: &str, part: &str| format!("error parsing regexp: {what}: `{part}`");
        let translated = syntax::translate(source).map_err(|error| message(error.what, error.part))?;
        let mut size = FIRST_SIZE;
        while self.left > 0 {
            let limit = size.min(self.left);
            let built = RegexBuilder::new(&translated)
                .size_limit(limit)
                .dfa_size_limit(MATCH_LIMIT)
                .nest_limit(1000)
                .build();
            match built {
                Ok(regex) => {
                    self.left -= limit;
                    return Ok(regex);
                }
                Err(regex::Error::CompiledTooBig(_)) if limit == SIZE_LIMIT => {
                    self.left -= limit;
                    return Err(message("expression too large", source));
                }
                Err(regex::Error::CompiledTooBig(_)) if limit == self.left => self.left = 0,
                Err(regex::Error::CompiledTooBig(_)) => size *= 2,
                Err(_) => return Err(message("expression nests too deeply", source)),
            }
        }
        Err(too_many())
    }
}

fn too_many() -> String {
    format!(
        "the patterns of a schema must not take more than {TOTAL_LIMIT} MiB together, or be more than {MAX_PATTERNS}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_patterns_are_compiled_once() {
        let mut patterns = Patterns::default();
        let first = patterns.pattern("^(a|b){1,900}$").unwrap();
        let left = patterns.left;
        assert!(left < TOTAL_LIMIT << 20);
        for _ in 0..10_000 {
            assert!(patterns.pattern("^(a|b){1,900}$").unwrap().matches("ab", &mut Matcher::default()));
        }
        assert_eq!(patterns.left, left);
        assert!(first.matches("ba", &mut Matcher::default()));
    }

    #[test]
    fn the_memory_for_patterns_of_a_schema_is_limited() {
        let mut patterns = Patterns::default();
        let large = |index: usize| format!(r"{index}\pL{{20}}\pL{{20}}\pL{{20}}\pL{{20}}");
        let refused =
            (0..1000).find(|index| patterns.pattern(&large(*index)).unwrap().error().is_some()).unwrap();
        assert!((2..100).contains(&refused), "{refused}");
        assert_eq!(patterns.left, 0);
        assert_eq!(
            patterns.pattern("a").unwrap().error(),
            Some("the patterns of a schema must not take more than 32 MiB together, or be more than 4096")
        );
        assert!(
            patterns
                .pattern(&large(0))
                .unwrap()
                .matches(&format!("0{}", "é".repeat(80)), &mut Matcher::default())
        );
    }

    #[test]
    fn a_thousand_ordinary_patterns_compile() {
        let mut patterns = Patterns::default();
        for index in 0..1000 {
            let source = format!("^[a-z0-9]([-a-z0-9]{{0,61}}[a-z0-9])?(\\.[a-z]+)*{index}$");
            assert_eq!(patterns.pattern(&source).unwrap().error(), None, "{index}");
        }
    }

    #[test]
    fn too_many_patterns_are_refused() {
        let mut patterns = Patterns::default();
        for index in 0..MAX_PATTERNS {
            assert_eq!(patterns.pattern(&index.to_string()).unwrap().error(), None);
        }
        assert!(patterns.pattern("x").unwrap().error().is_some());
    }
}
