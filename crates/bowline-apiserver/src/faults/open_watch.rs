//! A watch that is open: the body that a client reads, and the switch that ends or silences it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::Faults;
use super::effect::{End, expired};
use super::filter::Subject;
use super::rule::RuleState;
use crate::body::Frames;
use crate::hooks::{Disconnected, RequestInfo};

/// The switch of a watch.
pub(super) struct OpenWatch {
    /// The number of its request.
    pub(super) number: u64,
    info: RequestInfo,
    kind: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    end: Option<End>,
    /// The watch is silent while one of these is in force.
    silenced_by: Vec<Arc<RuleState>>,
    reader: Option<Waker>,
}

impl OpenWatch {
    pub(super) fn new(number: u64, info: RequestInfo, kind: String) -> Self {
        Self { number, info, kind, state: Mutex::default() }
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject { info: &self.info, kind: &self.kind, event: None }
    }

    pub(super) fn end(&self, end: End) {
        self.lock().end.get_or_insert(end);
        self.wake();
    }

    pub(super) fn silence(&self, rule: Arc<RuleState>) {
        self.lock().silenced_by.push(rule);
    }

    /// Makes the reader look again.
    pub(super) fn wake(&self) {
        let reader = self.lock().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frames of a watch, for as long as the switch lets them pass.
pub(super) struct SwitchedFrames {
    /// `None` after the end.
    frames: Option<Pin<Box<dyn Frames>>>,
    watch: Arc<OpenWatch>,
    faults: Faults,
}

impl SwitchedFrames {
    pub(super) fn new(frames: Pin<Box<dyn Frames>>, watch: Arc<OpenWatch>, faults: Faults) -> Self {
        Self { frames: Some(frames), watch, faults }
    }
}

impl Frames for SwitchedFrames {
    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Disconnected>>> {
        let this = &mut *self;
        let Some(frames) = &mut this.frames else { return Poll::Ready(None) };
        let (end, is_silent) = {
            let mut state = this.watch.lock();
            state.silenced_by.retain(|rule| !rule.is_removed());
            if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
                state.reader = Some(cx.waker().clone());
            }
            (state.end, !state.silenced_by.is_empty())
        };
        if let Some(end) = end {
            this.frames = None;
            return Poll::Ready(match end {
                End::Cut => Some(Err(Disconnected)),
                End::Close => None,
                End::Expire => Some(Ok(error_event())),
            });
        }
        if is_silent { Poll::Pending } else { frames.as_mut().poll_next(cx) }
    }
}

impl Drop for SwitchedFrames {
    fn drop(&mut self) {
        let closed = self.faults.lock().watches.remove(&self.watch.number);
        drop(closed);
    }
}

/// The last event of a watch that expired.
pub(super) fn error_event() -> Bytes {
    let status = serde_json::to_string(&expired()).expect("a status can always be written");
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"))
}
