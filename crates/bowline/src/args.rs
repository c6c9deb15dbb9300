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
//! [`ManagerFlags`] into it. One that wants another default says so: `#[command(mut_arg("leader_elect", |arg|
//! arg.default_value("true")))]`. `--help` lists all flags with their defaults. Nothing but `$KUBECONFIG`, and what says
//! that this is a pod, is read from the environment.
//!
//! What makes no sense ends the program with status 2 and a message, before anything is done. What goes wrong later is
//! an error of `main`: one line, and status 1.

mod assembly;
mod duration;
mod flags;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use bowline_runtime::{Manager, ManagerBuilder};
use clap::error::ErrorKind;
use clap::{Args as _, Command, FromArgMatches as _};

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
            })
        };
        let arguments: Self = read(&mut matches).map_err(|error: clap::Error| error.format(&mut command))?;
        match arguments.flags.contradiction() {
            None => Ok(arguments),
            Some(what) => Err(command.error(ErrorKind::ValueValidation, what)),
        }
    }
}

impl<F> Arguments<F> {
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

/// What the program is called: its file's name.
fn program(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(|| "operator".to_owned(), |stem| stem.to_string_lossy().into_owned())
}
