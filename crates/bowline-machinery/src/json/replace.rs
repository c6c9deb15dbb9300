//! JSON texts with invalid Unicode. Go replaces the invalid parts, so this does the same.

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// The text with a replacement character for each invalid byte of UTF-8 and for each unpaired surrogate. `None` if
/// nothing needs replacement. The text must follow JSON's grammar.
pub(super) fn replaced(text: &[u8]) -> Option<Vec<u8>> {
    let mut valid = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        valid.extend_from_slice(chunk.valid().as_bytes());
        valid.extend(REPLACEMENT.repeat(chunk.invalid().len()));
    }
    let whole = without_halves(&valid);
    (whole != text).then_some(whole)
}

fn without_halves(text: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        whole.extend_from_slice(&rest[..place]);
        rest = &rest[place..];
        let length = match (unit(rest), rest.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.extend_from_slice(REPLACEMENT);
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => rest.len().min(2),
        };
        whole.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    whole.extend_from_slice(rest);
    whole
}

/// The UTF-16 unit of the escape at the start of `text`.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    let digits = str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_invalid_unicode_is_replaced() {
        let replaced = |text: &[u8]| replaced(text).map(|text| String::from_utf8(text).expect("it is UTF-8"));
        assert_eq!(replaced(b"\"a\xffb\xe2\x82\""), Some("\"a\u{fffd}b\u{fffd}\u{fffd}\"".to_owned()));
        assert_eq!(replaced(br#""\ud800a""#), Some("\"\u{fffd}a\"".to_owned()));
        assert_eq!(replaced(br#""\udc00\ud83d\ude00""#), Some("\"\u{fffd}\\ud83d\\ude00\"".to_owned()));
        assert_eq!(replaced(br#""\ud800\ud83d\ude00""#), Some("\"\u{fffd}\\ud83d\\ude00\"".to_owned()));
        for same in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\n\u0041é""#, r#""\"#, ""] {
            assert_eq!(replaced(same.as_bytes()), None, "{same}");
        }
    }
}
