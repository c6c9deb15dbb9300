//! What a client knows about a kind in one form: found once, then at hand without making its names again.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bowline_cache::{Form, InformerCache, Kind, Packed};
use bowline_clock::{HashMap, HashState};
use kube::Resource;
use kube::core::ApiResource;

use super::Object;
use super::selection::Selection;
use super::writes::Writes;

/// A kind in one form, and how a client reads it.
pub(super) struct Binding<K> {
    pub(super) kind: Kind<K>,
    /// What was written of its resource, in whichever form.
    pub(super) writes: Arc<Writes>,
    /// What informers have of it.
    pub(super) selection: Selection,
    /// As which reader of the writes it counts; zero if it is not cached.
    reader: AtomicU32,
    /// How many said that it is cached.
    declared: Mutex<usize>,
    /// Somebody said that it is never read from the cache.
    pub(super) is_live: bool,
}

/// The bindings of a client.
pub(super) struct Bindings {
    /// By the type of the objects. There are several for objects whose kind is only known at run time.
    all: RwLock<HashMap<TypeId, Vec<Entry>>>,
    /// By group and plural.
    writes: Mutex<BTreeMap<(String, String), Arc<Writes>>>,
    /// How long a write is waited for.
    deadline: Duration,
    cache: Option<InformerCache>,
    /// Group and kind of those that are never read from the cache.
    live: BTreeSet<(String, String)>,
}

struct Entry {
    form: Form,
    binding: Arc<dyn Any + Send + Sync>,
}

impl<K> Binding<K> {
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

    /// One less says that it is cached. Whether nobody does now.
    pub(super) fn undeclare(&self) -> bool {
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if *declared == 1 {
            self.writes.remove_reader(self.reader.swap(0, Ordering::Relaxed));
        }
        *declared = declared.saturating_sub(1);
        *declared == 0
    }

    /// As which reader it counts, if it is read from the cache.
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

    /// Of a type that knows its kind.
    pub(super) fn typed<K: Object>(&self) -> Arc<Binding<K>> {
        self.find(Form::Typed, |_| true).unwrap_or_else(|| self.of(&Kind::typed()))
    }

    /// Of the packed form of a kind, if somebody asked for it.
    pub(super) fn packed<K>(&self, kind: &Kind<K>) -> Option<Arc<Binding<Packed>>> {
        self.find(Form::Packed, |binding: &Binding<Packed>| binding.is_of(kind))
    }

    /// Of any kind.
    pub(super) fn of<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> Arc<Binding<K>> {
        if let Some(found) = self.find(kind.form(), |binding: &Binding<K>| binding.is_of(kind)) {
            return found;
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let entries = all.entry(TypeId::of::<K>()).or_default();
        // Somebody may have been faster.
        if let Some(found) = find(entries, kind.form(), |binding: &Binding<K>| binding.is_of(kind)) {
            return found;
        }
        let resource = kind.resource();
        let binding = Arc::new(Binding {
            kind: kind.clone(),
            writes: self.writes_of(resource),
            selection: self.cache.as_ref().map(|cache| Selection::new(cache, kind)).unwrap_or_default(),
            reader: AtomicU32::new(0),
            declared: Mutex::default(),
            is_live: self.live.contains(&(resource.group.clone(), resource.kind.clone())),
        });
        entries.push(Entry { form: kind.form(), binding: binding.clone() });
        binding
    }

    fn writes_of(&self, resource: &ApiResource) -> Arc<Writes> {
        let mut all = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = all.entry((resource.group.clone(), resource.plural.clone()));
        writes.or_insert_with(|| Arc::new(Writes::new(self.deadline))).clone()
    }

    fn find<K: Send + Sync + 'static>(
        &self,
        form: Form,
        is_it: impl Fn(&Binding<K>) -> bool,
    ) -> Option<Arc<Binding<K>>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        find(all.get(&TypeId::of::<K>())?, form, is_it)
    }
}

fn find<K: Send + Sync + 'static>(
    entries: &[Entry],
    form: Form,
    is_it: impl Fn(&Binding<K>) -> bool,
) -> Option<Arc<Binding<K>>> {
    let of_form = entries.iter().filter(|entry| entry.form == form);
    of_form.filter_map(|entry| entry.binding.clone().downcast::<Binding<K>>().ok()).find(|found| is_it(found))
}
