//! The arguments of `bowline init`.

use std::path::PathBuf;

use clap::Args;

use crate::names;

/// Make a project for an operator, in a new folder
#[derive(Debug, Args)]
#[command(after_long_help = AFTER)]
pub(crate) struct Init {
    /// Name of the project: of its folder, its package and its program
    #[arg(value_name = "NAME", value_parser = names::project)]
    pub(crate) name: String,

    /// Domain with which its API groups end
    #[arg(long, value_name = "DOMAIN", value_parser = names::domain)]
    pub(crate) domain: String,

    /// License of the project, as an expression of SPDX
    ///
    /// It stands in Cargo.toml and at the top of each Rust file.
    #[arg(long, value_name = "SPDX", value_parser = names::license)]
    pub(crate) license: Option<String>,

    /// Owner of the copyright, named at the top of each Rust file
    #[arg(long, value_name = "NAME", value_parser = names::owner)]
    pub(crate) owner: Option<String>,

    /// Root of a clone of Bowline whose crates to use
    ///
    /// Default: the one that this tool was built from, if it is still there; or else the registry, in the version of this
    /// tool.
    #[arg(long, value_name = "PATH")]
    pub(crate) bowline: Option<PathBuf>,
}

const AFTER: &str = "\
Examples:
  bowline init games --domain example.com
  bowline init games --domain example.com --license Apache-2.0 --owner 'The Games Authors'

  The folder must not exist, or be empty. The project builds, runs and passes its tests at once:
  add a kind with 'bowline create api'.";
