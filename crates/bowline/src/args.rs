//! Ready-made flags: the command line of an operator, beside the program's own flags.
//!
//! ```no_run
//! use bowline::prelude::*;
//!
//! /// Serves every website
//! #[derive(clap::Parser)]
//! #[command(version)]
//! struct Flags {
//!     /// Image of a website that names none
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
//!     Ok(manager.run().await?)           // until a signal, or the lease is lost
//! }
//! ```
//!
//! A program without flags of its own calls `bowline::args::<()>()`. A program with a whole command line of its own flattens
//! [`ManagerFlags`] into it. `--help` lists all flags with their defaults. `--log-level` and `--log-format` set up logs, unless
//! the program has a `tracing` subscriber already.
//!
//! Flags that are not valid end the program with status 2 and a message, before anything is done. Later failures are errors of
//! `main`: one line, and status 1. A flag with an empty value (`--namespace=`), as templates write it, counts as absent; only
//! `--kubeconfig=` counts as `--kubeconfig`.
//!
//! # Cluster or plane
//! An operator acts on a cluster only if the cluster is named:
//!
//! | named by | cluster |
//! |---|---|
//! | `--kubeconfig PATH` | that of the file's current context |
//! | `--kubeconfig` | that of `$KUBECONFIG`, or else of `~/.kube/config` |
//! | `--context NAME` | that of this context, in the file of `--kubeconfig`, `$KUBECONFIG` or `~/.kube/config` |
//! | `--master URL` | that address, with the credentials of the kubeconfig or the pod if there are some |
//! | nothing, in a pod | that of the pod |
//!
//! `$KUBECONFIG` and `~/.kube/config` alone never count: an operator that is started without flags changes no cluster. This
//! differs from controller-runtime on purpose. [`ConfigSearch`](bowline_runtime::transport::ConfigSearch), for programs that
//! look for a cluster themselves, follows controller-runtime.
//!
//! With the feature `plane`, an operator for which no cluster is named runs on a plane: an API server inside its process, on a
//! free port of 127.0.0.1. `--plane` asks for one, also in a pod. The manager installs its declared kinds
//! ([`Manager::crd`]) there, creates the objects of each `--apply FILE`, and prints the kubeconfig and commands to try.
//! Controllers run meanwhile: an object that the plane refuses ends the program, and the objects before it may have been
//! reconciled. Operator and plane stop together. Without the feature, an operator for which no cluster is named ends with an
//! error that lists the flags to add.
//!
//! The feature links the API server. Make it a default feature of the operator for development, and build images with
//! `--no-default-features`:
//!
//! ```toml
//! [features]
//! default = ["plane"]
//! plane = ["bowline/plane"]
//! ```
//!
//! One line of the log names the cluster in use: `cluster selected server=https://10.0.0.1:6443 origin="context staging"`.
//!
//! # Other defaults
//! A program sets another default with `mut_arg` and the name of a field of [`ManagerFlags`]. Almost every program needs that for
//! the name of the lease: `--leader-elect` is refused without one. The file name of the program is not a good name for a lease:
//! two operators that are both called `/manager` would wait for each other, and two versions with different file names would
//! both lead.
//!
//! ```
//! use bowline::args::Arguments;
//!
//! /// Serves every website
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
//! # Description
//! `OPERATOR describe` is a hidden command of every operator with these flags. It builds what `main` builds, and
//! [`Manager::run`] prints an [`OperatorDescription`](bowline_runtime::OperatorDescription) as JSON instead of starting: custom
//! kinds, controllers, watches and permissions. It opens no connection. `bowline manifests` and other tools read it.
//!
//! # Servers
//! In a pod, probes are answered at `:8081`, as the Deployment of a kubebuilder project expects; elsewhere at
//! `127.0.0.1:8081`, and on a plane not at all. A second replica on the same machine needs another port, or
//! `--health-probe-bind-address=0`.
//!
//! Metrics are off unless `--metrics-bind-address` is set. They are served over TLS, to clients with a token of a user who may
//! `get` the URL `/metrics` on the cluster; on a plane, without TLS and to everyone who reaches them. `--enable-debug` adds a page
//! at `/debug`, for users who may `get` this URL. A role for readers of metrics does not include it:
//!
//! ```sh
//! kubectl create clusterrole debug-reader --verb=get --non-resource-url=/debug
//! kubectl create clusterrolebinding debug-reader --clusterrole=debug-reader --serviceaccount=NAMESPACE:NAME
//! curl -k -H "Authorization: Bearer $(kubectl create token -n NAMESPACE NAME)" https://HOST:PORT/debug
//! ```
//!
//! A browser sends no token. On a developer's machine, `--metrics-bind-address=127.0.0.1:8080 --metrics-secure=false
//! --enable-debug` serves the page at <http://127.0.0.1:8080/debug>.

