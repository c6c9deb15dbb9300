//! One version of the value of a key.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::Revision;

/// One version of the value of a key. It is immutable: a write creates another.
pub struct Record<M> {
    /// The key.
    pub key: Arc<str>,
    /// The commit that created this version.
    pub revision: Revision,
    /// The commit that created the key's first version since the key was last absent.
    pub created: Revision,
    /// The bytes.
    pub body: Bytes,
    /// The user's metadata, readable without decoding the bytes.
    pub meta: M,
}

/// The content of a new [`Record`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<M> {
    /// The bytes. They are not copied: a body that is a slice of a larger buffer keeps all of it alive, and spare
    /// capacity is not freed.
    pub body: Bytes,
    /// The user's metadata, readable without decoding the bytes.
    pub meta: M,
}

impl<M> NewRecord<M> {
    /// Bytes and their metadata.
    pub fn new(body: impl Into<Bytes>, meta: M) -> Self {
        Self { body: body.into(), meta }
    }

    pub(crate) fn into_record(self, key: Arc<str>, revision: Revision, created: Revision) -> Arc<Record<M>> {
        Arc::new(Record { key, revision, created, body: self.body, meta: self.meta })
    }
}

impl<M> Record<M> {
    /// Its share of a log's limit.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.body.len()
    }
}

/// Omits body and metadata: they may be large, and secret.
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
