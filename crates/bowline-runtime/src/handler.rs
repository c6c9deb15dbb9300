//! Which objects are to be reconciled because of a change: handlers turn a change into requests. Whether a change is worth a
//! look at all, a [predicate](crate::predicate) has decided before.

mod owner;
mod requests;

pub use owner::{OwnerHandler, owner, owner_of};
pub use requests::Requests;
pub(crate) use requests::{Batch, Wanted};

use std::fmt;

use crate::{Change, Request};

/// Turns a change of an object into requests: which objects are to be reconciled because of it.
///
/// A deletion that was missed and is told later is a deletion like any other, with the object as it last was.
///
/// It is called by the task that hands on the events of a watch, one at a time, and must be quick. A panic in it is
/// caught, logged and counted, and that one change is lost. Closures are handlers too:
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
    /// Adds the objects that are to be reconciled to `requests`; one that is added twice counts once.
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

/// Reconciles what a function makes of the object. It is called for the old object and for the new one, so that those are
/// told that the object concerned until now, too.
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

impl<K> Handler<K> for ObjectHandler {
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        let _ = change;
        requests.add_object();
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
