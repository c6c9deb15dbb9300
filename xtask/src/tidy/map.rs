//! Checks ARCHITECTURE.md: it names every top-level module of the library crates, and every path in it exists.
//!
//! Compares text. Reviewers check the descriptions.

use std::collections::BTreeMap;

use super::problem::Problem;

const MAP: &str = "ARCHITECTURE.md";

/// Folders at the root of the repository and crates by name, with which a path begins.
const ROOTS: &[&str] = &["bench/", "designs/", "docs/", "examples/", "xtask/"];

/// `files` has all files of the repository by their paths from the root.
pub(super) fn problems(files: &BTreeMap<String, String>) -> Vec<Problem> {
    let text = files.get(MAP).map_or("", String::as_str);
    let mut found = unnamed_modules(text, files);
    for (line, text) in text.lines().enumerate() {
        let missing = quoted(text).filter(|path| is_missing(path, files));
        found.extend(missing.map(|path| Problem::at(MAP, line + 1, format!("there is no {path}"))));
    }
    found
}

/// Modules that are files directly in the `src` folder of a crate and are not in its section.
fn unnamed_modules(map: &str, files: &BTreeMap<String, String>) -> Vec<Problem> {
    let modules = files.keys().filter_map(|file| {
        let (name, module) = file.strip_prefix("crates/")?.split_once("/src/")?;
        let stem = module.strip_suffix(".rs")?;
        let is_module = !stem.contains('/') && !matches!(stem, "lib" | "main");
        is_module.then_some((name, module))
    });
    let unnamed = modules.filter(|(name, module)| !names(map, name, module));
    unnamed
        .map(|(name, module)| {
            let message = format!("name the module {module} in the section of {name}");
            Problem::new(MAP, message)
        })
        .collect()
}

/// Whether the section whose heading has the crate's name quotes the module.
fn names(map: &str, name: &str, module: &str) -> bool {
    let heading = format!("`{name}`");
    let sections = map.split("\n### ").skip(1);
    let mut own = sections.filter(|section| section.lines().next().is_some_and(|it| it.contains(&heading)));
    own.any(|section| quoted(section).any(|path| path == module))
}

/// The texts in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether this is a path from the root, or from a crate by its name, that does not lead to a file or folder.
fn is_missing(path: &str, files: &BTreeMap<String, String>) -> bool {
    let is_path = !path.contains([' ', '*']) && path.contains('/');
    let full = if path.starts_with("bowline") && is_path {
        format!("crates/{path}")
    } else if is_path && ROOTS.iter().any(|root| path.starts_with(root)) {
        path.to_owned()
    } else {
        return false;
    };
    let folder = format!("{}/", full.trim_end_matches('/'));
    !files.contains_key(&full) && !files.keys().any(|file| file.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    fn found(map: &str, files: &[&str]) -> Vec<String> {
        let files = files.iter().map(|file| ((*file).to_owned(), String::new()));
        printed(&problems(&files.chain([(MAP.to_owned(), map.to_owned())]).collect()))
    }

    #[test]
    fn a_module_that_its_crates_section_does_not_name_is_reported() {
        let files = ["crates/a/src/lib.rs", "crates/a/src/b.rs", "crates/a/src/b/c.rs", "crates/d/src/b.rs"];
        assert_eq!(found("\n### `a`\n| `b.rs` |\n### `d`, `e`\n`b.rs`", &files), [""; 0]);
        let message = "ARCHITECTURE.md: name the module b.rs in the section of d";
        assert_eq!(found("\n### `a`\n| `b.rs` |\n### `d`, `e`\n", &files), [message]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_reported_with_its_line() {
        let files = ["crates/bowline-x/src/lib.rs", "xtask/src/real.rs"];
        let map = "`bowline-x/src` `xtask/src/real.rs`\n`bowline-x/src/gone.rs` and `xtask/gone`";
        assert_eq!(
            found(map, &files),
            [
                "ARCHITECTURE.md:2: there is no bowline-x/src/gone.rs",
                "ARCHITECTURE.md:2: there is no xtask/gone"
            ]
        );
    }

    #[test]
    fn what_is_quoted_and_is_no_path_from_a_root_is_not_looked_for() {
        assert_eq!(found("`bowline-x` `cargo xtask real` `src/*.txt` `tests/real` `std::mem`", &[]), [""; 0]);
    }
}
