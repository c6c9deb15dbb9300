//! The path of a change from a source to the queue: predicates, handler, requests. Every source uses it.

use std::any::{Any, type_name};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::Event;
use bowline_workqueue::{AddOptions, WorkQueue};
use futures::FutureExt as _;
use kube::Resource;

use super::retries::{ChangeRetries, FailedChange};
use crate::change::OwnedChange;
use crate::controller::{LOW_PRIORITY, QueuePayload};
use crate::error::describe;
use crate::handler::{AnyHandler, Batch, HandlerCode, HandlerContext, QueuedRequest, Requests};
use crate::predicate::Predicate;
use crate::trigger::{Trigger, TriggerSource};
use crate::{Cause, Change, ChangeKind, ClusterName, HasMetadata, Request};

/// Maximum duration of an async handler for one change; then it is dropped, and the change is retried.
const HANDLER_TIMEOUT: Duration = Duration::from_mins(1);

/// A predicate, with the name of its type.
pub(crate) struct Named<T: ?Sized> {
    type_name: &'static str,
    code: Box<T>,
}

impl<K: ?Sized + 'static> Named<dyn Predicate<K>> {
    pub(crate) fn predicate<P: Predicate<K>>(predicate: P) -> Self {
        Self { type_name: type_name::<P>(), code: Box::new(predicate) }
    }
}

/// The predicates and the handler of one watch.
pub(crate) struct WatchRules<K> {
    pub(crate) predicates: Vec<Named<dyn Predicate<K>>>,
    pub(crate) handler: AnyHandler<K>,
}

/// The path from one watch to the queue of one run of a controller.
pub(crate) struct PipelineConfig<K> {
    pub(crate) rules: Arc<WatchRules<K>>,
    /// Predicates of the controller, for all its watches.
    pub(crate) filters: Arc<[Named<dyn Predicate<dyn HasMetadata>>]>,
    pub(crate) origin: Arc<TriggerSource>,
    pub(crate) clusters: Clusters,
    pub(crate) queue: WorkQueue<Request, QueuePayload>,
    /// Context of async handlers.
    pub(crate) context: HandlerContext,
}

/// The cluster of a watch, as its controller sees it.
#[derive(Clone, Default)]
pub(crate) struct Clusters {
    /// The name of the controller's own cluster, if it has one.
    pub(crate) home: Option<ClusterName>,
    /// Name of the watch's cluster; `None` for the controller's own.
    pub(crate) source: Option<ClusterName>,
}

/// The path of the changes of one watch to the queue of one run of a controller.
pub(crate) struct ChangePipeline<K> {
    route: Arc<PipelineConfig<K>>,
    retries: Arc<ChangeRetries>,
    /// The number of the change, for a retry.
    retried: Option<u64>,
    /// Requests for the queue, added in one batch.
    batch: Batch,
}

/// A predicate or handler failed for a change, which has to be [kept](ChangePipeline::keep).
#[derive(Clone, Debug)]
#[must_use = "the change is lost unless it is kept"]
pub(crate) struct ChangeFailure {
    /// The type of the predicate or handler.
    pub(super) type_name: &'static str,
    /// The error that an async handler returned; `None` for a panic.
    pub(super) error: Option<String>,
}

