//! A control plane that runs, as its user sees it.

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
use super::{Binaries, RealControlPlaneBuilder, Secret, StartError};

/// A running etcd and kube-apiserver, and kube-controller-manager if it was asked for, of one's own.
///
/// They listen on loopback only, on ports that were free, with TLS; etcd wants a client certificate as well. The API
/// server authorizes by RBAC. Whoever holds the [kubeconfig](Self::kubeconfig), the admin certificate or the admin
/// token is in `system:masters`. All keys are made for this plane alone and lie in [its directory](Self::directory),
/// readable by the user only.
///
/// [`stop`](Self::stop) ends the processes in order. Dropped instead, they are killed, and so they are, by a process
/// that watches for it, when this process ends without either, even by `SIGKILL`. Only
/// [`detach`](Self::detach) lets them live longer. In no case is another process touched.
pub struct RealControlPlane {
    pub(super) options: RealControlPlaneBuilder,
    pub(super) ports: Ports,
    pub(super) server: String,
    pub(super) credentials: Credentials,
    pub(super) authority: String,
    /// Before the directory, which must outlast them.
    pub(super) processes: Processes,
    pub(super) directory: Directory,
}

impl RealControlPlane {
    /// Options for a plane made of these programs.
    pub fn builder(clock: Clock, binaries: Binaries) -> RealControlPlaneBuilder {
        RealControlPlaneBuilder::new(clock, binaries)
    }

    /// Where the API server is: `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The administrator's kubeconfig. It holds all it needs, so it can be copied.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join(file::KUBECONFIG)
    }

    /// Keys, certificates, logs (`etcd.log`, `kube-apiserver.log`, …) and etcd's data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What the API server was asked, a JSON object in each line, if there is an
    /// [audit policy](RealControlPlaneBuilder::audit_policy).
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.directory.join(file::AUDIT_LOG)
    }

    /// The certificate of the authority that the API server's is signed by, as PEM.
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
    pub fn admin_key(&self) -> &Secret {
        &self.credentials.admin.key
    }

    /// A bearer token of the administrator.
    #[must_use]
    pub fn admin_token(&self) -> &Secret {
        &self.credentials.admin_token
    }

    /// The process ids, by the names of the programs, in the order of their start.
    pub fn processes(&self) -> impl Iterator<Item = (&'static str, u32)> {
        self.processes.iter().map(|process| (process.name(), process.pid()))
    }

    /// Kills the API server, as if it had crashed, starts it again on the same port and data, and returns when it is ready.
    /// etcd goes on.
    ///
    /// # Errors
    /// [`StartError`] when it does not come back within the builder's `ready_limit`.
    pub async fn restart_api_server(&mut self) -> Result<(), StartError> {
        let Self { options, processes, directory, credentials, ports, .. } = self;
        options.restart_api_server(processes, directory, credentials, *ports).await
    }

    /// Stops the processes: asks each to end, and kills one that does not within the builder's `stop_limit`. Returns
    /// when all have ended. A temporary directory is removed.
    ///
    /// # Errors
    /// [`StopError`] when the operating system refuses. What is left is killed then.
    pub async fn stop(self) -> Result<(), StopError> {
        let stopped = self.processes.stop(&self.options.clock, self.options.stop_limit).await;
        stopped.map_err(|(program, source)| StopError { program, source })
    }

    /// Lets the plane outlive this process, and writes down in its directory what it takes to stop it later, see
    /// [`DetachedControlPlane::load`]. The directory stays, also a temporary one. Linux only.
    ///
    /// # Errors
    /// [`DetachError`] when that cannot be written down. The processes are killed then.
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

/// Why a plane cannot outlive the process that started it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetachError {
    /// The operating system does not tell which process is which.
    #[error("cannot tell which processes to stop later: {0}; a plane can be detached on Linux only")]
    Identity(#[source] io::Error),
    /// A process has ended meanwhile.
    #[error("{program} has ended by itself; its log was {}", log.display())]
    Ended {
        /// The program.
        program: &'static str,
        /// Its log, gone with the directory if that is temporary.
        log: PathBuf,
    },
    /// The record cannot be written.
    #[error("cannot write down in {} what runs: {source}", directory.display())]
    Record {
        /// The directory of the plane.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
