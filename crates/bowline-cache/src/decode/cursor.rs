//! A walk over JSON bytes: keys are read, values are read or skipped.
//!
//! Everything gives `None` where the bytes are not JSON as far as was looked, and never panics.

use std::{borrow::Cow, ops::Range};

use super::skip;

/// A place in some JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A string as it stands, between its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    /// With the quotes.
    quoted: &'a [u8],
    has_escapes: bool,
}

/// What comes next in an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// A key; its value is next.
    Key(Raw<'a>),
    /// Nothing: the object has ended.
    End,
}

impl<'a> Raw<'a> {
    /// What it says.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        if self.has_escapes {
            return serde_json::from_slice(self.quoted).ok().map(Cow::Owned);
        }
        std::str::from_utf8(self.bytes()).ok().map(Cow::Borrowed)
    }

    /// Whether it says `text`, also by way of escapes.
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
    /// At the start of these bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where it is.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space; it stays.
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

    /// Goes past `byte`, which has to be next but for white space.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Goes past a string.
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

    /// Goes past a value, whatever it is, and tells where it stands.
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

    /// Goes past a string that is a value, and may be long.
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

    /// Goes to the next key of the object whose `{` or last value was passed, and past its colon, or past its `}`.
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
