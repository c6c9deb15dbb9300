//! What a handler is told: that an object came, changed or went.

use std::fmt;
use std::sync::Arc;

use kube::{Resource, ResourceExt as _};

use crate::key::object_key;
use bowline_machinery::ObjectKey;

/// A change of one object, as a handler of an informer is told.
///
/// Objects are shared, never copied: whoever wants to change one clones it first.
pub enum Event<K> {
    /// An object is there that was not.
    Add {
        /// As it is now.
        object: Arc<K>,
        /// Whether it was there when the handler came: part of the state that it starts from, not of what happened since.
        in_initial_list: bool,
    },
    /// An object is not what it was, or the handler asked to be told again from time to time and nothing changed: the
    /// resource versions are the same then.
    Update {
        /// As the handler was told last.
        old: Arc<K>,
        /// As it is now.
        new: Arc<K>,
    },
    /// An object is gone.
    Delete(Deleted<K>),
}

/// An object that is gone.
pub struct Deleted<K> {
    /// As it last was, as far as is known.
    pub object: Arc<K>,
    /// Whether the deletion itself was missed: something was lost between the server and here, and the object was not
    /// there any more (or another under its name) when all was listed again. What it last was may be outdated then.
    /// client-go calls this `DeletedFinalStateUnknown`.
    pub final_state_unknown: bool,
}

impl<K> Event<K> {
    /// The object that this is about, as it is now, or as it last was.
    #[must_use]
    pub fn object(&self) -> &Arc<K> {
        match self {
            Self::Add { object, .. } | Self::Update { new: object, .. } => object,
            Self::Delete(deleted) => &deleted.object,
        }
    }

    /// Whether the object is gone.
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

/// Which object and at which version, not all that it holds: objects are large, and may hold secrets.
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
