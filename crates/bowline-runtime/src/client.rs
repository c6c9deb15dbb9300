//! The client of an operator: reads come from the cache where the kind is declared, writes go to the API server.

use bowline_cache::InformerCache;

/// The client of an operator. A clone is the same client.
#[derive(Clone, Debug)]
pub struct Client {
    cache: InformerCache,
}

impl Client {
    pub(crate) fn new(cache: InformerCache) -> Self {
        Self { cache }
    }

    /// The cache that it reads from.
    #[must_use]
    pub fn cache(&self) -> &InformerCache {
        &self.cache
    }
}
