//! The libraries of the subjects in this program.

use std::{env, fmt, io};

use clap::ValueEnum;

use crate::subject::{OURS, Subject};

/// Name of the kube-rs subject.
pub(crate) const KUBE_RS: &str = "kube-rs";

/// The version of kube-rs in the lock file, checked by a test.
const KUBE_RS_VERSION: &str = "5.0.0";

/// The library of a subject in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Maker {
    Bowline,
    KubeRs,
}

impl Maker {
    /// Name of its subject.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bowline => OURS,
            Self::KubeRs => KUBE_RS,
        }
    }

    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Bowline => env!("CARGO_PKG_VERSION"),
            Self::KubeRs => KUBE_RS_VERSION,
        }
    }

    /// The subject that is this program, with a command and its arguments before the workload.
    ///
    /// # Errors
    /// When the path of this program is unknown.
    pub(crate) fn subject(self, command: &str, arguments: &[String]) -> io::Result<Subject> {
        let mut all = vec![command.to_owned(), "--maker".to_owned(), self.to_string()];
        all.extend_from_slice(arguments);
        Ok(Subject {
            name: self.name(),
            version: self.version().to_owned(),
            program: env::current_exe()?,
            arguments: all,
        })
    }
}

impl fmt::Display for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_is_displayed_as_it_is_typed() {
        for maker in Maker::value_variants() {
            assert_eq!(maker.to_string(), maker.to_possible_value().unwrap().get_name());
        }
    }

    #[test]
    fn the_version_of_kube_rs_is_the_one_that_is_locked() {
        let lock = include_str!("../../Cargo.lock");
        let entry = format!("name = \"kube\"\nversion = \"{KUBE_RS_VERSION}\"\n");
        assert!(lock.contains(&entry));
    }
}
