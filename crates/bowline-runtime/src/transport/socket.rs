//! A TCP connection that is read in large pieces, and is left alone while much is coming.

use std::io::{self, Read as _};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bowline_clock::{Clock, Sleep, poll_cooperate};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The first read is into a buffer of this size, which is kept while nothing comes: a larger one is given back.
const SMALL: usize = 8 * 1024;

/// A read that is as long as its buffer makes the next buffer longer, up to this. Giving back 64 KB or more makes the
/// allocator of the GNU C library merge all it has.
const LARGE: usize = 56 * 1024;

/// So much of one answer must have been read before its socket may be left alone.
const LONG: usize = 256 * 1024;

/// Less than this at once is little.
const BURST: usize = 64 * 1024;

/// When more than this comes while it is left alone, that was too long.
const TOO_MUCH: usize = 1024 * 1024;

/// A list that had little to tell so often, after the longest pause, is over: what follows are events, which must not wait. Not
/// too soon: a busy server pauses in the middle of a list, and the rest of it would be read record by record.
const OVER: u8 = 8;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);

/// A connection below TLS.
///
/// A server sends a long list in thousands of small records. Reading them one by one costs a system call for each, and
/// being told of each by the system costs more than that. So it reads what there is, up to [`LARGE`], into a buffer of
/// its own, of which a large one is given back when nothing comes; and when there is much to come, it takes its socket away from the
/// runtime's list of those to be told of, and looks again after some milliseconds. Only while it may be a list that is
/// read, and until that pauses by itself: events are read as they come.
pub(super) struct Socket {
    stream: Stream,
    buffer: Vec<u8>,
    /// The part of the buffer that nobody has read.
    unread: (usize, usize),
    /// What was read since something was written: of one answer.
    received: usize,
    /// What was read since there was nothing to read.
    burst: usize,
    /// A read got less than it could have taken, so that there is no more for now.
    is_drained: bool,
    /// How long to leave it alone.
    pause: Duration,
    nap: Option<Nap>,
    /// Whether what is read may be a list.
    may_rest: Arc<AtomicBool>,
    /// How often in a row there was little after the longest pause.
    calm: u8,
    clock: Clock,
}

/// While it is left alone.
struct Nap {
    sleep: Sleep,
    /// Whoever wants to read. When the nap ends early, nobody else would tell them.
    reader: Option<Waker>,
}

enum Stream {
    /// The runtime is told when there is something to read.
    Attached(TcpStream),
    /// It is read without anybody being told.
    Detached(std::net::TcpStream),
    Lost,
}

impl Socket {
    /// `may_rest` says whether what is being answered may be a list.
    pub(super) fn new(stream: TcpStream, may_rest: Arc<AtomicBool>, clock: Clock) -> Self {
        Self {
            stream: Stream::Attached(stream),
            buffer: Vec::new(),
            unread: (0, 0),
            received: 0,
            burst: 0,
            is_drained: false,
            pause: SHORTEST,
            nap: None,
            may_rest,
            calm: 0,
            clock,
        }
    }

