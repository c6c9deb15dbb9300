//! Bindings: the data that a client keeps for each kind and representation, found once and then reused.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bowline_cache::{InformerCache, Kind, Packed, Representation};
use bowline_clock::{HashMap, HashState, Instant};
use kube::Resource;
use kube::core::ApiResource;

use super::Object;
use super::flights::Flights;
use super::selection::Selection;
use super::writes::WriteTracker;

/// A kind in one representation, and how a client reads it.
pub(super) struct KindEntry<K> {
    pub(super) kind: Kind<K>,
    /// Pending writes of its resource, in every representation.
    pub(super) writes: Arc<WriteTracker>,
    /// Selection of the informers.
    pub(super) selection: Selection,
    /// Late lists in progress, shared by concurrent readers.
    pub(super) flights: Flights<K>,
    /// Reader number in `writes`; zero if the kind is not cached.
    reader: AtomicU32,
    /// Number of declarations as cached.
    declared: Mutex<usize>,
    /// Whether the kind is configured as uncached.
    pub(super) is_live: bool,
}

/// The bindings of a client.
pub(super) struct Bindings {
    /// By object type. Kinds that are only known at run time can share a type.
    all: RwLock<HashMap<TypeId, Vec<Entry>>>,
    /// By group and plural.
    writes: Mutex<BTreeMap<(String, String), Arc<WriteTracker>>>,
    /// Maximum time that a read waits for a write.
    deadline: Duration,
    cache: Option<InformerCache>,
    /// Group and kind of the uncached kinds.
    live: BTreeSet<(String, String)>,
}

struct Entry {
    form: Representation,
    binding: Arc<dyn AnyBinding>,
}

/// A binding, whatever its objects are.
trait AnyBinding: Send + Sync {
    fn is_declared(&self) -> bool;
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Send + Sync + 'static> AnyBinding for KindEntry<K> {
    fn is_declared(&self) -> bool {
        self.reader().is_some()
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<K> KindEntry<K> {
    pub(super) fn declare(&self) {
        if self.is_live {
            return;
        }
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if *declared == 0 {
            self.reader.store(self.writes.add_reader(), Ordering::Relaxed);
        }
        *declared += 1;
    }

    /// Removes one declaration as cached. Returns whether it was the last.
    fn undeclare(&self) -> bool {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last = *declared == 1;
        if is_last {
            self.writes.remove_reader(self.reader.swap(0, Ordering::Relaxed));
        }
        *declared = declared.saturating_sub(1);
        is_last
    }

    /// Reader number, if the kind is read from the cache.
    pub(super) fn reader(&self) -> Option<u32> {
        Some(self.reader.load(Ordering::Relaxed)).filter(|reader| *reader > 0)
    }

    fn is_of<T>(&self, kind: &Kind<T>) -> bool {
        let (own, other) = (self.kind.resource(), kind.resource());
        self.kind.is_namespaced() == kind.is_namespaced()
            && own.kind == other.kind
            && own.group == other.group
            && own.version == other.version
            && own.plural == other.plural
    }
}

impl Bindings {
    pub(super) fn new(
        live: BTreeSet<(String, String)>,
        deadline: Duration,
        cache: Option<InformerCache>,
    ) -> Self {
        let all = RwLock::new(HashMap::with_hasher(HashState::for_lookups()));
        Self { all, writes: Mutex::default(), deadline, cache, live }
    }

    /// The binding of a type that knows its kind.
    pub(super) fn typed<K: Object>(&self) -> Arc<KindEntry<K>> {
        self.find(Representation::Typed, |_| true).unwrap_or_else(|| self.of(&Kind::typed()))
    }

    /// The binding of the packed form of a kind, if there is one.
    pub(super) fn packed<K>(&self, kind: &Kind<K>) -> Option<Arc<KindEntry<Packed>>> {
        self.find(Representation::Packed, |binding: &KindEntry<Packed>| binding.is_of(kind))
    }

    /// The binding of any kind.
    pub(super) fn of<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> Arc<KindEntry<K>> {
        if let Some(found) = self.known(kind) {
            return found;
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let entries = all.entry(TypeId::of::<K>()).or_default();
        // Another task may have added it meanwhile.
        if let Some(found) = find(entries, kind.form(), |binding: &KindEntry<K>| binding.is_of(kind)) {
            return found;
        }
        let resource = kind.resource();
        let binding = Arc::new(KindEntry {
            kind: kind.clone(),
            writes: self.writes_of(resource),
            selection: self.cache.as_ref().map(|cache| Selection::new(cache, kind)).unwrap_or_default(),
            flights: Flights::default(),
            reader: AtomicU32::new(0),
            declared: Mutex::default(),
            is_live: self.live.contains(&(resource.group.clone(), resource.kind.clone())),
        });
        entries.push(Entry { form: kind.form(), binding: binding.clone() });
        binding
    }

    /// The binding of a kind, if there is one.
    pub(super) fn known<K: Send + Sync + 'static>(&self, kind: &Kind<K>) -> Option<Arc<KindEntry<K>>> {
        self.find(kind.form(), |binding: &KindEntry<K>| binding.is_of(kind))
    }

    /// Removes one declaration of a kind. Returns whether it was the last.
    pub(super) fn undeclare<K: Send + Sync + 'static>(&self, kind: &Kind<K>) -> bool {
        self.known(kind).is_some_and(|binding| binding.undeclare())
    }

    /// Drops the bindings that are neither declared nor in use; the next request for one creates it again. Pending
    /// writes of a kind are kept while they can matter to a later declaration.
    pub(super) fn sweep(&self, now: Instant) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, entries| {
            // The lock prevents new references.
            entries.retain(|entry| entry.binding.is_declared() || Arc::strong_count(&entry.binding) > 1);
            !entries.is_empty()
        });
        drop(all);
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.retain(|_, writes| Arc::strong_count(writes) > 1 || !writes.is_outdated(now));
    }

    /// Number of bindings, and number of resources with pending writes.
    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        (all.values().map(Vec::len).sum(), writes.len())
    }

    fn writes_of(&self, resource: &ApiResource) -> Arc<WriteTracker> {
        let mut all = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = all.entry((resource.group.clone(), resource.plural.clone()));
        writes.or_insert_with(|| Arc::new(WriteTracker::new(self.deadline))).clone()
    }

    fn find<K: Send + Sync + 'static>(
        &self,
        form: Representation,
        is_it: impl Fn(&KindEntry<K>) -> bool,
    ) -> Option<Arc<KindEntry<K>>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        find(all.get(&TypeId::of::<K>())?, form, is_it)
    }
}

fn find<K: Send + Sync + 'static>(
    entries: &[Entry],
    form: Representation,
    is_it: impl Fn(&KindEntry<K>) -> bool,
) -> Option<Arc<KindEntry<K>>> {
    let of_form = entries.iter().filter(|entry| entry.form == form);
    let mut of_type =
        of_form.filter_map(|entry| entry.binding.clone().into_any().downcast::<KindEntry<K>>().ok());
    of_type.find(|found| is_it(found))
}
