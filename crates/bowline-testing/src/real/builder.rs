//! The start of a control plane: options, and the order of the steps.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_clock::{Clock, Instant};

use super::credentials::Credentials;
use super::directory::Directory;
use super::flags::{self, Ports};
use super::ports::free_ports;
use super::probe::Probe;
use super::process::LOOK;
use super::processes::{Ended, Processes};
use super::{Binaries, RealControlPlane, StartError, file};

/// Maximum number of attempts if another process takes a port first.
const PORT_ATTEMPTS: usize = 3;
/// Message of Go's programs in that case.
const PORT_TAKEN: &str = "address already in use";
/// Path of the API server's readiness.
const READY: &str = "/readyz";
/// Limit of one request to the API server.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Options of a [`RealControlPlane`]; [`start`](Self::start) starts it.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it starts"]
pub struct RealControlPlaneBuilder {
    pub(super) clock: Clock,
    binaries: Binaries,
    controller_manager: bool,
    audit_policy: Option<String>,
    directory: Option<PathBuf>,
    ready_timeout: Duration,
    pub(super) stop_limit: Duration,
}

impl RealControlPlaneBuilder {
    pub(super) fn new(clock: Clock, binaries: Binaries) -> Self {
        Self {
            clock,
            binaries,
            controller_manager: false,
            audit_policy: None,
            directory: None,
            ready_timeout: Duration::from_secs(60),
            stop_limit: Duration::from_secs(10),
        }
    }

    /// Whether kube-controller-manager runs too. Without it, no built-in controller runs, and the `ServiceAccount` admission
    /// plugin is off, because no controller creates the service accounts that it requires. Default: no.
    pub fn controller_manager(mut self, runs: bool) -> Self {
        self.controller_manager = runs;
        self
    }

    /// Audit policy of the API server, in JSON or YAML; see [`RealControlPlane::audit_log`]. Default: no audit log.
    pub fn audit_policy(mut self, policy: impl Into<String>) -> Self {
        self.audit_policy = Some(policy.into());
        self
    }

    /// Directory for keys, logs and data; it must be empty or missing. Default: a temporary one, removed with the plane.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Limit of the whole start. Default: 60 s.
    pub fn ready_timeout(mut self, limit: Duration) -> Self {
        self.ready_timeout = limit;
        self
    }

    /// Limit for each process to end before it is killed. Default: 10 s.
    pub fn stop_timeout(mut self, limit: Duration) -> Self {
        self.stop_limit = limit;
        self
    }

