//! Ready-made flags: what every operator can be told when it is started, beside what it has to be told itself.
//!
//! ```no_run
//! use bowline::prelude::*;
//!
//! /// Gives every website what it needs.
//! #[derive(clap::Parser)]
//! #[command(version)]
//! struct Flags {
//!     /// The image of a website that names none
//!     #[arg(long, default_value = "nginx")]
//!     image: String,
//! }
//!
//! # fn operator(_: &Manager, _: String) -> Result<()> { Ok(()) }
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let args = bowline::args::<Flags>();
//!     let manager = args.manager().await?; // logs, signals, the cluster, servers, the election
//!     operator(&manager, args.own.image)?;
//!     Ok(manager.start().await?)           // until a signal, or the lease is lost
//! }
//! ```
//!
//! A program without flags of its own says `bowline::args::<()>()`. One that has a whole command line of its own flattens
//! [`ManagerFlags`] into it. `--help` lists all flags with their defaults. Nothing but `$KUBECONFIG`, and what says
//! that this is a pod, is read from the environment. Logs are set up by `--log-level` and `--log-format`, unless the program
//! has a `tracing` subscriber already, which is left alone.
//!
//! What makes no sense ends the program with status 2 and a message, before anything is done. What goes wrong later is
//! an error of `main`: one line, and status 1. A flag whose value is empty (`--namespace=`), as templates make it, is as one
//! that is not there.
//!
//! # Other defaults
//! A program that wants other defaults says so: `mut_arg` with the name of a field of [`ManagerFlags`]. One of them almost every
//! program needs: the name of the lease. `--leader-elect` is refused without one, because there is none to guess. The name
//! of the file is no good: two operators that are both called `/manager` would wait for each other, and two versions in files
//! of their own would both lead.
//!
//! ```
//! use bowline::args::Arguments;
//!
//! /// Gives every website what it needs.
//! #[derive(Debug, clap::Parser)]
//! #[command(mut_arg("leader_election_id", |arg| arg.default_value("websites.example.com")))]
//! #[command(mut_arg("max_concurrent_reconciles", |arg| arg.default_value("4")))]
//! struct Flags {}
//!
//! let args = Arguments::<Flags>::try_from_iter(["operator", "--leader-elect"])?;
//! assert_eq!(args.flags.leader_election_id.as_deref(), Some("websites.example.com"));
//!
//! let refused = Arguments::<()>::try_from_iter(["operator", "--leader-elect"]).unwrap_err();
//! assert!(refused.to_string().contains("needs --leader-election-id"));
//! # Ok::<(), clap::Error>(())
//! ```
//!
//! # Servers
//! Probes are answered at `:8081`, as the Deployment of a kubebuilder project expects it. A second replica on the same machine
//! has no place there: `--health-probe-bind-address=0`, or another port.
//!
//! There are no metrics unless `--metrics-bind-address` says where. They are served over TLS, to whoever sends a token of
//! somebody whom the cluster lets `get` the URL `/metrics`. `--enable-debug` adds a page at `/debug`; who may see that needs
//! `get` on this URL, which a role for readers of metrics does not have:
//!
//! ```sh
//! kubectl create clusterrole debug-reader --verb=get --non-resource-url=/debug
//! kubectl create clusterrolebinding debug-reader --clusterrole=debug-reader --serviceaccount=NAMESPACE:NAME
//! curl -k -H "Authorization: Bearer $(kubectl create token -n NAMESPACE NAME)" https://HOST:PORT/debug
//! ```
//!
//! A browser sends no token. On a machine of one's own, `--metrics-bind-address=127.0.0.1:8080 --metrics-secure=false
//! --enable-debug` shows the page at <http://127.0.0.1:8080/debug>.

mod assembly;
mod duration;
mod flags;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use bowline_runtime::{Manager, ManagerBuilder};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command, FromArgMatches as _};

pub use assembly::ArgsError;
pub use flags::ManagerFlags;

