//! One version of what is stored under a key.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::Revision;

/// One version of what is stored under a key. It never changes: a write makes another.
pub struct Record<M> {
    /// The key that it is stored under.
    pub key: Arc<str>,
    /// The commit that made this version.
    pub revision: Revision,
    /// The commit that made the first version since the key was last absent.
    pub created: Revision,
    /// The bytes.
    pub body: Bytes,
    /// What the user of the store wants at hand without reading the bytes.
    pub meta: M,
}

/// What a write puts into a [`Record`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents<M> {
    /// The bytes. They are kept as they are: a body that is a slice of something larger keeps all of it alive, and
    /// spare capacity is not given back.
    pub body: Bytes,
    /// What the user of the store wants at hand without reading the bytes.
    pub meta: M,
}

impl<M> Contents<M> {
    /// Bytes, and what is kept beside them.
    pub fn new(body: impl Into<Bytes>, meta: M) -> Self {
        Self { body: body.into(), meta }
    }

    pub(crate) fn into_record(self, key: Arc<str>, revision: Revision, created: Revision) -> Arc<Record<M>> {
        Arc::new(Record { key, revision, created, body: self.body, meta: self.meta })
    }
}

impl<M> Record<M> {
    /// What it counts for in a log's limit.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.body.len()
    }
}

/// Without the body and what is beside it: they may be large, and secret.
impl<M> fmt::Debug for Record<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Record")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("created", &self.created)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
