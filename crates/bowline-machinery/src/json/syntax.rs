//! Go's error messages for invalid JSON. Runs only on texts that the parser refused.

use crate::quote::quoted;

/// The message of Go's `encoding/json`, or `None` if Go accepts the grammar.
pub(super) fn syntax_error(text: &[u8]) -> Option<String> {
    // Go handles the end of the text as white space first, and reports it where white space is not allowed.
    let text = [text, b" "].concat();
    Scanner { rest: text.iter() }.document().err()
}

struct Scanner<'a> {
    rest: std::slice::Iter<'a, u8>,
}

/// The error is the message.
type Scanned<T> = Result<T, String>;

#[derive(Clone, Copy)]
enum Open {
    Object,
    List,
}

impl Scanner<'_> {
    fn document(&mut self) -> Scanned<()> {
        // On the heap, since the nesting of the text may exceed the stack.
        let mut open = Vec::new();
        loop {
            if let Some(opened) = self.value_or_opening()? {
                open.push(opened);
                continue;
            }
            loop {
                let Some(innermost) = open.last() else { return self.end() };
                let byte = self.solid()?;
                match (innermost, byte) {
                    (Open::Object, b',') => {
                        let byte = self.solid()?;
                        self.key(byte)?;
                        break;
                    }
                    (Open::List, b',') => break,
                    (Open::Object, b'}') | (Open::List, b']') => {
                        open.pop();
                    }
                    (Open::Object, _) => return unexpected(byte, "after object key:value pair"),
                    (Open::List, _) => return unexpected(byte, "after array element"),
                }
            }
        }
    }

    /// Skips a whole value, or the opening of a non-empty object or list.
    fn value_or_opening(&mut self) -> Scanned<Option<Open>> {
        match self.solid()? {
            b'{' => match self.solid()? {
                b'}' => {}
                byte => {
                    self.key(byte)?;
                    return Ok(Some(Open::Object));
                }
            },
            b'[' => {
                let before = self.rest.clone();
                if self.solid()? != b']' {
                    self.rest = before;
                    return Ok(Some(Open::List));
                }
            }
            b'"' => self.string()?,
            b't' => self.literal("true")?,
            b'f' => self.literal("false")?,
            b'n' => self.literal("null")?,
            b'-' => match self.byte()? {
                byte @ b'0'..=b'9' => self.number(byte)?,
                byte => return unexpected(byte, "in numeric literal"),
            },
            byte @ b'0'..=b'9' => self.number(byte)?,
            byte => return unexpected(byte, "looking for beginning of value"),
        }
        Ok(None)
    }

    fn key(&mut self, first: u8) -> Scanned<()> {
        if first != b'"' {
            return unexpected(first, "looking for beginning of object key string");
        }
        self.string()?;
        match self.solid()? {
            b':' => Ok(()),
            byte => unexpected(byte, "after object key"),
        }
    }

    /// Skips the rest of a string after its first quote.
    fn string(&mut self) -> Scanned<()> {
        loop {
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => match self.byte()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.byte()?;
                            if !byte.is_ascii_hexdigit() {
                                return unexpected(byte, "in \\u hexadecimal character escape");
                            }
                        }
                    }
                    byte => return unexpected(byte, "in string escape code"),
                },
                byte @ 0..0x20 => return unexpected(byte, "in string literal"),
                _ => {}
            }
        }
    }

    /// Skips the rest of a number after its first digit.
    fn number(&mut self, first: u8) -> Scanned<()> {
        if first != b'0' {
            self.digits();
        }
        if self.take(|byte| byte == b'.') {
            self.digit("after decimal point in numeric literal")?;
        }
        if self.take(|byte| matches!(byte, b'e' | b'E')) {
            self.take(|byte| matches!(byte, b'+' | b'-'));
            self.digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Scanned<()> {
        match self.byte()? {
            b'0'..=b'9' => {
                self.digits();
                Ok(())
            }
            byte => unexpected(byte, context),
        }
    }

    fn digits(&mut self) {
        while self.take(|byte| byte.is_ascii_digit()) {}
    }

    /// Skips the rest of a literal after its first letter.
    fn literal(&mut self, literal: &str) -> Scanned<()> {
        for expected in literal.bytes().skip(1) {
            let byte = self.byte()?;
            if byte != expected {
                let context = format!("in literal {literal} (expecting '{}')", char::from(expected));
                return unexpected(byte, &context);
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Scanned<()> {
        match self.rest.find(|byte| !is_white(**byte)) {
            None => Ok(()),
            Some(byte) => unexpected(*byte, "after top-level value"),
        }
    }

    fn take(&mut self, wanted: fn(u8) -> bool) -> bool {
        let found = self.rest.as_slice().first().is_some_and(|byte| wanted(*byte));
        if found {
            self.rest.next();
        }
        found
    }

    fn byte(&mut self) -> Scanned<u8> {
        self.rest.next().copied().ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    /// The next byte other than white space.
    fn solid(&mut self) -> Scanned<u8> {
        loop {
            let byte = self.byte()?;
            if !is_white(byte) {
                return Ok(byte);
            }
        }
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn unexpected<T>(byte: u8, context: &str) -> Scanned<T> {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => format!("'{}'", quoted(&char::from(byte).to_string()).trim_matches('"')),
    };
    Err(format!("invalid character {shown} {context}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_json_gets_the_message_of_go() {
        let rows = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("\"a", "unexpected end of JSON input"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("-", "invalid character ' ' in numeric literal"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b"}"#, "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("'a'", r"invalid character '\'' looking for beginning of value"),
            ("01", "invalid character '1' after top-level value"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1e+x", "invalid character 'x' in exponent of numeric literal"),
            ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
            ("\"\n\"", r"invalid character '\n' in string literal"),
            (r#""\x""#, "invalid character 'x' in string escape code"),
            (r#""\u12g""#, r"invalid character 'g' in \u hexadecimal character escape"),
            ("\u{fc}", "invalid character '\u{c3}' looking for beginning of value"),
        ];
        for (text, expected) in rows {
            assert_eq!(syntax_error(text.as_bytes()).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn valid_json_gets_no_message() {
        for text in ["{}", "[]", " [ { \"a\" : [ 1.5e-3 , -0 ] } , { } ] ", "\"\\ud800\"", "true"] {
            assert_eq!(syntax_error(text.as_bytes()), None, "{text}");
        }
    }
}
