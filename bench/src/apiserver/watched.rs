//! A streamed response, read directly from its connection: layers in between would add time that is not the server's.

use std::io::BufRead as _;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::load::Failure;

/// Larger than an event, and than a TLS record.
const BUFFER: usize = 32 * 1024;

/// The response to a watch, on its own or on a shared connection.
pub(super) enum Watched {
    Alone(Box<Chunked<TlsStream<TcpStream>>>),
    Shared(Streamed),
    /// Without TLS.
    Bare(Box<Chunked<TcpStream>>),
}

impl Watched {
    /// Waits for more data.
    ///
    /// # Errors
    /// When the response has ended.
    pub(super) async fn read(&mut self) -> Result<(), Failure> {
        match self {
            Self::Alone(chunked) => chunked.read().await,
            Self::Shared(streamed) => streamed.read().await,
            Self::Bare(chunked) => chunked.read().await,
        }
    }

    /// Passes the complete lines, without their ends, to `line`.
    ///
    /// # Errors
    /// When the response is not chunked, has ended, or `line` fails.
    pub(super) fn lines(
        &mut self,
        mut line: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Alone(chunked) => chunked.lines(line),
            Self::Shared(streamed) => streamed.lines.push(&streamed.piece, &mut line),
            Self::Bare(chunked) => chunked.lines(line),
        }
    }
}

/// A response over HTTP/2.
pub(super) struct Streamed {
    body: Incoming,
    /// Last bytes read.
    piece: Bytes,
    lines: Lines,
}

impl Streamed {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, piece: Bytes::new(), lines: Lines::default() }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let frame = self.body.frame().await.ok_or("the watch ended")??;
        self.piece = frame.into_data().unwrap_or_default();
        Ok(())
    }
}

/// A chunked HTTP/1.1 response, joined to lines.
pub(super) struct Chunked<S> {
    stream: S,
    buffer: Box<[u8]>,
    /// Start of the unread bytes in the buffer.
    from: usize,
    to: usize,
    chunks: Chunks,
    lines: Lines,
}

impl<S: AsyncRead + Unpin> Chunked<S> {
    /// Reads the head of the response.
    ///
    /// # Errors
    /// When its status is not a success, or the body is not chunked.
    pub(super) async fn begin(stream: S) -> Result<Self, Failure> {
        let (chunks, lines) = (Chunks::default(), Lines::default());
        let mut this = Self { stream, buffer: vec![0; BUFFER].into(), from: 0, to: 0, chunks, lines };
        this.head().await?;
        Ok(this)
    }

    async fn head(&mut self) -> Result<(), Failure> {
        const END: &[u8] = b"\r\n\r\n";
        let end = loop {
            if let Some(at) = self.buffer[..self.to].windows(END.len()).position(|window| window == END) {
                break at + END.len();
            }
            if self.to == self.buffer.len() {
                return Err("the head of the answer does not end".into());
            }
            let read = self.stream.read(&mut self.buffer[self.to..]).await?;
            if read == 0 {
                return Err("the connection ended in the head of the answer".into());
            }
            self.to += read;
        };
        self.from = end;
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
        if head.starts_with("http/1.1 200 ") && head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return Ok(());
        }
        Err(format!("not the answer of a watch: {}", String::from_utf8_lossy(&self.buffer[..self.to])).into())
    }

    async fn read(&mut self) -> Result<(), Failure> {
        if self.from < self.to {
            // Received together with the head.
            return Ok(());
        }
        let read = self.stream.read(&mut self.buffer).await?;
        if read == 0 {
            return Err("the connection ended".into());
        }
        (self.from, self.to) = (0, read);
        Ok(())
    }

    fn lines(&mut self, mut line: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut bytes = &self.buffer[self.from..self.to];
        self.from = self.to;
        while !bytes.is_empty() {
            let piece = self.chunks.take(&mut bytes)?;
            self.lines.push(piece, &mut line)?;
        }
        Ok(())
    }
}

/// Position in a chunked body.
#[derive(Debug)]
enum Chunks {
    /// In the line with the chunk length; the value is the length read so far.
    Length(Vec<u8>),
    /// In the data; the value is the number of bytes left.
    Data(usize),
    /// In the line end after the data; the value is the number of bytes left.
    End(usize),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Length(Vec::new())
    }
}

