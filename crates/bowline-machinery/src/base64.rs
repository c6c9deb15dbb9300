//! Binary data in JSON: standard base64 with padding, as Go reads and writes it.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Rewrites a text as Go does after decoding: without line breaks and stray bits.
///
/// # Errors
/// The byte at which Go's decoder stops.
pub(crate) fn canonicalise(text: &mut String) -> Result<(), usize> {
    if !is_canonical(text.as_bytes()) {
        *text = encode(&decode(text.as_bytes())?);
    }
    Ok(())
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            if digit <= chunk.len() {
                text.push(char::from(ALPHABET[(bits >> (18 - 6 * digit)) as usize & 63]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

fn is_canonical(text: &[u8]) -> bool {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] | digits => digits,
    };
    let stray = match (text.len() - digits.len(), digits.last()) {
        (1, Some(last)) => digit(*last).unwrap_or_default() & 3,
        (2, Some(last)) => digit(*last).unwrap_or_default() & 15,
        _ => 0,
    };
    text.len().is_multiple_of(4) && stray == 0 && digits.iter().all(|byte| digit(*byte).is_some())
}

/// Follows the steps of Go's decoder, so that it reports the same byte.
fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let skip_breaks = |mut at: usize| {
        while matches!(text.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        at
    };
    let mut at = 0;
    loop {
        let (mut bits, mut count) = (0_u32, 0);
        while count < 4 {
            at = skip_breaks(at);
            let Some(&byte) = text.get(at) else {
                return if count == 0 { Ok(bytes) } else { Err(at - count) };
            };
            at += 1;
            if let Some(digit) = digit(byte) {
                bits = bits << 6 | u32::from(digit);
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(at - 1);
            }
            if count == 2 {
                at = skip_breaks(at);
                match text.get(at) {
                    None => return Err(text.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            at = skip_breaks(at);
            if at < text.len() {
                return Err(at);
            }
            bits <<= 6 * (4 - count);
            bytes.extend_from_slice(&bits.to_be_bytes()[1..count]);
            return Ok(bytes);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, usize> {
        let mut text = text.to_owned();
        canonicalise(&mut text).map(|()| text)
    }

    #[test]
    fn canonical_base64_stays() {
        for text in ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="] {
            assert_eq!(canonical(text), Ok(text.to_owned()));
        }
    }

    #[test]
    fn line_breaks_and_stray_bits_are_removed() {
        assert_eq!(canonical("YW\nI=\r\n"), Ok("YWI=".to_owned()));
        assert_eq!(canonical("YR=="), Ok("YQ==".to_owned()));
        assert_eq!(canonical("YWJ="), Ok("YWI=".to_owned()));
    }

    #[test]
    fn the_wrong_byte_is_the_one_that_go_reports() {
        for (text, at) in
            [("a", 0), ("YWJjZ", 4), ("YQ=", 3), ("Y===", 1), ("Y*==", 1), ("YQ==YQ==", 4), ("YQ=a", 2)]
        {
            assert_eq!(canonical(text), Err(at), "{text}");
        }
    }
}
