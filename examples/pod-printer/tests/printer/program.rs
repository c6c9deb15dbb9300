//! The program, from its start to its end.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

/// The program outside a pod, also if the tests run in one.
fn pod_printer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pod-printer"));
    command.env_remove("KUBERNETES_SERVICE_HOST");
    command
}

#[test]
fn without_arguments_it_plays_the_demo_and_ends() {
    let output = pod_printer().output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let logged = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{printed}{logged}");
    for line in [
        "Pod default/mypod does not exist anymore",
        "Sync/Add/Update for Pod web-1",
        "Sync/Add/Update for Pod web-2",
        "Pod default/web-1 does not exist anymore",
        "Pod default/unprintable does not exist anymore",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} is missing:\n{printed}");
    }
    assert!(
        logged.contains(r#"ERROR dropped out of the queue key="default/unprintable" attempts=6"#),
        "{logged}"
    );
}

#[cfg(unix)]
#[test]
fn it_stays_for_kubectl_and_a_signal_ends_it_cleanly() {
    let mut program = Running::start(&["--watch"]);
    let your_turn = program.line_with("-- your turn:");
    let kubeconfig = your_turn.split(' ').nth(5).unwrap();
    let private = std::path::Path::new(kubeconfig).parent().unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(private).unwrap());
    assert_eq!(mode & 0o777, 0o700, "{kubeconfig}");

    // Another process can use its server as a cluster.
    let mut other = Running::start(&["--kubeconfig", kubeconfig, "--namespace", "kube-system"]);
    other.line_with("Pod kube-system/mypod does not exist anymore");
    other.end("TERM");

    program.end("INT");
    assert!(!private.exists(), "{kubeconfig}");
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
        let mut command = pod_printer();
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
        assert!(self.program.wait().expect("it ends").success());
        let mut logged = String::new();
        self.program.stderr.take().expect("a pipe").read_to_string(&mut logged).expect("text");
        assert!(logged.ends_with("INFO stopped\n"), "{logged}");
    }
}

#[cfg(unix)]
#[test]
fn a_credential_plugin_that_fails_shows_no_secret() {
    let path = std::env::temp_dir().join(format!("bowline-pod-printer-{}", std::process::id()));
    let kubeconfig = json!({
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
        "users": [{"name": "a", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "/bin/sh",
            "args": ["-c", "echo TOKEN-OF-STDOUT; echo no such account >&2; exit 1", "SECRET-OF-ARGS"],
            "env": [{"name": "PASSWORD", "value": "SECRET-OF-ENV"}],
            "interactiveMode": "Never",
        }}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let mut command = pod_printer();
    let mut program =
        command.arg("--kubeconfig").arg(&path).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut logged: Vec<_> = lines.by_ref().take(2).collect();
    let _ = program.kill();
    logged.extend(lines);
    let _ = program.wait();
    let _ = std::fs::remove_file(path);
    let text = logged.join("\n");
    assert!(text.contains("credential plugin"), "{text}");
    assert!(text.contains("failed (exit status: 1): no such account"), "{text}");
    for secret in ["TOKEN-OF-STDOUT", "SECRET-OF-ARGS", "SECRET-OF-ENV"] {
        assert!(!text.contains(secret), "{secret} is shown: {text}");
    }
}

#[test]
fn a_kubeconfig_that_is_not_there_is_an_error() {
    let output = pod_printer().args(["--kubeconfig", "/nowhere/config"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let logged = String::from_utf8(output.stderr).unwrap();
    assert!(logged.starts_with("error: ") && logged.contains("/nowhere/config"), "{logged}");
    assert!(output.stdout.is_empty());
}

#[test]
fn the_help_lists_all_flags() {
    let output = pod_printer().arg("-h").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    Prints the state of pods: the first operator to read, written with Bowline

    Usage: pod-printer [OPTIONS]

    Options:
          --kubeconfig [<PATH>]  Watch the pods of a cluster, until Ctrl-C or SIGTERM; nothing is
                                 changed there
      -n, --namespace <NAME>     Namespace of the pods [default: default]
          --watch                Stay after the demo, until Ctrl-C or SIGTERM, and print a kubeconfig
                                 for kubectl
          --workers <NUMBER>     Pods that are handled at the same time [default: 1]
      -h, --help                 Print help (see more with '--help')
      -V, --version              Print version
    ");
}
