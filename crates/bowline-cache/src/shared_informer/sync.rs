//! What stands in the way of being in sync, in words.

use std::fmt;
use std::time::Duration;

use crate::namespaces::Namespaces;
use crate::reflector::Phase;

/// A part of an informer that has not been listed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSynced {
    /// What it is an informer of.
    pub kind: String,
    /// Where.
    pub namespaces: Namespaces,
    /// What it is at.
    pub phase: Phase,
    /// What failed last.
    pub error: Option<String>,
    /// The same in a word or two, for whoever is not to know what the server says.
    pub brief: Option<&'static str>,
    /// The server said no, in a way that waiting alone does not mend: there is no such kind, or it may not be read.
    pub is_denied: bool,
}

impl NotSynced {
    /// What is missing, and why in a word or two: for whoever is not to know what the server says.
    #[must_use]
    pub fn in_brief(&self) -> String {
        let Self { kind, namespaces, brief, .. } = self;
        brief.map_or_else(
            || format!("{kind} in {namespaces}"),
            |brief| format!("{kind} in {namespaces} ({brief})"),
        )
    }
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} ({}", self.kind, self.namespaces, self.phase)?;
        match &self.error {
            Some(error) => write!(f, ": {error})"),
            None => f.write_str(")"),
        }
    }
}

/// Not everything was in sync in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncError {
    limit: Duration,
    missing: Vec<NotSynced>,
}

impl SyncError {
    pub(crate) fn new(limit: Duration, missing: Vec<NotSynced>) -> Self {
        Self { limit, missing }
    }

    /// What is missing, and why.
    #[must_use]
    pub fn missing(&self) -> &[NotSynced] {
        &self.missing
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not in sync after {:?}: ", self.limit)?;
        for (number, missing) in self.missing.iter().enumerate() {
            write!(f, "{}{missing}", if number > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for SyncError {}
