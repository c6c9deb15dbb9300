//! What is counted, under controller-runtime's names.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::Registry;

/// The metrics of one process or of one test: a registry that is a value. A clone is the same registry.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// Calls a function with the registry, to add metrics of one's own.
    pub fn with_registry<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        change(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
