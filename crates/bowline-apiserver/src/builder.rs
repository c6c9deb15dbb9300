//! Options of a server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bowline_clock::Clock;
use bowline_storage::Options;

use crate::authentication::User;
use crate::hooks::Hook;
use crate::registry::Registry;
use crate::server::{ApiServer, Inner, Store};
use crate::{bootstrap, builtin};

/// Options of an [`ApiServer`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    clock: Option<Clock>,
    hook: Option<Arc<dyn Hook>>,
    storage: Options,
}

/// Why a server cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// What every cluster has could not be made.
    #[error("the namespaces and objects that every cluster has could not be made: {0}")]
    Bootstrap(#[source] Box<bowline_machinery::Status>),
}

impl Builder {
    /// Where time and randomness come from: the system, by default.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Who looks at every request: nobody, by default.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// How many bytes of history are kept for each resource: 16 MiB, by default. Watchers that are further behind are
    /// closed.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.storage = self.storage.log_bytes(bytes);
        self
    }

    /// A server with all built-in resources and what every cluster has.
    ///
    /// # Errors
    /// [`BuildError`], which would be a bug.
    pub fn build(self) -> Result<ApiServer, BuildError> {
        let Self { clock, hook, storage } = self;
        let inner = Inner {
            store: Store::new(storage),
            registry: Registry::default(),
            clock: clock.unwrap_or_else(Clock::real),
            hook,
            ready: AtomicBool::new(false),
            custom: Mutex::new(()),
            admin: User::admin(),
        };
        inner.registry.update(|resources| builtin::register(&inner.store, resources));
        bootstrap::bootstrap(&inner).map_err(|status| BuildError::Bootstrap(Box::new(status)))?;
        inner.ready.store(true, Ordering::Release);
        Ok(ApiServer { inner: Arc::new(inner) })
    }
}
