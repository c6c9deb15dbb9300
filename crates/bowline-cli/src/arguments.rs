//! The arguments of all commands, and their help. Owns no behavior: each command has a file of its own.

mod create;
mod init;
mod project;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use create::{Create, CreateApi, Created};
pub(crate) use init::Init;
pub(crate) use project::{Dev, Install, Manifests, Run, Uninstall};

/// The command line tool of Bowline, the operator framework for Rust.
#[derive(Debug, Parser)]
#[command(name = "bowline", bin_name = "bowline", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Command,
}

impl Arguments {
    /// The definition of the command line, for completion scripts and manual pages.
    pub(crate) fn definition() -> clap::Command {
        Self::command()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(Init),
    Create(Create),
    Dev(Dev),
    Run(Run),
    Install(Install),
    Uninstall(Uninstall),
    Manifests(Manifests),
    Demo(Demo),
    Plane(Plane),
    Version(Version),
    Completion(Completion),
    Man(Man),
}

/// Show an operator at work, on an API server inside this process
#[derive(Debug, Args)]
#[command(after_long_help = DEMO)]
pub(crate) struct Demo {
    /// Time limit of a step, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) timeout: u64,
}

const DEMO: &str = "\
Steps:
  The operator of examples/sample-controller gives each Foo the Deployment that it names. A Foo is
  created, scaled and deleted; each step prints the reconcile and what triggered it.

  Opens no port and leaves no files. A step that fails is exit code 1.";

/// Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM
#[derive(Debug, Args)]
#[command(after_long_help = PLANE)]
pub(crate) struct Plane {
    /// Port of 127.0.0.1; 0 is any free port
    #[arg(long, short, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// Kubeconfig to add a context to, until the server stops
    #[arg(long, value_name = "PATH", long_help = KUBECONFIG)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Print each request to the standard error
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

const KUBECONFIG: &str = "\
Kubeconfig to add a context to, until the server stops

The context, its cluster and its user are named bowline-PORT. They are removed at the end, and so is a file that was \
created for them. The rest of the file and its current context stay. As with 'kubectl config', comments are lost.

Without this option: a file in a directory of its own, in $XDG_RUNTIME_DIR or else in the directory of temporary files. \
It is removed at the end.";

const PLANE: &str = "\
About the server:
  The API of Kubernetes 1.36: built-in kinds and custom resources. There are no controllers, no
  scheduler and no nodes: a Deployment gets no pods. Everything is gone when it stops.

  The kubeconfig has the rights of an administrator; only its owner can read it.";

/// Print the version of this tool
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// Format of the output
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// The form of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// One line to be read by people
    Text,
    /// One JSON object on one line, to be read by programs
    Json,
}

/// Print a script that completes this tool's arguments in a shell
#[derive(Debug, Args)]
#[command(after_long_help = INSTALLATION)]
pub(crate) struct Completion {
    /// The shell that reads the script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

const INSTALLATION: &str = "\
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
    fpath=(~/.zfunc $fpath)";

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_long_help = PAGES)]
pub(crate) struct Man {
    /// The command that the page is about, such as 'create api' [default: the whole tool]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

const PAGES: &str = "\
Examples:
  bowline man | man -l -
  bowline man create api > ~/.local/share/man/man1/bowline-create-api.1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::definition().debug_assert();
    }

    #[test]
    fn the_help_has_the_installation_for_every_shell() {
        for shell in Shell::value_variants() {
            assert!(INSTALLATION.contains(&format!("bowline completion {shell}")), "{shell}");
        }
    }
}
