//! Ranges of keys for lists.

use std::ops::Bound;

/// The keys that have a prefix and are greater than a key.
pub(crate) struct KeyRange<'a> {
    prefix: &'a str,
    after: Option<&'a str>,
    /// The first key beyond the prefix; `None` if there is none.
    end: Option<String>,
}

impl<'a> KeyRange<'a> {
    pub(crate) fn new(prefix: &'a str, after: Option<&'a str>) -> Self {
        Self { prefix, after, end: successor(prefix) }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && self.after.is_none_or(|after| key > after)
    }

    /// Bounds for a `BTreeMap`, which panics on inverted bounds: `None` for an empty range.
    pub(crate) fn bounds(&self) -> Option<(Bound<&str>, Bound<&str>)> {
        let end = self.end.as_deref();
        let start = match self.after {
            Some(after) if after >= self.prefix => Bound::Excluded(after),
            _ => Bound::Included(self.prefix),
        };
        if let (Some(end), Bound::Excluded(after)) = (end, start)
            && after >= end
        {
            return None;
        }
        Some((start, end.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

/// The least string that is greater than all strings with the prefix.
fn successor(prefix: &str) -> Option<String> {
    let mut rest = prefix;
    // Strings are ordered by their bytes, which in UTF-8 is the order of their characters.
    while let Some(last) = rest.chars().next_back() {
        rest = &rest[..rest.len() - last.len_utf8()];
        // A range of characters skips U+D800 to U+DFFF.
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{rest}{next}"));
        }
    }
    None
}