impl Chunks {
    /// Removes a piece from the front; returns its data.
    fn take<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<&'a [u8], Failure> {
        match self {
            Self::Length(line) => {
                let length = line_length(bytes);
                line.extend(split_off(bytes, length));
                if let Some(line) = line.strip_suffix(b"\r\n") {
                    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
                    let length = usize::from_str_radix(str::from_utf8(digits)?.trim(), 16)?;
                    if length == 0 {
                        return Err("the watch ended".into());
                    }
                    *self = Self::Data(length);
                } else if line.len() > 100 || line.ends_with(b"\n") {
                    return Err("the length of a chunk is not one".into());
                }
                Ok(&[])
            }
            Self::Data(left) => {
                let data = split_off(bytes, *left);
                *left -= data.len();
                if *left == 0 {
                    *self = Self::End(2);
                }
                Ok(data)
            }
            Self::End(left) => {
                let end = split_off(bytes, *left);
                if !b"\r\n"[2 - *left..].starts_with(end) {
                    return Err("a chunk is longer than its length".into());
                }
                *left -= end.len();
                if *left == 0 {
                    *self = Self::default();
                }
                Ok(&[])
            }
        }
    }
}

/// Joins pieces of a body to lines.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn push(
        &mut self,
        mut bytes: &[u8],
        line: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let length = line_length(bytes);
            let piece = split_off(&mut bytes, length);
            let whole = piece.strip_suffix(b"\n");
            match whole {
                Some(whole) if self.0.is_empty() => line(whole)?,
                _ => self.0.extend_from_slice(whole.unwrap_or(piece)),
            }
            if whole.is_some() && !self.0.is_empty() {
                line(&self.0)?;
                self.0.clear();
            }
        }
        Ok(())
    }
}

/// Length of the first line with its end, or of all bytes if it has none.
fn line_length(mut bytes: &[u8]) -> usize {
    bytes.skip_until(b'\n').unwrap_or_default()
}

/// Removes up to this number of bytes from the front.
fn split_off<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, rest) = bytes.split_at(most.min(bytes.len()));
    *bytes = rest;
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

    /// The lines of a response that arrives in pieces of this many bytes, and the final error.
    async fn lines(answer: &str, piece: usize) -> (Vec<String>, String) {
        let mut lines = Vec::new();
        let mut watched = match Chunked::begin(pieces(answer, piece)).await {
            Ok(watched) => watched,
            Err(failure) => return (lines, failure.to_string()),
        };
        loop {
            let next = match watched.read().await {
                Ok(()) => watched.lines(|line| {
                    lines.push(String::from_utf8_lossy(line).into_owned());
                    Ok(())
                }),
                Err(failure) => Err(failure),
            };
            if let Err(failure) = next {
                return (lines, failure.to_string());
            }
        }
    }

    /// Returns its bytes in pieces.
    struct Pieces(std::collections::VecDeque<Vec<u8>>);

    fn pieces(answer: &str, piece: usize) -> Pieces {
        Pieces(answer.as_bytes().chunks(piece).map(<[u8]>::to_vec).collect())
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            buffer: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            buffer.put_slice(&self.0.pop_front().unwrap_or_default());
            std::task::Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn lines_are_put_together_however_they_are_cut() {
        let body = "4\r\none\n\r\n5;x=y\r\ntwo\nt\r\nB\r\nhree\r\n\nfour\r\n1\r\n\n\r\n";
        let answer = format!("{HEAD}{body}");
        for piece in 1..=answer.len() {
            let (lines, end) = lines(&answer, piece).await;
            assert_eq!(lines, ["one", "two", "three\r", "", "four"], "pieces of {piece}");
            assert_eq!(end, "the connection ended", "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn what_is_not_a_watch_is_a_failure() {
        for (answer, failure) in [
            (format!("{HEAD}4\r\none\n\r\n0\r\n\r\n"), "the watch ended"),
            (format!("{HEAD}4\r\none\n+"), "a chunk is longer than its length"),
            (format!("{HEAD}four\r\none\n\r\n"), "invalid digit found in string"),
            (HEAD[..30].to_owned(), "the connection ended in the head of the answer"),
        ] {
            assert_eq!(lines(&answer, 7).await.1, failure);
        }
        let refused = "HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngone\r\n";
        assert_eq!(lines(refused, 1000).await.1, format!("not the answer of a watch: {refused}"));
    }
}
