//! The check of the members' manifests: every dependency takes its version from the workspace, the lints are the
//! workspace's, and there is a description. The root manifest owns the versions.
//!
//! Reads lines, not TOML: cargo has parsed the file before, so only what cargo accepts occurs.

use super::problem::Problem;
use crate::metadata::Package;

pub(super) fn problems(member: &Package, manifest: &str) -> Vec<Problem> {
    let file = &member.manifest_path;
    let Manifest { dependencies, has_lints } = Manifest::read(manifest);
    let strangers = dependencies.iter().filter(|dependency| !dependency.is_from_workspace);
    let mut found: Vec<_> = strangers
        .map(|Dependency { name, line, .. }| {
            Problem::at(file, *line, format!("take {name} from the workspace: `{name}.workspace = true`"))
        })
        .collect();
    if !has_lints {
        found.push(Problem::new(file, "add `[lints]` with `workspace = true`"));
    }
    if member.description.as_deref().is_none_or(|description| description.trim().is_empty()) {
        found.push(Problem::new(file, "add a `description`: one line about what the crate is for"));
    }
    found
}

#[derive(Default)]
struct Manifest {
    dependencies: Vec<Dependency>,
    has_lints: bool,
}

struct Dependency {
    section: String,
    name: String,
    line: usize,
    is_from_workspace: bool,
}

impl Manifest {
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = Vec::new();
        for (line, text) in statements(text) {
            if text.starts_with('[') {
                section = keys(text.trim_matches(['[', ']']));
                manifest.read_entry(line, &section, "");
            } else if let Some((key, value)) = text.split_once('=') {
                let path = [section.clone(), keys(key)].concat();
                manifest.read_entry(line, &path, value.trim());
            }
        }
        manifest
    }

    /// `path` contains all keys that lead to the value, starting with those of the section's header.
    fn read_entry(&mut self, line: usize, path: &[String], value: &str) {
        if path == ["lints", "workspace"] {
            self.has_lints = value == "true";
        }
        let Some(at) = path.iter().position(|key| is_dependencies(key)) else { return };
        let Some(name) = path.get(at + 1) else { return };
        // A feature or a lint may have the name of a section of dependencies.
        if at > 0 && path[0] != "target" {
            return;
        }
        let is_from_workspace = match &path[at + 2..] {
            [] => is_workspace_table(value),
            [key] => key == "workspace" && value == "true",
            _ => false,
        };
        let section = path[..=at].join(".");
        let known =
            self.dependencies.iter_mut().find(|known| known.section == section && known.name == *name);
        match known {
            Some(known) => known.is_from_workspace |= is_from_workspace,
            None => {
                self.dependencies.push(Dependency { section, name: name.clone(), line, is_from_workspace });
            }
        }
    }
}

fn is_dependencies(key: &str) -> bool {
    matches!(key, "dependencies" | "dev-dependencies" | "build-dependencies")
}

fn is_workspace_table(value: &str) -> bool {
    let dense: String = value.chars().filter(|character| !character.is_whitespace()).collect();
    dense.starts_with('{') && ["{workspace=true", ",workspace=true"].iter().any(|entry| dense.contains(entry))
}

/// The parts of a dotted key, without quotes.
fn keys(dotted: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut key = String::new();
    let mut quote = None;
    for character in dotted.chars() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '.') => keys.push(std::mem::take(&mut key)),
            (None, ' ' | '\t') => {}
            _ => key.push(character),
        }
    }
    keys.push(key);
    keys
}

/// The lines without comments, with their numbers; a value over several lines is one.
fn statements(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut depth = 0_usize;
    for (number, line) in text.lines().enumerate() {
        let continues = depth > 0;
        let mut quote = None;
        let mut end = line.len();
        for (at, character) in line.char_indices() {
            match (quote, character) {
                (None, '#') => {
                    end = at;
                    break;
                }
                (None, '"' | '\'') => quote = Some(character),
                (Some(open), _) if open == character => quote = None,
                (None, '[' | '{') => depth += 1,
                (None, ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        let line = line[..end].trim();
        match found.last_mut() {
            Some((_, statement)) if continues => statement.push_str(line),
            _ if line.is_empty() => {}
            _ => found.push((number + 1, line.to_owned())),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    const LINTS: &str = "\n[lints]\nworkspace = true\n";

    fn messages(manifest: &str) -> Vec<String> {
        let member = Package {
            manifest_path: "a/Cargo.toml".to_owned(),
            description: Some("A thing.".to_owned()),
            ..Package::default()
        };
        printed(&problems(&member, manifest))
    }

    fn reported(name: &str, line: usize) -> String {
        format!("a/Cargo.toml:{line}: take {name} from the workspace: `{name}.workspace = true`")
    }

    #[test]
    fn a_dependency_with_a_version_of_its_own_is_reported() {
        for section in
            ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"]
        {
            for value in [
                "\"1\"",
                "{ version = \"1\" }",
                "{ path = \"../slab\" }",
                "{ features = [\"workspace=true\"] }",
            ] {
                let manifest = format!("[{section}]\nserde.workspace = true\nslab = {value}\n{LINTS}");
                assert_eq!(messages(&manifest), [reported("slab", 3)], "{manifest}");
            }
        }
    }

    #[test]
    fn a_dependency_in_a_table_of_its_own_is_read() {
        let manifest =
            format!("[dependencies.slab]\nversion = \"1\"\n[dependencies.tokio]\nworkspace = true\n{LINTS}");
        assert_eq!(messages(&manifest), [reported("slab", 1)]);
    }

    #[test]
    fn a_dependency_is_judged_in_each_section() {
        let manifest =
            format!("[dependencies]\nslab.workspace = true\n[dev-dependencies]\nslab = \"1\"\n{LINTS}");
        assert_eq!(messages(&manifest), [reported("slab", 4)]);
    }

    #[test]
    fn dependencies_of_the_workspace_are_fine() {
        let manifest = format!(
            "[features]\ndependencies = [\"slab\"]\n[dependencies]\nslab.workspace = true # [\ntokio = {{ workspace = true, \
             features = [\n  \"rt\", # a ]\n  \"time\",\n] }}\nserde = {{ features = [\"derive\"], workspace = true }}\n\
             rand.workspace = true\nrand.optional = true\n{LINTS}"
        );
        assert_eq!(messages(&manifest), [""; 0]);
    }

    #[test]
    fn a_member_without_the_lints_of_the_workspace_is_reported() {
        let expected = ["a/Cargo.toml: add `[lints]` with `workspace = true`"];
        assert_eq!(messages(""), expected);
        assert_eq!(messages("[lints.rust]\nunsafe_code = \"allow\"\n"), expected);
        assert_eq!(
            messages("[package]\nedition.workspace = true\n# [lints]\n# workspace = true\n"),
            expected
        );
    }

    #[test]
    fn a_member_without_a_description_is_reported() {
        let member = Package { manifest_path: "a/Cargo.toml".to_owned(), ..Package::default() };
        assert_eq!(
            printed(&problems(&member, LINTS)),
            ["a/Cargo.toml: add a `description`: one line about what the crate is for"]
        );
    }
}
