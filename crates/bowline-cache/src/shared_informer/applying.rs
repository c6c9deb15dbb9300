//! Computes the next state of the indexer and the events for handlers from deltas. Compares known objects with received
//! ones; has no lock and no task.

use std::sync::Arc;

use bowline_clock::{HashSet, HashState};
use kube::Resource;

use crate::delta_fifo::{Replaced, UndecodableRef};
use crate::event::{Deleted, Event};
use crate::indexer::{Change, Snapshot};
use crate::key::object_key;
use crate::namespaces::Namespaces;
use bowline_machinery::ObjectKey;

/// Applies deltas one after the other.
pub(super) struct Applying<'a, K> {
    pub(super) next: &'a mut Snapshot<K>,
    /// Events for handlers, in order.
    pub(super) events: Vec<Event<K>>,
}

impl<K: Resource + Send + Sync + 'static> Applying<'_, K> {
    /// Applies an object that exists. Returns whether this is news.
    pub(super) fn applied(&mut self, object: &Arc<K>) -> bool {
        let key = object_key(&**object);
        match self.next.get(&key) {
            None => self.add(key, object.clone(), false),
            // Also an old version of an earlier object with the same name.
            Some(old) if is_not_newer(&*old, &**object) => return false,
            Some(old) if is_recreated(&*old, &**object) => {
                self.remove(&key, old, true);
                self.add(key, object.clone(), false);
            }
            Some(old) => self.update(key, old, object.clone()),
        }
        true
    }

    /// Applies a deletion; `object` is the final state. Returns whether this is news.
    pub(super) fn deleted(&mut self, object: &Arc<K>) -> bool {
        let key = object_key(&**object);
        match self.next.get(&key) {
            // Another object has the name now; the deletion was delivered with that one's addition.
            Some(known) if is_recreated(&*known, &**object) => false,
            // The object exists again: a watch that restarts too early repeats an old deletion.
            Some(known) if is_older(&**object, &*known) => false,
            Some(_) => {
                self.remove(&key, object.clone(), false);
                true
            }
            // No handler knows the object.
            None => false,
        }
    }

    /// Applies the deletion of an object whose final state could not be decoded.
    pub(super) fn gone(&mut self, object: &UndecodableRef) {
        if let Some(known) = self.next.get(&object.key)
            && !is_another(&*known, object)
        {
            self.remove(&object.key, known, true);
        }
    }

    /// Applies a complete list of some namespaces. Handlers see deletions before additions and updates.
    pub(super) fn replaced(&mut self, replaced: Replaced<K>, namespaces: &Namespaces, is_first: bool) {
        let Replaced { mut kept, mut items, unreadable, .. } = replaced;
        if let Some(earlier) = kept.take_if(|kept| !kept.is_of(self.next)) {
            // The known objects changed after the list began: compare the unchanged ones one by one.
            items.splice(0..0, earlier.list());
        }
        if self.next.is_empty() && unreadable.is_empty() && self.filled(&items, is_first) {
            return;
        }
        // The usual result of a relist.
        let has_all = kept.as_ref().is_some_and(|kept| kept.len() == self.next.len());
        let mut there: HashSet<ObjectKey> =
            HashSet::with_capacity_and_hasher(items.len(), HashState::for_lookups());
        let mut came = Vec::new();
        // If an object is listed twice, the later one counts.
        for object in items.into_iter().rev() {
            let key = object_key(&*object);
            if !there.insert(key.clone()) {
                continue;
            }
            match self.next.get(&key) {
                Some(old) if Arc::ptr_eq(&old, &object) || is_same(&*old, &*object) => {}
                Some(old) if is_recreated(&*old, &*object) => {
                    self.remove(&key, old, true);
                    came.push((key, None, object));
                }
                old => came.push((key, old, object)),
            }
        }
        came.reverse();
        // An undecodable object keeps its last known state, but not the state of a predecessor with the same name.
        for object in unreadable {
            if self.next.get(&object.key).is_none_or(|known| !is_another(&*known, &object)) {
                there.insert(object.key);
            }
        }
        if !has_all {
            let is_kept = |object| kept.as_ref().is_some_and(|kept| kept.has(object));
            let is_there = |key: &ObjectKey, object| is_kept(object) || there.contains(key);
            let is_gone = |key: &ObjectKey, object| namespaces.contains(key) && !is_there(key, object);
            let gone = self.next.iter().filter(|(key, object)| is_gone(key, object));
            let mut gone: Vec<_> = gone.map(|(key, object)| (key.clone(), object.clone())).collect();
            gone.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            for (key, object) in gone {
                self.remove(&key, object, true);
            }
        }
        for (key, old, object) in came {
            match old {
                None => self.add(key, object, is_first),
                Some(old) => self.update(key, old, object),
            }
        }
    }

    /// Adds objects to an empty indexer. Returns false, without a change, if an object is listed twice.
    fn filled(&mut self, items: &[Arc<K>], is_first: bool) -> bool {
        let objects: Vec<_> = items.iter().map(|object| (object_key(&**object), object.clone())).collect();
        if !self.next.fill(&objects) {
            return false;
        }
        let added = objects.into_iter().map(|(_, object)| Event::Add { object, in_initial_list: is_first });
        self.events.extend(added);
        true
    }

    fn add(&mut self, key: ObjectKey, object: Arc<K>, in_initial_list: bool) {
        self.next.apply(Change::Put(key, object.clone()));
        self.events.push(Event::Add { object, in_initial_list });
    }

    fn update(&mut self, key: ObjectKey, old: Arc<K>, new: Arc<K>) {
        self.next.apply(Change::Put(key, new.clone()));
        self.events.push(Event::Update { old, new });
    }

    fn remove(&mut self, key: &ObjectKey, object: Arc<K>, final_state_unknown: bool) {
        self.next.apply(Change::Remove(key.clone()));
        self.events.push(Event::Delete(Deleted { object, final_state_unknown }));
    }
}

/// Whether one object of this name was replaced by another. The uid of an object that a cache was filled with may be
/// unknown.
fn is_recreated<K: Resource>(old: &K, new: &K) -> bool {
    matches!((&old.meta().uid, &new.meta().uid), (Some(old), Some(new)) if old != new)
}

/// Whether the reference means another object of the same name.
fn is_another<K: Resource>(known: &K, object: &UndecodableRef) -> bool {
    matches!((&known.meta().uid, &object.uid), (Some(known), Some(uid)) if known != uid)
}

pub(super) fn is_same<K: Resource>(old: &K, new: &K) -> bool {
    old.meta().uid == new.meta().uid
        && old.meta().resource_version.is_some()
        && old.meta().resource_version == new.meta().resource_version
}

/// Whether the change was seen before: the same version or an older one, as a watch that restarts too early may send.
/// Versions are ordered only if they are numbers.
fn is_not_newer<K: Resource>(old: &K, new: &K) -> bool {
    is_same(old, new) || matches!((number(old), number(new)), (Some(old), Some(new)) if new <= old)
}

/// Whether `one` is older than `other`. False if versions are not numbers.
fn is_older<K: Resource>(one: &K, other: &K) -> bool {
    matches!((number(one), number(other)), (Some(one), Some(other)) if one < other)
}

fn number<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}