/// The arguments of a program: its own, and those that every manager has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Arguments<F = ()> {
    /// The program's own.
    pub own: F,
    /// Those that every manager has.
    pub flags: ManagerFlags,
    typed: BTreeSet<String>,
}

/// The arguments that this program was started with. `F` is what it has of its own: a type that derives [`clap::Args`] or
/// [`clap::Parser`], or `()`.
///
/// Ends the process when it was asked for help or the version, with status 0, and when it was given what makes no sense, with
/// a message and status 2.
#[must_use]
pub fn args<F: clap::Args>() -> Arguments<F> {
    Arguments::try_from_iter(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

impl<F: clap::Args> Arguments<F> {
    /// The arguments in a list that begins with the program, as [`std::env::args_os`] does.
    ///
    /// # Errors
    /// When they make no sense, or ask for help or the version: its text is the answer, and [`clap::Error::exit`] gives it.
    pub fn try_from_iter<T: Into<OsString>>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let mut command = definition::<F>(&program(arguments.first()));
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        let read = |matches: &mut _| {
            Ok(Self {
                own: F::from_arg_matches_mut(matches)?,
                flags: ManagerFlags::from_arg_matches_mut(matches)?,
                typed: BTreeSet::new(),
            })
        };
        let typed = typed(&matches);
        let mut arguments: Self =
            read(&mut matches).map_err(|error: clap::Error| error.format(&mut command))?;
        arguments.typed = typed;
        arguments.flags.namespace.retain(|name| !name.is_empty());
        if arguments.flags.leader_election_id.as_deref() == Some("") {
            arguments.flags.leader_election_id = default_of(&command, "leader_election_id");
        }
        match arguments.flags.contradiction() {
            None => Ok(arguments),
            Some(what) => Err(command.error(ErrorKind::ValueValidation, what)),
        }
    }

    /// What a program answers that finds flags of its own not to fit together, in the form that other mistakes have:
    /// [`clap::Error::exit`] gives it, and ends the program with status 2.
    #[must_use]
    pub fn error(&self, problem: &str) -> clap::Error {
        definition::<F>(&program(std::env::args_os().next().as_ref()))
            .error(ErrorKind::ValueValidation, problem)
    }
}

impl<F> Arguments<F> {
    /// Whether somebody typed a flag, by the name of its field (`"metrics_secure"`). For a program whose own default depends on
    /// something else: what was typed is to be left as it is.
    #[must_use]
    pub fn is_typed(&self, flag: &str) -> bool {
        self.typed.contains(flag)
    }

    /// The manager that the flags ask for. As [`ManagerFlags::manager`].
    ///
    /// # Errors
    /// As [`ManagerFlags::manager`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn manager(&self) -> Result<Manager, ArgsError> {
        self.flags.manager().await
    }

    /// The manager that the flags ask for, with options that the program adds. As [`ManagerFlags::builder`].
    ///
    /// # Errors
    /// As [`ManagerFlags::builder`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn builder(&self) -> Result<ManagerBuilder, ArgsError> {
        self.flags.builder().await
    }
}

/// All flags, and the help about them.
fn definition<F: clap::Args>(program: &str) -> Command {
    // The program's own come last: what they say of the whole is what counts.
    F::augment_args(ManagerFlags::augment_args(Command::new(program.to_owned()).max_term_width(100)))
}

/// The flags that do not have their default.
fn typed(matches: &ArgMatches) -> BTreeSet<String> {
    let is_typed = |id: &&clap::Id| {
        matches.value_source(id.as_str()).is_some_and(|from| from != ValueSource::DefaultValue)
    };
    matches.ids().filter(is_typed).map(ToString::to_string).collect()
}

/// What a flag is if it is not typed.
fn default_of(command: &Command, flag: &str) -> Option<String> {
    let flag = command.get_arguments().find(|known| known.get_id() == flag)?;
    flag.get_default_values().first()?.to_str().map(str::to_owned)
}

/// What the program is called in its help: its file's name. Nothing else may depend on that; whoever builds an image chooses
/// it, and it may have a version in it.
fn program(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(|| "operator".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
