//! What can be wrong with a controller, in words that say what to do about it.

use std::fmt;
use std::time::Duration;

use bowline_cache::{CacheError, Phase};

use crate::source::Obstacle;

/// Why a controller cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is another of that name.
    #[error(
        "there is already a controller {name:?} on this cluster, or on one that shares its metrics: metrics and logs would \
         not tell them apart, so give one of them another name with `named`"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// It has no name, and no kind to be named after.
    #[error("a controller without `for_` needs a name: give it one with `named`")]
    NoName,
    /// It would never do anything.
    #[error("the controller {name:?} watches nothing: use `for_`, `owns` or `watches`")]
    NothingToWatch {
        /// The name.
        name: String,
    },
}

/// Why a controller does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// It runs already.
    #[error("the controller {controller:?} runs already: stop it before it is started again")]
    AlreadyRunning {
        /// Its name.
        controller: String,
    },
    /// A manager starts and stops it.
    #[error(
        "the controller {controller:?} belongs to a manager, which starts it: neither start it by hand nor add it once more"
    )]
    Managed {
        /// Its name.
        controller: String,
    },
    /// It was never started, or was stopped.
    #[error("the controller {controller:?} does not run, so that it does not get ready: start it first")]
    NotRunning {
        /// Its name.
        controller: String,
    },
    /// What it watches was not there in time.
    #[error(
        "the controller {controller:?} could not begin within {limit:?}, because it waits for {}",
        list(.missing)
    )]
    NotSynced {
        /// Its name.
        controller: String,
        /// How long it waited.
        limit: Duration,
        /// What it waited for, and why that does not come.
        missing: Vec<WaitingFor>,
    },
    /// One of its watches makes no sense to the cache.
    #[error("the controller {controller:?} cannot watch {watch}: {error}")]
    Watch {
        /// Its name.
        controller: String,
        /// What was to be watched.
        watch: String,
        /// What is wrong with it.
        error: Box<CacheError>,
    },
    /// A reconcile panicked, and the controller was told not to go on then.
    #[error("the controller {controller:?} ended because reconciling {request} panicked: {message}")]
    Panicked {
        /// Its name.
        controller: String,
        /// What was reconciled.
        request: String,
        /// What the panic said.
        message: String,
    },
    /// A part of it panicked that should not: a mistake in Bowline.
    #[error("the controller {controller:?} ended because a part of it panicked: {message}")]
    Broken {
        /// Its name.
        controller: String,
        /// What the panic said.
        message: String,
    },
    /// The tasks of its cluster were aborted.
    #[error("the controller {controller:?} was aborted together with the tasks of its cluster")]
    Aborted {
        /// Its name.
        controller: String,
    },
}

/// One thing that a controller waits for before it begins to reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingFor {
    source: String,
    obstacle: Obstacle,
}

impl WaitingFor {
    pub(super) fn new(source: &str, obstacle: Obstacle) -> Self {
        Self { source: source.to_owned(), obstacle }
    }

    /// Who is to show what there is: the kind that is watched.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it does not come by waiting alone: there is no such kind, or it may not be read.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(&self.obstacle, Obstacle::Informer(missing) if missing.is_denied)
    }

    /// What is waited for, and why it does not come in a word or two: for whoever is not to know what a server says.
    pub(crate) fn brief(&self) -> String {
        match &self.obstacle {
            Obstacle::Informer(missing) => missing.in_brief(),
            Obstacle::Begin | Obstacle::Handler { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.obstacle {
            Obstacle::Informer(missing) if missing.phase == Phase::Stopped && missing.error.is_none() => {
                write!(f, "{} in {} (stopped: call `Cluster::start`)", missing.kind, missing.namespaces)
            }
            Obstacle::Informer(missing) => missing.fmt(f),
            Obstacle::Begin => write!(f, "{} (about to be watched)", self.source),
            Obstacle::Handler { kind, waiting } => {
                write!(f, "{kind} (listed; {waiting} objects wait for the handler)")
            }
        }
    }
}

fn list(missing: &[WaitingFor]) -> String {
    let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
    missing.join("; ")
}
