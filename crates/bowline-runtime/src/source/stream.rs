//! Changes that come through a channel or a stream: events from outside the API server, of any type.

use std::fmt;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_cache::CacheError;
use bowline_clock::{Scope, poll_cooperate};
use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use kube::Resource;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::{ChangePipeline, RunningSource, SourceContext, StartSource, SyncBlocker, SyncProgress};
use crate::Change;
use crate::change::{AsAnyKind, OwnedChange, as_any_kind};

/// Capacity of a [`channel`], in items.
pub const DEFAULT_CAPACITY: usize = 1024;

/// Maximum items between two additions to the queue.
const TURN: usize = 128;

/// The receiving end.
struct Items<K> {
    input: Input<K>,
    /// The item that an async handler has. A stop keeps it for the next start.
    current: Option<OwnedChange<K>>,
}

/// Takes many channel items at once, since each single receive may wake a sender.
enum Input<K> {
    Channel { receiver: mpsc::Receiver<K>, taken: Vec<K> },
    Stream(Pin<Box<dyn Stream<Item = K> + Send>>),
}

/// Items that come through a channel or a stream; from [`channel`] or [`stream`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct StreamSource<K> {
    name: String,
    /// Locked by the task that reads while the controller runs.
    items: Arc<Mutex<Items<K>>>,
    /// `None` for payloads.
    as_any_kind: Option<AsAnyKind<K>>,
}

/// The sending end of a [`channel`]. A clone sends into the same channel.
pub struct Sender<K>(mpsc::Sender<K>);

/// Why an item was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The controller that read the channel is gone.
    #[error("this channel has no reader: its controller is gone")]
    Closed,
    /// The channel is full.
    #[error("this channel is full: wait with `send`, or give it more room with `channel_with`")]
    Full,
}

/// A channel for [`DEFAULT_CAPACITY`] items of any type, such as the calls of a webhook of another system. Each item is
/// a [generic](crate::ChangeKind::Generic) change; a handler maps it to requests.
///
/// Items that are sent while the controller is stopped, or waits for leadership, wait in the channel. When the last
/// sender is dropped, the source ends; other sources of the controller are not affected. An async handler takes one
/// item at a time, so that a full channel makes senders wait.
///
/// Items that were read and not reconciled when the controller stops are lost with its queue, and are counted in
/// [`StopReport::waiting`](crate::StopReport::waiting): unlike objects of a kind, they are not delivered again. The item that
/// an async handler has at a stop is not lost: it is handled first after the next start.
///
/// The items of a channel of Kubernetes objects are payloads, too, unless [`StreamSource::objects`] says otherwise.
///
/// `name` is the name of the source in triggers, logs and metrics.
///
/// ```
/// use bowline_runtime::{ControllerBuilder, Request, Watch, handler, source};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// /// A push to a registry.
/// struct Push {
///     image: String,
/// }
///
/// fn on_push(builder: ControllerBuilder<Deployment>) -> (source::Sender<Push>, ControllerBuilder<Deployment>) {
///     let (sender, pushes) = source::channel("pushes");
///     let handler = handler::map(|push: &Push| [Request::new("default", &push.image)]);
///     (sender, builder.watches(Watch::new(pushes, handler)))
/// }
/// ```
pub fn channel<K: Send + 'static>(name: impl Into<String>) -> (Sender<K>, StreamSource<K>) {
    channel_with(name, DEFAULT_CAPACITY)
}

/// Like [`channel`], with another capacity. A channel has room for at least one item: 0 counts as 1.
pub fn channel_with<K: Send + 'static>(
    name: impl Into<String>,
    capacity: usize,
) -> (Sender<K>, StreamSource<K>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (Sender(sender), StreamSource::new(name.into(), Input::Channel { receiver, taken: Vec::new() }))
}

/// A stream of items of any type. Each item is a [generic](crate::ChangeKind::Generic) change, as with [`channel`]. It
/// is polled while the controller runs, but not while that waits for leadership. When it ends, other sources of the
/// controller are not affected.
///
/// `name` is the name of the source in triggers, logs and metrics.
pub fn stream<K>(name: impl Into<String>, items: impl Stream<Item = K> + Send + 'static) -> StreamSource<K> {
    StreamSource::new(name.into(), Input::Stream(items.fuse().boxed()))
}

impl<K> StreamSource<K> {
    fn new(name: String, input: Input<K>) -> Self {
        Self { name, items: Arc::new(Mutex::new(Items { input, current: None })), as_any_kind: None }
    }
}

impl<K: Resource + 'static> StreamSource<K> {
    /// Treats the items as Kubernetes objects: triggers name them, and the controller's
    /// [filter](crate::ControllerBuilder::filter) sees their metadata. Default: the items are payloads; they are not
    /// filtered, and their triggers name only the source.
    pub fn objects(mut self) -> Self {
        self.as_any_kind = Some(as_any_kind);
        self
    }
}

impl<K> Sender<K> {
    /// Sends an item, and waits while the channel is full.
    ///
    /// # Errors
    /// [`SendError::Closed`].
    pub async fn send(&self, item: K) -> Result<(), SendError> {
        self.0.send(item).await.map_err(|_| SendError::Closed)
    }

