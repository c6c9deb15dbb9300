//! Why a manager cannot be made, or how it ended.

use std::fmt;

use super::runnable::Stage;
use crate::controller::{BuildError, ControllerError};
use crate::leader_election::{ElectionError, Lost};
use crate::transport::TransportError;
use crate::{ClusterError, Error};

/// Why a manager cannot be made, takes something no more, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// There is no way to the API server.
    #[error("cannot make a client for the API server: {0}")]
    Transport(#[from] TransportError),
    /// Its own cluster cannot be made.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Its leader election makes no sense.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// A controller cannot be put together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A controller ended.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// It was started before.
    #[error("the manager was started before: make another one")]
    AlreadyStarted,
    /// It takes nothing any more.
    #[error("{what} cannot be added: the manager stops, or has stopped")]
    Stopping {
        /// What was to be added.
        what: String,
    },
    /// It stopped before it was ready.
    #[error("the manager stopped before it was ready")]
    Stopped,
    /// A controller of another cluster.
    #[error(
        "the controller {controller:?} belongs to a cluster that is not this manager's: build it with `manager.controller`, or \
         add its cluster first with `add_cluster`"
    )]
    ForeignCluster {
        /// The name of the controller.
        controller: String,
    },
    /// A controller in a stage where it does not belong.
    #[error(
        "the controller {controller:?} cannot run in the stage {stage:?}: say with `needs_leadership` when it is built whether it \
         runs on the leader only"
    )]
    WrongStage {
        /// The name of the controller.
        controller: String,
        /// The stage.
        stage: Stage,
    },
    /// There is another cluster of that name.
    #[error("the manager has a cluster {name:?} already")]
    ClusterTaken {
        /// The name.
        name: String,
    },
    /// Something failed, or did not end in time.
    #[error("{}", Ended { failures, left_behind })]
    Ended {
        /// What failed, in the order in which it did.
        failures: Vec<Failure>,
        /// What did not end in time, and was aborted: names of runnables. What blocks its thread may still run.
        left_behind: Vec<String>,
    },
}

/// A runnable that failed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its name.
    pub runnable: String,
    /// Why.
    pub error: Error,
}

impl ManagerError {
    /// Whether the lease was lost: another replica acts, or is about to.
    #[must_use]
    pub fn is_leadership_lost(&self) -> bool {
        match self {
            Self::Ended { failures, .. } => {
                failures.iter().any(|failure| failure.error.find::<Lost>().is_some())
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
