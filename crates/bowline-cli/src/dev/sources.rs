//! The files of a project whose change asks for a new build. Owns which files these are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Below the folder of a project. Not Cargo.lock: a build may write it.
const WATCHED: [&str; 4] = ["src", "build.rs", "Cargo.toml", "bowline.toml"];

/// The files of a project at one moment: size and time of the last change.
///
/// They are looked at again and again instead of watched: this needs nothing of the system, and works in containers and on
/// network file systems.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sources(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl Sources {
    /// The files as they are now. A file that cannot be read counts as absent.
    pub(super) fn of(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        for name in WATCHED {
            collect(&root.join(name), &mut files);
        }
        Self(files)
    }

    /// A file that differs from an earlier moment.
    pub(super) fn changed_since<'a>(&'a self, earlier: &'a Self) -> Option<&'a Path> {
        let is_new = |(path, state): &(&PathBuf, &_)| earlier.0.get(*path) != Some(*state);
        let changed = self.0.iter().find(is_new).map(|(path, _)| path);
        changed.or_else(|| earlier.0.keys().find(|path| !self.0.contains_key(*path))).map(PathBuf::as_path)
    }
}

fn collect(path: &Path, files: &mut BTreeMap<PathBuf, (u64, Option<SystemTime>)>) {
    let Ok(metadata) = std::fs::metadata(path) else { return };
    if !metadata.is_dir() {
        files.insert(path.to_owned(), (metadata.len(), metadata.modified().ok()));
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        // A link to a folder could be a circle.
        let is_link_to_folder = entry.path().is_symlink() && entry.path().is_dir();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_link_to_folder && !is_hidden {
            collect(&entry.path(), files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_sources_are_seen_and_those_of_other_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("src/kinds")).unwrap();
        std::fs::create_dir_all(root.join("target")).unwrap();
        std::fs::write(root.join("src/main.rs"), "a").unwrap();
        let first = Sources::of(root);
        std::fs::write(root.join("target/main.d"), "a").unwrap();
        std::fs::write(root.join("src/.main.rs.swp"), "a").unwrap();
        assert_eq!(Sources::of(root).changed_since(&first), None);

        std::fs::write(root.join("src/kinds/game.rs"), "a").unwrap();
        let second = Sources::of(root);
        assert_eq!(second.changed_since(&first), Some(root.join("src/kinds/game.rs").as_path()));
        std::fs::write(root.join("src/main.rs"), "ab").unwrap();
        let third = Sources::of(root);
        assert_eq!(third.changed_since(&second), Some(root.join("src/main.rs").as_path()));
        std::fs::remove_file(root.join("src/main.rs")).unwrap();
        assert_eq!(Sources::of(root).changed_since(&third), Some(root.join("src/main.rs").as_path()));
    }
}
