//! Options of a queue.

use std::fmt;
use std::marker::PhantomData;

use crate::env::Clock;
use crate::limiter::{ItemExponentialFailure, RateLimiter};
use crate::metrics::Metrics;
use crate::{Coalesce, Key, WorkQueue};

/// Options of a [`WorkQueue`], from [`WorkQueue::builder`].
#[must_use = "call `build`"]
pub struct WorkQueueBuilder<K, P = ()> {
    pub(crate) clock: Clock,
    pub(crate) limiter: Box<dyn RateLimiter<K>>,
    pub(crate) metrics: Option<Box<dyn Metrics>>,
    payload: PhantomData<fn(P)>,
}

impl<K: Key, P: Coalesce> WorkQueueBuilder<K, P> {
    pub(crate) fn new(clock: Clock) -> Self {
        let limiter = Box::new(ItemExponentialFailure::default());
        Self { clock, limiter, metrics: None, payload: PhantomData }
    }

    /// The limiter of [`add_rate_limited`](WorkQueue::add_rate_limited). Default: [`ItemExponentialFailure`] with 5 ms,
    /// doubled up to 1000 s.
    pub fn limiter(mut self, limiter: impl RateLimiter<K>) -> Self {
        self.limiter = Box::new(limiter);
        self
    }

    /// The receiver of metrics. Default: none, which costs nothing.
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.metrics = Some(Box::new(metrics));
        self
    }

    /// Builds the queue.
    #[must_use]
    pub fn build(self) -> WorkQueue<K, P> {
        WorkQueue::from_builder(self)
    }
}

impl<K, P> fmt::Debug for WorkQueueBuilder<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("metrics", &self.metrics.is_some()).finish_non_exhaustive()
    }
}
