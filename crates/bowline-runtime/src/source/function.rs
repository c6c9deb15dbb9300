//! Changes that a function delivers: the source for all that is neither a kind, a channel nor a stream.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::CacheError;
use bowline_clock::Clock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Resource;
use tokio_util::sync::CancellationToken;

use super::stream::SourceTask;
use super::{ChangePipeline, RunningSource, SourceContext, StartSource};
use crate::change::OwnedChange;
use crate::{Change, Request};

/// Pause before a function that panicked is called again: the first, doubled each time up to the longest.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

type Function<K> = dyn Fn(Sink<K>) -> BoxFuture<'static, ()> + Send + Sync;

/// The changes that a function delivers; from [`function`].
#[must_use = "a source does nothing until a controller watches it"]
pub struct FunctionSource<K> {
    name: String,
    function: Arc<Function<K>>,
    reports_sync: bool,
}

/// Where a [`function`] puts its changes and requests. `K` is the type of its items: a kind, or any other type.
pub struct Sink<K> {
    feed: ChangePipeline<K>,
    synced: Option<CancellationToken>,
}

/// A source that is a function. It is called when the controller starts or, if that waits for leadership, when it leads. Its
/// future runs until it ends by itself, or is dropped when the controller stops. The controller does not wait for it before it
/// reconciles, unless [`FunctionSource::reports_sync`] says otherwise.
///
/// A panic is logged and counted (`bowline_source_panics_total`), and the function is called again: after a second, then after a
/// time that doubles up to a minute. A function that ended is not called again until the controller starts again.
///
/// `name` is the name of the source in triggers, logs and metrics.
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
    let function: Arc<Function<K>> = Arc::new(move |sink| function(sink).boxed());
    FunctionSource { name: name.into(), function, reports_sync: false }
}

impl<K> FunctionSource<K> {
    /// Lets the controller wait for the function's initial content: it does not reconcile before the function calls
    /// [`Sink::synced`], or ends. Until then, [`Controller::waiting_for`](crate::Controller::waiting_for) names the source, and
    /// [`sync_timeout`](crate::ControllerBuilder::sync_timeout) applies. Default: the controller does not wait.
    ///
    /// ```
    /// use bowline_runtime::source::{self, FunctionSource, Sink};
    ///
    /// /// A queue of another system.
    /// struct Inventory {
    ///     present: Vec<String>,
    /// }
    ///
    /// fn inventory(hosts: Inventory) -> FunctionSource<String> {
    ///     let hosts = std::sync::Arc::new(hosts);
    ///     source::function("inventory", move |mut sink: Sink<String>| {
    ///         let hosts = hosts.clone();
    ///         async move {
    ///             for host in &hosts.present {
    ///                 sink.payload(host).await;
    ///             }
    ///             sink.synced();
    ///             // … then changes as they come.
    ///         }
    ///     })
    ///     .reports_sync()
    /// }
    /// ```
    pub fn reports_sync(mut self) -> Self {
        self.reports_sync = true;
        self
    }
}

impl<K: Clone + Send + Sync + 'static> Sink<K> {
    /// Delivers a change, and waits until an async handler is done with it; any other handler does not wait. The items are
    /// copied for an async handler, and when a predicate or handler fails, to retry the change.
    pub async fn change(&mut self, change: &Change<'_, K>) {
        if self.feed.is_async() {
            return self.feed.take_or_keep(&OwnedChange::copied(change)).await;
        }
        if let Err(failure) = self.feed.take(change) {
            self.feed.keep(OwnedChange::copied(change), failure);
        }
        self.feed.flush();
    }

    /// Delivers a [generic](crate::ChangeKind::Generic) change with an item that is no Kubernetes object. As
    /// [`change`](Self::change).
    pub async fn payload(&mut self, payload: &K) {
        self.change(&Change::payload(payload)).await;
    }
}

impl<K: Resource + Clone + Send + Sync + 'static> Sink<K> {
    /// Delivers a [generic](crate::ChangeKind::Generic) change of an object. As [`change`](Self::change).
    pub async fn object(&mut self, object: &K) {
        self.change(&Change::generic(object)).await;
    }
}

impl<K> Sink<K> {
    /// Says that the initial content is delivered; see [`FunctionSource::reports_sync`]. Without that, and from the second call
    /// on, it does nothing.
    pub fn synced(&self) {
        if let Some(synced) = &self.synced {
            synced.cancel();
        }
    }
}

impl<K: 'static> Sink<K> {
    /// Reconciles an object. Neither predicates nor the handler are called.
    pub fn request(&mut self, request: Request) {
        self.feed.request(request);
    }

    /// Reconciles objects, as [`request`](Self::request): cheaper than one by one, as the queue gets up to 512 at a time.
    pub fn requests(&mut self, requests: impl IntoIterator<Item = Request>) {
        self.feed.request_all(requests);
    }
}

impl<K: Send + Sync + 'static> StartSource<K> for FunctionSource<K> {
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
        let synced = self.reports_sync.then(CancellationToken::new);
        let running = run(self.function.clone(), feed, synced.clone(), place.spawner.clock().clone());
        scope.spawn("source", async move {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => {}
                () = running => {}
            }
        });
        Ok(Arc::new(SourceTask { scope, synced }))
    }
}

/// Calls the function, and calls it again if it panics. Here and not where the source begins, since it may call its
/// controller.
async fn run<K: 'static>(
    function: Arc<Function<K>>,
    feed: ChangePipeline<K>,
    synced: Option<CancellationToken>,
    clock: Clock,
) {
    let mut pause = SHORTEST;
    loop {
        let (started, sink) = (clock.now(), Sink { feed: feed.another(), synced: synced.clone() });
        let Err(panic) = AssertUnwindSafe(async { function(sink).await }).catch_unwind().await else {
            // It will deliver nothing more.
            if let Some(synced) = &synced {
                synced.cancel();
            }
            return;
        };
        feed.origin().panicked(&*panic, "the function is called again");
        if clock.now().duration_since(started) > LONGEST {
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