    /// Starts the processes and waits until the API server is ready and, with a controller manager, until the namespace
    /// `default` has its service account.
    ///
    /// # Errors
    /// [`StartError`]; all processes are killed then.
    pub async fn start(self) -> Result<RealControlPlane, StartError> {
        let directory = match &self.directory {
            Some(path) => Directory::given(path)
                .map_err(|source| StartError::Directory { directory: path.clone(), source })?,
            None => Directory::temporary()
                .map_err(|source| StartError::Directory { directory: std::env::temp_dir(), source })?,
        };
        let credentials = Credentials::generate(&self.clock)?;
        file::write_credentials(&directory, &credentials).map_err(in_directory(directory.path()))?;
        if let Some(policy) = &self.audit_policy {
            directory.write(file::AUDIT_POLICY, policy).map_err(in_directory(directory.path()))?;
        }

        let deadline = self.clock.now() + self.ready_timeout;
        let mut attempt = 1;
        let (ports, processes) = loop {
            match self.start_processes(&directory, &credentials, deadline).await {
                Ok(started) => break started,
                Err(StartError::Exited { log_tail, .. })
                    if log_tail.contains(PORT_TAKEN) && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                    file::remove_data(&directory).map_err(in_directory(directory.path()))?;
                }
                Err(error) => return Err(error),
            }
        };
        Ok(RealControlPlane {
            server: server(ports),
            authority: credentials.authority.certificate(),
            credentials,
            ports,
            options: self,
            processes,
            directory,
        })
    }

    /// Kills the API server, starts it again and waits until it is ready.
    pub(super) async fn restart_api_server(
        &self,
        processes: &mut Processes,
        directory: &Directory,
        credentials: &Credentials,
        ports: Ports,
    ) -> Result<(), StartError> {
        let (program, path) = (Binaries::KUBE_APISERVER, self.binaries.kube_apiserver());
        let (arguments, log) = (self.api_server_flags(directory, ports), directory.join(&file::log(program)));
        let restarted = processes.restart(program, path, &arguments, log);
        restarted.map_err(|source| StartError::Spawn { program, path: path.to_owned(), source })?;
        let deadline = self.clock.now() + self.ready_timeout;
        self.wait_for(processes, program, &probe(credentials, ports)?, READY, deadline).await
    }

    async fn start_processes(
        &self,
        directory: &Directory,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<(Ports, Processes), StartError> {
        let [api_server, etcd, etcd_peer, controller_manager] = free_ports().map_err(StartError::Ports)?;
        let ports = Ports { api_server, etcd, etcd_peer, controller_manager };
        file::write_kubeconfigs(directory, credentials, &server(ports))
            .map_err(in_directory(directory.path()))?;

        let mut processes = Processes::new().map_err(|source| StartError::Spawn {
            program: "the watcher of its processes",
            path: "/bin/sh".into(),
            source,
        })?;
        let spawn = |processes: &mut Processes, program, path: &Path, arguments: &[String]| {
            let log = directory.join(&file::log(program));
            let started = processes.start(program, path, arguments, log);
            started.map_err(|source| StartError::Spawn { program, path: path.to_owned(), source })
        };
        // The API server itself waits for etcd.
        spawn(&mut processes, Binaries::ETCD, self.binaries.etcd(), &flags::etcd(directory, ports))?;
        let arguments = self.api_server_flags(directory, ports);
        spawn(&mut processes, Binaries::KUBE_APISERVER, self.binaries.kube_apiserver(), &arguments)?;

        let probe = probe(credentials, ports)?;
        self.wait_for(&mut processes, Binaries::KUBE_APISERVER, &probe, READY, deadline).await?;

        if self.controller_manager {
            let program = Binaries::KUBE_CONTROLLER_MANAGER;
            let arguments = flags::kube_controller_manager(directory, ports);
            spawn(&mut processes, program, self.binaries.kube_controller_manager(), &arguments)?;
            let account = "/api/v1/namespaces/default/serviceaccounts/default";
            self.wait_for(&mut processes, program, &probe, account, deadline).await?;
        }
        Ok((ports, processes))
    }

    fn api_server_flags(&self, directory: &Directory, ports: Ports) -> Vec<String> {
        let mut flags = flags::kube_apiserver(directory, ports, self.controller_manager);
        if self.audit_policy.is_some() {
            flags.extend(flags::audit(directory));
        }
        flags
    }

    /// Waits until the API server answers a request with 200, which depends on `program`.
    async fn wait_for(
        &self,
        processes: &mut Processes,
        program: &'static str,
        probe: &Probe,
        path: &str,
        deadline: Instant,
    ) -> Result<(), StartError> {
        loop {
            if let Some(Ended { name, status, log_tail }) = processes.ended().map_err(StartError::Look)? {
                return Err(StartError::Exited { program: name, status, log_tail });
            }
            let answer = self.clock.timeout(PROBE_LIMIT, probe.get(path)).await;
            let said = match answer {
                Ok(Ok(answer)) if answer.status == 200 => return Ok(()),
                Ok(Ok(answer)) => format!("{} {}", answer.status, answer.body.trim()),
                Ok(Err(error)) => error.to_string(),
                Err(elapsed) => elapsed.to_string(),
            };
            if self.clock.now() >= deadline {
                let log_tail = processes.log_tail(program);
                let (limit, path) = (self.ready_timeout, path.to_owned());
                return Err(StartError::NotReady { program, limit, path, said, log_tail });
            }
            self.clock.sleep(LOOK).await;
        }
    }
}

fn probe(credentials: &Credentials, ports: Ports) -> Result<Probe, StartError> {
    let authority = credentials.authority.certificate_der();
    Ok(Probe::new(authority, ports.api_server, credentials.admin_token.clone())?)
}

fn in_directory(directory: &Path) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Write { directory: directory.to_owned(), source }
}

fn server(ports: Ports) -> String {
    format!("https://127.0.0.1:{}", ports.api_server)
}
