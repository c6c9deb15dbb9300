//! One watch of a controller: its source, its declaration, and its progress in a run.

use std::sync::Arc;

use bowline_cache::CacheError;

use super::error::ControllerError;
use super::session::Session;
use crate::Client;
use crate::source::{RunningSource, SyncProgress};
use crate::trigger::TriggerSource;
use crate::watch::AnyWatch;

/// A watch of a controller, and its progress.
pub(super) struct WatchEntry {
    pub(super) watch: Arc<dyn AnyWatch>,
    pub(super) origin: Arc<TriggerSource>,
    pub(super) stand: WatchState,
    /// Whether it was added to a run in progress, which does not wait for its sync.
    pub(super) is_late: bool,
    /// Whether it declares its kind as cached: from its addition until the controller stops, and again from the next
    /// start.
    is_declared: bool,
}

/// Progress of a watch.
#[derive(Clone, Default)]
pub(super) enum WatchState {
    /// Not started.
    #[default]
    Idle,
    /// The controller may not reconcile yet: this keeps the informer until then.
    Warm(Option<Arc<dyn SyncProgress>>),
    /// It delivers requests.
    Begun(Arc<dyn RunningSource>),
}

impl WatchEntry {
    /// A watch that has not started.
    pub(super) fn new(watch: Arc<dyn AnyWatch>, origin: Arc<TriggerSource>) -> Self {
        Self { watch, origin, stand: WatchState::Idle, is_late: false, is_declared: false }
    }

    /// Joins a run in progress, whose watches have begun or not.
    pub(super) fn join(&mut self, session: &Session, has_begun: bool) -> Result<(), ControllerError> {
        self.is_late = true;
        if has_begun { self.begin(session).map(drop) } else { self.warm_up(session) }
    }

    pub(super) fn warm_up(&mut self, session: &Session) -> Result<(), ControllerError> {
        let warm = self.watch.warm(session).map_err(|error| self.refused(session, error))?;
        self.stand = WatchState::Warm(warm);
        Ok(())
    }

    /// Begins; returns the kept informer.
    pub(super) fn begin(&mut self, session: &Session) -> Result<WatchState, ControllerError> {
        let begun = self.watch.begin(&self.origin, session);
        let begun = begun.map_err(|error| self.refused(session, error))?;
        Ok(std::mem::replace(&mut self.stand, WatchState::Begun(begun)))
    }

    fn refused(&self, session: &Session, error: CacheError) -> ControllerError {
        ControllerError::Watch {
            controller: session.name().to_owned(),
            watch: self.watch.name().to_owned(),
            error: Box::new(error),
        }
    }

    pub(super) fn declare(&mut self, client: &Client) {
        if !self.is_declared {
            self.watch.declare(client);
            self.is_declared = true;
        }
    }

    pub(super) fn undeclare(&mut self, client: &Client) {
        if self.is_declared {
            self.watch.undeclare(client);
            self.is_declared = false;
        }
    }

    /// Resets it for the next run. Returns its old state, for a drop outside locks.
    pub(super) fn reset(&mut self) -> WatchState {
        self.is_late = false;
        std::mem::take(&mut self.stand)
    }
}

impl WatchState {
    pub(super) fn begun(&self) -> Option<Arc<dyn RunningSource>> {
        match self {
            Self::Begun(begun) => Some(begun.clone()),
            Self::Idle | Self::Warm(_) => None,
        }
    }
}
