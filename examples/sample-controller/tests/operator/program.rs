//! The program, from its start to its end.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use bowline::kube::Api;
use bowline::prelude::*;
use bowline::runtime::transport::{self, TransportOptions};
use bowline_apiserver::{ServeOptions, Serving};
use bowline_testing::{Arm, TestEnv};
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::Foo;

use crate::world::foo;

fn sample_controller() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sample-controller"))
}

#[cfg(unix)]
#[tokio::test]
async fn without_arguments_it_runs_on_a_server_of_its_own_that_kubectl_can_see() -> Result<()> {
    let mut program = Running::start(&[]);
    let export = program.line_with("  export KUBECONFIG=");
    let kubeconfig = PathBuf::from(export.trim_start().trim_start_matches("export KUBECONFIG="));
    let config = transport::config(Some(&kubeconfig)).await?;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real()))?;
    let deployments = Api::<Deployment>::namespaced(client, "default");
    let clock = Clock::real();
    let there = async {
        while deployments.get_opt("example-foo").await?.is_none() {
            clock.sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Error>(())
    };
    clock.timeout(Duration::from_secs(60), there).await??;
    program.end("INT");
    assert!(!kubeconfig.exists(), "{}", kubeconfig.display());
    Ok(())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn with_a_kubeconfig_it_runs_on_that_cluster() -> Result<()> {
    let env = TestEnv::from_env().await?;
    env.install::<Foo>().await?;
    let cluster = Cluster::of(&env).await?;
    let arguments = ["--kubeconfig", cluster.kubeconfig(), "--namespace", env.namespace()];
    let program = Running::start(&arguments);
    env.client().create(&foo("web", Some(2))).await?;
    env.within(Duration::from_secs(60)).wait_for::<Deployment>("web", |_| true).await?;
    program.end("TERM");
    env.finish().await?;
    Ok(())
}

/// A server that other processes can reach.
struct Cluster {
    kubeconfig: PathBuf,
    _serving: Option<(Serving, tempfile::TempDir)>,
}

impl Cluster {
    async fn of(env: &TestEnv) -> Result<Self> {
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

    fn kubeconfig(&self) -> &str {
        self.kubeconfig.to_str().expect("text")
    }
}

/// The program, while it runs.
#[cfg(unix)]
struct Running {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

#[cfg(unix)]
impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut command = sample_controller();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = command.spawn().expect("it can be started");
        let lines = BufReader::new(program.stdout.take().expect("a pipe")).lines();
        Self { program, lines }
    }

    fn line_with(&mut self, start: &str) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.starts_with(start)).expect("it comes before the end")
    }

    fn end(mut self, signal: &str) {
        let killed = Command::new("kill").args(["-s", signal, &self.program.id().to_string()]).status();
        assert!(killed.expect("there is a program of that name").success());
        let status = self.program.wait().expect("it ends");
        let mut logged = String::new();
        self.program.stderr.take().expect("a pipe").read_to_string(&mut logged).expect("text");
        assert!(status.success() && logged.contains("reconciled"), "{status}\n{logged}");
    }
}

#[cfg(unix)]
impl Drop for Running {
    fn drop(&mut self) {
        // Whoever has ended it already is told so, which is no harm.
        let _ = self.program.kill();
    }
}

#[test]
fn the_definition_is_printed_for_kubectl() {
    let output = sample_controller().arg("--crd").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let definition: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(definition, serde_json::to_value(Foo::crd()).unwrap());
}

#[test]
fn a_kubeconfig_that_is_not_there_is_an_error() {
    let output = sample_controller().args(["--kubeconfig", "/nowhere/config"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.starts_with("error: ") && told.contains(Path::new("/nowhere/config").to_str().unwrap()),
        "{told}"
    );
}

#[test]
fn the_help_tells_what_can_be_done() {
    let output = sample_controller().arg("-h").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    Gives every Foo the Deployment that it names: the operator that everybody knows, written with
    Bowline

    Usage: sample-controller [OPTIONS]

    Options:
          --kubeconfig [<PATH>]  Work on a real cluster
      -n, --namespace <NAME>     Look after the Foos of one namespace only
          --crd                  Print the definition of the kind Foo, which a real cluster needs, and
                                 end
      -h, --help                 Print help (see more with '--help')
      -V, --version              Print version
    ");
}
