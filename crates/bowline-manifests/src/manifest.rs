//! A generated file, and how it is recognized.

use serde_json::Value;

use crate::document::{Document, write_comment};

/// The beginning of the first line of a generated YAML file, after `# `. A dashboard has it in its description.
pub const MARKER: &str = "Written by `bowline manifests`.";

/// Advice after the marker.
const ADVICE: &str = "Do not edit: change the operator or the options, and run it again.";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Manifest {
    /// Path in the folder of the manifests, with `/`.
    pub path: String,
    /// Content, which ends with a line break.
    pub text: String,
}

/// Whether a text is a generated file, of this version or another: only such a file may be replaced or removed.
///
/// ```
/// use bowline_manifests::is_generated;
///
/// assert!(is_generated("# Written by `bowline manifests`. Do not edit.\nkind: Role\n"));
/// assert!(!is_generated("kind: Role\n"));
/// ```
#[must_use]
pub fn is_generated(text: &str) -> bool {
    if let Some(comment) = text.strip_prefix("# ") {
        return comment.starts_with(MARKER);
    }
    // A dashboard of Grafana is JSON, which has no comments.
    text.starts_with('{')
        && serde_json::from_str::<Value>(text)
            .is_ok_and(|json| json["description"].as_str().is_some_and(|it| it.starts_with(MARKER)))
}

impl Manifest {
    /// A file of YAML documents.
    pub(crate) fn yaml<'a>(
        path: impl Into<String>,
        documents: impl IntoIterator<Item = &'a Document>,
    ) -> Self {
        let mut text = String::new();
        write_comment(&mut text, &notice());
        for (index, document) in documents.into_iter().enumerate() {
            if index > 0 {
                text.push_str("---\n");
            }
            text.push_str(document.text());
        }
        Self { path: path.into(), text }
    }

    /// A file of JSON.
    pub(crate) fn json(path: impl Into<String>, mut value: Value) -> Self {
        value.sort_all_objects();
        Self { path: path.into(), text: format!("{value:#}\n") }
    }
}

/// The marker with advice.
pub(crate) fn notice() -> String {
    format!("{MARKER} {ADVICE}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_files_are_recognized_and_others_are_not() {
        let object = json!({"kind": "Role", "apiVersion": "v1"});
        let yaml = Manifest::yaml("a.yaml", &[Document::new(object)]);
        assert_eq!(yaml.text, format!("# {}\napiVersion: v1\nkind: Role\n", notice()));
        assert!(is_generated(&yaml.text));
        assert!(is_generated(&Manifest::json("a.json", json!({"description": notice()})).text));
        for other in ["", "# A comment\n", "kind: Role\n# Written by `bowline manifests`.\n", "{}", "{"] {
            assert!(!is_generated(other), "{other}");
        }
        // A dashboard that mentions the command elsewhere is the user's.
        assert!(!is_generated(&json!({"title": notice()}).to_string()));
    }
}
