//! Errors and texts for informers that have not synced.

use std::fmt;
use std::time::Duration;

use crate::namespaces::Namespaces;
use crate::reflector::ReflectorPhase;

/// A part of an informer that has not completed its first list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSynced {
    /// The kind of the informer.
    pub kind: String,
    /// Namespaces of the part.
    pub namespaces: Namespaces,
    /// Current phase of its reflector.
    pub phase: ReflectorPhase,
    /// Last error.
    pub error: Option<String>,
    /// Short form of the error, without the server's text, for readers who may not see that.
    pub brief: Option<&'static str>,
    /// Whether the server refused the request, so that waiting alone does not help: the kind is missing or forbidden.
    pub is_denied: bool,
    /// Whether the server does not have the kind; usually its CRD is not installed.
    pub is_missing: bool,
}

/// Hint for a missing kind.
const HINT: &str = "; is its CRD installed?";

impl NotSynced {
    /// Kind, namespaces and short error, without the server's text, for readers who may not see that.
    #[must_use]
    pub fn in_brief(&self) -> String {
        let Self { kind, namespaces, brief, .. } = self;
        brief.map_or_else(
            || format!("{kind} in {namespaces}"),
            |brief| format!("{kind} in {namespaces} ({brief}{})", self.hint()),
        )
    }

    fn hint(&self) -> &'static str {
        if self.is_missing { HINT } else { "" }
    }
}

impl fmt::Display for NotSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} ({}", self.kind, self.namespaces, self.phase)?;
        match &self.error {
            Some(error) => write!(f, ": {error}{})", self.hint()),
            None => f.write_str(")"),
        }
    }
}

/// Some informers did not sync within the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncError {
    limit: Duration,
    missing: Vec<NotSynced>,
}

impl SyncError {
    pub(crate) fn new(limit: Duration, missing: Vec<NotSynced>) -> Self {
        Self { limit, missing }
    }

    /// The parts that have not synced, and why.
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
