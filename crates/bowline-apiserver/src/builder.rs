//! Options of a server.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bowline_clock::Clock;
use bowline_storage::Options;
use tokio::sync::Semaphore;

use crate::authentication::User;
use crate::hooks::Hook;
use crate::registry::Registry;
use crate::server::{ApiServer, Inner, Store};
use crate::{bootstrap, builtin};

/// Options of an [`ApiServer`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct ApiServerBuilder {
    clock: Option<Clock>,
    hook: Option<Arc<dyn Hook>>,
    #[cfg(feature = "faults")]
    faults: Option<crate::faults::Faults>,
    storage: Options,
}

/// Why a server cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The objects of a new cluster could not be created.
    #[error("cannot create the first namespaces and objects: {0}")]
    Bootstrap(#[source] Box<bowline_machinery::Status>),
    /// The fault kit has another server already.
    #[cfg(feature = "faults")]
    #[error("the fault kit already belongs to another server: make one kit for each server")]
    FaultsInUse,
}

impl ApiServerBuilder {
    /// Source of time and randomness. Default: the system.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The hook that sees every request. Default: none. A second call replaces the first one's.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// The fault kit of this server; it serves one server only. Default: none. Requests pass the [hook](Self::hook) first.
    #[cfg(feature = "faults")]
    pub fn faults(mut self, faults: &crate::faults::Faults) -> Self {
        self.faults = Some(faults.clone());
        self
    }

    /// Maximum bytes of history per resource. Default: 16 MiB. Watches that fall further behind are closed.
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.storage = self.storage.log_bytes(bytes);
        self
    }

    /// Maximum bytes of all stored objects. Default: 4 GiB; `usize::MAX` is no limit.
    ///
    /// A full server refuses creates, and updates that make objects longer, with 507 and a message. Reads and deletes
    /// still work.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.storage = self.storage.max_bytes(bytes);
        self
    }

    /// Builds a server with all built-in resources and the objects of every cluster.
    ///
    /// # Errors
    /// [`BuildError::FaultsInUse`] if the fault kit has a server already. Any other [`BuildError`] would be a bug.
    pub fn build(self) -> Result<ApiServer, BuildError> {
        let clock = self.clock.unwrap_or_else(Clock::real);
        let (hook, store) = (self.hook, Store::new(self.storage));
        #[cfg(feature = "faults")]
        if self.faults.as_ref().is_some_and(|faults| !faults.attach(&store, &clock)) {
            return Err(BuildError::FaultsInUse);
        }
        let inner = Inner {
            store,
            registry: Registry::default(),
            heavy: clock.scope("apiserver-writes"),
            heavy_permits: Arc::new(Semaphore::new(
                std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            )),
            clock,
            hook,
            #[cfg(feature = "faults")]
            faults: self.faults,
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
