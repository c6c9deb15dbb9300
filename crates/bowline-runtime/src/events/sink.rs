//! Sinks of events.

use std::pin::Pin;

use super::{EventRecord, EventType};
use crate::{BoxError, Permission};

/// The result of [`EventSink::write`].
pub type SinkFuture<'a> = Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send + 'a>>;

/// A destination of events. Each sink of a [`Broadcaster`](super::Broadcaster) has its own queue and task, so that no
/// sink waits for another.
pub trait EventSink: Send + Sync + 'static {
    /// Name in metrics and logs.
    fn name(&self) -> &str;

    /// Handling of repeated events. Default: [`RepeatPolicy::Each`].
    fn repeats(&self) -> RepeatPolicy {
        RepeatPolicy::Each
    }

    /// Whether the sink wants events of this type. Called when an event is recorded, so it must be quick. Default:
    /// true.
    ///
    /// Events that a sink does not want are not counted.
    fn wants(&self, _event_type: EventType) -> bool {
        true
    }

    /// The permissions that it needs on the operator's cluster. Default: none.
    fn permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Writes an event. `earlier` is true if the sink has accepted it before, with a lower count.
    ///
    /// The future may be dropped and the call repeated: a write with the same name and count is the same write.
    ///
    /// # Errors
    /// [`SinkError::Unavailable`] is retried later; others are not. A panic counts as [`SinkError::Refused`].
    fn write<'a>(&'a self, event: &'a EventRecord, earlier: bool) -> SinkFuture<'a>;
}

/// Handling of repeated events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepeatPolicy {
    /// Each event is written. Nothing is aggregated or filtered.
    Each,
    /// The first event is written, and updated with a higher count each time.
    Counted,
    /// The first event is written. The second one begins a series, which is written every 30 minutes and at its end,
    /// six minutes after the last event.
    Series,
}

/// A failed write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The sink is unavailable or overloaded: the event is kept and retried.
    #[error("the sink is unavailable: {0}")]
    Unavailable(#[source] BoxError),
    /// The sink rejects this event permanently.
    #[error("the sink rejected the event: {0}")]
    Refused(#[source] BoxError),
    /// The event's namespace is being deleted, which is no error.
    #[error("the namespace of the event is being deleted: {0}")]
    NamespaceTerminating(#[source] BoxError),
}
