//! Errors of the start and the end of an environment.

use std::time::Duration;

use bowline_apiserver::BuildError;
use bowline_cache::internal::redacted_text;
use bowline_clock::TaskError;
use bowline_runtime::transport::TransportError;
use bowline_runtime::{ControllerError, ManagerError};

use super::MissingPermissions;
use crate::{StartError, StopError};

/// Why there is no test environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// `BOWLINE_TEST_ARM` names no arm.
    #[error("BOWLINE_TEST_ARM is {name:?}; set it to embedded, real or existing")]
    Arm {
        /// Value of the variable.
        name: String,
    },
    /// `BOWLINE_TEST_SEED` is no number.
    #[error("BOWLINE_TEST_SEED is {text:?}; set it to a number from 0 to {}", u64::MAX)]
    Seed {
        /// Value of the variable.
        text: String,
    },
    /// The embedded server cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The arm `real` has neither a running control plane nor programs to start one from.
    #[error(
        "the arm real has no control plane: set KUBEBUILDER_ASSETS to the directory of etcd and kube-apiserver, or \
         BOWLINE_REAL_KUBECONFIG to the kubeconfig of a running server"
    )]
    NoPrograms,
    /// The arm `existing` has no context.
    #[error(
        "the arm existing needs BOWLINE_TEST_CONTEXT, the name of a context in the kubeconfig: tests create namespaces and \
         CRDs in that cluster"
    )]
    NoContext,
    /// The real control plane did not start.
    #[error("cannot start a real control plane: {0}")]
    Start(#[from] StartError),
    /// The server's configuration cannot be used.
    #[error("cannot reach a server: {0}")]
    Transport(#[from] TransportError),
    /// The test's namespace cannot be created.
    #[error("cannot create the namespace {name} for a test: {}", said(source))]
    Namespace {
        /// Name of the namespace.
        name: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// The operator's user cannot be created.
    #[error("cannot create the user {user} for the operator: {}", said(source))]
    Identity {
        /// Name of the user.
        user: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// The operator's user has no rights yet.
    #[error("the user {user} is not allowed to do everything {limit:?} after it was bound to cluster-admin")]
    Binding {
        /// Name of the user.
        user: String,
        /// Time waited.
        limit: Duration,
    },
    /// The manager cannot be built.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// Only the embedded server has hooks.
    #[error("a hook needs the embedded arm, and the arm is {arm}")]
    Hook {
        /// Name of the arm.
        arm: &'static str,
    },
    /// There is no fault kit on this arm.
    #[error(
        "faults are not available on the arm {arm}: only the embedded server has a fault kit; run this test on the arm embedded"
    )]
    Faults {
        /// The arm.
        arm: &'static str,
    },
    /// Only the embedded server runs on simulated time.
    #[error("simulated time needs the embedded arm, and the arm is {arm}")]
    Simulated {
        /// Name of the arm.
        arm: &'static str,
    },
}

/// Why an operator or an environment did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// A controller had ended with an error.
    #[error(transparent)]
    Controller(ControllerError),
    /// The manager ended with an error.
    #[error(transparent)]
    Manager(ManagerError),
    /// The task of the manager panicked, for example in a function of its options.
    #[error(transparent)]
    Panicked(TaskError),
    /// Tasks did not end in time. They are aborted; blocking ones go on.
    #[error("these tasks did not end in time and were aborted: {}", tasks.join(", "))]
    Tasks {
        /// Their names.
        tasks: Vec<String>,
    },
    /// The operator sent requests that its permissions do not allow.
    #[error("the operator sent requests without a permission, which a cluster would refuse:\n{0}")]
    Permissions(MissingPermissions),
    /// The test's namespace is still there.
    #[error("cannot delete the namespace {name} of a test: {}", said(source))]
    Namespace {
        /// Name of the namespace.
        name: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },
    /// The real control plane did not stop.
    #[error(transparent)]
    Stop(#[from] StopError),
}

/// The text of a server's answer, without the status around it.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => redacted_text(error),
    }
}
