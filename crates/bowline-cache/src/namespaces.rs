//! Sets of namespaces.

use std::collections::BTreeSet;
use std::fmt;

use bowline_machinery::ObjectKey;

/// The namespaces that a part of an informer covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Namespaces {
    /// All namespaces, and cluster-scoped objects.
    #[default]
    All,
    /// One namespace.
    One(String),
    /// All namespaces except these.
    AllBut(BTreeSet<String>),
}

impl Namespaces {
    /// Whether an object is covered. Cluster-scoped objects are covered only by [`All`](Self::All).
    #[must_use]
    pub fn contains(&self, key: &ObjectKey) -> bool {
        match key.namespace() {
            Some(namespace) => self.has(namespace),
            None => *self == Self::All,
        }
    }

    /// Whether a namespace is covered.
    #[must_use]
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == namespace,
            Self::AllBut(except) => !except.contains(namespace),
        }
    }

    /// Whether an object can be covered by both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(one), Self::One(other)) => one == other,
            (Self::One(one), Self::AllBut(except)) | (Self::AllBut(except), Self::One(one)) => {
                !except.contains(one)
            }
            (Self::All, _) | (_, Self::All) | (Self::AllBut(_), Self::AllBut(_)) => true,
        }
    }
}

impl fmt::Display for Namespaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all namespaces"),
            Self::One(namespace) => write!(f, "namespace {namespace}"),
            Self::AllBut(except) => {
                f.write_str("all namespaces but ")?;
                for (number, namespace) in except.iter().enumerate() {
                    write!(f, "{}{namespace}", if number > 0 { ", " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}
