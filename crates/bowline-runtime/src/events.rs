//! Kubernetes events about objects, such as `kubectl describe` shows.
//!
//! A [`Recorder`] creates records and passes them to its [`Broadcaster`], which passes them to each [`EventSink`].
//! Similar events are aggregated at once (`correlator.rs`), pending writes wait in a bounded queue (`outbox.rs`), and
//! one task per sink writes them (`delivery.rs`).

mod api_sink;
mod broadcaster;
mod correlator;
mod delivery;
mod digest;
mod log_sink;
mod lru;
mod metrics;
mod outbox;
mod record;
mod recorder;
mod reference;
mod sink;

pub use api_sink::{ApiSink, EventApi};
pub use broadcaster::{Broadcaster, BroadcasterBuilder, Flushed};
pub use correlator::CorrelatorOptions;
pub use log_sink::LogSink;
pub(crate) use metrics::EventCatalog;
pub use metrics::EventCounts;
pub use record::{EventRecord, EventType};
pub use recorder::{NewEvent, Recorder};
pub use reference::ToReference;
pub use sink::{EventSink, RepeatPolicy, SinkError, SinkFuture};