    /// Sends an item without waiting.
    ///
    /// # Errors
    /// [`SendError::Full`] and [`SendError::Closed`].
    pub fn try_send(&self, item: K) -> Result<(), SendError> {
        self.0.try_send(item).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Closed,
        })
    }
}

impl<K: Send + Sync + 'static> StartSource<K> for StreamSource<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(
        &self,
        feed: ChangePipeline<K>,
        place: &SourceContext<'_>,
    ) -> Result<Arc<dyn RunningSource>, CacheError> {
        let scope = place.spawner.scope(&self.name);
        let cancellation = scope.cancellation();
        let reader = Reader { items: self.items.clone(), as_any_kind: self.as_any_kind, feed };
        scope.spawn("source", async move {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                () = reader.read_guarded() => {}
            }
        });
        Ok(Arc::new(SourceTask { scope, synced: None }))
    }
}

/// Reads a stream or a channel.
struct Reader<K> {
    items: Arc<Mutex<Items<K>>>,
    as_any_kind: Option<AsAnyKind<K>>,
    feed: ChangePipeline<K>,
}

impl<K: Send + Sync + 'static> Reader<K> {
    /// Reads until the end, or until the stream panics.
    async fn read_guarded(mut self) {
        let items = self.items.clone();
        let mut items = items.lock().await;
        let reading = async {
            if self.feed.is_async() {
                self.read_each(&mut items).await;
            } else {
                self.read(&mut items.input).await;
            }
        };
        if let Err(panic) = AssertUnwindSafe(reading).catch_unwind().await {
            self.feed
                .origin()
                .panicked(&*panic, "nothing more comes from this stream until the controller starts again");
        }
    }

    /// Reads until the end. The queue gets the requests when no more items are ready, or after many.
    async fn read(&mut self, input: &mut Input<K>) {
        poll_fn(|cx| {
            // Yield, so that a stream that is always ready does not keep its thread.
            while let Poll::Ready(progress) = poll_cooperate(cx) {
                progress.made_progress();
                let turn = match input {
                    Input::Channel { receiver, taken } => {
                        receiver.poll_recv_many(cx, taken, TURN).map(|count| {
                            self.take_all(taken);
                            count > 0
                        })
                    }
                    Input::Stream(stream) => self.poll_turn(stream.as_mut(), cx),
                };
                self.feed.flush();
                match turn {
                    Poll::Ready(true) => {}
                    end => return end.map(|_| ()),
                }
            }
            Poll::Pending
        })
        .await;
    }

    /// Reads until the end with an async handler: the next item after the last one is handled.
    async fn read_each(&mut self, items: &mut Items<K>) {
        loop {
            if let Some(change) = &items.current {
                self.feed.take_or_keep(change).await;
            }
            items.current = None;
            let next = match &mut items.input {
                Input::Channel { receiver, .. } => receiver.recv().await,
                Input::Stream(stream) => stream.next().await,
            };
            let Some(item) = next else { return };
            items.current = Some(OwnedChange::item(item, self.as_any_kind));
        }
    }

    /// Handles all items, and leaves none.
    fn take_all(&mut self, items: &mut Vec<K>) {
        // Handled in place: items may be large.
        let mut failed = Vec::new();
        for (number, item) in items.iter().enumerate() {
            if let Err(failure) = self.feed.take(&Change::item(item, self.as_any_kind)) {
                failed.push((number, failure));
            }
        }
        let mut failed = failed.into_iter().peekable();
        for (number, item) in items.drain(..).enumerate() {
            if let Some((_, failure)) = failed.next_if(|(failed, _)| *failed == number) {
                self.feed.keep(OwnedChange::item(item, self.as_any_kind), failure);
            }
        }
    }

    /// Handles the items that are ready. Returns whether there may be more.
    fn poll_turn(
        &mut self,
        mut stream: Pin<&mut (dyn Stream<Item = K> + Send)>,
        cx: &mut Context<'_>,
    ) -> Poll<bool> {
        for _ in 0..TURN {
            match stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if let Err(failure) = self.feed.take(&Change::item(&item, self.as_any_kind)) {
                        self.feed.keep(OwnedChange::item(item, self.as_any_kind), failure);
                    }
                }
                end => return end.map(|_| false),
            }
        }
        Poll::Ready(true)
    }
}

/// The task of a source that is not a kind.
pub(super) struct SourceTask {
    pub(super) scope: Scope,
    /// Cancelled when the source has delivered its initial content. `None` if the controller does not wait for that.
    pub(super) synced: Option<CancellationToken>,
}

impl SyncProgress for SourceTask {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(synced) = &self.synced {
                let cancellation = self.scope.cancellation();
                tokio::select! {
                    biased;
                    () = synced.cancelled() => {}
                    () = cancellation.cancelled() => {}
                }
            }
        })
    }

    fn waiting_for(&self) -> Vec<SyncBlocker> {
        match &self.synced {
            Some(synced) if !synced.is_cancelled() => vec![SyncBlocker::InitialContent],
            _ => Vec::new(),
        }
    }
}

impl RunningSource for SourceTask {
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // The task yields at its next await. Foreign code that it calls does not await, or is dropped there.
            let _ = self.scope.drain(Duration::MAX).await;
        })
    }
}

impl<K> Clone for Sender<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Sender<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("room", &self.0.capacity()).finish()
    }
}

impl<K> fmt::Debug for StreamSource<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamSource").field(&self.name).finish()
    }
}
