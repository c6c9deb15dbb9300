//! Reconcilers, by request or by object: traits for types, and their use for functions and closures.

mod into;

pub use into::IntoReconciler;
pub(crate) use into::{Execute, Task};

use std::sync::Arc;

use bowline_cache::Kind;

use crate::{Action, BoxError, Context, Permission, Request};

/// Drives the actual state towards one object's desired state.
///
/// It gets the name of an object, not an event: it reads the present state, and does what is missing. It runs once for any
/// number of events, runs again when it failed, and never runs twice at once for the same object.
/// [`Context::triggers`] names the events.
///
/// Its result decides the next run:
/// - `Ok(Action::done())`: nothing, until something happens.
/// - `Ok(Action::requeue_after(…))`: again after a time.
/// - `Ok(Action::requeue_at(…))`: again at a time of the wall clock.
/// - `Err(error)`: logged, counted, and retried with a delay that grows from 5 ms to 1000 s.
/// - `Err(terminal(error))` (see [`terminal`](crate::terminal)): logged and counted, and not retried. The same holds for
///   an error that says that a namespace is [not cached](bowline_cache::CacheError::NotCached).
///
/// A panic is an error. So is a run that takes [too long](crate::ControllerBuilder::timeout): its future is dropped.
///
/// Functions and closures are reconcilers too, see [`ControllerBuilder::build`](crate::ControllerBuilder::build).
pub trait Reconciler: Send + Sync + 'static {
    /// The error type: any error.
    type Error: Into<BoxError>;

    /// Reconciles one object.
    fn reconcile(
        &self,
        context: Context,
        request: Request,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// A [`Reconciler`] that is given the object itself: one that is gone is not reconciled. A request for an object outside the
/// cached namespaces is an error that is not retried.
///
/// The object comes from the cache, and is never older than what the controller's client wrote of it: should the cache not have
/// that yet, it is waited for (see [`Client`](crate::Client)).
///
/// A request for an object in [another cluster](Request::cluster) fails with a [terminal](crate::terminal) error: only a
/// [`Reconciler`] can say how that is read.
///
/// The object is shared with all its readers: clone it to change it. An object with a deletion timestamp still exists, and
/// waits for its finalizers.
pub trait ObjectReconciler<K>: Send + Sync + 'static {
    /// The error type: any error.
    type Error: Into<BoxError>;

    /// Reconciles one object.
    fn reconcile(
        &self,
        context: Context,
        object: Arc<K>,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;

    /// The permissions that this reconciler needs by itself, for a reconciler that others use. Default: none.
    fn permissions(&self, kind: &Kind<K>) -> Vec<Permission> {
        let _ = kind;
        Vec::new()
    }
}
