//! Splits a watch stream into lines, from chunks with arbitrary boundaries.

use bytes::Bytes;

use super::{cursor, frame::FrameError};

/// Maximum size of a line or list item: ten times etcd's default limit.
pub(super) const LIMIT: usize = 16 * 1024 * 1024;

/// Maximum capacity of a buffer that is kept for reuse.
const MAX_KEPT: usize = 256 * 1024;

/// Takes chunks from the network and returns lines.
///
/// A line within one chunk is not copied. Other lines are assembled in a buffer, which is reused: each byte is scanned
/// once and copied at most once, for chunks of any size. Blank lines are skipped.
///
/// ```text
/// while let Some(chunk) = body.next().await {
///     frames.push(chunk);
///     while let Some(line) = frames.next_line()? { … }
/// }
/// ```
#[derive(Debug)]
pub struct Frames {
    limit: usize,
    /// Current chunk, and the position after the last returned line.
    chunk: Bytes,
    at: usize,
    /// Start of an incomplete line.
    partial: Vec<u8>,
    /// Whether the line in `partial` was returned.
    returned: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl Frames {
    /// Frames of a new stream, with a limit of 16 MiB per line.
    #[must_use]
    pub fn new() -> Self {
        Self { limit: LIMIT, chunk: Bytes::new(), at: 0, partial: Vec::new(), returned: false }
    }

    /// Sets the limit per line, in bytes.
    #[cfg(test)]
    pub(crate) fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Adds the next chunk. Read all lines first: the rest of the previous chunk is copied.
    pub fn push(&mut self, chunk: Bytes) {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        self.chunk = if rest.is_empty() { chunk } else { [rest, &chunk].concat().into() };
        self.at = 0;
    }

    /// Returns the next complete line, without its line end; `None` if more data is needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] if the line exceeds the limit, complete or not. The stream cannot be continued then.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.clear_returned();
        loop {
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.check(self.partial.len() + rest.len())?;
                self.partial.extend_from_slice(rest);
                // Release the chunk, so that the network reader can reuse its memory.
                self.chunk = Bytes::new();
                self.at = 0;
                return Ok(None);
            };
            self.check(self.partial.len() + length)?;
            let start = self.at;
            self.at += length + 1;
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&rest[..length]);
                if is_blank(&self.partial) {
                    self.partial.clear();
                    continue;
                }
                self.returned = true;
                return Ok(Some(&self.partial));
            }
            if !is_blank(&rest[..length]) {
                return Ok(self.chunk.get(start..start + length));
            }
        }
    }

    fn clear_returned(&mut self) {
        if std::mem::take(&mut self.returned) {
            self.partial.clear();
            self.partial.shrink_to(MAX_KEPT);
        }
    }

    fn check(&self, length: usize) -> Result<(), FrameError> {
        if length > self.limit { Err(FrameError::TooLong { limit: self.limit }) } else { Ok(()) }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| cursor::is_space(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(frames: &mut Frames, chunk: &[u8]) -> Vec<Vec<u8>> {
        frames.push(Bytes::copy_from_slice(chunk));
        let mut lines = Vec::new();
        while let Some(line) = frames.next_line().unwrap() {
            lines.push(line.to_vec());
        }
        lines
    }

    #[test]
    fn a_line_within_a_chunk_is_not_copied() {
        let mut frames = Frames::new();
        let chunk = Bytes::from_static(b"{\"a\":1}\n{\"b\":2}\n");
        frames.push(chunk.clone());
        assert_eq!(frames.next_line().unwrap().unwrap().as_ptr(), chunk.as_ptr());
        assert_eq!(frames.next_line().unwrap().unwrap().as_ptr(), chunk[8..].as_ptr());
        assert!(frames.next_line().unwrap().is_none());
        assert_eq!(frames.partial.capacity(), 0);
    }

    #[test]
    fn a_chunk_is_released_after_its_last_line() {
        let mut frames = Frames::new();
        let chunk = Bytes::from(b"1\n2\n3".to_vec());
        frames.push(chunk.clone());
        while frames.next_line().unwrap().is_some() {}
        assert!(chunk.is_unique());
        assert_eq!(lines(&mut frames, b"\n"), [b"3"]);
    }

    #[test]
    fn blank_lines_are_skipped_wherever_they_are_cut() {
        let mut frames = Frames::new();
        assert_eq!(lines(&mut frames, b"\n \r\n{}\r\n\n "), [b"{}\r"]);
        assert_eq!(lines(&mut frames, b" \n{}\n"), [b"{}"]);
    }

    #[test]
    fn a_line_over_the_limit_is_an_error_before_it_is_kept() {
        let mut frames = Frames::new().with_limit(10);
        assert_eq!(lines(&mut frames, b"1234567890\n12345"), [b"1234567890"]);
        frames.push(Bytes::from_static(b"678901"));
        assert!(matches!(frames.next_line(), Err(FrameError::TooLong { limit: 10 })));
        assert!(frames.partial.capacity() < 20);
        frames.push(Bytes::from_static(b"12345678901\n"));
        assert!(matches!(frames.next_line(), Err(FrameError::TooLong { limit: 10 })));
    }

    #[test]
    fn a_chunk_pushed_too_early_loses_nothing() {
        let mut frames = Frames::new();
        frames.push(Bytes::from_static(b"1\n2\n3"));
        assert_eq!(frames.next_line().unwrap(), Some(b"1".as_slice()));
        assert_eq!(lines(&mut frames, b"4\n5\n"), [b"2".to_vec(), b"34".to_vec(), b"5".to_vec()]);
    }

    #[test]
    fn a_large_buffer_is_released() {
        let mut frames = Frames::new();
        lines(&mut frames, &vec![b'x'; 4 * MAX_KEPT]);
        assert_eq!(lines(&mut frames, b"\n1\n").len(), 2);
        assert!(frames.partial.capacity() <= MAX_KEPT);
    }

    proptest! {
        #[test]
        fn any_cuts_give_the_same_lines(
            text in "([a-z{}]{0,5}\n| ){0,20}",
            sizes in proptest::collection::vec(1..9_usize, 1..9),
        ) {
            let mut frames = Frames::new();
            let (mut rest, mut got, mut sizes) = (text.as_bytes(), Vec::new(), sizes.iter().cycle());
            while !rest.is_empty() {
                let (chunk, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
                got.extend(lines(&mut frames, chunk));
                rest = behind;
            }
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let expected: Vec<_> = whole.split('\n').filter(|line| !line.trim().is_empty()).map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
