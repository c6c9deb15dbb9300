//! The arguments of `bowline create`.

use clap::{Args, Subcommand};

use crate::names;

/// Add to a project
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Create {
    #[command(subcommand)]
    pub(crate) what: Created,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Created {
    Api(CreateApi),
}

/// Add a kind and its controller to the project of the current folder
#[derive(Debug, Args)]
#[command(after_long_help = AFTER)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct CreateApi {
    /// API group, without the domain of the project; or the group of a built-in kind: core, apps
    #[arg(long, value_name = "GROUP", value_parser = names::group)]
    pub(crate) group: String,

    /// Version of the API: v1, v1alpha1
    #[arg(long, value_name = "VERSION", value_parser = names::version)]
    pub(crate) version: String,

    /// Name of the kind, such as Game
    #[arg(long, value_name = "KIND", value_parser = names::kind)]
    pub(crate) kind: String,

    /// Plural, which names the resource in URLs [default: the kind in lower case with an English ending]
    #[arg(long, value_name = "PLURAL", value_parser = names::plural)]
    pub(crate) plural: Option<String>,

    /// Objects are in namespaces. This is the default
    #[arg(long)]
    pub(crate) namespaced: bool,

    /// Objects are not in namespaces
    #[arg(long, conflicts_with = "namespaced")]
    pub(crate) cluster: bool,

    /// Write a controller. This is the default, except for a further version of a kind
    #[arg(long)]
    pub(crate) controller: bool,

    /// Write no controller
    #[arg(long, conflicts_with = "controller")]
    pub(crate) no_controller: bool,

    /// Write the types of the kind. This is the default
    #[arg(long)]
    pub(crate) resource: bool,

    /// Write only a controller, for a kind that is built in or already in the project
    #[arg(long, conflicts_with_all = ["resource", "no_controller", "plural", "namespaced", "cluster"])]
    pub(crate) no_resource: bool,

    /// Name of the controller, for a further one of the same kind [default: the kind in lower case]
    #[arg(long, value_name = "NAME", value_parser = names::controller, conflicts_with = "no_controller")]
    pub(crate) controller_name: Option<String>,

    /// Write files again that exist, and lose what was changed in them
    #[arg(long)]
    pub(crate) force: bool,
}

const AFTER: &str = "\
Examples:
  bowline create api --group games --version v1 --kind Game
      src/game.rs with the types, a controller and a test, a sample, and the lines in src/main.rs
  bowline create api --group games --version v2 --kind Game
      another version of the kind, which is served beside the stored one
  bowline create api --group apps --version v1 --kind Deployment --no-resource
      a controller of a built-in kind
  bowline create api --group games --version v1 --kind Game --no-resource --controller-name audit
      a second controller of a kind, in src/audit.rs

  Nothing is written if anything is in the way. Lines in files of yours are inserted; the rest of
  these files stays as it is.";
