//! Texts of new files: templates with `{{names}}`, and rustfmt for what depends on the length of names.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Replaces each `{{name}}` in a template by its value.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    debug_assert!(!text.contains("{{"), "a name without a value: {text}");
    text
}

/// The text as rustfmt formats it in a folder, with the user's options there. The same text if there is no rustfmt.
pub(crate) fn format(text: String, folder: &Path) -> String {
    formatted(&text, folder).unwrap_or(text)
}

fn formatted(text: &str, folder: &Path) -> Option<String> {
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]).current_dir(folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    // The text is smaller than the buffer of a pipe.
    let written = child.stdin.take().is_some_and(|mut input| input.write_all(text.as_bytes()).is_ok());
    let output = child.wait_with_output().ok()?;
    (written && output.status.success()).then(|| String::from_utf8(output.stdout).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced() {
        assert_eq!(fill("{{a}}-{{b}} {{{a}}}", &[("a", "x"), ("b", "y")]), "x-y {x}");
    }

    #[test]
    fn a_text_that_cannot_be_formatted_stays() {
        assert_eq!(format("fn a( {".to_owned(), Path::new(".")), "fn a( {");
        assert_eq!(format("fn a() {\n}\n".to_owned(), Path::new("/nowhere")), "fn a() {\n}\n");
    }
}
