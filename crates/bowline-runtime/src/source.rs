//! Where changes come from: a kind of objects that is watched, a channel, a stream, a function. What a change leads to, the
//! [handler](crate::handler) says.

mod feed;
mod function;
mod kind;
mod stream;

pub use function::{FunctionSource, Sink, function};
pub use kind::{KindSource, kind, kind_of, metadata, packed};
pub use stream::{DEFAULT_CAPACITY, SendError, Sender, StreamSource, channel, channel_with, stream};

pub(crate) use feed::{Feed, Rules};

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheError, NotSynced};
use bowline_clock::Spawner;
use futures::future::BoxFuture;

use crate::{Client, Cluster};

/// Where changes come from; a part of a [`Watch`](crate::Watch). The ones there are: [`kind`], [`channel`], [`stream`],
/// [`function`].
#[expect(private_bounds, reason = "whoever has a source of another sort uses `function`")]
pub trait Source<K>: Begin<K> {}

impl<K, S: Begin<K>> Source<K> for S {}

/// What a source does for a controller.
pub(crate) trait Begin<K>: Send + Sync + 'static {
    /// What triggers call it.
    fn name(&self) -> &str;

    /// Tells the client that what it reads of this kind comes from the cache.
    fn declare(&self, client: &Client) {
        let _ = client;
    }

    /// Takes that back.
    fn undeclare(&self, client: &Client) {
        let _ = client;
    }

    /// Gets hold of what it will need, while the controller waits until it may begin: nothing is fed, and nothing is called.
    /// What is returned is kept until it has begun. None if there is nothing to be had before.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    fn warm(&self, place: &Place<'_>) -> Result<Option<Arc<dyn Progress>>, CacheError> {
        let _ = place;
        Ok(None)
    }

    /// Begins to feed. It may be stopped and begin again.
    ///
    /// # Errors
    /// When the cache cannot have such an informer.
    fn begin(&self, feed: Feed<K>, place: &Place<'_>) -> Result<Arc<dyn Begun>, CacheError>;
}

/// Where a source begins.
pub(crate) struct Place<'a> {
    pub(crate) controller: &'a str,
    pub(crate) cluster: &'a Cluster,
    /// Of the run: what is spawned there ends with it.
    pub(crate) spawner: &'a Spawner,
    /// How often objects are shown once more, if the source does not say it.
    pub(crate) resync: Option<Duration>,
}

/// How far a source has come.
pub(crate) trait Progress: Send + Sync {
    /// Until all that was there at the beginning is with the queue, or the source is stopped. Of one that does not feed yet:
    /// until it is in the cache.
    fn synced(&self) -> BoxFuture<'_, ()>;

    /// What stands in the way of that; nothing if nothing does.
    fn waiting_for(&self) -> Vec<Obstacle>;
}

/// A source that feeds.
pub(crate) trait Begun: Progress {
    /// Stops: when this is over, nothing more comes.
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// What a controller waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The source is about to begin.
    Begin,
    /// A part of an informer is not in sync.
    Informer(NotSynced),
    /// The handler has not been called with all that there is.
    Handler { kind: String, waiting: usize },
}
