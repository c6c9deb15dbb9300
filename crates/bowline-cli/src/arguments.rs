//! The arguments as they are typed, and the help about them. Owns no behaviour: what is done with an argument stands
//! in the file of its verb.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// The command line tool of Bowline, the operator framework for Rust.
#[derive(Debug, Parser)]
#[command(name = "bowline", bin_name = "bowline", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Arguments {
    /// The definition that the arguments are parsed by, for those who describe it in another language.
    pub(crate) fn definition() -> clap::Command {
        Self::command()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Demo(Demo),
    Plane(Plane),
    Version(Version),
    Completion(Completion),
}

/// Show an operator at work, on an API server inside this process
#[derive(Debug, Args)]
#[command(after_long_help = DEMO)]
pub(crate) struct Demo {
    /// How long a step may take until the demo has failed
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) timeout: u64,
}

const DEMO: &str = "\
What is shown:
  The operator of examples/sample-controller gives each Foo the Deployment that it names. A Foo is
  created, scaled and deleted; each step tells the reconcile that did it, and why it ran.

  Nothing is listened on, and nothing is left. A step that fails is exit code 1.";

/// Start a Kubernetes API server in memory, until it is stopped by Ctrl-C or SIGTERM
#[derive(Debug, Args)]
#[command(after_long_help = PLANE)]
pub(crate) struct Plane {
    /// The port of 127.0.0.1 to listen on; 0 is any that is free
    #[arg(long, short, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,

    /// Where to write the kubeconfig
    #[arg(long, value_name = "PATH", long_help = KUBECONFIG)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Print each request to the standard error
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

const KUBECONFIG: &str = "\
Where to write the kubeconfig

Without it: a file in $XDG_RUNTIME_DIR, or else in the directory of temporary files, that is removed at the end.";

const PLANE: &str = "\
What it is:
  The API of Kubernetes 1.36: built-in kinds and custom resources. There are no controllers, no
  scheduler and no nodes: a Deployment gets no pods. Everything is gone when it stops.

  Whoever can read the kubeconfig may do everything; it can be read by its owner only.";

/// Print the version of this tool
#[derive(Debug, Args)]
pub(crate) struct Version {
    /// How to print it
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t = Output::Text)]
    pub(crate) output: Output,
}

/// The form of what a verb prints.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::definition().debug_assert();
    }

    #[test]
    fn the_installation_of_every_shell_is_told() {
        for shell in Shell::value_variants() {
            assert!(INSTALLATION.contains(&format!("bowline completion {shell}")), "{shell}");
        }
    }
}
