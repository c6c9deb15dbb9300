//! Sources of changes: a watched kind, a channel, a stream, a function. A [handler](crate::handler) maps the changes to
//! requests.

mod change_pipeline;
mod function;
mod kind;
mod retries;
mod stream;

pub use function::{FunctionSource, Sink, function};
pub use kind::{KindSource, kind, kind_of, metadata, packed};
pub use retries::UnhandledChange;
pub use stream::{DEFAULT_CAPACITY, SendError, Sender, StreamSource, channel, channel_with, stream};

pub(crate) use change_pipeline::{ChangePipeline, Clusters, Named, PipelineConfig, WatchRules};
pub(crate) use retries::ChangeRetries;

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheError, NotSynced};
use bowline_clock::Spawner;
use futures::future::BoxFuture;

use crate::{Client, Cluster, KindDescription};

/// A source of changes; a part of a [`Watch`](crate::Watch). The sources are [`kind`], [`channel`], [`stream`] and
/// [`function`]; the items of the last three may be of any type.
#[expect(private_bounds, reason = "a source of another sort is a `function`")]
pub trait Source<K>: StartSource<K> {}

impl<K, S: StartSource<K>> Source<K> for S {}

/// A source, as its controller uses it.
pub(crate) trait StartSource<K>: Send + Sync + 'static {
    /// The name in triggers.
    fn name(&self) -> &str;

    /// The cluster of the source, if it has one of its own; most often another than the controller's.
    fn cluster(&self) -> Option<&Cluster> {
        None
    }

    /// The watched kind, if it is one.
    fn kind(&self) -> Option<KindDescription> {
        None
    }

    /// Declares this kind as cached, so that clients read it from the cache.
    fn declare(&self, client: &Client) {
        let _ = client;
    }

    /// Removes the declaration.
    fn undeclare(&self, client: &Client) {
        let _ = client;
    }

    /// Starts the informer of the source while the controller waits for leadership; no handler is called. The result is
    /// kept until the source begins. `None` if it needs no informer.
    ///
    /// # Errors
    /// Like [`begin`](Self::begin).
    fn warm(&self, place: &SourceContext<'_>) -> Result<Option<Arc<dyn SyncProgress>>, CacheError> {
        let _ = place;
        Ok(None)
    }

    /// Begins to deliver changes. It may be stopped and begin again.
    ///
    /// # Errors
    /// When the cache refuses the informer.
    fn begin(
        &self,
        feed: ChangePipeline<K>,
        place: &SourceContext<'_>,
    ) -> Result<Arc<dyn RunningSource>, CacheError>;
}

/// The environment of a source.
pub(crate) struct SourceContext<'a> {
    pub(crate) controller: &'a str,
    pub(crate) cluster: &'a Cluster,
    /// Spawner of the run: its tasks end with the run.
    pub(crate) spawner: &'a Spawner,
    /// Period of resyncs, if the source sets none.
    pub(crate) resync: Option<Duration>,
}

/// The progress of a source until it has synced.
pub(crate) trait SyncProgress: Send + Sync {
    /// Waits until the requests of the initial content are in the queue, or the source is stopped. Before it begins:
    /// until its objects are in the cache.
    fn synced(&self) -> BoxFuture<'_, ()>;

    /// Parts that have not synced; empty after the sync.
    fn waiting_for(&self) -> Vec<SyncBlocker>;
}

/// A source that has begun.
pub(crate) trait RunningSource: SyncProgress {
    /// Stops, and waits until no more changes come.
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// A part of a source that has not synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SyncBlocker {
    /// The source has not begun.
    Begin,
    /// A part of an informer is not in sync.
    Informer(NotSynced),
    /// The handler has not been called with all initial objects.
    Handler { kind: String, waiting: usize },
    /// A function has not reported its initial content as delivered.
    InitialContent,
}
