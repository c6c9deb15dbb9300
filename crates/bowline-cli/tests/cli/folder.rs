//! A folder of one test, the tool in it, and all that is in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{bowline, shown};

/// A temporary folder, removed at the end of the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder can be made"))
    }

    /// A folder with a new project `games`.
    pub(crate) fn with_project() -> Self {
        let folder = Self::new();
        folder.succeed(".", &["init", "games", "--domain", "example.com"]);
        folder
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).expect("the file can be read")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.path(path), text).expect("the file can be written");
    }

    /// The tool, to be started in a folder of this one.
    pub(crate) fn command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = bowline(arguments);
        command.current_dir(self.path(folder));
        command
    }

    /// The exit code and both outputs of the tool, without what differs between machines.
    pub(crate) fn run(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.command(folder, arguments).output().expect("the tool starts");
        self.filtered(&shown(&output))
    }

    /// The same of `bowline create api` in the project.
    pub(crate) fn create(&self, arguments: &str) -> String {
        let arguments: Vec<_> = ["create", "api"].into_iter().chain(arguments.split(' ')).collect();
        self.run("games", &arguments)
    }

    /// Creates an API. Its notes are ignored.
    pub(crate) fn created(&self, arguments: &str) {
        let shown = self.create(arguments);
        assert!(shown.starts_with("exit code: 0"), "{arguments}: {shown}");
    }

    pub(crate) fn succeed(&self, folder: &str, arguments: &[&str]) {
        let shown = self.run(folder, arguments);
        assert!(shown.starts_with("exit code: 0"), "{arguments:?}: {shown}");
    }

    /// All files by their paths, and folders with the content `None`.
    pub(crate) fn tree(&self) -> BTreeMap<String, Option<String>> {
        let mut tree = BTreeMap::new();
        self.add(self.0.path(), &mut tree);
        tree
    }

    /// Fails if anything is not as it was.
    #[track_caller]
    pub(crate) fn assert_unchanged(&self, before: &BTreeMap<String, Option<String>>) {
        let after = self.tree();
        for (path, content) in &after {
            assert_eq!(Some(content), before.get(path), "{path}");
        }
        assert_eq!(after.len(), before.len(), "something is missing");
    }

    fn add(&self, folder: &Path, tree: &mut BTreeMap<String, Option<String>>) {
        for entry in std::fs::read_dir(folder).expect("the folder can be read") {
            let path = entry.expect("it can be read").path();
            let name = path.strip_prefix(self.0.path()).expect("it is below").display().to_string();
            if path.is_dir() {
                tree.insert(name, None);
                self.add(&path, tree);
            } else {
                tree.insert(name, Some(std::fs::read_to_string(&path).expect("it is text")));
            }
        }
    }

    /// The contents of some files, each below its path.
    pub(crate) fn contents(&self, paths: &[&str]) -> String {
        let all: Vec<_> = paths.iter().map(|path| format!("=== {path}\n{}", self.read(path))).collect();
        self.filtered(all.concat().trim_end())
    }

    fn filtered(&self, text: &str) -> String {
        let own = self.0.path().canonicalize().expect("it is there");
        let checkout =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there");
        text.replace(&own.display().to_string(), "[FOLDER]")
            .replace(&checkout.display().to_string(), "[BOWLINE]")
    }
}
