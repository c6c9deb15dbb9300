//! The name of a cluster.

use std::fmt;
use std::sync::Arc;

/// The name of a [`Cluster`](crate::Cluster), which requests contain. Cheap to clone; one pointer in size.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<Text>);

/// The length is behind the pointer: requests are numerous, and most have no name.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Text(Box<str>);

impl ClusterName {
    /// A name.
    #[must_use]
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(Arc::new(Text(name.into())))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
