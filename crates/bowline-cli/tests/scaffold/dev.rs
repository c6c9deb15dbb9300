//! `bowline dev` without a terminal: the operator of the quickstart runs, is built again after changes, and stops.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use bowline::prelude::Clock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Child;

use crate::process::{eventually, has, succeed, tool};

/// Time limit for a build, the first of which may build all dependencies.
pub(crate) const BUILD: Duration = Duration::from_secs(600);
/// Time limit for anything else.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The file that is changed, and the text in it.
const SOURCE: &str = "src/at.rs";
const SHORT: &str = "RUN_TIME: Duration = Duration::from_secs(5)";
const LONG: &str = "RUN_TIME: Duration = Duration::from_secs(3600)";

/// A running `bowline dev`.
struct Dev {
    child: Child,
    group: Pid,
    /// Its output and errors.
    output: PathBuf,
    /// The directory for its kubeconfig, and the output.
    folder: TempDir,
}

/// Runs the project from the start to a signal, with the commands for `kubectl` of the quickstart.
pub(crate) async fn check(project: &Path, commands: &[&[&str]]) {
    let has_kubectl = has("kubectl", "version --client", "kubectl beside `bowline dev`").await;
    let mut dev = Dev::start(project);
    let kubeconfig = dev.kubeconfig().await;
    dev.wait(0, "✓ created 1 object of samples/cnat_v1_at.yaml\n", BUILD).await;
    dev.wait(0, "phase=Running", LIMIT).await;
    dev.wait(0, "phase=Done", LIMIT).await;
    if has_kubectl {
        assert!(!commands.is_empty(), "the quickstart looks at the sample");
        for command in commands {
            let shown = succeed(dev.kubectl(&kubeconfig, command), LIMIT).await;
            assert!(shown.contains("    phase: Done\n"), "{shown}");
        }
    }

    println!("== change a source");
    let path = project.join(SOURCE);
    let source = std::fs::read_to_string(&path).unwrap();
    assert_eq!(source.matches(SHORT).count(), 1, "the quickstart says how to change it");
    let mark = dev.text().len();
    std::fs::write(&path, source.replace(SHORT, LONG)).unwrap();
    dev.wait(mark, "src/at.rs has changed\n", LIMIT).await;
    dev.wait(mark, "✓ the operator runs\n", BUILD).await;
    dev.wait(mark, "at-sample: observedGeneration=1, phase=Running", LIMIT).await;

    println!("== break it");
    let mark = dev.text().len();
    std::fs::write(&path, source.replace(SHORT, "RUN_TIME")).unwrap();
    let end = "✗ the operator does not build: cargo ended with exit status: 101; the last build goes on\n";
    dev.wait(mark, end, BUILD).await;
    if has_kubectl {
        dev.check_a_further_object(project, &kubeconfig).await;
    }

    println!("== repair it");
    let mark = dev.text().len();
    std::fs::write(&path, source).unwrap();
    dev.wait(mark, "✓ the operator runs\n", BUILD).await;
    dev.wait(mark, "at-sample: observedGeneration=1, phase=Done", LIMIT).await;

    println!("== stop it");
    let (status, text) = dev.stop().await;
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.ends_with("\nStopped.\n"), "{text}");
    assert!(!text.contains("✗ the operator ended"), "{text}");
    assert!(!text.contains("OBJECTS") && !text.contains('\x1b'), "that is for a terminal: {text}");
    assert!(!kubeconfig.parent().unwrap().exists(), "the kubeconfig goes with the server");
    assert!(test_kill_process_group(dev.group).is_err(), "the operator has stopped too");
}

impl Dev {
    fn start(project: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        let file = File::create(&output).unwrap();
        let mut command = tool(project, &["dev"]);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        // A group of its own, so that a failed test leaves no process.
        command.env("XDG_RUNTIME_DIR", folder.path()).process_group(0);
        let child = tokio::process::Command::from(command).spawn().unwrap();
        let group = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        Self { child, group, output, folder }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap()).into_owned()
    }

    /// Waits until the output after a mark contains a text.
    async fn wait(&mut self, mark: usize, wanted: &str, limit: Duration) {
        let found = eventually(limit, async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("`bowline dev` ended ({status}):\n{}", self.text());
            }
            self.text()[mark..].contains(wanted).then_some(())
        });
        let found = found.await;
        assert!(found.is_some(), "no `{wanted}` after {limit:?} in:\n{}", &self.text()[mark..]);
    }

    async fn kubeconfig(&mut self) -> PathBuf {
        self.wait(0, "Everything is in memory.\n", LIMIT).await;
        let text = self.text();
        let line = text.lines().find_map(|line| line.strip_prefix("  export KUBECONFIG="));
        let path = PathBuf::from(line.unwrap_or_else(|| panic!("no kubeconfig in:\n{text}")));
        assert!(path.starts_with(self.folder.path()) && path.is_file(), "{}", path.display());
        path
    }

    fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        // Its cache of kinds stays here too.
        command.arg("--cache-dir").arg(self.folder.path().join("cache"));
        command
    }

    /// The operator reconciles an object that is new.
    async fn check_a_further_object(&self, project: &Path, kubeconfig: &Path) {
        let sample = std::fs::read_to_string(project.join("samples/cnat_v1_at.yaml")).unwrap();
        let path = self.folder.path().join("further.yaml");
        std::fs::write(&path, sample.replace("at-sample", "further")).unwrap();
        // The server has no OpenAPI documents, which kubectl needs to validate an object.
        let create = ["create", "--validate=false", "-f", path.to_str().unwrap()];
        succeed(self.kubectl(kubeconfig, &create), LIMIT).await;
        let is_running = eventually(LIMIT, async || {
            let get = ["get", "at", "further", "-o", "json"];
            let json = succeed(self.kubectl(kubeconfig, &get), LIMIT).await;
            let object: Value = serde_json::from_str(&json).unwrap();
            (object["status"]["phase"] == "Running").then_some(())
        });
        assert!(is_running.await.is_some(), "{}", self.text());
    }

    /// Sends SIGTERM to it alone. Returns its exit status and all that it printed.
    async fn stop(&mut self) -> (ExitStatus, String) {
        kill_process(self.group, Signal::TERM).unwrap();
        let ended = Clock::real().timeout(LIMIT, self.child.wait()).await;
        let status = ended.unwrap_or_else(|_| panic!("it has not ended after {LIMIT:?}:\n{}", self.text()));
        (status.unwrap(), self.text())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}
