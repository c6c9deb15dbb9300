//! Checks that every Rust file is compiled: that `mod` declarations lead to it from the root of a target.
//!
//! Follows `mod name;`, also inside inline modules, `#[path = "…"]` and `include!("…")`. Takes every declaration
//! regardless of its `cfg`. Does not follow declarations from macros, nor files that a test compiles at run time.

use std::collections::{BTreeMap, BTreeSet};

use super::problem::Problem;
use super::token::Token::{Literal, Mark, Word};
use super::token::tokens;

pub(super) fn problems<'a>(
    roots: impl IntoIterator<Item = &'a str>,
    files: &BTreeMap<&str, &str>,
) -> Vec<Problem> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<Module> =
        roots.into_iter().map(|root| Module { file: root.to_owned(), owns_directory: true }).collect();
    while let Some(module) = open.pop() {
        if let Some(text) = files.get(module.file.as_str())
            && reached.insert(module.file.clone())
        {
            open.extend(declarations(text).iter().flat_map(|declaration| module.candidates(declaration)));
        }
    }
    let unreached = files.keys().filter(|file| !reached.contains(**file));
    unreached
        .map(|file| Problem::new(*file, "no `mod` reaches this file: declare it, or delete it"))
        .collect()
}

/// The targets of fuzzing crates, from the paths in each `fuzz/Cargo.toml`. These crates are separate workspaces, so
/// cargo's metadata does not contain them.
pub(super) fn fuzz_roots(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut roots = Vec::new();
    for (file, text) in files {
        let Some(directory) = file.strip_suffix("/Cargo.toml").filter(|parent| parent.ends_with("/fuzz"))
        else {
            continue;
        };
        let paths = text.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
        roots.extend(paths.map(|path| join(directory, path)));
    }
    roots
}

/// Programs that trybuild compiles: all files in a folder `ui` beside a test `ui.rs` that calls it.
pub(super) fn ui_roots(files: &BTreeMap<String, String>) -> Vec<String> {
    let is_compiled = |file: &&String| {
        let Some((tests, _)) = file.rsplit_once("/ui/") else { return false };
        files.get(&format!("{tests}/ui.rs")).is_some_and(|test| test.contains("trybuild::TestCases"))
    };
    files.keys().filter(|file| file.strip_suffix(".rs").is_some()).filter(is_compiled).cloned().collect()
}

/// A file to read, and the directory of its modules.
struct Module {
    file: String,
    /// Whether the modules are beside the file, as for a root, and not in the directory with its name.
    owns_directory: bool,
}

