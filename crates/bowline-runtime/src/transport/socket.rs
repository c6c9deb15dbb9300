//! A TCP connection that is read in large chunks, with pauses during long lists.

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

/// Size of the first read buffer, which is kept while idle; a larger one is freed.
const MIN_BUFFER: usize = 8 * 1024;

/// Maximum buffer size. Full reads double the buffer up to this. Freeing 64 KB or more makes glibc's allocator merge
/// its free memory.
const MAX_BUFFER: usize = 56 * 1024;

/// Bytes of a response after which reading may pause.
const LONG_LIST: usize = 256 * 1024;

/// Bytes since the last pause below which a list counts as calm.
const MIN_BURST: usize = 64 * 1024;

/// Bytes during a pause above which the pause is shortened.
const MAX_PER_PAUSE: usize = 1024 * 1024;

/// Number of calm pauses of maximum length after which a list is considered complete: later data are events, which must
/// not wait. Large enough for a busy server that pauses within a list.
const MAX_CALM_PAUSES: u8 = 8;

const MIN_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(16);

/// A TCP stream below TLS.
///
/// A server sends a long list in thousands of small records. Each costs a system call to read, and even more for the
/// wake-up. So the socket reads as much as is available, up to [`MAX_BUFFER`], into its own buffer; a large buffer is freed
/// when there is no data. During a long list it deregisters from the runtime's reactor and polls every few
/// milliseconds. This applies only while the response may be a list, and until the list calms down: events are read
/// without delay.
pub(super) struct Socket {
    stream: Stream,
    buffer: Vec<u8>,
    /// Unread range of the buffer.
    unread: (usize, usize),
    /// Bytes read since the last write, that is, of one response.
    received: usize,
    /// Bytes read since the last time without data.
    burst: usize,
    /// Whether the last read was shorter than the buffer, so that there is no more data.
    is_drained: bool,
    /// Duration of the next pause.
    pause: Duration,
    read_pause: Option<ReadPause>,
    /// Whether the response may be a list.
    may_be_list: Arc<AtomicBool>,
    /// Calm pauses of maximum length in a row.
    calm_pauses: u8,
    clock: Clock,
}

/// A pause of reading.
struct ReadPause {
    sleep: Sleep,
    /// The waiting reader, to be woken if the pause ends early.
    reader: Option<Waker>,
}

enum Stream {
    /// Registered with the runtime's reactor.
    Attached(TcpStream),
    /// Polled without the reactor.
    Detached(std::net::TcpStream),
    Lost,
}

impl Socket {
    /// `may_be_list`: true while the response may be a list.
    pub(super) fn new(stream: TcpStream, may_be_list: Arc<AtomicBool>, clock: Clock) -> Self {
        Self {
            stream: Stream::Attached(stream),
            buffer: Vec::new(),
            unread: (0, 0),
            received: 0,
            burst: 0,
            is_drained: false,
            pause: MIN_PAUSE,
            read_pause: None,
            may_be_list,
            calm_pauses: 0,
            clock,
        }
    }

    /// Waits until there is unread data; there is none only at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.unread.0 < self.unread.1 {
                return Poll::Ready(Ok(()));
            }
            if let Some(read_pause) = &mut self.read_pause {
                if Pin::new(&mut read_pause.sleep).poll(cx).is_pending() {
                    read_pause.reader = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                self.read_pause = None;
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
                Poll::Pending if self.is_long_list() => self.pause_reading()?,
                Poll::Pending => {
                    self.burst = 0;
                    // Most polls find no data, so keeping a small buffer is cheaper than allocating one each time.
                    if self.buffer.len() > MIN_BUFFER {
                        self.buffer = Vec::new();
                    }
                    if !self.attach()? {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Whether this is probably a list with more data to come.
    fn is_long_list(&mut self) -> bool {
        if self.received < LONG_LIST || !self.may_be_list.load(Ordering::Relaxed) {
            return false;
        }
        if self.burst >= MIN_BURST {
            self.calm_pauses = 0;
        } else if self.pause == MAX_PAUSE {
            self.calm_pauses += 1;
        }
        if self.calm_pauses == MAX_CALM_PAUSES {
            self.may_be_list.store(false, Ordering::Relaxed);
            self.calm_pauses = 0;
        }
        self.may_be_list.load(Ordering::Relaxed)
    }

    /// Reads available data. `Pending` does not imply a wake-up, unless the socket is registered.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.unread.1 == self.buffer.len() && self.buffer.len() < MAX_BUFFER {
            self.buffer = vec![0; (self.buffer.len() * 2).clamp(MIN_BUFFER, MAX_BUFFER)];
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
                progress.made_progress();
                self.is_drained = read.as_ref().is_ok_and(|&read| 0 < read && read < self.buffer.len());
                Poll::Ready(read)
            }
            Stream::Lost => Poll::Ready(Err(lost())),
        }
    }

    /// Pauses reading.
    fn pause_reading(&mut self) -> io::Result<()> {
        if let Stream::Attached(_) = self.stream
            && let Stream::Attached(stream) = mem::replace(&mut self.stream, Stream::Lost)
        {
            self.stream = Stream::Detached(stream.into_std()?);
        } else if self.burst > MAX_PER_PAUSE {
            self.pause = (self.pause / 2).max(MIN_PAUSE);
        } else if self.burst < MAX_PER_PAUSE / 4 {
            self.pause = (self.pause * 2).min(MAX_PAUSE);
        }
        self.burst = 0;
        self.read_pause = Some(ReadPause { sleep: self.clock.sleep(self.pause), reader: None });
        Ok(())
    }

    /// Registers the socket with the runtime again. Returns whether it was deregistered.
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

    /// The stream for writing. A write begins the next response.
    fn writing(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let read_pause = self.read_pause.take();
        self.received = 0;
        self.calm_pauses = 0;
        self.attach()?;
        // The reader may be another task, for example after an upgrade.
        if let Some(reader) = read_pause.and_then(|read_pause| read_pause.reader) {
            reader.wake();
        }
        match &mut self.stream {
            Stream::Attached(stream) => Ok(Pin::new(stream)),
            Stream::Detached(_) | Stream::Lost => Err(lost()),
        }
    }
}

/// Error after a failed registration or deregistration.
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
        // No data is held back: TCP_NODELAY is set.
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
    async fn a_write_during_a_pause_wakes_the_reader() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut socket = Socket::new(stream, Arc::new(AtomicBool::new(true)), Clock::real());
        let reader = Arc::new(Woken::default());
        let waker = Waker::from(reader.clone());
        let mut reads = Context::from_waker(&waker);
        // Data arrives and is read without a pause.
        let mut turns = 0;
        while socket.read_pause.is_none() {
            turns += 1;
            assert!(turns < 1000, "reading never paused");
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
        // Pending: the runtime has not polled the socket yet.
        let _written = Pin::new(&mut socket).poll_write(&mut writes, b"x");
        assert_eq!(reader.0.load(Ordering::SeqCst), before + 1);
        assert!(socket.read_pause.is_none());
    }
}
