//! What a response is made of: bytes that are there, bytes that are put together while they are sent, or frames that
//! come when something happens.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bowline_clock::panic_message;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::Disconnected;
use crate::dormant::Dormant;
use crate::indent::indented;

/// The body of a response.
///
/// A watch goes on until its time is over, its client drops the body, or the server closes it. Dropping a body frees
/// all that it held.
pub struct Body(Source);

enum Source {
    Whole(Option<Bytes>),
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Frames(Pin<Box<dyn Frames>>),
}

/// Chunks that come when something happens.
pub(crate) trait Frames: Send {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Disconnected>>>;
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self(Source::Whole(None))
    }

    /// Chunks that are made one after the other, when the client has taken the one before.
    pub(crate) fn chunks(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self(Source::Chunks(Box::new(chunks)))
    }

    /// For people to read. What comes when something happens stays as it is: a frame is a line.
    pub(crate) fn indented(self) -> Self {
        let whole = match self.0 {
            Source::Whole(Some(bytes)) => bytes,
            Source::Chunks(chunks) => Bytes::from(chunks.collect::<Vec<_>>().concat()),
            other => return Self(other),
        };
        Self::from(Bytes::from(indented(&whole)))
    }

    /// Chunks that a future hands out while it runs, one at a time, until it ends.
    pub(crate) fn made_by<F>(make: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let outlet = Outlet::default();
        let chunk = outlet.0.clone();
        Self(Source::Frames(Box::pin(Made { future: Some(Box::pin(make(outlet))), chunk })))
    }

    /// The same, but what comes when something happens ends with `end`.
    pub(crate) fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        match self.0 {
            Source::Frames(frames) => {
                Self(Source::Frames(Box::pin(Until { frames, end: Dormant::new(end) })))
            }
            source => Self(source),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Source::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Source::Whole(_) => "whole",
            Source::Chunks(_) => "chunks",
            Source::Frames(_) => "frames",
        };
        f.debug_tuple("Body").field(&name).finish()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Disconnected;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Disconnected>>> {
        let polled = match &mut self.0 {
            Source::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Source::Chunks(chunks) => caught(|| Poll::Ready(chunks.next().map(Ok))),
            Source::Frames(frames) => caught(|| frames.as_mut().poll_next(cx)),
        };
        let next = ready!(polled);
        if matches!(next, Some(Err(_))) {
            // Nothing comes after this, and what panicked is not polled again.
            self.0 = Source::Whole(None);
        }
        Poll::Ready(next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Source::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Source::Chunks(_) | Source::Frames(_) => SizeHint::default(),
        }
    }
}

type Chunk = Option<Result<Bytes, Disconnected>>;

/// A panic cuts this answer short, and hurts nobody else.
fn caught(poll: impl FnOnce() -> Poll<Chunk>) -> Poll<Chunk> {
    catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|panic| {
        tracing::error!(panic = panic_message(&*panic), "an answer panicked and is cut short");
        Poll::Ready(Some(Err(Disconnected)))
    })
}

/// Frames that end when something else does.
struct Until<E> {
    frames: Pin<Box<dyn Frames>>,
    end: Dormant<E>,
}

impl<E: Future<Output = ()> + Send> Frames for Until<E> {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self.frames.as_mut().poll_next(cx) {
            Poll::Pending => Pin::new(&mut self.end).poll(cx).map(|()| None),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

/// Where a future that makes a body puts its chunks.
#[derive(Default)]
pub(crate) struct Outlet(Arc<Mutex<Option<Result<Bytes, Disconnected>>>>);

impl Outlet {
    /// Hands out a chunk, and waits until the next one is asked for. Nothing comes after an error.
    pub(crate) async fn put(&self, chunk: Result<Bytes, Disconnected>) {
        *lock(&self.0) = Some(chunk);
        // It is taken when this returns, and whoever took it asks again.
        poll_fn(|_| if lock(&self.0).is_none() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// Nothing that can panic runs under this lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a future hands out. It stays where it is from the first chunk to the last.
struct Made<F> {
    /// `None` when it has ended.
    future: Option<Pin<Box<F>>>,
    chunk: Arc<Mutex<Chunk>>,
}

impl<F: Future<Output = ()> + Send> Frames for Made<F> {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Chunk> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let has_ended = future.as_mut().poll(cx).is_ready();
        let chunk = lock(&self.chunk).take();
        if has_ended || matches!(chunk, Some(Err(_))) {
            self.future = None;
        }
        if chunk.is_some() || has_ended { Poll::Ready(chunk) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;

    use super::*;

    /// All that comes without waiting: `None` at the end.
    fn chunks(body: &mut Body) -> Vec<Option<Result<Bytes, Disconnected>>> {
        let mut chunks = Vec::new();
        while let Some(chunk) = body.frame().now_or_never() {
            let chunk = chunk.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()));
            let is_over = chunk.is_none();
            chunks.push(chunk);
            if is_over {
                break;
            }
        }
        chunks
    }

    #[test]
    fn chunks_come_one_by_one_from_a_future_that_waits_in_between() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let mut body = Body::made_by(|outlet| async move {
            outlet.put(Ok(Bytes::from("a"))).await;
            outlet.put(Ok(Bytes::from("b"))).await;
            let _ = receiver.await;
            outlet.put(Ok(Bytes::from("c"))).await;
        });
        assert_eq!(chunks(&mut body), [Some(Ok(Bytes::from("a"))), Some(Ok(Bytes::from("b")))]);
        sender.send(()).unwrap();
        assert_eq!(chunks(&mut body), [Some(Ok(Bytes::from("c"))), None]);
        assert_eq!(chunks(&mut body), [None], "it stays over");
    }

    #[test]
    fn nothing_comes_after_an_error_and_what_made_it_is_gone() {
        let held = Arc::new(());
        let kept = held.clone();
        let mut body = Body::made_by(|outlet| async move {
            outlet.put(Err(Disconnected)).await;
            outlet.put(Ok(Bytes::from("more"))).await;
            drop(kept);
        });
        assert_eq!(chunks(&mut body), [Some(Err(Disconnected)), None]);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn a_body_ends_with_what_it_is_bound_to() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let body = Body::made_by(|outlet| async move {
            outlet.put(Ok(Bytes::from("a"))).await;
            std::future::pending::<()>().await;
        });
        let mut body = body.until(async { drop(receiver.await) });
        assert_eq!(chunks(&mut body), [Some(Ok(Bytes::from("a")))]);
        drop(sender);
        assert_eq!(chunks(&mut body), [None]);
    }
}
