//! What predicates and handlers are shown: one object, what happened to it, and what it was before.

use bowline_cache::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is there, and was not.
    Create,
    /// It is not what it was, or nothing happened and it is shown once more (a resync).
    Update,
    /// It is gone.
    Delete,
    /// Somebody outside the API server says so: a channel, a stream, a function.
    Generic,
}

/// One object, what happened to it, and what it was before. Borrowed: nothing is copied to decide that nothing is to be
/// done.
///
/// The metadata is at hand whatever the type of the object is.
#[derive(Debug)]
pub struct Change<'a, K: ?Sized> {
    kind: ChangeKind,
    old: Option<(&'a K, &'a ObjectMeta)>,
    new: Option<(&'a K, &'a ObjectMeta)>,
    is_initial: bool,
}

impl<K: ?Sized> Clone for Change<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for Change<'_, K> {}

impl<'a, K: Resource> Change<'a, K> {
    /// What an informer told.
    #[must_use]
    pub fn of(event: &'a Event<K>) -> Self {
        match event {
            Event::Add { object, in_initial_list } => {
                Self { is_initial: *in_initial_list, ..Self::create(object) }
            }
            Event::Update { old, new } => Self::update(old, new),
            Event::Delete(deleted) => Self::delete(&deleted.object),
        }
    }

    /// An object came.
    #[must_use]
    pub fn create(new: &'a K) -> Self {
        Self { kind: ChangeKind::Create, old: None, new: Some((new, new.meta())), is_initial: false }
    }

    /// An object changed.
    #[must_use]
    pub fn update(old: &'a K, new: &'a K) -> Self {
        let (old, new) = (Some((old, old.meta())), Some((new, new.meta())));
        Self { kind: ChangeKind::Update, old, new, is_initial: false }
    }

    /// An object went.
    #[must_use]
    pub fn delete(old: &'a K) -> Self {
        Self { kind: ChangeKind::Delete, old: Some((old, old.meta())), new: None, is_initial: false }
    }

    /// Somebody outside the API server asks to look at an object.
    #[must_use]
    pub fn generic(new: &'a K) -> Self {
        Self { kind: ChangeKind::Generic, ..Self::create(new) }
    }
}

impl<'a, K: ?Sized> Change<'a, K> {
    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ChangeKind {
        self.kind
    }

    /// The object as it was, after an update or a deletion.
    #[must_use]
    pub fn old(&self) -> Option<&'a K> {
        self.old.map(|(object, _)| object)
    }

    /// The object as it is, unless it is gone.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "old and new are what the two objects of a change are called")]
    pub fn new(&self) -> Option<&'a K> {
        self.new.map(|(object, _)| object)
    }

    /// The object as it is, or as it last was.
    ///
    /// # Panics
    /// Never: there is always one of the two.
    #[must_use]
    pub fn object(&self) -> &'a K {
        self.latest().0
    }

    /// The metadata of the object as it was, after an update or a deletion.
    #[must_use]
    pub fn old_meta(&self) -> Option<&'a ObjectMeta> {
        self.old.map(|(_, meta)| meta)
    }

    /// The metadata of the object as it is, unless it is gone.
    #[must_use]
    pub fn new_meta(&self) -> Option<&'a ObjectMeta> {
        self.new.map(|(_, meta)| meta)
    }

    /// The metadata of the object as it is, or as it last was.
    ///
    /// # Panics
    /// Never: there is always one of the two.
    #[must_use]
    pub fn meta(&self) -> &'a ObjectMeta {
        self.latest().1
    }

    /// Whether the object was already there when the watch began.
    #[must_use]
    pub fn is_initial(&self) -> bool {
        self.is_initial
    }

    /// Whether nothing happened: the object is shown once more, as informers do from time to time when they are asked to.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        match (self.old_meta(), self.new_meta()) {
            (Some(old), Some(new)) => {
                old.resource_version.is_some() && old.resource_version == new.resource_version
            }
            _ => false,
        }
    }

    /// The same, of which only the metadata is shown: for what looks at objects of any kind.
    #[must_use]
    pub fn metadata(&self) -> Change<'a, ObjectMeta> {
        Change {
            kind: self.kind,
            old: self.old.map(|(_, meta)| (meta, meta)),
            new: self.new.map(|(_, meta)| (meta, meta)),
            is_initial: self.is_initial,
        }
    }

    fn latest(&self) -> (&'a K, &'a ObjectMeta) {
        self.new.or(self.old).expect("a change has an old object or a new one")
    }
}
