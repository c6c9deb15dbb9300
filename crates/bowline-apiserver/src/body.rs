//! Response bodies: ready bytes, bytes encoded during transmission, or frames of a watch.

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
use crate::connections::ActiveRequest;
use crate::indent::indented;
use crate::poll_on_wake::PollOnWake;

/// Maximum bytes of a body that is indented.
const MAX_INDENTED: usize = 1024 * 1024;

/// The body of a response.
///
/// A watch goes on until its timeout, its client drops the body, or the server closes it. Dropping a body frees
/// everything that it held.
pub struct Body {
    source: Source,
    /// The request of this response; it is in progress until the body is dropped.
    _request: Option<ActiveRequest>,
}

enum Source {
    Whole(Option<Bytes>),
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Frames(Pin<Box<dyn Frames>>),
}

/// Chunks that follow events.
pub(crate) trait Frames: Send {
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Disconnected>>>;
}

impl Body {
    fn new(source: Source) -> Self {
        Self { source, _request: None }
    }

    pub(crate) fn empty() -> Self {
        Self::new(Source::Whole(None))
    }

    /// Chunks made one at a time, when the client has taken the previous one.
    pub(crate) fn chunks(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self::new(Source::Chunks(Box::new(chunks)))
    }

    /// Indents the body for people, up to [`MAX_INDENTED`]. A longer body, a deeply nested one (a hundred times as long
    /// when indented), and the frames of a watch stay unchanged.
    pub(crate) fn indented(self) -> Self {
        match self.source {
            Source::Whole(Some(bytes)) if bytes.len() <= MAX_INDENTED => {
                Self::from(indented(&bytes).map_or(bytes, Bytes::from))
            }
            Source::Chunks(mut chunks) => {
                let mut start = Vec::new();
                while start.len() <= MAX_INDENTED {
                    let Some(chunk) = chunks.next() else {
                        return Self::from(Bytes::from(indented(&start).unwrap_or(start)));
                    };
                    start.extend_from_slice(&chunk);
                }
                Self::chunks(std::iter::once(Bytes::from(start)).chain(chunks))
            }
            other => Self::new(other),
        }
    }

    /// The same body; the request is in progress until it is dropped.
    pub(crate) fn holding(self, request: ActiveRequest) -> Self {
        Self { _request: Some(request), ..self }
    }

    /// Chunks that a future produces while it runs, one at a time, until it ends.
    pub(crate) fn made_by<F>(make: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let outlet = Outlet::default();
        let chunk = outlet.0.clone();
        Self::new(Source::Frames(Box::pin(Made { future: Some(Box::pin(make(outlet))), chunk })))
    }

    /// The same body with other frames.
    #[cfg(feature = "faults")]
    pub(crate) fn map_frames<F>(self, map: impl FnOnce(Pin<Box<dyn Frames>>) -> F) -> Self
    where
        F: Frames + 'static,
    {
        match self.source {
            Source::Frames(frames) => Self::new(Source::Frames(Box::pin(map(frames)))),
            source => Self::new(source),
        }
    }

    /// The same body; its frames end when `end` is ready.
    pub(crate) fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        match self.source {
            Source::Frames(frames) => {
                Self::new(Source::Frames(Box::pin(Until { frames, end: PollOnWake::new(end) })))
            }
            source => Self::new(source),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::new(Source::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.source {
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
        let polled = match &mut self.source {
            Source::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Source::Chunks(chunks) => caught(|| Poll::Ready(chunks.next().map(Ok))),
            Source::Frames(frames) => caught(|| frames.as_mut().poll_next(cx)),
        };
        let next = ready!(polled);
        if matches!(next, Some(Err(_))) {
            // The body ends here; a future that panicked is not polled again.
            self.source = Source::Whole(None);
        }
        Poll::Ready(next.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.source, Source::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Source::Chunks(_) | Source::Frames(_) => SizeHint::default(),
        }
    }
}

type Chunk = Option<Result<Bytes, Disconnected>>;

/// A panic truncates this response and affects no other.
fn caught(poll: impl FnOnce() -> Poll<Chunk>) -> Poll<Chunk> {
    catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|panic| {
        tracing::error!(panic = panic_message(&*panic), "response panicked and was truncated");
        Poll::Ready(Some(Err(Disconnected)))
    })
}

/// Frames that end when another future is ready.
struct Until<E> {
    frames: Pin<Box<dyn Frames>>,
    end: PollOnWake<E>,
}

impl<E: Future<Output = ()> + Send> Frames for Until<E> {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self.frames.as_mut().poll_next(cx) {
            Poll::Pending => Pin::new(&mut self.end).poll(cx).map(|()| None),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

/// The chunk output of a future that produces a body.
#[derive(Default)]
pub(crate) struct Outlet(Arc<Mutex<Option<Result<Bytes, Disconnected>>>>);

impl Outlet {
    /// Hands out a chunk, and waits until the next one is requested. An error is the last chunk.
    pub(crate) async fn put(&self, chunk: Result<Bytes, Disconnected>) {
        *lock(&self.0) = Some(chunk);
        // The chunk is taken when this returns, and the body polls again.
        poll_fn(|_| if lock(&self.0).is_none() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// No code under this lock can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body whose chunks a future produces. The future is pinned from the first chunk to the last.
struct Made<F> {
    /// `None` after its end.
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

    /// All chunks that are ready: `None` at the end.
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

    #[test]
    fn only_bodies_up_to_the_limit_are_indented() {
        // A list of one text, with this length in total.
        let json = |length: usize| format!("[\"{}\"]", "x".repeat(length - 4));
        let collected = |body: Body| {
            let chunks = chunks(&mut body.indented()).into_iter().flatten().flatten();
            chunks.flat_map(|chunk| chunk.to_vec()).collect::<Vec<_>>()
        };
        let in_two = |text: &str| {
            let (start, end) = text.as_bytes().split_at(text.len() / 2);
            let parts = [start, end].map(Bytes::copy_from_slice);
            Body::chunks(parts.into_iter())
        };
        for (length, is_indented) in [(MAX_INDENTED, true), (MAX_INDENTED + 1, false)] {
            let text = json(length);
            let lines = if is_indented { format!("[\n  {}\n]", &text[1..length - 1]) } else { text.clone() };
            let whole = Body::from(Bytes::from(text.clone()));
            assert!(collected(whole) == lines.as_bytes(), "whole, {length}");
            assert!(collected(in_two(&text)) == lines.as_bytes(), "in chunks, {length}");
        }
    }
}
