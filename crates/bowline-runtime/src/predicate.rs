//! Predicates: they select the changes that may cause a reconcile. They see the kind of the change, the old object and
//! the new one. A [handler](crate::handler) maps the accepted changes to requests.

mod combine;
mod metadata;

pub use combine::{And, Not, Or, not};
pub use metadata::{
    Annotations, Generation, Labels, ResourceVersion, Selector, annotations_changed, generation_changed,
    labels_changed, resource_version_changed, selected,
};

use crate::Change;

/// Decides whether a change may cause a reconcile. A rejected change causes none.
///
/// It sees the kind of the change, the old object and the new one. A predicate that compares the two must accept
/// creations and deletions: a rejected change is not delivered again.
///
/// Predicates of metadata are predicates of every kind, [`dyn HasMetadata`](crate::HasMetadata) included, and can filter
/// [all watches](crate::ControllerBuilder::filter) of a controller. Closures are predicates too:
///
/// ```
/// use bowline_runtime::Change;
/// use bowline_runtime::predicate::{Predicate, generation_changed, labels_changed};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let not_of_helm = |change: &Change<'_, ConfigMap>| change.meta().name.as_deref() != Some("helm");
/// let relevant = not_of_helm.and(generation_changed().or(labels_changed()));
/// assert!(relevant.accepts(&Change::create(&ConfigMap::default())));
/// ```
///
/// The task of the watch calls it with one change at a time, and so does the task that retries changes. It must be quick. A
/// panic in it is caught, logged and counted, and the change is retried as after a panic of a
/// [handler](crate::handler::Handler).
pub trait Predicate<K: ?Sized>: Send + Sync + 'static {
    /// Whether the change is accepted.
    fn accepts(&self, change: &Change<'_, K>) -> bool;

    /// Accepts a change if both predicates do.
    fn and<P: Predicate<K>>(self, other: P) -> And<Self, P>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// Accepts a change if one of the two predicates does.
    fn or<P: Predicate<K>>(self, other: P) -> Or<Self, P>
    where
        Self: Sized,
    {
        Or(self, other)
    }
}

impl<K: ?Sized, F: Fn(&Change<'_, K>) -> bool + Send + Sync + 'static> Predicate<K> for F {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        self(change)
    }
}

impl<K: ?Sized + 'static> Predicate<K> for Box<dyn Predicate<K>> {
    fn accepts(&self, change: &Change<'_, K>) -> bool {
        (**self).accepts(change)
    }
}
