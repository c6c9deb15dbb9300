//! Handlers map a change to requests for the affected objects. A [predicate](crate::predicate) has accepted the change
//! before.

mod annotated_owner;
mod asynchronous;
mod context;
mod into;
mod owner;
mod requests;

pub use annotated_owner::{AnnotatedOwnerHandler, annotated_owner};
pub use asynchronous::{AsyncHandler, AsyncMapHandler, map_async};
pub use context::HandlerContext;
pub use into::IntoHandler;
pub(crate) use into::{AnyHandler, HandlerCode};
pub use owner::{OwnerHandler, owner, owner_of};
pub use requests::Requests;
pub(crate) use requests::{Batch, QueuedRequest};

use std::fmt;

use crate::{Change, HasMetadata, Request};

/// Maps a change to requests for the objects that have to be reconciled. A handler that awaits, for example a read, is
/// an [`AsyncHandler`].
///
/// A deletion that the watch missed is delivered later, with the last known state of the object.
///
/// The task of the watch calls it with one change at a time, and so does the task that retries changes. It must be quick. A
/// panic in it is caught, logged and counted (`bowline_source_panics_total`), and the change is retried while others go on: ten
/// attempts in all, with pauses from a second to a minute. Then it is [named](crate::Controller::unhandled_changes).
///
/// Closures are handlers too:
///
/// ```
/// use bowline_runtime::{Change, Request};
/// use bowline_runtime::handler::Requests;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let handler = |change: &Change<'_, ConfigMap>, requests: &mut Requests<'_>| {
///     if let Some(site) = change.object().data.as_ref().and_then(|data| data.get("site")) {
///         requests.add(Request::new("default", site));
///     }
/// };
/// # fn check(_: impl bowline_runtime::handler::Handler<ConfigMap>) {}
/// # check(handler);
/// ```
pub trait Handler<K>: Send + Sync + 'static {
    /// Adds the objects to reconcile to `requests`; one that is added twice counts once.
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>);
}

impl<K, F: Fn(&Change<'_, K>, &mut Requests<'_>) + Send + Sync + 'static> Handler<K> for F {
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        self(change, requests);
    }
}

/// From [`object`].
#[derive(Clone, Copy, Debug)]
pub struct ObjectHandler;

/// From [`map`].
#[derive(Clone)]
pub struct MapHandler<F>(F);

/// Reconciles the object that changed.
#[must_use]
pub fn object() -> ObjectHandler {
    ObjectHandler
}

/// Reconciles the objects that a function returns. After an update it is called with the previous object and with the
/// present one, so that an object that is no longer affected is reconciled as well. For a function that awaits, use
/// [`map_async`].
///
/// ```
/// use bowline_runtime::{Request, handler};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let handler = handler::map(|config: &ConfigMap| {
///     config.data.iter().flatten().map(|(name, _)| Request::new("default", name)).collect::<Vec<_>>()
/// });
/// # fn check(_: impl handler::Handler<ConfigMap>) {}
/// # check(handler);
/// ```
pub fn map<K, F, I>(function: F) -> MapHandler<F>
where
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = Request>,
{
    MapHandler(function)
}

impl<K: HasMetadata> Handler<K> for ObjectHandler {
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        requests.add_object(change.meta());
    }
}

impl<K, F, I> Handler<K> for MapHandler<F>
where
    F: Fn(&K) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = Request>,
{
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        for object in [change.old(), change.new()].into_iter().flatten() {
            for request in (self.0)(object) {
                requests.add(request);
            }
        }
    }
}

impl<F> fmt::Debug for MapHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapHandler")
    }
}
