//! How a reflector is doing, for those who wait for it or look at it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Instant};

use crate::list_watch::ListWatchError;

/// How one reflector is doing.
#[derive(Debug)]
pub(crate) struct Health {
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Clone, Debug)]
struct State {
    phase: Phase,
    /// What failed last, unless a list succeeded since.
    error: Option<String>,
    /// The same in a word or two.
    brief: &'static str,
    /// The error says that the server will not answer such a request.
    is_denied: bool,
    heard: Option<Instant>,
    counts: Counts,
}

/// What a reflector is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It has not begun, or was stopped.
    #[default]
    Stopped,
    /// It reads all there is.
    Listing,
    /// It knows all there was and follows what happens.
    Watching,
    /// Something failed, and it tries again after a while.
    Waiting,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "stopped",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Waiting => "waiting to try again",
        })
    }
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lists: u64,
    pub(crate) watches: u64,
    pub(crate) failures: u64,
}

impl Health {
    pub(crate) fn new(clock: Clock) -> Self {
        let state = State {
            phase: Phase::Stopped,
            error: None,
            brief: "",
            is_denied: false,
            heard: None,
            counts: Counts::default(),
        };
        Self { clock, state: Mutex::new(state) }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        if phase == Phase::Watching {
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

    /// Whether this is another failure than the last one.
    pub(crate) fn failed(&self, error: &ListWatchError) -> bool {
        let is_denied = error.is_about_request() && !error.is_expired();
        let brief = error.brief();
        let error = Some(error.to_string());
        let mut state = self.lock();
        state.counts.failures += 1;
        state.brief = brief;
        state.is_denied = is_denied;
        let is_news = state.error != error;
        state.error = error;
        is_news
    }

    pub(crate) fn phase(&self) -> Phase {
        self.lock().phase
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    /// What failed last, unless a list succeeded since, in a word or two.
    pub(crate) fn brief(&self) -> Option<&'static str> {
        let state = self.lock();
        state.error.is_some().then_some(state.brief)
    }

    /// Whether the last failure is one that waiting alone does not mend.
    pub(crate) fn is_denied(&self) -> bool {
        let state = self.lock();
        state.error.is_some() && state.is_denied
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// For how long nothing was heard of the server.
    pub(crate) fn staleness(&self) -> Option<Duration> {
        self.lock().heard.map(|heard| self.clock.now().since(heard))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
