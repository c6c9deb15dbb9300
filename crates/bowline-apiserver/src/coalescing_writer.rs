//! Writer of a connection that sends frames of several streams together.
//!
//! HTTP/2 has many streams on one socket, and a changed object produces frames for many watches at once. The HTTP/2
//! library flushes after each frame: a TLS record and a system call per watch, which cost many times what the frame
//! does. Here frames are gathered until all tasks that the same change woke have run.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum gathered bytes. Beyond it, a writer waits until the client has read some.
const MOST: usize = 64 * 1024;

/// Maximum buffer that an idle connection keeps.
const KEPT: usize = 8 * 1024;

/// The half that the protocol writes to. Flushes do nothing; [`Outbox::drive`] sends the bytes, or the writer does when
/// there are too many.
pub(crate) struct CoalescingWriter<S>(Outbox<S>);

/// The half that decides when to send.
pub(crate) struct Outbox<S>(Arc<Mutex<Gathered<S>>>);

struct Gathered<S> {
    stream: S,
    unsent: Vec<u8>,
    /// Number of bytes that the stream has accepted.
    sent: usize,
    /// Whether the stream may still buffer some accepted bytes.
    is_unflushed: bool,
    /// Whether a writer waits for room.
    is_awaited: bool,
}

/// Splits a stream into the half for writing and the half that sends.
pub(crate) fn gather<S>(stream: S) -> (CoalescingWriter<S>, Outbox<S>) {
    let gathered = Gathered { stream, unsent: Vec::new(), sent: 0, is_unflushed: false, is_awaited: false };
    let shared = Arc::new(Mutex::new(gathered));
    (CoalescingWriter(Outbox(shared.clone())), Outbox(shared))
}

impl<S: AsyncWrite + Unpin> Outbox<S> {
    /// Runs the protocol's future to its end, and sends its bytes: each time after all tasks that were ready at that
    /// moment have run, since they may add more.
    ///
    /// # Errors
    /// Errors of the future, and of the stream.
    pub(crate) async fn drive<T, E>(
        &self,
        mut future: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, Box<dyn std::error::Error + Send + Sync>>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let mut has_waited = false;
        let ended = poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = future.as_mut().poll(cx) {
                    return Poll::Ready(ended.map_err(Into::into));
                }
                let mut gathered = self.lock();
                if gathered.unsent.is_empty() && !gathered.is_unflushed {
                    return Poll::Pending;
                }
                // Bytes in transmission do not wait for more.
                has_waited = !has_waited && !gathered.is_awaited && !gathered.is_unflushed;
                if has_waited {
                    // A task that wakes itself runs after those that are ready.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                ready!(gathered.poll_send(cx))?;
                if !std::mem::take(&mut gathered.is_awaited) {
                    return Poll::Pending;
                }
            }
        })
        .await;
        let sent = poll_fn(|cx| self.lock().poll_send(cx)).await;
        ended.and_then(|value| sent.map(|()| value).map_err(Into::into))
    }
}

