//! Changes that a function finds: whatever is neither a kind, a channel nor a stream.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::CacheError;
use bowline_clock::Clock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource;

use super::stream::Reading;
use super::{Begin, Begun, Feed, Place};
use crate::{Change, Request};

/// How long a function that panicked is left alone: at first, and at the most.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

type Function<K> = dyn Fn(Sink<K>) -> BoxFuture<'static, ()> + Send + Sync;

/// What a function finds; from [`function`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct FunctionSource<K> {
    name: String,
    function: Arc<Function<K>>,
}

/// Where a [`function`] puts what it finds.
pub struct Sink<K> {
    feed: Feed<K>,
}

/// What a function finds. It is called when the controller starts, or gets the leadership that it waits for, and what it returns
/// runs until it ends by itself or the controller is stopped, when it is dropped. The controller does not wait for it before it reconciles.
///
/// Should it panic, that is logged and counted (`bowline_source_panics_total`), and it is called again: after a second, then
/// after a time that doubles up to a minute. One that ended is not called again until the controller is started again.
///
/// `name` is what triggers call it.
///
/// ```
/// use std::time::Duration;
/// use bowline_runtime::{Request, source};
/// use bowline_clock::Clock;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn example(clock: Clock) {
/// let nightly = source::function("nightly", move |mut sink: source::Sink<ConfigMap>| {
///     let clock = clock.clone();
///     async move {
///         loop {
///             clock.sleep(Duration::from_hours(24)).await;
///             sink.request(Request::new("default", "report"));
///         }
///     }
/// });
/// # let _ = nightly;
/// # }
/// ```
pub fn function<K, F, Fut>(name: impl Into<String>, function: F) -> FunctionSource<K>
where
    F: Fn(Sink<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    FunctionSource { name: name.into(), function: Arc::new(move |sink| function(sink).boxed()) }
}

impl<K: Resource + 'static> Sink<K> {
    /// Something happened to an object.
    pub fn change(&mut self, change: &Change<'_, K>) {
        self.feed.take(change);
        self.feed.flush();
    }

    /// An object is to be looked at, whatever happened to it.
    pub fn object(&mut self, object: &K) {
        self.change(&Change::generic(object));
    }
}

impl<K: 'static> Sink<K> {
    /// This is to be reconciled: neither predicates nor the handler are asked.
    pub fn request(&mut self, request: Request) {
        self.feed.request(request);
    }

    /// All these are to be reconciled: cheaper than one by one, as the queue is told of up to 512 at a time.
    pub fn requests(&mut self, requests: impl IntoIterator<Item = Request>) {
        self.feed.request_all(requests);
    }
}

impl<K: Send + Sync + 'static> Begin<K> for FunctionSource<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self, feed: Feed<K>, place: &Place<'_>) -> Result<Arc<dyn Begun>, CacheError> {
        let scope = place.spawner.scope(&self.name);
        let cancellation = scope.cancellation();
        let running = run(self.function.clone(), feed, place.spawner.clock().clone());
        scope.spawn("source", async move {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                () = running => {}
            }
        });
        Ok(Arc::new(Reading { scope }))
    }
}

/// Calls the function, and calls it again if it panics. Here and not where the source begins, since it may well call its
/// controller.
async fn run<K: 'static>(function: Arc<Function<K>>, feed: Feed<K>, clock: Clock) {
    let mut pause = SHORTEST;
    loop {
        let (started, sink) = (clock.now(), Sink { feed: feed.another() });
        let Err(panic) = AssertUnwindSafe(async { function(sink).await }).catch_unwind().await else {
            return;
        };
        feed.origin().panicked(&*panic, "the function is called again");
        if clock.now().since(started) > LONGEST {
            pause = SHORTEST;
        }
        clock.sleep(pause).await;
        pause = (2 * pause).min(LONGEST);
    }
}

impl<K> fmt::Debug for FunctionSource<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FunctionSource").field(&self.name).finish()
    }
}

impl<K> fmt::Debug for Sink<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}
