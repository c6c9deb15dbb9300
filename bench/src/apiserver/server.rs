//! An API server as processes of its own, that can be started, asked what it used, and stopped.

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

/// How long ours may take to be ready, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory has settled when it has changed by less than a hundredth over so many looks.
const LOOKS: usize = 6;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
const MOST_LOOKS: usize = 60;

/// A running API server.
pub(super) struct Server {
    pub(super) endpoint: Endpoint,
    /// From before its processes were started until `/readyz` was answered with 200.
    pub(super) ready: Duration,
    clock: Clock,
    running: Running,
}

enum Running {
    Ours(Child),
    Real(Box<RealControlPlane>),
}

impl Server {
    /// Starts one and waits until it is ready. The programs are kube-apiserver's.
    pub(super) async fn start(
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
                // What takes longer on a busy machine is a result as well.
                let plane = plane.ready_limit(Duration::from_secs(180)).start().await?;
                let endpoint = Endpoint {
                    server: plane.server().to_owned(),
                    authority: plane.authority().to_owned(),
                    token: plane.admin_token().expose().to_owned(),
                };
                (endpoint, Running::Real(Box::new(plane)))
            }
        };
        Ok(Self { endpoint, ready: clock.now().since(began), clock, running })
    }

    pub(super) fn client(&self, spawner: &Spawner) -> Result<Client, Failure> {
        Client::new(&self.endpoint, spawner.clone())
    }

    /// CPU seconds that its processes have used so far.
    pub(super) fn cpu_seconds(&self) -> io::Result<f64> {
        self.pids().into_iter().map(process::cpu_seconds_of).sum()
    }

    /// The most memory that its processes ever had, in MiB.
    pub(super) fn peak_mib(&self) -> io::Result<f64> {
        self.status_mib("VmHWM")
    }

    /// The memory of its processes when it does not change any more, in MiB. Nobody asks the server anything meanwhile.
    pub(super) async fn settled_mib(&self) -> io::Result<f64> {
        let mut looks = Vec::new();
        while looks.len() < MOST_LOOKS && !is_settled(&looks) {
            self.clock.sleep(BETWEEN_LOOKS).await;
            looks.push(self.status_mib("VmRSS")?);
        }
        Ok(looks.pop().unwrap_or_default())
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
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

fn is_settled(looks: &[f64]) -> bool {
    let Some(last) = looks.len().checked_sub(LOOKS).map(|first| &looks[first..]) else { return false };
    let (least, most) = last.iter().fold((f64::MAX, 0.0_f64), |(a, b), look| (a.min(*look), b.max(*look)));
    most <= least * 1.01
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_settled_when_the_last_looks_are_alike() {
        assert!(!is_settled(&[10.0; LOOKS - 1]));
        assert!(is_settled(&[10.0; LOOKS]));
        assert!(is_settled(&[1.0, 10.0, 10.0, 10.05, 10.0, 10.0, 10.0]));
        assert!(!is_settled(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.2]));
    }
}
