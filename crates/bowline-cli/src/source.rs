//! The Rust files of a project: parsed to find places, and changed as text. What a user wrote is never printed anew.

mod declarations;
mod wiring;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;

pub(crate) use declarations::{ControllerDeclaration, KindDeclaration};
pub(crate) use wiring::Wiring;

/// The Rust files of a project's package, without those of further programs (`src/bin`).
#[derive(Debug)]
pub(crate) struct SourceTree {
    /// Roots of crates first: `src/main.rs`, then `src/lib.rs`, then the others in the order of their paths.
    sources: Vec<Source>,
    /// The files that are not valid Rust.
    pub(crate) broken: Vec<BrokenSource>,
}

/// A Rust file.
pub(crate) struct Source {
    /// Path from the root of the project, with `/` on every system.
    pub(crate) path: String,
    pub(crate) text: String,
    file: syn::File,
    /// Where the text that `file` was parsed from begins: after a byte order mark and a line `#!`.
    start: usize,
}

/// A file that cannot be parsed.
#[derive(Debug)]
pub(crate) struct BrokenSource {
    pub(crate) path: String,
    /// The line and the message of the parser.
    pub(crate) problem: String,
}

impl BrokenSource {
    /// Whether it is the root of a crate.
    pub(crate) fn is_root(&self) -> bool {
        is_root(&self.path)
    }
}

/// A file that cannot be read.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl SourceTree {
    /// Reads `src` in the root of a project.
    pub(crate) fn read(root: &Path) -> Result<Self, ReadError> {
        let mut paths = Vec::new();
        find(root, "src", &mut paths)?;
        paths.sort_by_key(|path| (path != MAIN, path != LIBRARY, path.clone()));
        let mut tree = Self { sources: Vec::new(), broken: Vec::new() };
        for path in paths {
            let file = root.join(&path);
            let text = std::fs::read_to_string(&file).map_err(|source| ReadError { path: file, source })?;
            match Source::parse(path, text) {
                Ok(source) => tree.sources.push(source),
                Err(broken) => tree.broken.push(broken),
            }
        }
        Ok(tree)
    }

    pub(crate) fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }

    /// The kinds that `#[kube]` declares.
    pub(crate) fn kinds(&self) -> Vec<KindDeclaration> {
        self.sources.iter().flat_map(declarations::kinds).collect()
    }

    /// The controllers that are built with `controller::<K>()`.
    pub(crate) fn controllers(&self) -> Vec<ControllerDeclaration> {
        self.sources.iter().flat_map(declarations::controllers).collect()
    }

    /// The comment with the licence at the top of the main file, with its line ends.
    pub(crate) fn license_comment(&self) -> Option<&str> {
        let root = self.sources.iter().find(|source| is_root(&source.path))?;
        root.license_comment()
    }
}

const MAIN: &str = "src/main.rs";
const LIBRARY: &str = "src/lib.rs";

fn is_root(path: &str) -> bool {
    path == MAIN || path == LIBRARY
}

/// Adds the paths of all Rust files in a folder. Links are not followed.
fn find(root: &Path, folder: &str, paths: &mut Vec<String>) -> Result<(), ReadError> {
    let at = root.join(folder);
    let failed = |source| ReadError { path: at.clone(), source };
    let entries = match std::fs::read_dir(&at) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // A module cannot have a name that is not UTF-8.
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{folder}/{name}");
        if entry.file_type().map_err(failed)?.is_dir() {
            if path != "src/bin" {
                find(root, &path, paths)?;
            }
        } else if Path::new(&name).extension().is_some_and(|extension| extension == "rs")
            && at.join(&name).is_file()
        {
            paths.push(path);
        }
    }
    Ok(())
}

impl Source {
    pub(crate) fn parse(path: String, text: String) -> Result<Self, BrokenSource> {
        let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        match syn::parse_file(&text) {
            Ok(file) => {
                let start = mark + file.shebang.as_ref().map_or(0, String::len);
                Ok(Self { path, text, file, start })
            }
            Err(error) => {
                let problem = format!("line {}: {error}", error.span().start().line);
                Err(BrokenSource { path, problem })
            }
        }
    }

    fn items(&self) -> &[syn::Item] {
        &self.file.items
    }

    /// The part of the text that a node stands for, with its attributes and doc comments.
    fn range(&self, node: &impl Spanned) -> Range<usize> {
        let range = node.span().byte_range();
        self.start + range.start..self.start + range.end
    }

    fn text_of(&self, node: &impl Spanned) -> &str {
        &self.text[self.range(node)]
    }

    /// The line end of most lines.
    fn newline(&self) -> &'static str {
        let windows = self.text.matches("\r\n").count();
        if 2 * windows > self.text.matches('\n').count() { "\r\n" } else { "\n" }
    }

    /// The path of the module that the file is: `crate::kinds::game`.
    fn module(&self) -> String {
        if is_root(&self.path) {
            return "crate".to_owned();
        }
        let stem = self.path.strip_prefix("src/").unwrap_or(&self.path).trim_end_matches(".rs");
        let stem = stem.strip_suffix("/mod").unwrap_or(stem);
        format!("crate::{}", stem.replace('/', "::"))
    }

    /// The first lines, if they are a comment with a copyright or a licence.
    fn license_comment(&self) -> Option<&str> {
        let text = self.text.trim_start_matches('\u{feff}');
        let is_comment =
            |line: &&str| line.starts_with("//") && !line.starts_with("//!") && !line.starts_with("///");
        let length = text.split_inclusive('\n').take_while(is_comment).map(str::len).sum();
        let comment = &text[..length];
        (comment.contains("SPDX-License-Identifier") || comment.contains("Copyright")).then_some(comment)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}
