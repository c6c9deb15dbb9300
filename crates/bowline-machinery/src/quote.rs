//! Quoted texts in messages, as Go prints them.

use std::fmt::Write as _;

/// A text in quotes, with the escapes of Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 2);
    result.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => result.extend(['\\', character]),
            '\u{7}' => result.push_str("\\a"),
            '\u{8}' => result.push_str("\\b"),
            '\u{c}' => result.push_str("\\f"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            '\u{b}' => result.push_str("\\v"),
            _ if is_printable(character) => result.push(character),
            _ => {
                let code = u32::from(character);
                // Writing into a string does not fail.
                let _ = match code {
                    0..=0x7f => write!(result, "\\x{code:02x}"),
                    0x80..=0xffff => write!(result, "\\u{code:04x}"),
                    _ => write!(result, "\\U{code:08x}"),
                };
            }
        }
    }
    result.push('"');
    result
}

/// Whether Go's `unicode.IsPrint` holds. `escape_debug` escapes non-printable characters, but keeps marks after a
/// letter.
pub(crate) fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        _ if character.is_whitespace() || character.is_control() => false,
        _ => !format!("a{character}").escape_debug().to_string().contains("\\u{"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_quoted_as_go_quotes_it() {
        let rows = [
            ("a 'b'", r#""a 'b'""#),
            ("\"\\", r#""\"\\""#),
            ("\0\u{7}\n\u{1b}\u{7f}", r#""\x00\a\n\x1b\x7f""#),
            ("é☃e\u{301}😀", "\"é☃e\u{301}😀\""),
            ("\u{a0}\u{2028}\u{feff}\u{e0001}", r#""\u00a0\u2028\ufeff\U000e0001""#),
        ];
        for (text, expected) in rows {
            assert_eq!(quoted(text), expected);
        }
    }
}
