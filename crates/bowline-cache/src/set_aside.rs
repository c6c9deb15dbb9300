//! Objects that could not be read. Owns which they are now, and that each is complained about once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_machinery::ObjectKey;

/// So many are remembered by name; the rest is only counted.
const MOST: usize = 1000;

/// An object that could not be read, and is not in the cache, or is there as it was when it last could be read. One that is
/// cached packed is there as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAside {
    /// Which object.
    pub key: ObjectKey,
    /// At which version.
    pub resource_version: String,
    /// Why.
    pub error: String,
}

/// The objects that are set aside.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    objects: Mutex<BTreeMap<ObjectKey, SetAside>>,
    len: AtomicUsize,
    total: AtomicU64,
}

impl Shelf {
    /// Whether this is news: another object or another version of it, unless there are too many already.
    pub(crate) fn put(&self, key: Option<&ObjectKey>, version: &str, error: &str) -> bool {
        self.total.fetch_add(1, Ordering::Relaxed);
        let Some(key) = key else { return true };
        let mut objects = self.lock();
        if objects.get(key).is_some_and(|object| object.resource_version == version) {
            return false;
        }
        if objects.len() >= MOST && !objects.contains_key(key) {
            // Whoever has so many has been told enough.
            return false;
        }
        let object =
            SetAside { key: key.clone(), resource_version: version.to_owned(), error: error.to_owned() };
        objects.insert(key.clone(), object);
        self.len.store(objects.len(), Ordering::Relaxed);
        true
    }

    pub(crate) fn take_down(&self, key: &ObjectKey) {
        let mut objects = self.lock();
        objects.remove(key);
        self.len.store(objects.len(), Ordering::Relaxed);
    }

    /// Whether an object is set aside in this version.
    pub(crate) fn has(&self, key: &ObjectKey, version: &str) -> bool {
        !self.is_empty() && self.lock().get(key).is_some_and(|object| object.resource_version == version)
    }

    pub(crate) fn retain(&self, mut keep: impl FnMut(&SetAside) -> bool) {
        let mut objects = self.lock();
        objects.retain(|_, object| keep(object));
        self.len.store(objects.len(), Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn all(&self) -> Vec<SetAside> {
        self.lock().values().cloned().collect()
    }

    /// How often something was set aside.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, SetAside>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
