//! A change, as predicates and handlers get it: an object, what happened to it, and its previous state.

use std::fmt;
use std::sync::Arc;

use bowline_cache::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The object was created, or existed when the watch began.
    Create,
    /// The object was changed, or is redelivered unchanged (a resync).
    Update,
    /// The object was deleted.
    Delete,
    /// A source outside the API server delivered it: a channel, a stream or a function.
    Generic,
}

/// An object with Kubernetes metadata: every [`Resource`].
///
/// `dyn HasMetadata` is an object of any kind. A predicate on it sees changes of all kinds, see
/// [`ControllerBuilder::filter`](crate::ControllerBuilder::filter).
pub trait HasMetadata {
    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
}

impl<K: Resource> HasMetadata for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }
}

/// Conversion of a Kubernetes object to one of any kind.
pub(crate) type AsAnyKind<K> = for<'a> fn(&'a K) -> &'a (dyn HasMetadata + 'static);

/// An object, its kind of change, and its previous state. Borrowed: a change without effect copies nothing.
///
/// `K` is the kind of the object, or the type of a payload: an item of a [channel](crate::source::channel), a
/// [stream](crate::source::stream) or a [function](crate::source::function) that is no Kubernetes object and has no metadata.
pub struct Change<'a, K: ?Sized> {
    kind: ChangeKind,
    old: Option<&'a K>,
    new: Option<&'a K>,
    is_initial: bool,
    /// `None` for a payload.
    as_any_kind: Option<AsAnyKind<K>>,
}

impl<K: ?Sized> Clone for Change<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Change<'_, K> {}

impl<'a, K: Resource + 'static> Change<'a, K> {
    /// An informer's event.
    #[must_use]
    pub fn from_event(event: &'a Event<K>) -> Self {
        match event {
            Event::Add { object, in_initial_list } => {
                Self { is_initial: *in_initial_list, ..Self::create(object) }
            }
            Event::Update { old, new } => Self::update(old, new),
            Event::Delete(deleted) => Self::delete(&deleted.object),
        }
    }

    /// The object was created.
    #[must_use]
    pub fn create(new: &'a K) -> Self {
        Self { kind: ChangeKind::Create, ..Self::generic(new) }
    }

    /// The object was changed.
    #[must_use]
    pub fn update(old: &'a K, new: &'a K) -> Self {
        Self { kind: ChangeKind::Update, old: Some(old), ..Self::generic(new) }
    }

    /// The object was deleted.
    #[must_use]
    pub fn delete(old: &'a K) -> Self {
        Self { kind: ChangeKind::Delete, old: Some(old), new: None, ..Self::generic(old) }
    }

    /// A source outside the API server requests a reconcile of the object.
    #[must_use]
    pub fn generic(new: &'a K) -> Self {
        Self { as_any_kind: Some(as_any_kind), ..Self::payload(new) }
    }
}

pub(crate) fn as_any_kind<K: Resource + 'static>(object: &K) -> &(dyn HasMetadata + 'static) {
    object
}

impl<'a, T> Change<'a, T> {
    /// A source outside the API server delivers a value that is not a Kubernetes object.
    #[must_use]
    pub fn payload(payload: &'a T) -> Self {
        Self {
            kind: ChangeKind::Generic,
            old: None,
            new: Some(payload),
            is_initial: false,
            as_any_kind: None,
        }
    }

    /// An item of a source outside the API server: an object, or a payload.
    pub(crate) fn item(item: &'a T, as_any_kind: Option<AsAnyKind<T>>) -> Self {
        Self { as_any_kind, ..Self::payload(item) }
    }

    /// The same change of an object of any kind. `None` for a payload.
    pub(crate) fn of_any_kind(&self) -> Option<Change<'a, dyn HasMetadata>> {
        let shown = self.as_any_kind?;
        Some(Change {
            kind: self.kind,
            old: self.old.map(shown),
            new: self.new.map(shown),
            is_initial: self.is_initial,
            as_any_kind: Some(|object| object),
        })
    }

    /// Whether it is an update without any difference.
    pub(crate) fn is_redelivered(&self) -> bool {
        self.of_any_kind().is_some_and(|change| change.is_resync())
    }

    /// The metadata of the object. `None` for a payload.
    pub(crate) fn identity(&self) -> Option<&'a ObjectMeta> {
        self.as_any_kind.map(|shown| shown(self.object()).metadata())
    }
}

