//! The programs of a control plane. Owns their names.

use std::path::{Path, PathBuf};

/// Paths of the programs of a [`RealControlPlane`](crate::RealControlPlane).
///
/// They are not checked here: a missing program is reported when it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    etcd: PathBuf,
    kube_apiserver: PathBuf,
    kube_controller_manager: PathBuf,
}

impl Binaries {
    /// The name of etcd's program.
    pub const ETCD: &str = "etcd";
    /// The name of the API server's program.
    pub const KUBE_APISERVER: &str = "kube-apiserver";
    /// The name of the controller manager's program.
    pub const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";

    /// The programs by their usual names in one directory, as in envtest's `KUBEBUILDER_ASSETS`.
    ///
    /// The controller manager may be missing if it is not started.
    #[must_use]
    pub fn in_directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self {
            etcd: directory.join(Self::ETCD),
            kube_apiserver: directory.join(Self::KUBE_APISERVER),
            kube_controller_manager: directory.join(Self::KUBE_CONTROLLER_MANAGER),
        }
    }

    /// The program of etcd.
    #[must_use]
    pub fn etcd(&self) -> &Path {
        &self.etcd
    }

    /// The program of the API server.
    #[must_use]
    pub fn kube_apiserver(&self) -> &Path {
        &self.kube_apiserver
    }

    /// The program of the controller manager.
    #[must_use]
    pub fn kube_controller_manager(&self) -> &Path {
        &self.kube_controller_manager
    }
}
