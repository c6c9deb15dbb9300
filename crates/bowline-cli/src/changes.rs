//! Files to write, all or none: whatever fails, and whenever the user interrupts, the folder is as it was before.

mod interrupts;

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

pub(crate) use interrupts::Interrupts;

/// Files to write.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: Vec<FileChange>,
}

#[derive(Debug)]
struct FileChange {
    path: PathBuf,
    content: String,
    condition: Condition,
}

/// What must be at the path.
#[derive(Debug)]
enum Condition {
    Nothing,
    Anything,
    Content(String),
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ChangeError {
    #[error("{} exists already; nothing was changed", path.display())]
    Exists { path: PathBuf },
    #[error("{} was changed by another program in the meantime; nothing was changed", path.display())]
    Changed { path: PathBuf },
    #[error("cannot write {}: {source}; nothing was changed", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("interrupted; nothing was changed")]
    Interrupted,
    #[error("{error}, but {} could not be restored: its old content is in {}", path.display(), copy.display())]
    NotRestored { error: Box<ChangeError>, path: PathBuf, copy: PathBuf },
}

impl ChangeError {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Changed { .. } => Some("run the command again".to_owned()),
            Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    Some("check who may write there".to_owned())
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Some("make room on the disk".to_owned())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl Changes {
    /// Adds a file that must not exist.
    pub(crate) fn create(&mut self, path: PathBuf, content: String) {
        self.files.push(FileChange { path, content, condition: Condition::Nothing });
    }

    /// Adds a file that replaces one, if there is one.
    pub(crate) fn replace(&mut self, path: PathBuf, content: String) {
        self.files.push(FileChange { path, content, condition: Condition::Anything });
    }

    /// Adds a new content for a file that must still have the old one.
    pub(crate) fn edit(&mut self, path: PathBuf, old: String, content: String) {
        self.files.push(FileChange { path, content, condition: Condition::Content(old) });
    }

    /// Writes all files.
    ///
    /// Folders that are missing are made. The new contents are written to temporary files beside their places first, and then
    /// renamed. `is_interrupted` is asked before every step.
    pub(crate) fn write(self, mut is_interrupted: impl FnMut() -> bool) -> Result<(), ChangeError> {
        let mut done = Done::default();
        match done.write(self.files, &mut is_interrupted) {
            Ok(()) => Ok(()),
            Err(error) => Err(done.undo(error)),
        }
    }
}

/// A new content, ready to be renamed to its place.
struct Staged {
    path: PathBuf,
    content: NamedTempFile,
    /// The old content, if there is one.
    backup: Option<NamedTempFile>,
}

/// What was done, in order.
#[derive(Default)]
struct Done {
    folders: Vec<PathBuf>,
    created: Vec<PathBuf>,
    replaced: Vec<(PathBuf, TempPath)>,
}

impl Done {
    fn write(
        &mut self,
        files: Vec<FileChange>,
        is_interrupted: &mut impl FnMut() -> bool,
    ) -> Result<(), ChangeError> {
        let mut step = || if is_interrupted() { Err(ChangeError::Interrupted) } else { Ok(()) };
        let mut staged = Vec::new();
        for file in files {
            step()?;
            let failed = |path: &Path| {
                let path = path.to_owned();
                move |source| ChangeError::Write { path, source }
            };
            let path = resolve(&file.path).map_err(failed(&file.path))?;
            let folder = path.parent().unwrap_or(Path::new("."));
            self.make(folder).map_err(failed(&path))?;
            let backup = backup(&file, &path, folder)?;
            let content =
                write_beside(folder, file.content.as_bytes(), backup.as_ref()).map_err(failed(&path))?;
            staged.push(Staged { path, content, backup });
        }
        for Staged { path, content, backup } in staged {
            step()?;
            match backup {
                None => {
                    content.persist_noclobber(&path).map_err(|error| match error.error {
                        taken if taken.kind() == io::ErrorKind::AlreadyExists => {
                            ChangeError::Exists { path: path.clone() }
                        }
                        source => ChangeError::Write { path: path.clone(), source },
                    })?;
                    self.created.push(path);
                }
                Some(backup) => {
                    content
                        .persist(&path)
                        .map_err(|error| ChangeError::Write { path: path.clone(), source: error.error })?;
                    self.replaced.push((path, backup.into_temp_path()));
                }
            }
        }
        Ok(())
    }

    /// Makes a folder and those above it.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<_> = folder.ancestors().take_while(|folder| !is_there(folder)).collect();
        for folder in missing.into_iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        Ok(())
    }

