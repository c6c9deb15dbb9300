//! Character classes and escaped characters.

use std::fmt::Write as _;

use super::syntax::{Error, error};

const RANGE: &str = "invalid character class range";
const ESCAPE: &str = "invalid escape sequence";

/// Parses a class in brackets; `text` starts with the opening bracket. Returns it in the syntax of the `regex` crate,
/// and the rest of the text.
pub(super) fn brackets(text: &str) -> Result<(String, &str), Error<'_>> {
    let mut rest = &text[1..];
    let mut out = String::from("[");
    if let Some(behind) = rest.strip_prefix('^') {
        out.push('^');
        rest = behind;
    }
    let mut is_first = true;
    loop {
        if let Some(behind) = rest.strip_prefix(']').filter(|_| !is_first) {
            out.push(']');
            return Ok((out, behind));
        }
        is_first = false;
        if let Some(end) = rest.strip_prefix("[:").and_then(|inside| inside.find(":]")) {
            let (name, behind) = rest.split_at(end + 4);
            if !is_posix(&rest[2..end + 2]) {
                return error(RANGE, name);
            }
            out.push_str(name);
            rest = behind;
            continue;
        }
        if let Some((class, behind)) = escaped(rest, true)? {
            out.push_str(&class);
            rest = behind;
            continue;
        }
        let (low, behind) = member(rest, text)?;
        let (mut high, mut behind) = (low, behind);
        if let Some(to) = behind.strip_prefix('-').filter(|to| !to.is_empty() && !to.starts_with(']')) {
            (high, behind) = member(to, text)?;
        }
        if high < low {
            return error(RANGE, &rest[..rest.len() - behind.len()]);
        }
        // Writing to a string does not fail.
        let _ = write!(out, r"\x{{{:x}}}-\x{{{:x}}}", u32::from(low), u32::from(high));
        rest = behind;
    }
}

fn is_posix(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ];
    NAMES.contains(&name.strip_prefix('^').unwrap_or(name))
}

fn member<'s>(text: &'s str, class: &'s str) -> Result<(char, &'s str), Error<'s>> {
    match text.chars().next() {
        None => error("missing closing ]", class),
        Some('\\') => character(text),
        Some(c) => Ok((c, &text[c.len_utf8()..])),
    }
}

/// Parses an escaped class, if there is one. Perl's classes are ASCII in Go.
pub(super) fn escaped(text: &str, is_in_brackets: bool) -> Result<Option<(String, &str)>, Error<'_>> {
    let mut chars = text.chars();
    if chars.next() != Some('\\') {
        return Ok(None);
    }
    let Some(letter) = chars.next() else { return Ok(None) };
    let members = match letter {
        'd' | 'D' => "0-9",
        's' | 'S' => r"\t\n\f\r ",
        'w' | 'W' => "0-9A-Za-z_",
        'p' | 'P' => return unicode(text, letter == 'P').map(Some),
        _ => return Ok(None),
    };
    let class = match (letter.is_uppercase(), is_in_brackets) {
        (true, _) => format!("[^{members}]"),
        (false, true) => members.to_owned(),
        (false, false) => format!("[{members}]"),
    };
    Ok(Some((class, &text[2..])))
}

/// `\pL` or `\p{Greek}`
fn unicode(text: &str, mut is_negative: bool) -> Result<(String, &str), Error<'_>> {
    let behind = &text[2..];
    let (name, rest) = match behind.chars().next() {
        None => return error(RANGE, text),
        Some('{') => match behind[1..].split_once('}') {
            Some(found) => found,
            None => return error(RANGE, text),
        },
        Some(c) => behind.split_at(c.len_utf8()),
    };
    let bare = name.strip_prefix('^').unwrap_or(name);
    is_negative ^= bare != name;
    let class = format!(r"\{}{{{bare}}}", if is_negative { 'P' } else { 'p' });
    let is_known = bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_known || bare.is_empty() || regex::Regex::new(&class).is_err() {
        return error(RANGE, &text[..text.len() - rest.len()]);
    }
    Ok((class, rest))
}

/// Parses one escaped character.
pub(super) fn character(text: &str) -> Result<(char, &str), Error<'_>> {
    let mut rest = text[1..].chars();
    let Some(c) = rest.next() else { return error("trailing backslash at end of expression", "") };
    let simple = match c {
        '0' | '1'..='7' => return octal(text),
        'x' => return hexadecimal(text),
        'a' => Some('\u{7}'),
        'f' => Some('\u{c}'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\u{b}'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    };
    match simple {
        Some(c) => Ok((c, rest.as_str())),
        None => error(ESCAPE, &text[..text.len() - rest.as_str().len()]),
    }
}

/// Up to three digits. A single non-zero digit would be a backreference, which Go does not support.
fn octal(text: &str) -> Result<(char, &str), Error<'_>> {
    let digits = text[1..].bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    if digits == 1 && !text[1..].starts_with('0') {
        return error(ESCAPE, &text[..2]);
    }
    let code = u32::from_str_radix(&text[1..=digits], 8).unwrap_or_default();
    Ok((char::from_u32(code).unwrap_or_default(), &text[1 + digits..]))
}

/// `\x7F` or `\x{10FFFF}`
fn hexadecimal(text: &str) -> Result<(char, &str), Error<'_>> {
    let behind = &text[2..];
    if let Some(braced) = behind.strip_prefix('{') {
        let mut code: u32 = 0;
        for (index, c) in braced.char_indices() {
            let rest = &braced[index + c.len_utf8()..];
            let is_end = c == '}' && index > 0;
            if is_end && let Some(c) = char::from_u32(code) {
                return Ok((c, rest));
            }
            code = match c.to_digit(16) {
                Some(digit) if code * 16 + digit <= 0x10_ffff => code * 16 + digit,
                _ => return error(ESCAPE, &text[..text.len() - rest.len()]),
            };
        }
        return error(ESCAPE, text);
    }
    let mut chars = behind.chars();
    let digits = (chars.next(), chars.next());
    let part = &text[..text.len() - chars.as_str().len()];
    let (Some(high), Some(low)) =
        (digits.0.and_then(|c| c.to_digit(16)), digits.1.and_then(|c| c.to_digit(16)))
    else {
        return error(ESCAPE, part);
    };
    Ok((char::from_u32(high * 16 + low).unwrap_or_default(), chars.as_str()))
}
