//! JSON for people: the same bytes, with lines and indents.

/// Puts every member and item on a line of its own. Bytes that are no JSON come out as something else that is none.
pub(crate) fn indented(json: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let (mut in_text, mut escaped, mut is_open) = (false, false, false);
    for &byte in json {
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
        // What is empty stays on its line.
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
    result
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
        let text = indented(value.to_string().as_bytes());
        assert_eq!(String::from_utf8_lossy(&text), serde_json::to_string_pretty(&value).unwrap_or_default());
    }

    #[test]
    fn what_is_no_json_is_survived() {
        for text in ["", "}}}", "\"", "{]", "\"\\"] {
            let _ = indented(text.as_bytes());
        }
        assert_eq!(indented(Value::Null.to_string().as_bytes()), b"null");
    }
}
