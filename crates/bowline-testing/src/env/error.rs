//! Why there is no test environment, and why it did not end well.

use bowline_apiserver::BuildError;
use bowline_runtime::transport::TransportError;
use bowline_runtime::{ControllerError, ManagerError};

use crate::{StartError, StopError};

/// Why there is no test environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The environment asks for an arm that there is not.
    #[error("BOWLINE_TEST_ARM is {name:?}: say embedded, real or existing")]
    Arm {
        /// What it says.
        name: String,
    },
    /// The embedded server could not be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Nobody said where a real control plane is, nor of what to start one.
    #[error(
        "no real control plane is known: set KUBEBUILDER_ASSETS to the directory of etcd and kube-apiserver, or \
         BOWLINE_REAL_KUBECONFIG to the kubeconfig of a server that runs"
    )]
    NoPrograms,
    /// The real control plane did not start.
    #[error("cannot start a real control plane: {0}")]
    Start(#[from] StartError),
    /// There is no way to the server.
    #[error("cannot reach a server: {0}")]
    Transport(#[from] TransportError),
    /// There is no namespace for the test.
    #[error("cannot create the namespace {name} for a test: {}", said(source))]
    Namespace {
        /// Its name, or the beginning of it.
        name: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The manager could not be made.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// Faults are asked of a server that has no place for them.
    #[error("a hook needs the embedded arm, and the arm is {arm}")]
    Hook {
        /// The arm.
        arm: &'static str,
    },
    /// Simulated time is asked of a server that lives in real time.
    #[error("simulated time needs the embedded arm, and the arm is {arm}")]
    Simulated {
        /// The arm.
        arm: &'static str,
    },
}

/// Why something is left of a test environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// A controller had ended by itself.
    #[error(transparent)]
    Controller(ControllerError),
    /// The manager did not end well.
    #[error(transparent)]
    Manager(ManagerError),
    /// Tasks went on although they were asked to end. They are aborted.
    #[error("these tasks did not end when they were asked to: {}", tasks.join(", "))]
    Tasks {
        /// Their names.
        tasks: Vec<String>,
    },
    /// The namespace is still there.
    #[error("cannot delete the namespace {name}: {}", said(source))]
    Namespace {
        /// Its name.
        name: String,
        /// What the server said.
        source: Box<kube::Error>,
    },
    /// The real control plane did not stop.
    #[error(transparent)]
    Stop(#[from] StopError),
}

/// What a server said, without all that is around it.
pub(super) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => error.to_string(),
    }
}
