//! `bowline demo`.

use super::{bowline, result_of, run, text};

#[test]
fn it_shows_each_step_with_the_reconcile_that_did_it_and_why() {
    let output = run(&["demo"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    insta::assert_snapshot!(without_times(text(&output.stdout)), @"
    An operator and a Kubernetes API server in one process. No cluster, nothing to install.

    [1/5] Start an API server, define the kind Foo, run sample-controller
          ✓ ready after [TIME]

    [2/5] Create a Foo that asks for a Deployment with 1 replica
          ↻ reconcile demo/example, because: Foo created (done in [TIME])
          ✓ its Deployment is there: 1 replica, owned by the Foo

    [3/5] Scale the Foo to 3 replicas
          ↻ reconcile demo/example, because: Foo updated (done in [TIME])
          ✓ its Deployment has 3 replicas

    [4/5] Delete the Deployment behind the operator's back
          ↻ reconcile demo/example, because: Deployment demo/example deleted (done in [TIME])
          ✓ a new one is there: 3 replicas

    [5/5] Delete the Foo
          ↻ reconcile demo/example, because: Foo deleted (gone in [TIME])
          ✓ the Foo is gone, and there is nothing left for the operator to do

    Not there yet: nothing makes the Deployment available (the Foo's status said 0 to the end), and nothing collects
    it now that its owner is gone. In Kubernetes, other controllers do that.

    The whole operator: examples/sample-controller/src/foo.rs
    To try it yourself:  cargo run -p sample-controller
    ");
}

#[test]
fn a_step_that_fails_is_an_error_with_exit_code_1() {
    let output = run(&["demo", "--timeout", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: the demo failed: "), "{stderr}");
}

#[test]
fn a_closed_pipe_is_a_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = bowline(&["demo"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn its_help_lists_the_steps() {
    insta::assert_snapshot!(result_of(&["demo", "--help"]), @"
    exit code: 0
    --- stdout
    Show an operator at work, on an API server inside this process

    Usage: bowline demo [OPTIONS]

    Options:
          --timeout <SECONDS>
              Time limit of a step, in seconds

              [default: 10]

      -h, --help
              Print help (see a summary with '-h')

    Steps:
      The operator of examples/sample-controller gives each Foo the Deployment that it names. A Foo is
      created, scaled and deleted; each step prints the reconcile and what triggered it.

      Opens no port and leaves no files. A step that fails is exit code 1.
    --- stderr
    ");
}

/// Durations differ in each run.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let time = line.rsplit(' ').next().unwrap_or_default().trim_end_matches(')');
        let is_time = time.starts_with(|first: char| first.is_ascii_digit()) && time.ends_with('s');
        if is_time { line.replace(time, "[TIME]") } else { line.to_owned() }
    });
    lines.collect::<Vec<_>>().join("\n")
}
