//! Health of a reflector: phase, last error, counters.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};

use crate::list_watch::ListWatchError;

/// Health of one reflector.
#[derive(Debug)]
pub(crate) struct Health {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    phase: ReflectorPhase,
    /// Last error; `None` after a successful list or watch.
    error: Option<String>,
    /// Short form of the error.
    brief: &'static str,
    /// Whether the server refuses the request itself.
    is_denied: bool,
    /// Whether the kind does not exist.
    is_missing: bool,
    heard: Option<Instant>,
    counts: Counts,
}

/// The phase of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorPhase {
    /// Not started, or stopped.
    #[default]
    Stopped,
    /// Listing all objects.
    Listing,
    /// Following a watch, after a complete list.
    Watching,
    /// Waiting for a retry after a failure.
    Waiting,
}

impl fmt::Display for ReflectorPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Waiting => "waiting for retry",
        })
    }
}

/// Counters of events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) failures: u64,
}

impl Health {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State {
            phase: ReflectorPhase::Stopped,
            error: None,
            brief: "",
            is_denied: false,
            is_missing: false,
            heard: None,
            counts: Counts::default(),
        };
        Self { clock, state: Mutex::new(state) }
    }

    pub(crate) fn enter(&self, phase: ReflectorPhase) {
        let mut state = self.lock();
        state.phase = phase;
        if phase == ReflectorPhase::Watching {
            state.counts.watches += 1;
            state.error = None;
            state.heard = Some(self.clock.now());
        }
    }

    pub(crate) fn listed(&self) {
        let mut state = self.lock();
        state.counts.lists += 1;
        state.error = None;
        state.heard = Some(self.clock.now());
    }

    pub(crate) fn heard(&self) {
        self.lock().heard = Some(self.clock.now());
    }

    /// Records a failure. Returns whether it differs from the last one.
    pub(crate) fn failed(&self, error: &ListWatchError) -> bool {
        let is_denied = error.is_about_request() && !error.is_expired();
        let is_missing = error.code() == Some(404);
        let brief = error.brief();
        let error = Some(error.to_string());
        let mut state = self.lock();
        state.counts.failures += 1;
        state.brief = brief;
        state.is_denied = is_denied;
        state.is_missing = is_missing;
        let is_news = state.error != error;
        state.error = error;
        is_news
    }

    pub(crate) fn phase(&self) -> ReflectorPhase {
        self.lock().phase
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// Short form of the last error; `None` after a success.
    pub(crate) fn brief(&self) -> Option<&'static str> {
        let state = self.lock();
        state.error.is_some().then_some(state.brief)
    }

    /// Whether the server refuses the request, so that waiting alone does not help.
    pub(crate) fn is_denied(&self) -> bool {
        let state = self.lock();
        state.error.is_some() && state.is_denied
    }

    /// Whether the last error says that the kind does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        let state = self.lock();
        state.error.is_some() && state.is_missing
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Time since the last data from the server.
    pub(crate) fn staleness(&self) -> Option<Duration> {
        self.lock().heard.map(|heard| self.clock.now().duration_since(heard))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
