//! Changes that come through a channel or a stream: what somebody outside the API server has seen.

use std::fmt;
use std::future::poll_fn;
use std::num::NonZeroUsize;
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

use super::{Begin, Begun, Feed, Obstacle, Place, Progress};
use crate::Change;

/// How much a channel holds unless it is told otherwise.
pub const DEFAULT_CAPACITY: NonZeroUsize = NonZeroUsize::new(1024).expect("it is not zero");

/// The queue is told at least after so many.
const TURN: usize = 128;

/// What is read. Of a channel many are taken at once: each that is taken alone may wake somebody who waits for room.
enum Objects<K> {
    Channel { receiver: mpsc::Receiver<K>, taken: Vec<K> },
    Stream(Pin<Box<dyn Stream<Item = K> + Send>>),
}

/// Objects that come through a channel or a stream; from [`channel`] or [`stream`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct StreamSource<K> {
    name: String,
    /// With the task that reads it while the controller runs.
    objects: Arc<Mutex<Objects<K>>>,
}

/// The other end of a [`channel`]. A clone sends into the same.
pub struct Sender<K>(mpsc::Sender<K>);

/// The source of a channel is gone, so that nobody will ever see what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The controller that read it is gone.
    #[error("nobody reads this channel any more: its controller is gone")]
    Closed,
    /// There is no room now.
    #[error("this channel is full: wait with `send`, or give it more room with `channel_with`")]
    Full,
}

/// A channel that holds up to [`DEFAULT_CAPACITY`] objects: each that is sent is a [generic](crate::ChangeKind::Generic)
/// change. What is sent while the controller is stopped, or waits for leadership, waits in it. When the last sender is dropped, nothing more comes,
/// and the controller goes on with what it has else.
///
/// What the controller has taken from it and not reconciled when it is stopped is lost with its queue, and counted in
/// [`Stopped::waiting`](crate::Stopped::waiting): unlike objects of a kind, nobody shows it again.
///
/// `name` is what triggers call it.
pub fn channel<K: Send + 'static>(name: impl Into<String>) -> (Sender<K>, StreamSource<K>) {
    channel_with(name, DEFAULT_CAPACITY)
}

/// The same, that holds as much as it is told to.
pub fn channel_with<K: Send + 'static>(
    name: impl Into<String>,
    capacity: NonZeroUsize,
) -> (Sender<K>, StreamSource<K>) {
    let (sender, receiver) = mpsc::channel(capacity.get());
    let objects = Objects::Channel { receiver, taken: Vec::new() };
    (Sender(sender), StreamSource { name: name.into(), objects: Arc::new(Mutex::new(objects)) })
}

/// A stream of objects: each is a [generic](crate::ChangeKind::Generic) change. It is polled while the controller runs, but
/// not while that waits for leadership. When it ends, nothing more comes, and the controller goes on with what it has else.
///
/// `name` is what triggers call it.
pub fn stream<K>(
    name: impl Into<String>,
    objects: impl Stream<Item = K> + Send + 'static,
) -> StreamSource<K> {
    let objects = Objects::Stream(objects.fuse().boxed());
    StreamSource { name: name.into(), objects: Arc::new(Mutex::new(objects)) }
}

impl<K> Sender<K> {
    /// Sends an object, and waits while there is no room.
    ///
    /// # Errors
    /// When nobody will read it.
    pub async fn send(&self, object: K) -> Result<(), SendError> {
        self.0.send(object).await.map_err(|_| SendError::Closed)
    }

    /// Sends an object if there is room now.
    ///
    /// # Errors
    /// When there is not, or nobody will read it.
    pub fn try_send(&self, object: K) -> Result<(), SendError> {
        self.0.try_send(object).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Closed,
        })
    }
}

impl<K: Resource + Send + Sync + 'static> Begin<K> for StreamSource<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self, feed: Feed<K>, place: &Place<'_>) -> Result<Arc<dyn Begun>, CacheError> {
        let scope = place.spawner.scope(&self.name);
        let (objects, cancellation) = (self.objects.clone(), scope.cancellation());
        scope.spawn("source", async move {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                () = read_guarded(objects, feed) => {}
            }
        });
        Ok(Arc::new(Reading { scope }))
    }
}

/// Reads until the end, or until the stream panics.
async fn read_guarded<K: Resource + 'static>(objects: Arc<Mutex<Objects<K>>>, mut feed: Feed<K>) {
    if let Err(panic) = AssertUnwindSafe(read(objects, &mut feed)).catch_unwind().await {
        feed.origin()
            .panicked(&*panic, "nothing more comes from this stream until the controller starts again");
    }
}

/// Reads until the end. The queue is told when nothing more is at hand, or much was.
async fn read<K: Resource + 'static>(objects: Arc<Mutex<Objects<K>>>, feed: &mut Feed<K>) {
    let mut objects = objects.lock().await;
    poll_fn(|cx| {
        // A stream that is always ready must not keep its thread for itself.
        while let Poll::Ready(progress) = poll_cooperate(cx) {
            progress.made();
            let turn = match &mut *objects {
                Objects::Channel { receiver, taken } => {
                    receiver.poll_recv_many(cx, taken, TURN).map(|count| {
                        // Looked at where they lie: objects are large.
                        for object in &*taken {
                            feed.take(&Change::generic(object));
                        }
                        taken.clear();
                        count > 0
                    })
                }
                Objects::Stream(stream) => poll_turn(stream.as_mut(), feed, cx),
            };
            feed.flush();
            match turn {
                Poll::Ready(true) => {}
                end => return end.map(|_| ()),
            }
        }
        Poll::Pending
    })
    .await;
}

/// Takes what is at hand; whether there may be more.
fn poll_turn<K: Resource + 'static>(
    mut stream: Pin<&mut (dyn Stream<Item = K> + Send)>,
    feed: &mut Feed<K>,
    cx: &mut Context<'_>,
) -> Poll<bool> {
    for _ in 0..TURN {
        match stream.as_mut().poll_next(cx) {
            Poll::Ready(Some(object)) => feed.take(&Change::generic(&object)),
            end => return end.map(|_| false),
        }
    }
    Poll::Ready(true)
}

/// A task of a source, which ends when it is told to.
pub(super) struct Reading {
    pub(super) scope: Scope,
}

impl Progress for Reading {
    fn synced(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn waiting_for(&self) -> Vec<Obstacle> {
        Vec::new()
    }
}

impl Begun for Reading {
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            // It gives way at its next wait, and never waits while it calls somebody.
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