impl<S> Outbox<S> {
    /// No code under this lock can panic and leave it inconsistent.
    fn lock(&self) -> MutexGuard<'_, Gathered<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Sends all gathered bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.unsent[self.sent..]))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.is_unflushed = true;
        }
        self.sent = 0;
        self.unsent.clear();
        self.unsent.shrink_to(KEPT);
        // TLS accepts all bytes, and buffers those that the socket does not take.
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Number of bytes that may still be gathered: at least 1.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.unsent.len() >= MOST {
            self.is_awaited = true;
            ready!(self.poll_send(cx))?;
            self.is_awaited = false;
        }
        Poll::Ready(Ok(MOST - self.unsent.len()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescingWriter<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescingWriter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathered = self.0.lock();
        let room = ready!(gathered.poll_room(cx))?;
        let before = gathered.unsent.len();
        for slice in slices {
            let left = room - (gathered.unsent.len() - before);
            gathered.unsent.extend_from_slice(&slice[..slice.len().min(left)]);
        }
        Poll::Ready(Ok(gathered.unsent.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: see [`Gathering`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathered = self.0.lock();
        ready!(gathered.poll_send(cx))?;
        Pin::new(&mut gathered.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use bowline_clock::Clock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Sends received bytes, piece by piece, into a channel.
    struct Pieces(mpsc::Sender<String>);

    impl AsyncWrite for Pieces {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let sent = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Poll::Ready(sent.map(|()| bytes.len()).map_err(io::Error::other))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes each received frame by itself, until all senders are dropped.
    async fn write_all<S: AsyncWrite + Unpin>(
        mut stream: CoalescingWriter<S>,
        mut words: tokio::sync::mpsc::Receiver<String>,
    ) -> io::Result<()> {
        while let Some(word) = words.recv().await {
            stream.write_all(word.as_bytes()).await?;
            stream.flush().await?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn what_tasks_that_are_ready_have_to_say_goes_together() {
        let (sender, pieces) = mpsc::channel();
        let (stream, outbox) = gather(Pieces(sender));
        let (say, words) = tokio::sync::mpsc::channel(9);
        let scope = Clock::real().scope("test");
        let speaker = scope.spawner();
        scope.spawn("connection", async move {
            let writing = std::pin::pin!(write_all(stream, words));
            outbox.drive(writing).await.expect("it takes everything");
        });
        scope.spawn("first", async move {
            say.send("a".to_owned()).await.expect("there is room");
            // It runs after the connection, which was woken first.
            let next = say.clone();
            speaker.spawn("second", async move { next.send("b".to_owned()).await.expect("there is room") });
            // Another time.
            speaker.clock().sleep(std::time::Duration::from_millis(20)).await;
            say.send("c".to_owned()).await.expect("there is room");
        });
        scope.wait_ended().await;
        assert_eq!(pieces.into_iter().collect::<Vec<_>>(), ["ab", "c"]);
    }

    #[tokio::test]
    async fn nothing_is_lost_when_the_other_side_takes_little() {
        let (stream, mut other) = tokio::io::duplex(1000);
        let (stream, outbox) = gather(stream);
        let (say, words) = tokio::sync::mpsc::channel(9);
        let said: Vec<String> = (0..9).map(|word: u8| word.to_string().repeat(MOST / 2 - 1)).collect();
        for word in &said {
            say.try_send(word.clone()).unwrap();
        }
        drop(say);
        let write = async move {
            outbox.drive(std::pin::pin!(write_all(stream, words))).await.unwrap();
        };
        let mut heard = String::new();
        let ((), length) = tokio::join!(write, other.read_to_string(&mut heard));
        assert_eq!(length.unwrap(), heard.len());
        assert!(heard == said.concat(), "it came in another order, or not all of it");
    }

    /// Accepts everything at once, and sends it at the second flush.
    struct Slow {
        taken: Vec<u8>,
        was_flushed: bool,
        sent: mpsc::Sender<Vec<u8>>,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.taken.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let this = &mut *self;
            this.was_flushed = !this.was_flushed;
            if this.was_flushed && !this.taken.is_empty() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let sent = this.sent.send(std::mem::take(&mut this.taken));
            Poll::Ready(sent.map_err(io::Error::other))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_the_stream_holds_back_is_flushed_although_nothing_follows() {
        let (sent, pieces) = mpsc::channel();
        let (mut stream, outbox) = gather(Slow { taken: Vec::new(), was_flushed: false, sent });
        let write = async move {
            stream.write_all(b"a").await?;
            std::future::pending::<io::Result<()>>().await
        };
        let write = std::pin::pin!(write);
        let never = Clock::real().timeout(std::time::Duration::from_millis(20), outbox.drive(write)).await;
        assert!(never.is_err());
        assert_eq!(pieces.try_iter().collect::<Vec<_>>(), [b"a"]);
    }

    #[tokio::test]
    async fn no_more_is_gathered_than_there_is_room_for() {
        let (stream, other) = tokio::io::duplex(10);
        let (mut stream, outbox) = gather(stream);
        let write = async move {
            for written in 0.. {
                let taken = tokio::select! {
                    biased;
                    taken = stream.write(&[0; 1000]) => taken?,
                    () = tokio::task::yield_now() => return Ok::<_, io::Error>(written),
                };
                assert!(taken > 0);
            }
            Ok(0)
        };
        let clock = Clock::real();
        let write = std::pin::pin!(write);
        // The gathered bytes cannot be sent, so it does not end; but it accepts no more.
        let stuck = clock.timeout(std::time::Duration::from_millis(20), outbox.drive(write)).await;
        assert!(stuck.is_err());
        assert_eq!(outbox.lock().unsent.len(), MOST);
        drop(other);
    }

    #[tokio::test]
    async fn a_broken_stream_is_told() {
        let (stream, other) = tokio::io::duplex(1000);
        drop(other);
        let (mut stream, outbox) = gather(stream);
        let write = async move {
            stream.write_all(b"a").await?;
            std::future::pending::<io::Result<()>>().await
        };
        let error = outbox.drive(std::pin::pin!(write)).await.unwrap_err();
        let error = error.downcast::<io::Error>().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
