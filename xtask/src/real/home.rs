//! Directories outside of any checkout: the programs, and the control plane of `up`.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use bowline_testing::internal::create_private_directory;

use super::error::RealError;

/// The variable that overrides the user's cache directory.
const OVERRIDE: &str = "BOWLINE_REAL_DIR";

/// `$BOWLINE_REAL_DIR`, or `bowline/real` in the user's cache.
#[derive(Debug)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn find() -> Result<Self, RealError> {
        let path = chosen(env::var_os(OVERRIDE), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"));
        let path = path.ok_or(RealError::NoHome { variable: OVERRIDE })?;
        Self::at(&path)
    }

    /// A directory with mode 0700, or an existing one into which nobody else may write: its programs are run.
    fn at(path: &Path) -> Result<Self, RealError> {
        create_private_directory(path).map_err(RealError::at(path))?;
        // `go build` and the programs run in other directories.
        path.canonicalize().map(Self).map_err(RealError::at(path))
    }

    /// The directory of the programs of these versions.
    pub(super) fn versions(&self, versions: &str) -> PathBuf {
        self.0.join(versions)
    }

    /// The directory of the control plane of `up`.
    pub(super) fn running(&self) -> PathBuf {
        self.0.join("running")
    }

    /// Removes the keys and data of a stopped plane.
    pub(super) fn clear_running(&self) -> Result<(), RealError> {
        let path = self.running();
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(RealError::at(&path)(error)),
            _ => Ok(()),
        }
    }

    /// Waits until no other command holds the lock with this name. The lock is released when the result is dropped, or
    /// with the process.
    pub(super) fn lock(&self, name: &str) -> Result<File, RealError> {
        let path = self.0.join(format!("{name}.lock"));
        let lock = || {
            let file = File::options().write(true).create(true).truncate(false).open(&path)?;
            if file.try_lock().is_err() {
                eprintln!("real: waiting for another `cargo xtask real` ({})", path.display());
                file.lock()?;
            }
            Ok(file)
        };
        lock().map_err(RealError::at(&path))
    }
}

/// The first that is set and not empty. By its specification, a relative cache directory must be ignored.
fn chosen(own: Option<OsString>, cache: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let path = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = path(cache).filter(|cache| cache.is_absolute());
    let cache = cache.or_else(|| path(home).map(|home| home.join(".cache")));
    path(own).or_else(|| cache.map(|cache| cache.join(Path::new("bowline").join("real"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_others_may_write_into_is_refused() {
        let path = env::temp_dir().join(format!("bowline-xtask-{}", std::process::id()));
        let made = Home::at(&path).unwrap();
        let mode = std::fs::metadata(&made.0).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o770)).unwrap();
        let refused = Home::at(&path);
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(format!("{mode:o}"), "700");
        let text = refused.unwrap_err().to_string();
        assert!(text.starts_with(&format!("cannot use {}: other users may write", path.display())), "{text}");
    }

    #[test]
    fn the_override_wins_then_the_cache_then_the_home() {
        let find = |own: &str, cache: &str, home: &str| {
            let path = chosen(Some(own.into()), Some(cache.into()), Some(home.into()));
            path.map(|path| path.display().to_string()).unwrap_or_default()
        };
        assert_eq!(find("/own", "/cache", "/home/me"), "/own");
        assert_eq!(find("", "/cache", "/home/me"), "/cache/bowline/real");
        assert_eq!(find("", "relative", "/home/me"), "/home/me/.cache/bowline/real");
        assert_eq!(find("", "", ""), "");
        assert_eq!(chosen(None, None, None), None);
    }
}
