//! An API server in its own processes: start, resource usage, stop.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use std::{env, io};

use bowline_clock::{Clock, Spawner};
use bowline_testing::{Binaries, RealControlPlane};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::Maker;
use super::client::{Asked, Client, Endpoint};
use super::load::Failure;
use crate::process;

/// Timeout for our server to get ready, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval between two samples of the memory.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// A running API server.
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    /// From the start of its processes until `/readyz` returned 200.
    pub(crate) ready: Duration,
    clock: Clock,
    running: Running,
}

enum Running {
    Ours(Child),
    Real(Box<RealControlPlane>),
}

impl Server {
    /// Starts a server and waits until it is ready. `programs` is for kube-apiserver.
    pub(crate) async fn start(
        spawner: &Spawner,
        maker: Maker,
        programs: Option<&Path>,
    ) -> Result<Self, Failure> {
        let clock = spawner.clock().clone();
        let began = clock.now();
        let (endpoint, running) = match maker {
            Maker::Bowline => clock.timeout(PATIENCE, start_ours(spawner)).await??,
            Maker::KubeApiserver => {
                let programs = programs.ok_or("kube-apiserver needs --programs")?;
                let plane = RealControlPlane::builder(clock.clone(), Binaries::in_directory(programs));
                // A longer time on a busy machine is a valid result.
                let plane = plane.ready_timeout(Duration::from_secs(180)).start().await?;
                let endpoint = Endpoint {
                    server: plane.server().to_owned(),
                    authority: plane.authority().to_owned(),
                    token: plane.admin_token().expose().to_owned(),
                };
                (endpoint, Running::Real(Box::new(plane)))
            }
        };
        Ok(Self { endpoint, ready: clock.now().duration_since(began), clock, running })
    }

    pub(crate) fn client(&self, spawner: &Spawner) -> Result<Client, Failure> {
        Client::new(&self.endpoint, spawner.clone())
    }

    /// CPU seconds that its processes have used so far.
    pub(crate) fn cpu_seconds(&self) -> io::Result<f64> {
        self.pids().into_iter().map(process::cpu_seconds_of).sum()
    }

    /// Peak memory of its processes, in MiB.
    pub(crate) fn peak_mib(&self) -> io::Result<f64> {
        self.status_mib("VmHWM")
    }

    /// Memory of its idle processes once it no longer changes, in MiB.
    pub(crate) async fn settled_mib(&self) -> io::Result<f64> {
        process::settled(&self.clock, BETWEEN_LOOKS, || self.status_mib("VmRSS")).await
    }

    pub(crate) async fn stop(self) -> Result<(), Failure> {
        match self.running {
            Running::Real(plane) => Ok(plane.stop().await?),
            Running::Ours(mut child) => {
                // It ends with its stdin.
                drop(child.stdin.take());
                let status = self.clock.timeout(PATIENCE, child.wait()).await??;
                if status.success() { Ok(()) } else { Err(format!("our server ended: {status}").into()) }
            }
        }
    }

    fn status_mib(&self, field: &str) -> io::Result<f64> {
        self.pids().into_iter().map(|pid| process::status_mib_of(pid, field)).sum()
    }

    fn pids(&self) -> Vec<u32> {
        match &self.running {
            Running::Ours(child) => child.id().into_iter().collect(),
            Running::Real(plane) => plane.processes().map(|(_, pid)| pid).collect(),
        }
    }
}

async fn start_ours(spawner: &Spawner) -> Result<(Endpoint, Running), Failure> {
    let mut child = Command::new(env::current_exe()?)
        .args(["apiserver-subject", "--task", "serve"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("our server has no stdout")?;
    BufReader::new(stdout).read_line(&mut line).await?;
    let endpoint: Endpoint = serde_json::from_str(&line)?;
    let mut connection = Client::new(&endpoint, spawner.clone())?.connect().await?;
    connection.ask(Asked::get("/readyz")).await?;
    Ok((endpoint, Running::Ours(child)))
}
