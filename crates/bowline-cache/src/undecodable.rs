//! Undecodable objects. Owns the current set, and that each version is reported once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_machinery::ObjectKey;

/// Maximum number of objects remembered by key. Further ones are only counted.
const MAX_OBJECTS: usize = 1000;

/// An object that could not be decoded. The cache has its last decodable version, or nothing. A packed object is cached
/// as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UndecodableObject {
    /// Key of the object.
    pub key: ObjectKey,
    /// Its version.
    pub resource_version: String,
    /// Decode error.
    pub error: String,
}

/// The objects that are set aside.
#[derive(Debug, Default)]
pub(crate) struct UndecodableObjects {
    objects: Mutex<BTreeMap<ObjectKey, UndecodableObject>>,
    len: AtomicUsize,
    total: AtomicU64,
}

impl UndecodableObjects {
    /// Adds an object. Returns whether it is new: another object or version, while there is room.
    pub(crate) fn put(&self, key: Option<&ObjectKey>, version: &str, error: &str) -> bool {
        self.total.fetch_add(1, Ordering::Relaxed);
        let Some(key) = key else { return true };
        let mut objects = self.lock();
        if objects.get(key).is_some_and(|object| object.resource_version == version) {
            return false;
        }
        if objects.len() >= MAX_OBJECTS && !objects.contains_key(key) {
            // The first ones were reported; there is no need to log more.
            return false;
        }
        let object = UndecodableObject {
            key: key.clone(),
            resource_version: version.to_owned(),
            error: error.to_owned(),
        };
        objects.insert(key.clone(), object);
        self.len.store(objects.len(), Ordering::Relaxed);
        true
    }

    pub(crate) fn remove(&self, key: &ObjectKey) {
        let mut objects = self.lock();
        objects.remove(key);
        self.len.store(objects.len(), Ordering::Relaxed);
    }

    /// Whether an object is set aside in this version.
    pub(crate) fn has(&self, key: &ObjectKey, version: &str) -> bool {
        !self.is_empty() && self.lock().get(key).is_some_and(|object| object.resource_version == version)
    }

    pub(crate) fn retain(&self, mut keep: impl FnMut(&UndecodableObject) -> bool) {
        let mut objects = self.lock();
        objects.retain(|_, object| keep(object));
        self.len.store(objects.len(), Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn all(&self) -> Vec<UndecodableObject> {
        self.lock().values().cloned().collect()
    }

    /// Number of times that an object was set aside.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, UndecodableObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
