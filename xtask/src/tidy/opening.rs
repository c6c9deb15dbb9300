//! The check that every Rust file opens with what it owns. Whether the opening is true is for the reviewer.

use std::collections::BTreeMap;

use super::problem::Problem;

pub(super) fn problems(files: &BTreeMap<&str, &str>) -> Vec<Problem> {
    let silent = files.iter().filter(|(_, text)| !opens(text));
    silent
        .map(|(file, _)| {
            Problem::at(*file, 1, "open the file with `//!`: what it owns, and what it does not")
        })
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
        let told = "open the file with `//!`: what it owns, and what it does not";
        assert_eq!(
            printed(&problems(&files)),
            ["bare", "blank", "empty", "late", "outer"].map(|name| format!("{name}.rs:1: {told}"))
        );
    }
}
