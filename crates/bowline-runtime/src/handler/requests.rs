//! The requests of a change, from a handler to the queue.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_workqueue::AddOptions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controller::QueuePayload;
use crate::source::Clusters;
use crate::trigger::{Trigger, TriggerSource};
use crate::{Cause, ClusterName, Request};

/// Maximum requests of one change that are checked for duplicates; beyond it, the queue merges duplicates.
const LOOKED_THROUGH: usize = 16;

/// The requests of one change for the controller's queue. A request that is added twice counts once.
///
/// The queue gets them when the handler has returned. A request that is already queued is merged with the new one: it
/// has the earlier time and the higher priority of both. An object that is being reconciled is reconciled again
/// afterwards.
pub struct Requests<'a> {
    batch: &'a mut Batch,
    /// Index of the first request of this change.
    start: usize,
    origin: &'a Arc<TriggerSource>,
    clusters: &'a Clusters,
    cause: Cause,
    priority: Option<i32>,
    /// The metadata of the object that changed; `None` for a payload.
    meta: Option<&'a ObjectMeta>,
    /// The key of the object that changed, computed on first use.
    object: Option<Arc<ObjectKey>>,
}

/// Requests for the queue.
pub(crate) type Batch = Vec<QueuedRequest>;

/// One request for the queue.
pub(crate) struct QueuedRequest {
    request: Request,
    trigger: Trigger,
    priority: Option<i32>,
    time: AddTime,
}

/// Earliest time of a reconcile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AddTime {
    Now,
    After(Duration),
    RateLimited,
}

impl QueuedRequest {
    pub(crate) fn new(request: Request, trigger: Trigger) -> Self {
        Self { request, trigger, priority: None, time: AddTime::Now }
    }

    pub(crate) fn into_addition(self) -> (Request, AddOptions<QueuePayload>) {
        let mut payload = QueuePayload::new(self.trigger);
        // So that the limiter forgets the request when a reconcile succeeds.
        payload.is_limited = self.time == AddTime::RateLimited;
        let add = AddOptions::new(payload);
        let add = match self.time {
            AddTime::Now => add,
            AddTime::After(delay) => add.after(delay),
            AddTime::RateLimited => add.rate_limited(),
        };
        let add = match self.priority {
            Some(priority) => add.priority(priority),
            None => add,
        };
        (self.request, add)
    }
}

impl<'a> Requests<'a> {
    pub(crate) fn new(
        batch: &'a mut Batch,
        origin: &'a Arc<TriggerSource>,
        clusters: &'a Clusters,
        cause: Cause,
        priority: Option<i32>,
        meta: Option<&'a ObjectMeta>,
    ) -> Self {
        let start = batch.len();
        Self { batch, start, origin, clusters, cause, priority, meta, object: None }
    }

    /// The name of the cluster of the changed object. None for the controller's own cluster. For handlers of watches of
    /// [other clusters](crate::source::KindSource::in_cluster) that make requests for objects there:
    /// `Request::new(namespace, name).in_cluster(requests.cluster().cloned())`.
    #[must_use]
    pub fn cluster(&self) -> Option<&ClusterName> {
        self.clusters.source.as_ref()
    }

    /// Reconciles an object because of this change, as soon as a worker is free.
    ///
    /// Requests because of objects that existed when the watch began, and because of a resync, have priority -100
    /// ([`LOW_PRIORITY`](crate::LOW_PRIORITY)); all others have 0.
    pub fn add(&mut self, request: Request) {
        self.add_at(request, AddTime::Now);
    }

    /// Like [`add`](Self::add), with its own priority: requests with higher ones are reconciled first.
    pub fn add_with_priority(&mut self, request: Request, priority: i32) {
        let usual = self.priority.replace(priority);
        self.add(request);
        self.priority = usual;
    }

    /// Like [`add`](Self::add), after a delay. An earlier request for the same object replaces the delayed one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use bowline_runtime::handler::Requests;
    /// use bowline_runtime::{Change, Request};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// // A deleted pod is replaced within seconds: until then there is nothing to do.
    /// let handler = |change: &Change<'_, Pod>, requests: &mut Requests<'_>| {
    ///     let game = Request::new("games", "chess");
    ///     match change.new() {
    ///         Some(_) => requests.add(game),
    ///         None => requests.add_after(game, Duration::from_secs(5)),
    ///     }
    /// };
    /// # fn check(_: impl bowline_runtime::handler::Handler<Pod>) {}
    /// # check(handler);
    /// ```
    pub fn add_after(&mut self, request: Request, delay: Duration) {
        self.add_at(request, AddTime::After(delay));
    }

    /// Like [`add`](Self::add), after the delay of the controller's [rate limiter](crate::ControllerBuilder::limiter): with the
    /// default one, the delay of an object doubles with each such addition and with each failure, until a reconcile of it
    /// succeeds.
    pub fn add_rate_limited(&mut self, request: Request) {
        self.add_at(request, AddTime::RateLimited);
    }

    /// Reconciles the object that changed.
    pub(super) fn add_object(&mut self, meta: &ObjectMeta) {
        let trigger = Trigger::own(self.origin.clone(), self.cause);
        let request = Request::from(key(meta)).in_cluster(self.clusters.source.clone());
        self.push(QueuedRequest { request, trigger, priority: self.priority, time: AddTime::Now });
    }

    fn add_at(&mut self, request: Request, time: AddTime) {
        let (origin, cause) = (self.origin.clone(), self.cause);
        let trigger = match self.meta {
            Some(meta) => {
                let object = self.object.get_or_insert_with(|| Arc::new(key(meta)));
                Trigger::other(origin, cause, object.clone())
            }
            // A payload has no name: the trigger names only the source.
            None => Trigger::own(origin, cause),
        };
        let request = request.seen_from(self.clusters.home.as_ref());
        self.push(QueuedRequest { request, trigger, priority: self.priority, time });
    }

    fn push(&mut self, new: QueuedRequest) {
        let added = &self.batch[self.start..];
        let is_same = |other: &QueuedRequest| {
            other.request == new.request && other.priority == new.priority && other.time == new.time
        };
        if added.len() <= LOOKED_THROUGH && added.iter().any(is_same) {
            return;
        }
        self.batch.push(new);
    }
}

fn key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl fmt::Debug for Requests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.batch[self.start..].iter().map(|queued| &queued.request)).finish()
    }
}