impl Module {
    /// The paths that the compiler would try; at most one exists.
    fn candidates(&self, declaration: &Declaration) -> Vec<Module> {
        let directory = self.file.rsplit_once('/').map_or("", |(directory, _)| directory);
        let children = if self.owns_directory {
            directory.to_owned()
        } else {
            self.file.strip_suffix(".rs").unwrap_or(&self.file).to_owned()
        };
        let Declaration { inside, target } = declaration;
        match target {
            Target::Name(name) => {
                let place = join(&children, &format!("{inside}{name}"));
                vec![
                    Module { file: format!("{place}.rs"), owns_directory: false },
                    Module { file: format!("{place}/mod.rs"), owns_directory: true },
                ]
            }
            Target::Path(path) if !inside.is_empty() => {
                vec![Module { file: join(&children, &format!("{inside}{path}")), owns_directory: true }]
            }
            Target::Path(path) | Target::Include(path) => {
                vec![Module { file: join(directory, path), owns_directory: true }]
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Declaration {
    /// The enclosing inline modules, each with a `/` at its end.
    inside: String,
    target: Target,
}

#[derive(Debug, PartialEq, Eq)]
enum Target {
    Name(String),
    Path(String),
    Include(String),
}

fn declarations(text: &str) -> Vec<Declaration> {
    let tokens: Vec<_> = tokens(text).into_iter().map(|(_, token)| token).collect();
    let mut found = Vec::new();
    // The inline modules that are open, each with the depth of braces around it.
    let mut inline: Vec<(&str, usize)> = Vec::new();
    let mut depth = 0_usize;
    // The path that an attribute gives to the next item.
    let mut path = None;
    let mut rest = &tokens[..];
    while let Some(first) = rest.first() {
        let inside = || inline.iter().flat_map(|(name, _)| [name, "/"]).collect::<String>();
        let mut taken = 1;
        match rest {
            [Word("path"), Mark('='), Literal(value), ..] => path = Some(*value),
            [Word("include"), Mark('!'), Mark(_), Literal(value), ..] => {
                found.push(Declaration { inside: inside(), target: Target::Include((*value).to_owned()) });
            }
            [Word("mod"), Word(name), Mark(';'), ..] => {
                let target = path.take().map_or_else(
                    || Target::Name((*name).to_owned()),
                    |path: &str| Target::Path(path.to_owned()),
                );
                found.push(Declaration { inside: inside(), target });
            }
            [Word("mod"), Word(name), Mark('{'), ..] => {
                inline.push((path.take().unwrap_or(name), depth));
                depth += 1;
                taken = 3;
            }
            _ => match first {
                Mark('{') => {
                    depth += 1;
                    path = None;
                }
                Mark('}') => {
                    depth = depth.saturating_sub(1);
                    inline.pop_if(|(_, around)| *around == depth);
                    path = None;
                }
                Mark(';') => path = None,
                _ => {}
            },
        }
        rest = &rest[taken..];
    }
    found
}

/// Joins two paths and resolves `.` and `..`.
fn join(directory: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in directory.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    fn unreached(root: &str, files: &[(&str, &str)]) -> Vec<String> {
        let messages = printed(&problems([root], &files.iter().copied().collect()));
        let behind = ": no `mod` reaches this file: declare it, or delete it";
        messages.iter().map(|message| message.strip_suffix(behind).expect(message).to_owned()).collect()
    }

    #[test]
    fn a_file_that_no_mod_reaches_is_reported() {
        let files = [("a/src/lib.rs", "mod one;"), ("a/src/one.rs", ""), ("a/src/two.rs", "")];
        assert_eq!(unreached("a/src/lib.rs", &files), ["a/src/two.rs"]);
    }

    #[test]
    fn a_declaration_in_a_comment_or_a_string_reaches_nothing() {
        let root = "// mod one;\n/* mod two; */\nconst A: &str = \"mod three;\";";
        let files = [("lib.rs", root), ("one.rs", ""), ("three.rs", ""), ("two.rs", "")];
        assert_eq!(unreached("lib.rs", &files), ["one.rs", "three.rs", "two.rs"]);
    }

    #[test]
    fn modules_below_a_file_are_in_the_directory_of_its_name() {
        let files = [
            ("src/main.rs", "pub(crate) mod one;"),
            ("src/one.rs", "#[cfg(test)]\nmod two;"),
            ("src/one/two.rs", ""),
            ("src/two.rs", ""),
        ];
        assert_eq!(unreached("src/main.rs", &files), ["src/two.rs"]);
    }

    #[test]
    fn modules_of_a_test_root_are_beside_it() {
        let files = [("tests/cli/main.rs", "mod help;"), ("tests/cli/help.rs", "")];
        assert_eq!(unreached("tests/cli/main.rs", &files), [""; 0]);
    }

    #[test]
    fn modules_inside_inline_modules_are_in_their_directory() {
        let files = [
            ("src/lib.rs", "mod one { fn a() {} mod two; } mod three;"),
            ("src/one/two.rs", ""),
            ("src/three.rs", "mod inner { mod four; }"),
            ("src/three/inner/four.rs", ""),
            ("src/two.rs", ""),
        ];
        assert_eq!(unreached("src/lib.rs", &files), ["src/two.rs"]);
    }

    #[test]
    fn a_path_attribute_is_relative_to_the_directory_of_the_file() {
        let files = [
            ("src/lib.rs", "mod one;"),
            ("src/one.rs", "#[path = \"../shared/two.rs\"]\nmod two;\nmod three;"),
            ("shared/two.rs", "mod four;"),
            ("shared/four.rs", ""),
            ("src/one/three.rs", ""),
            ("src/one/two.rs", ""),
        ];
        assert_eq!(unreached("src/lib.rs", &files), ["src/one/two.rs"]);
    }

    #[test]
    fn a_variable_called_path_is_no_attribute() {
        let files = [("lib.rs", "const A: B = B { path = \"x\" }; mod one;"), ("one.rs", "")];
        assert_eq!(unreached("lib.rs", &files), [""; 0]);
    }

    #[test]
    fn an_included_file_is_reached() {
        let files = [("src/lib.rs", "include!(\"table.rs\");"), ("src/table.rs", "")];
        assert_eq!(unreached("src/lib.rs", &files), [""; 0]);
    }

    #[test]
    fn a_fuzz_target_is_a_root_if_its_manifest_names_it() {
        let manifest = "[[bin]]\nname = \"one\"\npath = \"fuzz_targets/one.rs\"\n".to_owned();
        let other = "path = \"src/lib.rs\"".to_owned();
        let files =
            BTreeMap::from([("a/fuzz/Cargo.toml".to_owned(), manifest), ("b/Cargo.toml".to_owned(), other)]);
        assert_eq!(fuzz_roots(&files), ["a/fuzz/fuzz_targets/one.rs"]);
    }

    #[test]
    fn programs_of_trybuild_are_reached_only_beside_their_test() {
        let files = [
            ("a/tests/ui.rs", "trybuild::TestCases::new()"),
            ("a/tests/ui/one.rs", ""),
            ("a/tests/ui/one.stderr", ""),
            ("b/tests/ui/two.rs", ""),
        ];
        let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
        assert_eq!(ui_roots(&files.into()), ["a/tests/ui/one.rs"]);
    }

    #[test]
    fn modules_in_a_circle_end() {
        let files = [("lib.rs", "#[path = \"lib.rs\"] mod again;")];
        assert_eq!(unreached("lib.rs", &files), [""; 0]);
    }
}
