//! What an operator author writes: a reconciler, by request or by object, as a type, a function or a closure.

mod into;

pub use into::IntoReconciler;
pub(crate) use into::{Execute, Task};

use std::sync::Arc;

use crate::{Action, BoxError, Context, Request};

/// Makes the world as one object says it should be.
///
/// It is told which object, not what happened to it: it reads what there is, and does what is missing. It runs once for any
/// number of events, runs again when it failed, and never runs twice at once for the same object. Why it runs this time,
/// [`Context::triggers`] says.
///
/// What it returns decides what comes next:
/// - `Ok(Action::done())`: nothing, until something happens.
/// - `Ok(Action::requeue_after(…))`: once more after a time.
/// - `Err(error)`: logged, counted, and tried again with a delay that grows from 5 ms to 1000 s.
/// - `Err(terminal(error))` (see [`terminal`](crate::terminal)): logged and counted, and not tried again.
///
/// A panic is an error. So is a run that takes [too long](crate::ControllerBuilder::timeout): its future is dropped.
///
/// Functions and closures are reconcilers too, see [`ControllerBuilder::build`](crate::ControllerBuilder::build).
pub trait Reconciler: Send + Sync + 'static {
    /// What can go wrong: any error type will do.
    type Error: Into<BoxError>;

    /// Reconciles one object.
    fn reconcile(
        &self,
        context: Context,
        request: Request,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// A [`Reconciler`] that is given the object itself: one that is gone is not reconciled.
///
/// The object comes from the cache, and is never older than what the controller's client wrote of it: should the cache not have
/// that yet, it is waited for (see [`Client`](crate::Client)).
///
/// The object is shared with everybody who reads it: who wants to change it clones it first. One that has a deletion
/// timestamp is still there, and its finalizers are waited for.
pub trait ObjectReconciler<K>: Send + Sync + 'static {
    /// What can go wrong: any error type will do.
    type Error: Into<BoxError>;

    /// Reconciles one object.
    fn reconcile(
        &self,
        context: Context,
        object: Arc<K>,
    ) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}
