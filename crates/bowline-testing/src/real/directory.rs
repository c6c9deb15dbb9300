//! The directory of a control plane: keys, certificates, kubeconfigs, logs and etcd's data. Owns their privacy.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory that was empty at first.
#[derive(Debug)]
pub(super) enum Directory {
    /// Temporary: removed when this is dropped.
    Temporary(TempDir),
    Given(PathBuf),
}

impl Directory {
    /// A new directory that only the user can enter, removed when this is dropped.
    pub(super) fn temporary() -> io::Result<Self> {
        let mode = Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("bowline-real-").permissions(mode).tempdir().map(Self::Temporary)
    }

    /// `path`: an empty directory, or created with mode 0700.
    ///
    /// Fails with [`io::ErrorKind::DirectoryNotEmpty`] if it is not empty, and as [`create_private_directory`].
    pub(super) fn given(path: &Path) -> io::Result<Self> {
        create_private_directory(path)?;
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        // Absolute, because the programs run in another directory.
        path.canonicalize().map(Self::Given)
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Given(path) => path,
        }
    }

    /// The path of a file in it.
    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file that only the user can read.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.join(name);
        write_private(&path, text)?;
        Ok(path)
    }

    /// Keeps the directory when this is dropped.
    pub(super) fn keep(self) -> PathBuf {
        match self {
            Self::Temporary(directory) => directory.keep(),
            Self::Given(path) => path,
        }
    }
}

/// Creates a directory with mode 0700, or accepts an existing one.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if it belongs to another user or others may write into it: they could replace keys and
/// programs.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let metadata = std::fs::metadata(path)?;
    if metadata.mode() & 0o022 != 0 || metadata.uid() != rustix::process::geteuid().as_raw() {
        let problem =
            "other users may write into it; choose another, or make it yours alone with `chmod go-w`";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    Ok(())
}

/// Writes a file with mode 0600 in one step, so that no reader sees half of it. A file or link that is in the way of the
/// temporary one is never written to.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_added_extension("partial");
    let create = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
    let mut file = match create() {
        // A killed process may have left it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(&partial)?;
            create()?
        }
        created => created?,
    };
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
    fn a_directory_that_others_may_write_into_is_refused() {
        let temporary = Directory::temporary().unwrap();
        for (mode, is_private) in [(0o700, true), (0o755, true), (0o770, false), (0o707, false)] {
            std::fs::set_permissions(temporary.path(), Permissions::from_mode(mode)).unwrap();
            let given = Directory::given(temporary.path()).map_err(|error| error.kind());
            assert_eq!(
                given.map(drop).err(),
                (!is_private).then_some(io::ErrorKind::PermissionDenied),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn a_link_in_the_way_of_a_private_file_is_not_followed() {
        let temporary = Directory::temporary().unwrap();
        let (theirs, link) = (temporary.join("theirs"), temporary.join("key.partial"));
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::symlink(&theirs, &link).unwrap();
        let file = temporary.write("key", "secret").unwrap();
        assert_eq!(std::fs::read_to_string(theirs).unwrap(), "theirs");
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), mode(&file)), ("secret", 0o600));
        assert!(!link.is_symlink());
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
