//! Events of an informer: an object was added, updated or deleted.

use std::fmt;
use std::sync::Arc;

use kube::{Resource, ResourceExt as _};

use crate::key::object_key;
use bowline_machinery::ObjectKey;

/// A change of one object, as delivered to the handlers of an informer.
///
/// Objects are shared, never copied. Clone an object before you change it.
pub enum Event<K> {
    /// A new object.
    Add {
        /// The current state.
        object: Arc<K>,
        /// Whether the object existed when the handler was added: part of the handler's initial state, not a change
        /// since then.
        in_initial_list: bool,
    },
    /// A changed object; or a resync, with the same resource version in `old` and `new`.
    Update {
        /// The state that was delivered last.
        old: Arc<K>,
        /// The current state.
        new: Arc<K>,
    },
    /// A deleted object.
    Delete(Deleted<K>),
}

/// A deleted object.
pub struct Deleted<K> {
    /// The last known state.
    pub object: Arc<K>,
    /// Whether the deletion itself was missed: events were lost, and a relist showed that the object was gone or
    /// replaced by another of the same name. The last known state may then be outdated. client-go calls this
    /// `DeletedFinalStateUnknown`.
    pub final_state_unknown: bool,
}

impl<K> Event<K> {
    /// The object in its current state, or in its last known state after a deletion.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } => object,
            Self::Delete(deleted) => &deleted.object,
        }
    }

    /// Whether this is a deletion.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        matches!(self, Self::Delete(_))
    }
}

impl<K: Resource> Event<K> {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        object_key(&**self.object())
    }
}

impl<K: Resource> Deleted<K> {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        object_key(&*self.object)
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Add { object, in_initial_list } => {
                Self::Add { object: object.clone(), in_initial_list: *in_initial_list }
            }
            Self::Update { old, new } => Self::Update { old: old.clone(), new: new.clone() },
            Self::Delete(deleted) => Self::Delete(deleted.clone()),
        }
    }
}

impl<K> Clone for Deleted<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), final_state_unknown: self.final_state_unknown }
    }
}

/// Shows key and version, not the content: objects are large and may hold secrets.
impl<K: Resource> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Add { in_initial_list: true, .. } => "Add (initial)",
            Self::Add { .. } => "Add",
            Self::Update { .. } => "Update",
            Self::Delete(Deleted { final_state_unknown: true, .. }) => "Delete (final state unknown)",
            Self::Delete(_) => "Delete",
        };
        let version = self.object().resource_version().unwrap_or_default();
        write!(f, "{kind} {} at {version:?}", self.key())
    }
}

impl<K: Resource> fmt::Debug for Deleted<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Event::Delete(self.clone()), f)
    }
}