impl<K: 'static> ChangePipeline<K> {
    pub(crate) fn new(route: Arc<PipelineConfig<K>>, retries: Arc<ChangeRetries>) -> Self {
        Self { route, retries, retried: None, batch: Vec::new() }
    }

    /// A pipeline for the retry of the change with this number.
    pub(super) fn retrying(route: Arc<PipelineConfig<K>>, retries: Arc<ChangeRetries>, number: u64) -> Self {
        Self { retried: Some(number), ..Self::new(route, retries) }
    }

    /// Whether the handler is async: such changes go to [`take_async`](Self::take_async).
    pub(crate) fn is_async(&self) -> bool {
        matches!(self.route.rules.handler.code, HandlerCode::Async(_))
    }

    /// Handles one change with a handler that is not async. [`flush`](Self::flush) adds the requests to the queue.
    pub(crate) fn take(&mut self, change: &Change<'_, K>) -> Result<(), ChangeFailure> {
        let mut type_name = "";
        let taken = catch_unwind(AssertUnwindSafe(|| self.hand_on(change, &mut type_name)));
        match taken {
            Ok(()) => {
                self.retries.handled(&self.route.origin, change.identity(), self.retried);
                Ok(())
            }
            Err(panic) => Err(self.panicked(change, type_name, &*panic)),
        }
    }

    /// Handles one change, and waits until its handler is done, async or not.
    pub(crate) async fn take_async(&mut self, change: &OwnedChange<K>) -> Result<(), ChangeFailure>
    where
        K: Send + Sync,
    {
        let route = self.route.clone();
        let AnyHandler { type_name, code: HandlerCode::Async(handler) } = &route.rules.handler else {
            return self.take(&change.borrow());
        };
        let mut called = "";
        match catch_unwind(AssertUnwindSafe(|| self.accepts(&change.borrow(), &mut called))) {
            Ok(true) => {}
            Ok(false) => {
                self.retries.handled(&route.origin, change.borrow().identity(), self.retried);
                return Ok(());
            }
            Err(panic) => return Err(self.panicked(&change.borrow(), called, &*panic)),
        }
        let handling = async {
            let mut requests = requests(&route, &mut self.batch, &change.borrow());
            // Here, since the formatting of an error is foreign code, too.
            handler.handle(&route.context, change, &mut requests).await.map_err(|error| describe(&*error))
        };
        let limit = route.context.clock().sleep(HANDLER_TIMEOUT);
        let handled = tokio::select! {
            biased;
            handled = AssertUnwindSafe(handling).catch_unwind() => handled,
            () = limit => Ok(Err(format!("the handler exceeded its timeout of {HANDLER_TIMEOUT:?}"))),
        };
        match handled {
            Ok(Ok(())) => {
                self.retries.handled(&route.origin, change.borrow().identity(), self.retried);
                Ok(())
            }
            Ok(Err(error)) => {
                route.origin.failed_for(change.borrow().identity(), type_name, &error);
                Err(ChangeFailure { type_name, error: Some(error) })
            }
            Err(panic) => Err(self.panicked(&change.borrow(), type_name, &*panic)),
        }
    }

    #[cold]
    fn panicked(
        &self,
        change: &Change<'_, K>,
        type_name: &'static str,
        panic: &(dyn Any + Send),
    ) -> ChangeFailure {
        self.route.origin.panicked_for(change.identity(), type_name, panic);
        ChangeFailure { type_name, error: None }
    }

    /// Keeps a change for which a predicate or handler failed, to retry it. Gives it up if too many are retried.
    pub(super) fn keep(&self, change: OwnedChange<K>, failure: ChangeFailure)
    where
        K: Send + Sync,
    {
        self.retries.try_add(Box::new(FailedChange::new(self.route.clone(), change)), failure);
    }

    /// Handles one change as [`take_async`](Self::take_async), adds its requests to the queue, and keeps it for retries if
    /// that fails. Waits while too many changes are retried. Afterwards the change is handled or kept; if the future is
    /// dropped before, neither.
    pub(super) async fn take_or_keep(&mut self, change: &OwnedChange<K>)
    where
        K: Send + Sync,
    {
        let taken = self.take_async(change).await;
        self.flush();
        if let Err(failure) = taken {
            let room = self.retries.room().await;
            let change = FailedChange::new(self.route.clone(), change.clone());
            self.retries.add(Box::new(change), failure, room);
        }
    }

    pub(super) fn origin(&self) -> &TriggerSource {
        &self.route.origin
    }

    /// A second pipeline with the same parts.
    pub(super) fn another(&self) -> Self {
        Self::new(self.route.clone(), self.retries.clone())
    }

    /// Whether all predicates accept a change. Sets the name of the last called type.
    fn accepts(&self, change: &Change<'_, K>, type_name: &mut &'static str) -> bool {
        let PipelineConfig { rules, filters, .. } = &*self.route;
        if !filters.is_empty()
            && let Some(any_kind) = change.of_any_kind()
        {
            for filter in &**filters {
                *type_name = filter.type_name;
                if !filter.code.accepts(&any_kind) {
                    return false;
                }
            }
        }
        for predicate in &rules.predicates {
            *type_name = predicate.type_name;
            if !predicate.code.accepts(change) {
                return false;
            }
        }
        true
    }

    fn hand_on(&mut self, change: &Change<'_, K>, type_name: &mut &'static str) {
        if !self.accepts(change, type_name) {
            return;
        }
        let AnyHandler { type_name: name, code } = &self.route.rules.handler;
        *type_name = name;
        match code {
            HandlerCode::Sync(handler) => {
                handler.handle(change, &mut requests(&self.route, &mut self.batch, change));
            }
            HandlerCode::Async(_) => unreachable!("changes for async handlers go through `take_async`"),
        }
    }

    /// Adds a request that needs neither predicate nor handler to the queue.
    pub(super) fn request(&self, request: Request) {
        let (request, add) = self.generic(request);
        self.route.queue.add_with(request, add);
    }

    /// Adds many such requests to the queue, without a copy into the batch.
    pub(super) fn request_all(&self, requests: impl IntoIterator<Item = Request>) {
        self.route.queue.add_all(requests.into_iter().map(|request| self.generic(request)));
    }

    fn generic(&self, request: Request) -> (Request, AddOptions<QueuePayload>) {
        let request = request.seen_from(self.route.clusters.home.as_ref());
        QueuedRequest::new(request, Trigger::own(self.route.origin.clone(), Cause::Generic)).into_addition()
    }

    /// Adds the batch to the queue.
    pub(crate) fn flush(&mut self) {
        match self.batch.len() {
            0 => {}
            1 => {
                if let Some(wanted) = self.batch.pop() {
                    let (request, add) = wanted.into_addition();
                    self.route.queue.add_with(request, add);
                }
            }
            _ => self.route.queue.add_all(self.batch.drain(..).map(QueuedRequest::into_addition)),
        }
    }
}

/// The request list of one change, for the handler of a watch.
fn requests<'a, K>(
    route: &'a PipelineConfig<K>,
    batch: &'a mut Batch,
    change: &Change<'a, K>,
) -> Requests<'a> {
    let identity = change.identity();
    let cause = match change.kind() {
        ChangeKind::Create if change.is_initial() => Cause::Initial,
        ChangeKind::Create => Cause::Created,
        ChangeKind::Update if change.is_redelivered() => Cause::Resynced,
        ChangeKind::Update => Cause::Updated,
        ChangeKind::Delete => Cause::Deleted,
        ChangeKind::Generic => Cause::Generic,
    };
    let is_low = matches!(cause, Cause::Initial | Cause::Resynced);
    let priority = is_low.then_some(LOW_PRIORITY);
    Requests::new(batch, &route.origin, &route.clusters, cause, priority, identity)
}

impl<K: Resource + Send + Sync + 'static> bowline_cache::EventHandler<K> for ChangePipeline<K> {
    fn handle(&mut self, event: &Event<K>) {
        if let Err(failure) = self.take(&Change::from_event(event)) {
            self.keep(OwnedChange::of(event), failure);
        }
    }

    fn flush(&mut self) {
        ChangePipeline::flush(self);
    }
}