impl<'a, K: ?Sized> Change<'a, K> {
    /// The kind of change.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// The object before an update or a deletion.
    #[must_use]
    pub fn old(&self) -> Option<&'a K> {
        self.old
    }

    /// The object after the change. None after a deletion.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "old and new are the two objects of a change")]
    pub fn new(&self) -> Option<&'a K> {
        self.new
    }

    /// The object after the change, or the last state of a deleted one.
    ///
    /// # Panics
    /// Never: there is always one of the two.
    #[must_use]
    pub fn object(&self) -> &'a K {
        self.new.or(self.old).expect("a change has an old object or a new one")
    }

    /// Whether the object existed already when the watch began.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        self.is_initial
    }
}

impl<'a, K: HasMetadata + ?Sized> Change<'a, K> {
    /// The metadata before an update or a deletion.
    #[must_use]
    pub fn old_meta(&self) -> Option<&'a ObjectMeta> {
        self.old.map(HasMetadata::metadata)
    }

    /// The metadata after the change. None after a deletion.
    #[must_use]
    pub fn new_meta(&self) -> Option<&'a ObjectMeta> {
        self.new.map(HasMetadata::metadata)
    }

    /// The metadata after the change, or the last one of a deleted object.
    ///
    /// # Panics
    /// Never: there is always one of the two.
    #[must_use]
    pub fn meta(&self) -> &'a ObjectMeta {
        self.object().metadata()
    }

    /// Whether nothing changed: informers redeliver each object from time to time when a resync is configured.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        match (self.old_meta(), self.new_meta()) {
            (Some(old), Some(new)) => {
                old.resource_version.is_some() && old.resource_version == new.resource_version
            }
            _ => false,
        }
    }
}

impl<K: fmt::Debug + ?Sized> fmt::Debug for Change<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("kind", &self.kind)
            .field("old", &self.old)
            .field("new", &self.new)
            .field("is_initial", &self.is_initial)
            .finish()
    }
}

/// A change that owns its objects, for later handling. Cheap to clone.
pub(crate) struct OwnedChange<K> {
    kind: ChangeKind,
    old: Option<Arc<K>>,
    new: Option<Arc<K>>,
    is_initial: bool,
    as_any_kind: Option<AsAnyKind<K>>,
}

impl<K: Resource + 'static> OwnedChange<K> {
    /// An informer's event.
    pub(crate) fn of(event: &Event<K>) -> Self {
        let (old, new) = match event {
            Event::Add { object, .. } => (None, Some(object)),
            Event::Update { old, new } => (Some(old), Some(new)),
            Event::Delete(deleted) => (Some(&deleted.object), None),
        };
        let Change { kind, is_initial, as_any_kind, .. } = Change::from_event(event);
        Self { kind, old: old.cloned(), new: new.cloned(), is_initial, as_any_kind }
    }
}

impl<K> Clone for OwnedChange<K> {
    fn clone(&self) -> Self {
        let Self { kind, old, new, is_initial, as_any_kind } = self;
        Self {
            kind: *kind,
            old: old.clone(),
            new: new.clone(),
            is_initial: *is_initial,
            as_any_kind: *as_any_kind,
        }
    }
}

impl<K> OwnedChange<K> {
    /// An item of a source outside the API server: an object, or a payload.
    pub(crate) fn item(item: K, as_any_kind: Option<AsAnyKind<K>>) -> Self {
        Self {
            kind: ChangeKind::Generic,
            old: None,
            new: Some(Arc::new(item)),
            is_initial: false,
            as_any_kind,
        }
    }

    /// The same change with copies of its objects.
    pub(crate) fn copied(change: &Change<'_, K>) -> Self
    where
        K: Clone,
    {
        let copied = |object: Option<&K>| object.cloned().map(Arc::new);
        let Change { kind, is_initial, as_any_kind, .. } = *change;
        Self { kind, old: copied(change.old()), new: copied(change.new()), is_initial, as_any_kind }
    }

    /// The borrowed change for predicates and handlers.
    pub(crate) fn borrow(&self) -> Change<'_, K> {
        Change {
            kind: self.kind,
            old: self.old.as_deref(),
            new: self.new.as_deref(),
            is_initial: self.is_initial,
            as_any_kind: self.as_any_kind,
        }
    }

    /// The distinct objects, the old one first.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<K>> {
        let is_same = matches!((&self.old, &self.new), (Some(old), Some(new)) if Arc::ptr_eq(old, new));
        let old = self.old.as_ref().filter(|_| !is_same);
        old.into_iter().chain(&self.new)
    }
}