    /// Takes everything back, as well as the system allows it.
    fn undo(self, error: ChangeError) -> ChangeError {
        let mut lost = None;
        for (path, backup) in self.replaced.into_iter().rev() {
            if let Err(error) = backup.persist(&path)
                && let Ok(copy) = error.path.keep()
            {
                lost = Some((path, copy));
            }
        }
        for path in self.created.iter().rev() {
            let _ = std::fs::remove_file(path);
        }
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
        match lost {
            None => error,
            Some((path, copy)) => ChangeError::NotRestored { error: Box::new(error), path, copy },
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.as_os_str().is_empty() || path.symlink_metadata().is_ok()
}

/// The file itself if the path is a link.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

/// Checks the condition of a file, and copies what is there.
fn backup(file: &FileChange, path: &Path, folder: &Path) -> Result<Option<NamedTempFile>, ChangeError> {
    let failed = |source| ChangeError::Write { path: path.to_owned(), source };
    let old = match std::fs::read(path) {
        Ok(old) => old,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match file.condition {
                Condition::Content(_) => Err(ChangeError::Changed { path: path.to_owned() }),
                _ => Ok(None),
            };
        }
        Err(_) if matches!(file.condition, Condition::Nothing) => {
            return Err(ChangeError::Exists { path: path.to_owned() });
        }
        Err(error) => return Err(failed(error)),
    };
    match &file.condition {
        Condition::Nothing => return Err(ChangeError::Exists { path: path.to_owned() }),
        Condition::Content(expected) if expected.as_bytes() != old => {
            return Err(ChangeError::Changed { path: path.to_owned() });
        }
        Condition::Content(_) | Condition::Anything => {}
    }
    let permissions = std::fs::metadata(path).map_err(failed)?.permissions();
    if permissions.readonly() {
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only")));
    }
    let copy = write_beside(folder, &old, None).map_err(failed)?;
    copy.as_file().set_permissions(permissions).map_err(failed)?;
    Ok(Some(copy))
}

/// A temporary file in a folder, with the mode of the file that it will replace, or that of a new file.
fn write_beside(
    folder: &Path,
    content: &[u8],
    replaced: Option<&NamedTempFile>,
) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bowline-");
    let new = new_file_permissions();
    if let Some(new) = &new {
        builder.permissions(new.clone());
    }
    // The user does not know the name of the temporary file, which the error has.
    let mut file = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
    file.as_file_mut().write_all(content)?;
    if let Some(replaced) = replaced {
        file.as_file().set_permissions(replaced.as_file().metadata()?.permissions())?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// The mode that the process's mask restricts, as for every other new file. Temporary files are private by default.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn new_file_permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn new_file_permissions() -> Option<Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// All paths below a folder, with the contents of files.
    fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<String>> {
        let mut tree = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                tree.extend(self::tree(&path));
                tree.insert(path, None);
            } else {
                let content = std::fs::read_to_string(&path).unwrap();
                tree.insert(path, Some(content));
            }
        }
        tree
    }

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.rs"), "old").unwrap();
        std::fs::write(folder.path().join("lib.rs"), "old").unwrap();
        folder
    }

    fn changes(folder: &Path) -> Changes {
        let mut changes = Changes::default();
        changes.edit(folder.join("main.rs"), "old".to_owned(), "new".to_owned());
        changes.create(folder.join("a/b/c.rs"), "c".to_owned());
        changes.replace(folder.join("lib.rs"), "new".to_owned());
        changes.replace(folder.join("a/d.rs"), "d".to_owned());
        changes
    }

    #[test]
    fn all_files_are_written() {
        let folder = folder();
        changes(folder.path()).write(|| false).unwrap();
        let contents: Vec<_> = tree(folder.path()).into_values().collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(contents, [None, None, text("c"), text("d"), text("new"), text("new")]);
    }

    #[test]
    fn an_interrupt_at_any_step_leaves_nothing() {
        let folder = folder();
        let before = tree(folder.path());
        let mut last = 0;
        loop {
            let mut steps = 0;
            let written = changes(folder.path()).write(|| {
                steps += 1;
                steps > last
            });
            if written.is_ok() {
                break;
            }
            assert!(matches!(written, Err(ChangeError::Interrupted)), "{written:?}");
            assert_eq!(tree(folder.path()), before, "after {last} steps");
            last += 1;
        }
        assert_eq!(last, 8);
    }

    #[test]
    fn a_failure_leaves_nothing() {
        type Add = fn(&mut Changes, &Path);
        let folder = folder();
        let before = tree(folder.path());
        let failing: [(&str, Add); 4] = [
            ("lib.rs exists already", |changes, folder| changes.create(folder.join("lib.rs"), String::new())),
            ("was changed by another program", |changes, folder| {
                changes.edit(folder.join("lib.rs"), "older".to_owned(), String::new());
            }),
            ("was changed by another program", |changes, folder| {
                changes.edit(folder.join("gone.rs"), "old".to_owned(), String::new());
            }),
            ("cannot write", |changes, folder| changes.create(folder.join("lib.rs/x"), String::new())),
        ];
        for (expected, add) in failing {
            let mut changes = changes(folder.path());
            add(&mut changes, folder.path());
            let error = changes.write(|| false).unwrap_err().to_string();
            assert!(error.contains(expected) && error.ends_with("nothing was changed"), "{error}");
            assert_eq!(tree(folder.path()), before, "{expected}");
        }
    }

    #[test]
    fn a_file_that_appears_meanwhile_stays() {
        let folder = folder();
        let mut steps = 0;
        let path = folder.path().join("a/b/c.rs");
        let written = changes(folder.path()).write(|| {
            steps += 1;
            // Everything is staged.
            if steps == 5 {
                std::fs::write(&path, "theirs").unwrap();
            }
            false
        });
        assert!(matches!(written, Err(ChangeError::Exists { .. })), "{written:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(std::fs::read_to_string(folder.path().join("main.rs")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    #[cfg(unix)]
    fn modes_and_links_stay() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder();
        let (target, link) = (folder.path().join("main.rs"), folder.path().join("link.rs"));
        std::fs::set_permissions(&target, Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("main.rs", &link).unwrap();
        let mut changes = Changes::default();
        changes.edit(link.clone(), "old".to_owned(), "new".to_owned());
        changes.create(folder.path().join("new.rs"), String::new());
        changes.write(|| false).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&target), std::fs::read_link(&link).unwrap()), (0o750, PathBuf::from("main.rs")));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
        assert_ne!(mode(&folder.path().join("new.rs")) & 0o044, 0, "others may read it as the mask allows");
    }
}
