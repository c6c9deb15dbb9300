//! The context of async handlers.

use std::fmt;
use std::sync::Arc;

use bowline_clock::Clock;

use crate::controller::Core;
use crate::{Client, Cluster};

/// The context of an [async handler](super::AsyncHandler): the client, and the values of the controller. Cheap to
/// clone.
#[derive(Clone)]
pub struct HandlerContext {
    core: Arc<Core>,
}

impl HandlerContext {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The client of the controller, as [`Context::client`](crate::Context::client). Kinds that the controller watches are read
    /// from the cache.
    ///
    /// The informers of different kinds are independent: the cache of another kind may not have what belongs to this change
    /// yet. The handler of a watch of that kind makes the missing requests when it comes.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.core.client
    }

    /// The value of a type that was given to [`ControllerBuilder::state`](crate::ControllerBuilder::state).
    ///
    /// # Panics
    /// When the controller has no value of this type: the change is retried then, as after any panic of a handler.
    #[must_use]
    #[track_caller]
    pub fn state<S: Send + Sync + 'static>(&self) -> &S {
        self.core.state.expect(&self.core.name)
    }

    /// The clock and the random numbers of the controller.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.core.cluster.clock()
    }

    /// The cluster of the controller.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.core.cluster
    }

    /// The name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.core.name
    }
}

impl fmt::Debug for HandlerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerContext").field("controller", &self.controller()).finish_non_exhaustive()
    }
}
