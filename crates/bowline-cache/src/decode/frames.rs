//! The lines of a watch, from chunks that are cut anywhere.

use bytes::Bytes;

use super::{cursor, frame::FrameError};

/// A line or an item may be so long: ten times what etcd stores by default.
pub(super) const LIMIT: usize = 16 * 1024 * 1024;

/// A buffer that had to be larger than this is not kept.
const KEPT: usize = 256 * 1024;

/// Takes chunks as they come from the network and gives lines.
///
/// A line that lies within one chunk is not copied. One that does not is put together in a buffer that the next such line
/// uses again; each byte is looked at once and copied at most once, however small the chunks are. Blank lines are skipped.
///
/// ```text
/// while let Some(chunk) = body.next().await {
///     frames.push(chunk);
///     while let Some(line) = frames.next_line()? { … }
/// }
/// if let Some(line) = frames.finish()? { … }
/// ```
#[derive(Debug)]
pub struct Frames {
    limit: usize,
    /// Chunk and where its lines have been given up to.
    chunk: Bytes,
    at: usize,
    /// The start of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The line in `partial` has been given.
    given: bool,
}

impl Default for Frames {
    fn default() -> Self {
        Self::new()
    }
}

impl Frames {
    /// For a new stream, with a limit of 16 MiB for a line.
    #[must_use]
    pub fn new() -> Self {
        Self { limit: LIMIT, chunk: Bytes::new(), at: 0, partial: Vec::new(), given: false }
    }

    /// With another limit for a line, in bytes.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Takes the next chunk. What is still in the one before is kept, at the price of a copy; so ask for lines first.
    pub fn push(&mut self, chunk: Bytes) {
        let rest = self.chunk.get(self.at..).unwrap_or_default();
        self.chunk = if rest.is_empty() { chunk } else { [rest, &chunk].concat().into() };
        self.at = 0;
    }

    /// The next whole line, without its end; `None` if it takes another chunk.
    ///
    /// # Errors
    /// If the line is longer than the limit, now or once it is complete. There is no way on from there.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.forget_given();
        loop {
            let rest = self.chunk.get(self.at..).unwrap_or_default();
            let Some(length) = memchr::memchr(b'\n', rest) else {
                self.check(self.partial.len() + rest.len())?;
                self.partial.extend_from_slice(rest);
                // Whoever reads from the network uses its memory again.
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
                self.given = true;
                return Ok(Some(&self.partial));
            }
            if !is_blank(&rest[..length]) {
                return Ok(self.chunk.get(start..start + length));
            }
        }
    }

    /// At the end of the stream: the last line, if it has no end of its own but is complete.
    ///
    /// # Errors
    /// If the stream broke off within a line.
    pub fn finish(&mut self) -> Result<Option<&[u8]>, FrameError> {
        self.forget_given();
        self.partial.extend_from_slice(self.chunk.get(self.at..).unwrap_or_default());
        self.at = self.chunk.len();
        if is_blank(&self.partial) {
            return Ok(None);
        }
        match serde_json::from_slice::<serde::de::IgnoredAny>(&self.partial) {
            Ok(_) => {
                self.given = true;
                Ok(Some(&self.partial))
            }
            Err(_) => Err(FrameError::Truncated { length: self.partial.len() }),
        }
    }

    fn forget_given(&mut self) {
        if std::mem::take(&mut self.given) {
            self.partial.clear();
            self.partial.shrink_to(KEPT);
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
    fn a_chunk_is_given_back_with_its_last_line_before_the_next_comes() {
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
        assert!(frames.finish().unwrap().is_none());
    }

    #[test]
    fn a_last_line_without_an_end_is_given_if_it_is_complete() {
        let mut frames = Frames::new();
        assert!(lines(&mut frames, b"{\"a\":").is_empty());
        assert!(matches!(frames.finish(), Err(FrameError::Truncated { length: 5 })));
        assert!(lines(&mut frames, b"[]}").is_empty());
        assert_eq!(frames.finish().unwrap(), Some(b"{\"a\":[]}".as_slice()));
        assert_eq!(frames.finish().unwrap(), None);
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
    fn a_large_buffer_is_given_back() {
        let mut frames = Frames::new();
        lines(&mut frames, &vec![b'x'; 4 * KEPT]);
        assert_eq!(lines(&mut frames, b"\n1\n").len(), 2);
        assert!(frames.partial.capacity() <= KEPT);
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
