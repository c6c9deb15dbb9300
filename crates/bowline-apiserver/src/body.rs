//! What a response is made of: bytes that are there, bytes that are put together while they are sent, or frames that
//! come when something happens.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::Disconnected;
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

    /// Chunks made by `step`, each from the state that the last one left, until it gives none.
    pub(crate) fn steps<S, F>(state: S, step: impl FnMut(S) -> F + Send + 'static) -> Self
    where
        S: Send + 'static,
        F: Future<Output = Option<(Result<Bytes, Disconnected>, S)>> + Send + 'static,
    {
        Self(Source::Frames(Box::pin(Steps { state: Some(state), step, future: None })))
    }

    /// The same, but what comes when something happens ends with `end`.
    pub(crate) fn until(self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        match self.0 {
            Source::Frames(frames) => Self(Source::Frames(Box::pin(Until { frames, end: Box::pin(end) }))),
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

/// What a panic has to say.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why")
}

/// Frames that end when something else does.
struct Until<E> {
    frames: Pin<Box<dyn Frames>>,
    end: Pin<Box<E>>,
}

impl<E: Future<Output = ()> + Send> Frames for Until<E> {
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Chunk> {
        match self.frames.as_mut().poll_next(cx) {
            Poll::Pending => self.end.as_mut().poll(cx).map(|()| None),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

struct Steps<S, F, Step> {
    state: Option<S>,
    step: Step,
    future: Option<Pin<Box<F>>>,
}

/// Nothing in it is pinned but the boxed future.
impl<S, F, Step> Unpin for Steps<S, F, Step> {}

impl<S, F, Step> Frames for Steps<S, F, Step>
where
    S: Send,
    F: Future<Output = Option<(Result<Bytes, Disconnected>, S)>> + Send,
    Step: FnMut(S) -> F + Send,
{
    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Disconnected>>> {
        let this = &mut *self;
        let future = if let Some(future) = &mut this.future {
            future
        } else {
            let Some(state) = this.state.take() else { return Poll::Ready(None) };
            this.future.insert(Box::pin((this.step)(state)))
        };
        let next = ready!(future.as_mut().poll(cx));
        this.future = None;
        let Some((chunk, state)) = next else { return Poll::Ready(None) };
        if chunk.is_ok() {
            this.state = Some(state);
        }
        Poll::Ready(Some(chunk))
    }
}
