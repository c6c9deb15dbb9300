//! Where events go.

use std::pin::Pin;

use super::{EventRecord, EventType};
use crate::BoxError;

/// What a sink does with one event.
pub type SinkFuture<'a> = Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send + 'a>>;

/// Where events go. Each sink of a [`Broadcaster`](super::Broadcaster) has a queue and a task of its own, so that none waits
/// for another.
pub trait Sink: Send + Sync + 'static {
    /// What it is called in metrics and logs.
    fn name(&self) -> &str;

    /// What becomes of an event that is like an earlier one. Default: [`Repeats::Each`].
    fn repeats(&self) -> Repeats {
        Repeats::Each
    }

    /// Whether it wants such an event at all. Asked whenever one is told, by whoever tells it: it must be quick. Default: yes.
    ///
    /// An event that it does not want is not counted.
    fn wants(&self, _event_type: EventType) -> bool {
        true
    }

    /// Writes an event. `earlier` says that this sink was already given it, with a lower count, and took it.
    ///
    /// The future may be dropped before it is done, and the call repeated: a write of the same name and count is the same
    /// write.
    ///
    /// # Errors
    /// [`SinkError::Away`] is tried again later; the others are not. A panic is taken for [`SinkError::Refused`].
    fn write<'a>(&'a self, event: &'a EventRecord, earlier: bool) -> SinkFuture<'a>;
}

/// What becomes of events that are like an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeats {
    /// Each is written by itself. Nothing is combined, nothing filtered.
    Each,
    /// The first is written, and written again with a higher count each time.
    Counted,
    /// The first is written; the second begins a series, which is written again every 30 minutes and when it is over: after
    /// six minutes in which nothing was added to it.
    Series,
}

/// Why a sink did not write an event.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// It is not there or has no time: the event is kept and tried again.
    #[error("the sink is away: {0}")]
    Away(#[source] BoxError),
    /// It does not take this event, and never will.
    #[error("the sink refuses the event: {0}")]
    Refused(#[source] BoxError),
    /// There is no place for this event any more, which is no fault of anybody: its namespace is being deleted.
    #[error("the event has no place to go to: {0}")]
    Pointless(#[source] BoxError),
}
