//! Events: what a controller tells people about an object.
//!
//! A [`Recorder`] makes a record of what it is told and hands it to its [`Broadcaster`], which gives it to each [`Sink`].
//! What is alike is gathered at once (`correlator.rs`), what is to be written waits in a bounded queue (`outbox.rs`), and a
//! task per sink writes it (`delivery.rs`).

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
pub use sink::{Repeats, Sink, SinkError, SinkFuture};
