//! Errors of a manager.

use std::fmt;

use super::runnable::Stage;
use crate::controller::{BuildError, ControllerError};
use crate::leader_election::{ElectionError, LeadershipLost};
use crate::server::ServerError;
use crate::transport::TransportError;
use crate::{ClusterError, Error};

/// A manager cannot be built, cannot accept a runnable, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// No client for the API server can be built.
    #[error("cannot build a client for the API server: {0}")]
    Transport(#[from] TransportError),
    /// Its own cluster cannot be built.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The options of its leader election are invalid.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// A controller cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A controller failed.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A server cannot be started.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Its controllers would have no worker.
    #[error(
        "a manager with a concurrency of 0 would never reconcile: give `concurrency` at least 1, or leave it out for 1"
    )]
    ZeroConcurrency,
    /// It was started before.
    #[error("the manager was already started: build a new one")]
    AlreadyStarted,
    /// It accepts no more runnables.
    #[error("{what} cannot be added: the manager is stopping or has stopped")]
    Stopping {
        /// The rejected runnable or cluster.
        what: String,
    },
    /// It stopped before it was ready.
    #[error("the manager stopped before it was ready")]
    Stopped,
    /// The controller belongs to another cluster.
    #[error(
        "the controller {controller:?} does not belong to a cluster of this manager: build it with `manager.controller`, or \
         add its cluster first with `add_cluster`"
    )]
    ForeignCluster {
        /// The name of the controller.
        controller: String,
    },
    /// The controller has a stage that does not fit it.
    #[error(
        "the controller {controller:?} cannot run in the stage {stage:?}: set with `needs_leadership` whether it runs on the \
         leader only"
    )]
    WrongStage {
        /// The name of the controller.
        controller: String,
        /// The stage.
        stage: Stage,
    },
    /// The manager has another cluster with that name.
    #[error("the manager already has a cluster {name:?}: choose another name")]
    ClusterTaken {
        /// The name.
        name: String,
    },
    /// Definitions of one custom kind do not fit together.
    #[error("the CRD {name} is declared more than once, and {problem}")]
    CrdConflict {
        /// The name, `PLURAL.GROUP`.
        name: String,
        /// The difference, and what to do.
        problem: String,
    },
    /// Runnables failed, or did not end in time.
    #[error("{}", Ended { failures, left_behind })]
    Ended {
        /// The failures in order of their occurrence.
        failures: Vec<Failure>,
        /// Names of runnables that did not end in time, and were aborted. One that blocks its thread may still run.
        left_behind: Vec<String>,
    },
}

/// A runnable that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its name.
    pub runnable: String,
    /// The error.
    pub error: Error,
}

impl ManagerError {
    /// Whether the lease was lost: another replica leads, or soon will.
    #[must_use]
    pub fn is_leadership_lost(&self) -> bool {
        match self {
            Self::Ended { failures, .. } => {
                failures.iter().any(|failure| failure.error.find::<LeadershipLost>().is_some())
            }
            _ => false,
        }
    }
}

struct Ended<'a> {
    failures: &'a [Failure],
    left_behind: &'a [String],
}

impl fmt::Display for Ended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, failure) in self.failures.iter().enumerate() {
            write!(f, "{}{failure}", if number > 0 { "; " } else { "" })?;
        }
        if !self.left_behind.is_empty() {
            let between = if self.failures.is_empty() { "" } else { "; " };
            write!(f, "{between}did not end in time: {}", self.left_behind.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.runnable, self.error)
    }
}
