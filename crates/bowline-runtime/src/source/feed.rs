//! The way of a change from a source to the queue: predicates, handler, requests. Every source goes this way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_cache::Event;
use bowline_workqueue::{Add, WorkQueue};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::controller::{LOW_PRIORITY, Pending};
use crate::handler::{Batch, Handler, Requests, Wanted};
use crate::predicate::Predicate;
use crate::trigger::{Origin, Trigger};
use crate::{Cause, Change, ChangeKind, Request};

/// What becomes of the changes of one watch.
pub(crate) struct Rules<K> {
    pub(crate) predicates: Vec<Box<dyn Predicate<K>>>,
    pub(crate) handler: Box<dyn Handler<K>>,
}

/// The way of the changes of one watch to the queue of one run of a controller.
pub(crate) struct Feed<K> {
    rules: Arc<Rules<K>>,
    /// Those of the controller, for all its watches.
    filters: Arc<[Box<dyn Predicate<ObjectMeta>>]>,
    origin: Arc<Origin>,
    queue: WorkQueue<Request, Pending>,
    /// What the queue is to be told, all at once.
    batch: Batch,
}

impl<K: 'static> Feed<K> {
    pub(crate) fn new(
        rules: Arc<Rules<K>>,
        filters: Arc<[Box<dyn Predicate<ObjectMeta>>]>,
        origin: Arc<Origin>,
        queue: WorkQueue<Request, Pending>,
    ) -> Self {
        Self { rules, filters, origin, queue, batch: Vec::new() }
    }

    /// Takes one change in. The queue is told by [`flush`](Self::flush). Should a predicate or the handler panic, that one
    /// change is lost, and counted.
    pub(crate) fn take(&mut self, change: &Change<'_, K>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.hand_on(change))) {
            self.origin.panicked(&*panic, "one change is lost");
        }
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The same way, for somebody else.
    pub(super) fn another(&self) -> Self {
        let (rules, filters) = (self.rules.clone(), self.filters.clone());
        Self::new(rules, filters, self.origin.clone(), self.queue.clone())
    }

    fn hand_on(&mut self, change: &Change<'_, K>) {
        if !self.filters.is_empty() {
            let metadata = change.metadata();
            if !self.filters.iter().all(|filter| filter.accepts(&metadata)) {
                return;
            }
        }
        if !self.rules.predicates.iter().all(|predicate| predicate.accepts(change)) {
            return;
        }
        let cause = match change.kind() {
            ChangeKind::Create if change.is_initial() => Cause::Initial,
            ChangeKind::Create => Cause::Created,
            ChangeKind::Update if change.is_resync() => Cause::Resynced,
            ChangeKind::Update => Cause::Updated,
            ChangeKind::Delete => Cause::Deleted,
            ChangeKind::Generic => Cause::Signalled,
        };
        let is_low = matches!(cause, Cause::Initial | Cause::Resynced);
        let priority = is_low.then_some(LOW_PRIORITY);
        let mut requests = Requests::new(&mut self.batch, &self.origin, cause, priority, change.meta());
        self.rules.handler.handle(change, &mut requests);
    }

    /// Tells the queue of a request that needs neither predicate nor handler.
    pub(super) fn request(&self, request: Request) {
        let (request, add) = self.signalled(request);
        self.queue.add_with(request, add);
    }

    /// Tells the queue of many of them: past the batch, which they would only be copied into.
    pub(super) fn request_all(&self, requests: impl IntoIterator<Item = Request>) {
        self.queue.add_all(requests.into_iter().map(|request| self.signalled(request)));
    }

    fn signalled(&self, request: Request) -> (Request, Add<Pending>) {
        Wanted::new(request, Trigger::own(self.origin.clone(), Cause::Signalled)).into_addition()
    }

    /// Tells the queue what was taken in.
    pub(crate) fn flush(&mut self) {
        match self.batch.len() {
            0 => {}
            1 => {
                if let Some(wanted) = self.batch.pop() {
                    let (request, add) = wanted.into_addition();
                    self.queue.add_with(request, add);
                }
            }
            _ => self.queue.add_all(self.batch.drain(..).map(Wanted::into_addition)),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> bowline_cache::Handler<K> for Feed<K> {
    fn handle(&mut self, event: &Event<K>) {
        self.take(&Change::of(event));
    }

    fn flush(&mut self) {
        Feed::flush(self);
    }
}