mod assembly;
mod cluster;
mod describe;
mod duration;
mod flags;
#[cfg(feature = "plane")]
mod plane;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use bowline_runtime::{Manager, ManagerBuilder};
use clap::error::ErrorKind;
use clap::{Args as _, Command, FromArgMatches as _};

#[cfg(feature = "plane")]
pub use crate::plane::ObjectError;
pub use assembly::ArgsError;
use cluster::PlaneContents;
pub use flags::ManagerFlags;
use flags::TypedFlags;

/// The hidden command of every operator.
const DESCRIBE: &str = "describe";

/// The arguments of a program: its own flags, and those of every manager.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Arguments<F = ()> {
    /// Flags of the program.
    pub own: F,
    /// Flags of every manager.
    pub flags: ManagerFlags,
    typed: TypedFlags,
    contents: PlaneContents,
    /// Whether the operator is asked to describe itself.
    describe: bool,
}

/// The arguments of this process. `F` is the type of the program's own flags: it derives [`clap::Args`] or [`clap::Parser`], or is
/// `()`.
///
/// Ends the process after `--help` or `--version`, with status 0, and after arguments that are not valid, with a message and
/// status 2.
#[must_use]
pub fn args<F: clap::Args>() -> Arguments<F> {
    Arguments::try_from_iter(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// As [`args`], with a default for the name of the lease: `--leader-elect` then needs no `--leader-election-id`. The name must be
/// the operator's own, for example `websites.example.com`, and stay the same in all its versions.
#[must_use]
pub fn args_with_lease<F: clap::Args>(lease: &'static str) -> Arguments<F> {
    Arguments::try_from_iter_with_lease(std::env::args_os(), lease).unwrap_or_else(|error| error.exit())
}

impl<F: clap::Args> Arguments<F> {
    /// The arguments in a list that begins with the program, as that of [`std::env::args_os`] does.
    ///
    /// # Errors
    /// When they are not valid, or ask for help or the version. [`clap::Error::exit`] prints the text of the error and ends the
    /// process.
    pub fn try_from_iter<T: Into<OsString>>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        Self::parse(arguments, |command| command)
    }

    /// As [`try_from_iter`](Self::try_from_iter), with a default for the name of the lease: see [`args_with_lease`].
    ///
    /// # Errors
    /// As [`try_from_iter`](Self::try_from_iter).
    pub fn try_from_iter_with_lease<T: Into<OsString>>(
        arguments: impl IntoIterator<Item = T>,
        lease: &'static str,
    ) -> Result<Self, clap::Error> {
        let with_lease =
            |command: Command| command.mut_arg("leader_election_id", |id| id.default_value(lease));
        Self::parse(arguments, with_lease)
    }

    fn parse<T: Into<OsString>>(
        arguments: impl IntoIterator<Item = T>,
        extend: impl FnOnce(Command) -> Command,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let mut command = extend(definition::<F>(&program(arguments.first())));
        // Only where it may be meant: beside a command, clap calls every stray argument an unknown command.
        if arguments.iter().skip(1).any(|argument| argument == DESCRIBE) {
            let describe =
                Command::new(DESCRIBE).about("Print what this operator declares, as JSON").hide(true);
            command = command.subcommand(describe);
        }
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        let read = |matches: &mut _| {
            Ok(Self {
                own: F::from_arg_matches_mut(matches)?,
                flags: ManagerFlags::from_arg_matches_mut(matches)?,
                typed: TypedFlags::default(),
                contents: PlaneContents::default(),
                describe: false,
            })
        };
        // Before values are taken out.
        let typed = TypedFlags::of(&matches);
        let describe = matches.subcommand_name() == Some(DESCRIBE);
        let mut arguments: Self =
            read(&mut matches).map_err(|error: clap::Error| error.format(&mut command))?;
        arguments.typed = typed;
        arguments.describe = describe;
        arguments.flags.namespace.retain(|name| !name.is_empty());
        #[cfg(feature = "plane")]
        arguments.flags.apply.retain(|file| !file.as_os_str().is_empty());
        if arguments.flags.leader_election_id.as_deref() == Some("") {
            arguments.flags.leader_election_id = default_of(&command, "leader_election_id");
        }
        match arguments.flags.contradiction() {
            None => Ok(arguments),
            Some(problem) => Err(command.error(ErrorKind::ValueValidation, problem)),
        }
    }

    /// An error about flags of the program that contradict each other, in the form of other mistakes. [`clap::Error::exit`]
    /// prints it and ends the program with status 2.
    #[must_use]
    pub fn error(&self, problem: &str) -> clap::Error {
        definition::<F>(&program(std::env::args_os().next().as_ref()))
            .error(ErrorKind::ValueValidation, problem)
    }
}

impl<F> Arguments<F> {
    /// Whether a flag is in the command line, by the name of its field (`"metrics_secure"`). It is for a program whose default
    /// depends on something else, and must not replace a typed value.
    #[must_use]
    pub fn is_typed(&self, flag: &str) -> bool {
        self.typed.contains(flag)
    }

    /// Adds objects that an operator on a plane starts with, as YAML or JSON: those of `--apply` replace them. They are not
    /// created on a cluster. Without the feature `plane` this has no effect. May be called several times. Default: none.
    ///
    /// ```
    /// let args = bowline::args::Arguments::<()>::try_from_iter(["operator"])?
    ///     .sample("{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}}")
    ///     .hint("kubectl delete configmap hello");
    /// # Ok::<(), clap::Error>(())
    /// ```
    #[must_use]
    pub fn sample(mut self, objects: impl Into<String>) -> Self {
        self.contents.samples.push(objects.into());
        self
    }

    /// Adds a command to the greeting of an operator on a plane. Without the feature `plane` this has no effect. May be called
    /// several times. Default: none.
    #[must_use]
    pub fn hint(mut self, command: impl Into<String>) -> Self {
        self.contents.hints.push(command.into());
        self
    }

    /// The manager of these flags. As [`ManagerFlags::manager`], with the program's [samples](Self::sample).
    ///
    /// # Errors
    /// As [`ManagerFlags::manager`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn manager(&self) -> Result<Manager, ArgsError> {
        Ok(self.builder().await?.build()?)
    }

    /// The manager of these flags, for a program that adds options. As [`ManagerFlags::builder`].
    ///
    /// # Errors
    /// As [`ManagerFlags::builder`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn builder(&self) -> Result<ManagerBuilder, ArgsError> {
        if self.describe {
            return Ok(self.flags.describing_builder());
        }
        self.flags.builder_with(&self.contents).await
    }
}

/// All flags with their help.
fn definition<F: clap::Args>(program: &str) -> Command {
    // The program's own come last: their description of the whole counts.
    F::augment_args(ManagerFlags::augment_args(Command::new(program.to_owned()).max_term_width(100)))
}

/// The default of a flag.
fn default_of(command: &Command, flag: &str) -> Option<String> {
    let flag = command.get_arguments().find(|known| known.get_id() == flag)?;
    flag.get_default_values().first()?.to_str().map(str::to_owned)
}

/// Name of the program in its help: that of its file. Nothing else may depend on it: an image may give the file another name,
/// also with a version in it.
fn program(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(|| "operator".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
