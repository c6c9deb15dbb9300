//! Where handlers put what is to be reconciled.

use std::fmt;
use std::sync::Arc;

use bowline_cache::ObjectKey;
use bowline_workqueue::Add;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controller::Pending;
use crate::trigger::{Origin, Trigger};
use crate::{Cause, Request};

/// Among so few a request that is there already is looked for; among more, the queue does it.
const LOOKED_THROUGH: usize = 16;

/// What is to be reconciled because of one change. A request that is added twice counts once.
pub struct Requests<'a> {
    batch: &'a mut Batch,
    /// Where those of this change begin.
    start: usize,
    origin: &'a Arc<Origin>,
    cause: Cause,
    priority: Option<i32>,
    meta: &'a ObjectMeta,
    /// The key of the object that changed, once somebody needs it.
    object: Option<Arc<ObjectKey>>,
}

/// Requests on their way to the queue.
pub(crate) type Batch = Vec<Wanted>;

/// One request on its way to the queue.
pub(crate) struct Wanted {
    request: Request,
    trigger: Trigger,
    priority: Option<i32>,
}

impl Wanted {
    pub(crate) fn new(request: Request, trigger: Trigger) -> Self {
        Self { request, trigger, priority: None }
    }

    pub(crate) fn into_addition(self) -> (Request, Add<Pending>) {
        let add = Add::new(Pending::new(self.trigger));
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
        origin: &'a Arc<Origin>,
        cause: Cause,
        priority: Option<i32>,
        meta: &'a ObjectMeta,
    ) -> Self {
        let start = batch.len();
        Self { batch, start, origin, cause, priority, meta, object: None }
    }

    /// Reconciles an object because of this change. What was there when the watch began, and what is only shown once
    /// more, waits behind what really happened (its priority is -100).
    pub fn add(&mut self, request: Request) {
        let object = self.object.get_or_insert_with(|| Arc::new(key(self.meta))).clone();
        let trigger = Trigger::other(self.origin.clone(), self.cause, object);
        self.push(request, trigger, self.priority);
    }

    /// The same, with a priority of its own: higher ones come first.
    pub fn add_with_priority(&mut self, request: Request, priority: i32) {
        let usual = self.priority.replace(priority);
        self.add(request);
        self.priority = usual;
    }

    /// Reconciles the object that changed.
    pub(super) fn add_object(&mut self) {
        let trigger = Trigger::own(self.origin.clone(), self.cause);
        self.push(key(self.meta).into(), trigger, self.priority);
    }

    fn push(&mut self, request: Request, trigger: Trigger, priority: Option<i32>) {
        let added = &self.batch[self.start..];
        if added.len() <= LOOKED_THROUGH
            && added.iter().any(|other| other.request == request && other.priority == priority)
        {
            return;
        }
        self.batch.push(Wanted { request, trigger, priority });
    }
}

fn key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl fmt::Debug for Requests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.batch[self.start..].iter().map(|wanted| &wanted.request)).finish()
    }
}
