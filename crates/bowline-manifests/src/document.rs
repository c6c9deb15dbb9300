//! A YAML document with comments. Owns the form of the text.

use serde_json::{Value, json};

use crate::rules::Rule;

/// An object as YAML. The keys are in alphabetical order.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    text: String,
}

impl Document {
    pub(crate) fn new(object: Value) -> Self {
        Self { text: yaml(object) }
    }

    /// An object with a comment above it.
    pub(crate) fn with_comment(comment: &str, object: Value) -> Self {
        let mut text = String::new();
        write_comment(&mut text, comment);
        text.push_str(&yaml(object));
        Self { text }
    }

    /// A role with its rules, each below the declarations that it follows from.
    pub(crate) fn role(object: Value, rules: &[Rule]) -> Self {
        // The key `rules` follows all others of a role.
        let mut text = yaml(object);
        text.push_str("rules:\n");
        for rule in rules {
            rule.reasons.iter().for_each(|reason| write_comment(&mut text, reason));
            text.push_str(&yaml(json!([rule.to_json()])));
        }
        Self { text }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Appends comment lines.
pub(crate) fn write_comment(text: &mut String, comment: &str) {
    for line in comment.lines() {
        // YAML 1.1 has further line breaks. Text after one of them would not be a comment.
        let line = line.replace(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'), " ");
        text.extend(["# ", line.trim_end(), "\n"]);
    }
}

fn yaml(mut value: Value) -> String {
    // The feature `preserve_order` of serde_json, which any crate of a build may enable, does not change the text.
    value.sort_all_objects();
    let text = serde_saphyr::to_string(&value).expect("every JSON value can be written as YAML");
    // Empty lines of a text are indented. Editors and git dislike that, and rarely it matters.
    let clean: String =
        text.lines().flat_map(|line| [if line.trim().is_empty() { "" } else { line }, "\n"]).collect();
    let is_same = serde_saphyr::from_str::<Value>(&clean).is_ok_and(|read| read == value);
    if is_same { clean } else { text }
}

#[cfg(test)]
mod tests {
    use bowline_runtime::Permission;

    use super::*;
    use crate::rules::Rules;

    #[test]
    fn a_comment_stays_a_comment_whatever_it_contains() {
        let document =
            Document::with_comment("one\ntwo\rthree\u{85}four\u{2028}five\n", json!({"kind": "List"}));
        assert_eq!(document.text(), "# one\n# two three four five\nkind: List\n");
    }

    #[test]
    fn a_rule_is_below_its_reasons() {
        let mut permission = Permission::to_resource("apps", "deployments", true, []).verbs(["get"]);
        permission.reason = "controller games: owns Deployment".to_owned();
        let rules = [permission].iter().collect::<Rules>().grouped();
        let role = Document::role(json!({"kind": "Role", "metadata": {"name": "games"}}), &rules);
        insta::assert_snapshot!(role.text(), @r"
        kind: Role
        metadata:
          name: games
        rules:
        # controller games: owns Deployment
        - apiGroups:
          - apps
          resources:
          - deployments
          verbs:
          - get
        ");
    }

    #[test]
    fn empty_lines_are_empty_unless_spaces_matter() {
        let text = |text| Document::new(json!({"text": text})).text().to_owned();
        assert_eq!(text("a\n\nb"), "text: |-\n  a\n\n  b\n");
        assert_eq!(text("a\n \nb"), "text: |-\n  a\n   \n  b\n");
    }

    #[test]
    fn texts_that_look_like_other_types_stay_texts() {
        let texts = [
            "no",
            "y",
            "1e3",
            "0x1f",
            "1:30",
            "null",
            "~",
            "a: b",
            "# x",
            "- x",
            "*",
            "",
            " x",
            "x\ny\n",
            "2026-01-01",
        ];
        let long = format!("{} {}\n  indented\n\nend", "word ".repeat(40), "x".repeat(100));
        let object = json!({"texts": texts, "long": long, "number": 1.5});
        let read: Value = serde_saphyr::from_str(Document::new(object.clone()).text()).unwrap();
        assert_eq!(read, object);
    }
}
