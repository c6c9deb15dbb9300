//! Which changes are worth a look: predicates, which see what happened, the old object and the new one. They decide; what
//! becomes of a change that is worth a look is the [handler](crate::handler)'s to say.

mod combine;
mod metadata;

pub use combine::{And, Not, Or, not};
pub use metadata::{
    Annotations, Generation, Labels, ResourceVersion, Selector, annotations_changed, generation_changed,
    labels_changed, resource_version_changed, selected,
};

use crate::Change;

/// Decides whether a change is worth a look. What it does not accept causes no reconcile.
///
/// It sees the old object and the new one, and what happened. One that compares the two says `true` to whatever is not an
/// update: a creation or a deletion that nobody looks at is missed for good.
///
/// Predicates that need nothing but metadata are predicates of every kind, `ObjectMeta` included, and can filter
/// [all watches](crate::ControllerBuilder::filter) of a controller. Closures are predicates too:
///
/// ```
/// use bowline_runtime::Change;
/// use bowline_runtime::predicate::{Predicate, generation_changed, labels_changed};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let not_of_helm = |change: &Change<'_, ConfigMap>| change.meta().name.as_deref() != Some("helm");
/// let worth_a_look = not_of_helm.and(generation_changed().or(labels_changed()));
/// assert!(worth_a_look.accepts(&Change::create(&ConfigMap::default())));
/// ```
///
/// It is called by the task that hands on the events of a watch, one at a time, and must be quick. A panic in it is
/// caught, logged and counted, and that one change is lost.
pub trait Predicate<K: ?Sized>: Send + Sync + 'static {
    /// Whether the change is worth a look.
    fn accepts(&self, change: &Change<'_, K>) -> bool;

    /// Accepts what both accept.
    fn and<P: Predicate<K>>(self, other: P) -> And<Self, P>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// Accepts what one of the two accepts.
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
