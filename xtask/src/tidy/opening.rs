//! Checks that every Rust file opens with a `//!` comment. Reviewers check its content.

use std::collections::BTreeMap;

use super::problem::Problem;

pub(super) fn problems(files: &BTreeMap<&str, &str>) -> Vec<Problem> {
    let silent = files.iter().filter(|(_, text)| !opens(text));
    silent
        .map(|(file, _)| Problem::at(*file, 1, "open the file with `//!`: its purpose, and its limits"))
        .collect()
}

fn opens(text: &str) -> bool {
    text.lines().next().and_then(|line| line.strip_prefix("//!")).is_some_and(|said| !said.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::problem::printed;
    use super::*;

    #[test]
    fn a_file_that_does_not_say_what_it_owns_is_reported() {
        let files = BTreeMap::from([
            ("bare.rs", "use std::fmt;\n"),
            ("blank.rs", "//!\n//! Too late.\n"),
            ("empty.rs", ""),
            ("late.rs", "\n//! Too late.\n"),
            ("opened.rs", "//! Owns a thing.\n"),
            ("outer.rs", "/// Documents the next item.\n"),
        ]);
        let message = "open the file with `//!`: its purpose, and its limits";
        assert_eq!(
            printed(&problems(&files)),
            ["bare", "blank", "empty", "late", "outer"].map(|name| format!("{name}.rs:1: {message}"))
        );
    }
}
