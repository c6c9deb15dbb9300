//! Indented JSON for people.

/// Maximum growth by indentation, in bytes per byte of JSON.
const MAX_GROWTH: usize = 8;

/// Puts every member and item on its own line. Invalid JSON stays invalid. `None` if the result would exceed
/// [`MAX_GROWTH`], as with thousands of nested lists.
pub(crate) fn indented(json: &[u8]) -> Option<Vec<u8>> {
    let limit = json.len() * MAX_GROWTH + 4096;
    let mut result = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut in_text, mut escaped, mut is_open) = (false, false, false);
    for &byte in json {
        if result.len() > limit {
            return None;
        }
        if in_text {
            result.push(byte);
            in_text = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        if byte.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(byte, b'}' | b']');
        depth -= usize::from(closes).min(depth);
        // Empty objects and arrays stay on their line.
        if is_open != closes {
            line(&mut result, depth);
        }
        is_open = matches!(byte, b'{' | b'[');
        depth += usize::from(is_open);
        result.push(byte);
        match byte {
            b'"' => in_text = true,
            b',' => line(&mut result, depth),
            b':' => result.push(b' '),
            _ => {}
        }
    }
    Some(result)
}

fn line(result: &mut Vec<u8>, depth: usize) {
    result.push(b'\n');
    result.resize(result.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_member_has_its_line_and_what_is_empty_has_none() {
        let value = json!({"a": [], "b": {}, "c": [1, {"d": "x\\\"{[,:"}], "e": null, "f": [[-1.5], true]});
        let text = indented(value.to_string().as_bytes()).expect("it is not deep");
        assert_eq!(String::from_utf8_lossy(&text), serde_json::to_string_pretty(&value).unwrap_or_default());
    }

    #[test]
    fn what_is_no_json_is_survived() {
        for text in ["", "}}}", "\"", "{]", "\"\\"] {
            let _ = indented(text.as_bytes());
        }
        assert_eq!(indented(Value::Null.to_string().as_bytes()).as_deref(), Some(&b"null"[..]));
    }

    #[test]
    fn deep_nesting_is_not_indented() {
        let json = ["[".repeat(5000), "]".repeat(5000)].concat();
        assert_eq!(indented(json.as_bytes()), None);
        let row = format!("[{}1{}]", "[".repeat(100), "]".repeat(100));
        assert_eq!(indented(row.repeat(100).as_bytes()), None);
    }
}
