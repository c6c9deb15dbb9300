//! A kubeconfig for as long as a server runs, in a directory that no other user can enter.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};

use super::Kubeconfig;

/// A kubeconfig file that is removed, with its directory, when this is dropped.
///
/// [`Kubeconfig::write_temporary`] makes one.
#[derive(Debug)]
pub struct TemporaryKubeconfig {
    directory: PathBuf,
    file: PathBuf,
}

impl TemporaryKubeconfig {
    /// Writes the file below the first of these directories in which one can be made.
    pub(super) fn write(
        kubeconfig: &Kubeconfig,
        program: &str,
        parents: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for parent in parents {
            match private_directory(&parent, program) {
                Ok(directory) => {
                    let file = directory.join("kubeconfig");
                    let temporary = Self { directory, file };
                    kubeconfig.write(&temporary.file)?;
                    return Ok(temporary);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.file
    }
}

impl Drop for TemporaryKubeconfig {
    fn drop(&mut self) {
        // Another program may have removed them. A directory with files of others stays.
        let _ = std::fs::remove_file(&self.file);
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// `$XDG_RUNTIME_DIR`, which is the user's own, and then the directory of temporary files.
pub(super) fn parents() -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|directory| directory.is_absolute() && directory.is_dir());
    runtime.into_iter().chain([std::env::temp_dir()])
}

/// A new directory that only its owner can enter. Its name cannot be guessed, and one that exists is not taken, so that no
/// other user can make it first.
fn private_directory(parent: &Path, program: &str) -> io::Result<PathBuf> {
    let path = parent.join(format!("{program}-{:016x}", random()?));
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&path)?;
    Ok(path)
}

/// A number for a name that cannot be guessed.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(bytes))
}
