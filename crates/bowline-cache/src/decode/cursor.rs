//! Walks over JSON bytes: reads keys, and reads or skips values.
//!
//! All methods return `None` for invalid JSON, up to the bytes that they read, and never panic.

use std::{borrow::Cow, ops::Range};

use super::skip;

/// A position in JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A JSON string, not unescaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    /// Including the quotes.
    quoted: &'a [u8],
    has_escapes: bool,
}

/// The next step in an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// A key; the cursor is at its value.
    Key(Raw<'a>),
    /// The end of the object.
    End,
}

impl<'a> Raw<'a> {
    /// The text, unescaped.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        if self.has_escapes {
            return serde_json::from_slice(self.quoted).ok().map(Cow::Owned);
        }
        std::str::from_utf8(self.bytes()).ok().map(Cow::Borrowed)
    }

    /// Whether the unescaped text equals `text`.
    #[inline]
    pub(super) fn is(self, text: &str) -> bool {
        if self.has_escapes {
            return self.text().as_deref() == Some(text);
        }
        self.bytes() == text.as_bytes()
    }

    #[inline]
    fn bytes(self) -> &'a [u8] {
        self.quoted.get(1..self.quoted.len().saturating_sub(1)).unwrap_or_default()
    }
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of the bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The position.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next byte after white space, not consumed.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !is_space(*byte) {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes `byte`, after white space.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Consumes a string.
    #[inline]
    pub(super) fn string(&mut self) -> Option<Raw<'a>> {
        self.expect(b'"')?;
        let start = self.at - 1;
        let mut has_escapes = false;
        // Keys are short: a call to memchr costs more than it saves.
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(Raw { quoted: self.bytes.get(start..self.at)?, has_escapes })
    }

    /// Consumes any value. Returns its range.
    #[inline]
    pub(super) fn value(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'{' | b'[' => self.at += skip::container(self.bytes.get(start..)?)?,
            b'"' => self.long_string()?,
            _ => {
                let rest = self.bytes.get(start..)?;
                let end =
                    rest.iter().position(|byte| is_space(*byte) || matches!(byte, b',' | b'}' | b']' | b':'));
                let length = end.unwrap_or(rest.len());
                if length == 0 {
                    return None;
                }
                self.at += length;
            }
        }
        Some(start..self.at)
    }

    /// Consumes a string value, which may be long.
    fn long_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.bytes.get(self.at..)?)?;
            if self.bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                return Some(());
            }
            self.at += 2;
        }
    }

    /// Consumes the next key of an object and its colon, or the closing `}`. The cursor is after `{` or after a value.
    #[inline]
    pub(super) fn next_key(&mut self, first: bool) -> Option<Step<'a>> {
        match self.peek()? {
            b'}' => {
                self.at += 1;
                return Some(Step::End);
            }
            b',' if !first => self.at += 1,
            _ if first => {}
            _ => return None,
        }
        let key = self.string()?;
        self.expect(b':')?;
        Some(Step::Key(key))
    }
}

#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}
