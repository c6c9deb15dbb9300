//! The command line tool as its users meet it: the real binary, its output and its exit code.

mod create;
mod demo;
mod folder;
mod init;
mod plane;

use std::process::{Command, Output, Stdio};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

#[test]
fn help_names_every_verb() {
    insta::assert_snapshot!(result_of(&["--help"]), @"
    exit code: 0
    --- stdout
    The command line tool of Bowline, the operator framework for Rust

    Usage: bowline <COMMAND>

    Commands:
      init        Make a project for an operator, in a new folder
      create      Add to a project
      dev         Run the operator on an API server in memory, and again after each change
      run         Run the operator on the cluster of the current context
      install     Install the operator's CRDs on the cluster of the current context
      uninstall   Delete the operator's CRDs from the cluster of the current context
      manifests   Write the operator's CRDs, roles, deployment, alerts and dashboard as YAML
      demo        Show an operator at work, on an API server inside this process
      plane       Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM
      version     Print the version of this tool
      completion  Print a script that completes this tool's arguments in a shell
      man         Print a manual page
      help        Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    --- stderr
    ");
}

#[test]
fn no_verb_is_answered_with_help_and_exit_code_2() {
    insta::assert_snapshot!(result_of(&[]), @"
    exit code: 2
    --- stdout
    --- stderr
    The command line tool of Bowline, the operator framework for Rust

    Usage: bowline <COMMAND>

    Commands:
      init        Make a project for an operator, in a new folder
      create      Add to a project
      dev         Run the operator on an API server in memory, and again after each change
      run         Run the operator on the cluster of the current context
      install     Install the operator's CRDs on the cluster of the current context
      uninstall   Delete the operator's CRDs from the cluster of the current context
      manifests   Write the operator's CRDs, roles, deployment, alerts and dashboard as YAML
      demo        Show an operator at work, on an API server inside this process
      plane       Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM
      version     Print the version of this tool
      completion  Print a script that completes this tool's arguments in a shell
      man         Print a manual page
      help        Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    ");
}

#[test]
fn version_is_one_line() {
    insta::assert_snapshot!(result_of(&["version"]), @"
    exit code: 0
    --- stdout
    bowline [VERSION]
    --- stderr
    ");
}

#[test]
fn version_flag_says_the_same_as_the_verb() {
    assert_eq!(result_of(&["--version"]), result_of(&["version"]));
}

#[test]
fn version_is_json_when_asked() {
    insta::assert_snapshot!(result_of(&["version", "--output", "json"]), @r#"
    exit code: 0
    --- stdout
    {"version":"[VERSION]"}
    --- stderr
    "#);
}

#[test]
fn version_help_names_the_formats() {
    insta::assert_snapshot!(result_of(&["version", "--help"]), @"
    exit code: 0
    --- stdout
    Print the version of this tool

    Usage: bowline version [OPTIONS]

    Options:
      -o, --output <FORMAT>
              Format of the output

              Possible values:
              - text: One line to be read by people
              - json: One JSON object on one line, to be read by programs

              [default: text]

      -h, --help
              Print help (see a summary with '-h')
    --- stderr
    ");
}

#[test]
fn an_unknown_format_is_answered_with_the_known_ones() {
    insta::assert_snapshot!(result_of(&["version", "--output", "yaml"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: invalid value 'yaml' for '--output <FORMAT>'
      [possible values: text, json]

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_verb_is_an_error_with_exit_code_2() {
    insta::assert_snapshot!(result_of(&["verison"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: unrecognized subcommand 'verison'

      tip: a similar subcommand exists: 'version'

    Usage: bowline <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn an_unknown_shell_is_answered_with_the_known_ones() {
    insta::assert_snapshot!(result_of(&["completion", "tcsh"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: invalid value 'tcsh' for '<SHELL>'
      [possible values: bash, elvish, fish, powershell, zsh]

      tip: a similar value exists: 'zsh'

    For more information, try '--help'.
    ");
}

#[test]
fn completion_help_tells_the_installation_for_each_shell() {
    insta::assert_snapshot!(result_of(&["completion", "--help"]), @"
    exit code: 0
    --- stdout
    Print a script that completes this tool's arguments in a shell

    Usage: bowline completion <SHELL>

    Arguments:
      <SHELL>
              The shell that reads the script

              [possible values: bash, elvish, fish, powershell, zsh]

    Options:
      -h, --help
              Print help (see a summary with '-h')

    Installation:
      The script is made for this version of the tool: install it again after an upgrade.

      bash (needs the package bash-completion)
        mkdir -p ~/.local/share/bash-completion/completions
        bowline completion bash > ~/.local/share/bash-completion/completions/bowline

      elvish
        Add to ~/.config/elvish/rc.elv:
        eval (bowline completion elvish | slurp)

      fish
        mkdir -p ~/.config/fish/completions
        bowline completion fish > ~/.config/fish/completions/bowline.fish

      powershell
        Add to the file that $PROFILE names:
        bowline completion powershell | Out-String | Invoke-Expression

      zsh
        mkdir -p ~/.zfunc
        bowline completion zsh > ~/.zfunc/_bowline
        Add to ~/.zshrc, before the line that runs compinit:
        fpath=(~/.zfunc $fpath)
    --- stderr
    ");
}

#[test]
fn the_completion_of_every_shell_names_every_verb() {
    for shell in SHELLS {
        let output = run(&["completion", shell]);
        assert!(output.status.success(), "{shell}: {output:?}");
        let script = text(&output.stdout);
        for verb in ["init", "create", "demo", "plane", "version", "completion", "man"] {
            assert!(script.contains(verb), "the script for {shell} does not name {verb}:\n{script}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    for (command, line) in [
        (&["man"][..], "bowline \\- The command line tool of Bowline, the operator framework for Rust"),
        (
            &["man", "create", "api"],
            "bowline\\-create\\-api \\- Add a kind and its controller to the project of the current folder",
        ),
    ] {
        let output = run(command);
        let page = text(&output.stdout);
        assert!(output.status.success() && page.contains(line), "{page}");
    }
}

#[test]
fn a_manual_page_of_an_unknown_command_is_an_error() {
    insta::assert_snapshot!(result_of(&["man", "create", "apis"]), @"
    exit code: 2
    --- stdout
    --- stderr
    error: there is no command `bowline create apis`
    hint: see `bowline --help`
    ");
}

#[test]
fn a_closed_pipe_is_a_success() {
    for arguments in [["completion", "bash"], ["version", "--output=json"], ["version", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = bowline(&arguments).stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error_with_exit_code_1() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = bowline(&["completion", "bash"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!(text(&output.stderr), @"error: cannot write to the standard output: No space left on device (os error 28)");
}

/// The exit code and both outputs, in a form that does not change with the version and has no blanks at line ends.
fn result_of(arguments: &[&str]) -> String {
    shown(&run(arguments))
}

fn shown(output: &Output) -> String {
    let code = output.status.code().expect("the tool ends by itself");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let text = format!("exit code: {code}\n--- stdout\n{stdout}--- stderr\n{stderr}");
    let text = text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("the tool prints UTF-8")
}

fn run(arguments: &[&str]) -> Output {
    bowline(arguments).output().expect("the tool starts")
}

fn bowline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
    // The width of the help and its colours must not depend on where the tests run.
    command.args(arguments).stdin(Stdio::null()).env("COLUMNS", "100").env_remove("CLICOLOR_FORCE");
    command
}
