//! The directory of a control plane: keys, certificates, kubeconfigs, logs and etcd's data. Owns their privacy.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that was empty when it was taken.
#[derive(Debug)]
pub(super) enum Directory {
    /// Removed when it is dropped.
    Temporary(TempDir),
    Given(PathBuf),
}

impl Directory {
    /// A new directory that only the user can enter, removed when this is dropped.
    pub(super) fn temporary() -> io::Result<Self> {
        let mode = Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("bowline-real-").permissions(mode).tempdir().map(Self::Temporary)
    }

    /// `path`, created with mode 0700 unless it is there, and empty.
    ///
    /// Fails with [`io::ErrorKind::DirectoryNotEmpty`] if something is in it.
    pub(super) fn given(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // The programs run in another directory, and a kubeconfig is used from anywhere.
        path.canonicalize().map(Self::Given)
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Given(path) => path,
        }
    }

    /// The path of something in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file that only the user can read.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.join(name);
        write_private(&path, text)?;
        Ok(path)
    }

    /// The directory stays when this is gone.
    pub(super) fn keep(self) -> PathBuf {
        match self {
            Self::Temporary(directory) => directory.keep(),
            Self::Given(path) => path,
        }
    }
}

/// Writes a file with mode 0600, in one step for whoever reads it.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directories_and_files_are_the_users_alone() {
        let temporary = Directory::temporary().unwrap();
        let given = Directory::given(&temporary.join("a/b")).unwrap();
        let file = given.write("key", "secret").unwrap();
        assert_eq!(
            [mode(temporary.path()), mode(given.path()), mode(&file)].map(|mode| format!("{mode:o}")),
            ["700", "700", "600"]
        );
    }

    #[test]
    fn a_directory_with_something_in_it_is_refused() {
        let temporary = Directory::temporary().unwrap();
        temporary.write("mine", "").unwrap();
        let error = Directory::given(temporary.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
    }

    #[test]
    fn a_temporary_directory_goes_with_its_owner_unless_it_is_kept() {
        let gone = Directory::temporary().unwrap();
        let path = gone.path().to_owned();
        drop(gone);
        assert!(!path.exists());

        let kept = Directory::temporary().unwrap().keep();
        assert!(kept.exists());
        std::fs::remove_dir_all(kept).unwrap();
    }
}