    /// Sees to it that there is something to read; there is not only at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.unread.0 < self.unread.1 {
                return Poll::Ready(Ok(()));
            }
            if let Some(nap) = &mut self.nap {
                if Pin::new(&mut nap.sleep).poll(cx).is_pending() {
                    nap.reader = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                self.nap = None;
                self.is_drained = false;
            }
            match self.poll_receive(cx) {
                Poll::Ready(read) => {
                    let read = read?;
                    self.unread = (0, read);
                    self.received = self.received.saturating_add(read);
                    self.burst += read;
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending if self.is_long_list() => self.rest()?,
                Poll::Pending => {
                    self.burst = 0;
                    // Most attempts find nothing, and to make a buffer for each costs more than to keep a small one.
                    if self.buffer.len() > SMALL {
                        self.buffer = Vec::new();
                    }
                    if !self.attach()? {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Whether a list is being read of which more is to come, as far as can be told.
    fn is_long_list(&mut self) -> bool {
        if self.received < LONG || !self.may_rest.load(Ordering::Relaxed) {
            return false;
        }
        if self.burst >= BURST {
            self.calm = 0;
        } else if self.pause == LONGEST {
            self.calm += 1;
        }
        if self.calm == OVER {
            self.may_rest.store(false, Ordering::Relaxed);
            self.calm = 0;
        }
        self.may_rest.load(Ordering::Relaxed)
    }

    /// Reads from the socket what it has. Pending does not mean that anybody will be woken, unless it is attached.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.unread.1 == self.buffer.len() && self.buffer.len() < LARGE {
            self.buffer = vec![0; (self.buffer.len() * 2).clamp(SMALL, LARGE)];
        }
        self.unread = (0, 0);
        match &mut self.stream {
            Stream::Attached(stream) => {
                let mut buffer = ReadBuf::new(&mut self.buffer);
                ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
            Stream::Detached(_) if self.is_drained => Poll::Pending,
            Stream::Detached(stream) => {
                let progress = ready!(poll_cooperate(cx));
                let read = loop {
                    match stream.read(&mut self.buffer) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                        read => break read,
                    }
                };
                progress.made();
                self.is_drained = read.as_ref().is_ok_and(|&read| 0 < read && read < self.buffer.len());
                Poll::Ready(read)
            }
            Stream::Lost => Poll::Ready(Err(lost())),
        }
    }

    /// Leaves the socket alone for a while.
    fn rest(&mut self) -> io::Result<()> {
        if let Stream::Attached(_) = self.stream
            && let Stream::Attached(stream) = mem::replace(&mut self.stream, Stream::Lost)
        {
            self.stream = Stream::Detached(stream.into_std()?);
        } else if self.burst > TOO_MUCH {
            self.pause = (self.pause / 2).max(SHORTEST);
        } else if self.burst < TOO_MUCH / 4 {
            self.pause = (self.pause * 2).min(LONGEST);
        }
        self.burst = 0;
        self.nap = Some(Nap { sleep: self.clock.sleep(self.pause), reader: None });
        Ok(())
    }

    /// Has the runtime be told of the socket again. Whether that is a change.
    fn attach(&mut self) -> io::Result<bool> {
        if !matches!(self.stream, Stream::Detached(_)) {
            return Ok(false);
        }
        if let Stream::Detached(stream) = mem::replace(&mut self.stream, Stream::Lost) {
            self.stream = Stream::Attached(TcpStream::from_std(stream)?);
            self.is_drained = false;
        }
        Ok(true)
    }

    /// The stream to write to. Whatever is written begins another answer.
    fn writing(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let nap = self.nap.take();
        self.received = 0;
        self.calm = 0;
        self.attach()?;
        // Another task may be the one that reads: of a stream that was upgraded, often.
        if let Some(reader) = nap.and_then(|nap| nap.reader) {
            reader.wake();
        }
        match &mut self.stream {
            Stream::Attached(stream) => Ok(Pin::new(stream)),
            Stream::Detached(_) | Stream::Lost => Err(lost()),
        }
    }
}

/// After a failure to move a socket between the runtime and this.
fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection was lost before")
}

impl AsyncBufRead for Socket {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        ready!(this.poll_fill(cx))?;
        Poll::Ready(Ok(&this.buffer[this.unread.0..this.unread.1]))
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        self.unread.0 = (self.unread.0 + amount).min(self.unread.1);
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unread = ready!(self.as_mut().poll_fill_buf(cx))?;
        let amount = unread.len().min(buffer.remaining());
        buffer.put_slice(&unread[..amount]);
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writing()?.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TCP holds nothing back here: the socket is told not to.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writing()?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_is_woken_when_another_writes_while_the_socket_is_left_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut socket = Socket::new(stream, Arc::new(AtomicBool::new(true)), Clock::real());
        let reader = Arc::new(Woken::default());
        let waker = Waker::from(reader.clone());
        let mut reads = Context::from_waker(&waker);
        // Much is coming, and is read as it comes.
        let mut turns = 0;
        while socket.nap.is_none() {
            turns += 1;
            assert!(turns < 1000, "it was never left alone");
            peer.write_all(&vec![7; 64 * 1024]).await.unwrap();
            while let Poll::Ready(read) = Pin::new(&mut socket).poll_fill_buf(&mut reads) {
                let amount = read.unwrap().len();
                Pin::new(&mut socket).consume(amount);
            }
            tokio::task::yield_now().await;
        }
        assert!(Pin::new(&mut socket).poll_fill_buf(&mut reads).is_pending());
        let before = reader.0.load(Ordering::SeqCst);
        let mut writes = Context::from_waker(Waker::noop());
        // Not ready: the runtime has yet to hear of the socket again.
        let _written = Pin::new(&mut socket).poll_write(&mut writes, b"x");
        assert_eq!(reader.0.load(Ordering::SeqCst), before + 1);
        assert!(socket.nap.is_none());
    }
}
