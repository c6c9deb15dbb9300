//! The program, from its start to its end.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

fn pod_printer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pod-printer"))
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
fn a_signal_ends_it_cleanly() {
    for signal in ["INT", "TERM"] {
        let mut program =
            pod_printer().arg("--watch").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let your_turn =
            lines.find(|line| line.as_ref().unwrap().starts_with("-- your turn:")).unwrap().unwrap();
        let kubeconfig = your_turn.split(' ').nth(5).unwrap();
        assert!(std::path::Path::new(kubeconfig).exists(), "{kubeconfig}");

        let killed = Command::new("kill").args(["-s", signal, &program.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert!(program.wait().unwrap().success());
        let mut logged = String::new();
        program.stderr.take().unwrap().read_to_string(&mut logged).unwrap();
        assert!(logged.ends_with("INFO stopped\n"), "{logged}");
        assert!(!std::path::Path::new(kubeconfig).exists(), "{kubeconfig}");
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
fn the_help_tells_what_can_be_done() {
    let output = pod_printer().arg("-h").output().unwrap();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @"
    Prints what happens to pods: the first operator to read, written with Bowline

    Usage: pod-printer [OPTIONS]

    Options:
          --kubeconfig [<PATH>]  Look at a real cluster, until Ctrl-C or SIGTERM; nothing is changed
                                 there
      -n, --namespace <NAME>     The namespace to look at [default: default]
          --watch                Stay after the demo, until Ctrl-C or SIGTERM
          --workers <NUMBER>     So many pods are worked on at once [default: 1]
      -h, --help                 Print help (see more with '--help')
      -V, --version              Print version
    ");
}
