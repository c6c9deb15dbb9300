//! A running control plane.

use std::io;
use std::path::{Path, PathBuf};

use bowline_clock::Clock;

use super::credentials::Credentials;
use super::detached::{DetachedControlPlane, Recorded};
use super::directory::Directory;
use super::file;
use super::flags::Ports;
use super::identity::Identity;
use super::processes::Processes;
use super::{Binaries, RealControlPlaneBuilder, SecretString, StartError};

/// A running etcd and kube-apiserver, and optionally kube-controller-manager.
///
/// They listen on loopback only, on free ports, with TLS; etcd also requires a client certificate. The API server authorizes
/// by RBAC. The [kubeconfig](Self::kubeconfig), the admin certificate and the admin token belong to a user in
/// `system:masters`. All keys are created for this plane and are in [its directory](Self::directory), readable by the
/// operating system's user only.
///
/// [`stop`](Self::stop) ends the processes in order. If this value is dropped instead, they are killed. If this process ends
/// without either, even by `SIGKILL`, a helper process kills them. Only [`detach`](Self::detach) lets them live longer. Other
/// processes are never touched.
pub struct RealControlPlane {
    pub(super) options: RealControlPlaneBuilder,
    pub(super) ports: Ports,
    pub(super) server: String,
    pub(super) credentials: Credentials,
    pub(super) authority: String,
    /// Declared before the directory, which must outlast them.
    pub(super) processes: Processes,
    pub(super) directory: Directory,
}

impl RealControlPlane {
    /// Options of a plane of these programs.
    pub fn builder(clock: Clock, binaries: Binaries) -> RealControlPlaneBuilder {
        RealControlPlaneBuilder::new(clock, binaries)
    }

    /// URL of the API server: `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The administrator's kubeconfig. It refers to no other file.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(file::KUBECONFIG)
    }

    /// Directory with keys, certificates, logs (`etcd.log`, `kube-apiserver.log`, …) and etcd's data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The audit log: a JSON object per line. It exists if there is an
    /// [audit policy](RealControlPlaneBuilder::audit_policy).
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join(file::AUDIT_LOG)
    }

    /// The CA certificate of the API server, as PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The administrator's client certificate, as PEM.
    #[must_use]
    pub fn admin_certificate(&self) -> &str {
        &self.credentials.admin.certificate
    }

    /// The private key of [`admin_certificate`](Self::admin_certificate), as PEM.
    #[must_use]
    pub fn admin_key(&self) -> &SecretString {
        &self.credentials.admin.key
    }

    /// A bearer token of the administrator.
    #[must_use]
    pub fn admin_token(&self) -> &SecretString {
        &self.credentials.admin_token
    }

    /// Process ids by program name, in the order of their start.
    pub fn processes(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|process| (process.name(), process.pid()))
    }

    /// Kills the API server, starts it again on the same port and data, and returns when it is ready. etcd goes on.
    ///
    /// # Errors
    /// [`StartError`] if it is not ready within the builder's `ready_timeout`.
    pub async fn restart_api_server(&mut self) -> Result<(), StartError> {
        let Self { options, processes, directory, credentials, ports, .. } = self;
        options.restart_api_server(processes, directory, credentials, *ports).await
    }

    /// Stops the processes: sends SIGTERM, and SIGKILL to one that does not end within the builder's `stop_timeout`. Returns
    /// when all have ended. A temporary directory is removed.
    ///
    /// # Errors
    /// [`StopError`] if the operating system refuses. The other processes are killed.
    pub async fn stop(self) -> Result<(), StopError> {
        let stopped = self.processes.stop(&self.options.clock, self.options.stop_limit).await;
        stopped.map_err(|(program, source)| StopError { program, source })
    }

    /// Lets the plane outlive this process, and writes a record into its directory by which
    /// [`DetachedControlPlane::load`] finds it. The directory stays, also a temporary one. Linux only.
    ///
    /// # Errors
    /// [`DetachError`] if the record cannot be written. The processes are killed then.
    pub fn detach(self) -> Result<DetachedControlPlane, DetachError> {
        let mut recorded = Vec::new();
        for process in self.processes.iter() {
            let identity = Identity::of(process.pid()).map_err(DetachError::Identity)?;
            let identity = identity.ok_or_else(|| DetachError::Ended {
                program: process.name(),
                log: process.log().to_owned(),
            })?;
            recorded.push(Recorded::new(process.name(), identity));
        }
        let plane = DetachedControlPlane::record(self.directory.path(), self.server.clone(), recorded)
            .map_err(|source| DetachError::Record { directory: self.directory.path().to_owned(), source })?;
        self.processes.detach();
        self.directory.keep();
        Ok(plane)
    }
}

impl std::fmt::Debug for RealControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealControlPlane")
            .field("server", &self.server)
            .field("directory", &self.directory.path())
            .finish_non_exhaustive()
    }
}

/// A process could not be stopped.
#[derive(Debug, thiserror::Error)]
#[error("cannot stop {program}: {source}")]
pub struct StopError {
    program: &'static str,
    source: io::Error,
}

/// Reason why a plane cannot outlive the process that started it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// The operating system does not identify the processes.
    #[error("cannot tell which processes to stop later: {0}; a plane can be detached on Linux only")]
    Identity(#[source] io::Error),
    /// A process has ended.
    #[error("{program} has ended by itself; its log was {}", log.display())]
    Ended {
        /// The program.
        program: &'static str,
        /// The log, removed with a temporary directory.
        log: PathBuf,
    },
    /// The record cannot be written.
    #[error("cannot write the record of the plane to {}: {source}", directory.display())]
    Record {
        /// The directory of the plane.
        directory: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
