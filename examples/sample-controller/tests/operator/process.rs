//! The program as a process, and the server that it works on.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use bowline::prelude::*;
use bowline_apiserver::{ServeOptions, ServerHandle};
use bowline_testing::{Arm, TestEnv};

/// The program outside a pod, also if the tests run in one.
pub(crate) fn sample_controller() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sample-controller"));
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

/// The error line of a program that cannot start. There may be log lines before it.
pub(crate) fn error_of(arguments: &[&str], status: i32) -> String {
    let output = sample_controller().args(arguments).output().expect("it can be started");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(output.stdout.is_empty() && !stderr.contains("panicked"), "{stderr}");
    let is_error = |line: &&str| line.to_lowercase().starts_with("error: ");
    stderr.lines().find(is_error).unwrap_or_else(|| panic!("no error: {stderr}")).to_owned()
}

/// A server that other processes can reach.
pub(crate) struct Plane {
    kubeconfig: PathBuf,
    _serving: Option<(ServerHandle, tempfile::TempDir)>,
}

impl Plane {
    pub(crate) async fn of(env: &TestEnv) -> Result<Self> {
        let Some(server) = env.server() else {
            let name = if env.arm() == Arm::Real { "BOWLINE_REAL_KUBECONFIG" } else { "KUBECONFIG" };
            let kubeconfig = std::env::var_os(name).expect("other processes know where it is, too").into();
            return Ok(Self { kubeconfig, _serving: None });
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let serving = server.serve(listener, ServeOptions::default())?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        serving.kubeconfig().write(&kubeconfig)?;
        Ok(Self { kubeconfig, _serving: Some((serving, directory)) })
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        self.kubeconfig.to_str().expect("text")
    }
}

/// The program, while it runs.
#[cfg(unix)]
pub(crate) struct Running {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: tempfile::NamedTempFile,
}

#[cfg(unix)]
impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = sample_controller();
        command.args(arguments);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        // A file, because a pipe without a reader becomes full.
        let log = tempfile::NamedTempFile::new().expect("there is room for a file");
        command.stdout(Stdio::piped()).stderr(log.reopen().expect("it is there"));
        let mut program = command.spawn().expect("it can be started");
        let lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
        Self { program, lines, log }
    }

    #[cfg_attr(
        not(feature = "plane"),
        expect(dead_code, reason = "an operator on a cluster prints no greeting")
    )]
    pub(crate) fn line_with(&mut self, start: &str) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.starts_with(start)).expect("it comes before the end")
    }

    /// The log so far.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).expect("text")
    }

    /// The address in the log line about a server.
    pub(crate) async fn address(&self, env: &TestEnv, purpose: &str) -> Result<String> {
        let start = format!("listening for {purpose} address=");
        let find = || {
            let logged = self.logged();
            let (_, rest) = logged.split_once(&start)?;
            rest.lines().next().map(str::to_owned)
        };
        env.wait_until(&format!("it listens for {purpose}"), async || find().is_some()).await?;
        Ok(find().expect("it is still there"))
    }

    /// Sends a signal, and checks that the program succeeds. Returns its log.
    pub(crate) fn end(mut self, signal: &str) -> String {
        let killed = Command::new("kill").args(["-s", signal, &self.program.id().to_string()]).status();
        assert!(killed.expect("there is a program of that name").success());
        let status = self.program.wait().expect("it ends");
        let logged = self.logged();
        assert!(status.success(), "{status}\n{logged}");
        logged
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.program.kill().expect("it runs");
        self.program.wait().expect("it ends");
    }
}

#[cfg(unix)]
impl Drop for Running {
    fn drop(&mut self) {
        // An error says that it has ended, which is no harm.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
