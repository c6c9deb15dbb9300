//! The known objects that a list still contains. Owns how they are remembered without a reference each.

use std::fmt;
use std::sync::Arc;

use bowline_machinery::ObjectKey;
use kube::Resource;

use crate::decode::Identity;
use crate::indexer::Snapshot;

/// The objects of a list that are unchanged since it began.
///
/// In a relist, these are nearly all objects. So they are remembered by their addresses, which the snapshot keeps
/// valid: a reference count each would cost as much as the lookup.
pub(crate) struct UnchangedObjects<K> {
    known: Snapshot<K>,
    /// Addresses; sorted and unique after [`finish`](Self::finish).
    places: Vec<usize>,
}

impl<K: Resource + Send + Sync + 'static> UnchangedObjects<K> {
    /// An empty set for a list that begins in this state.
    pub(crate) fn none_of(known: Snapshot<K>) -> Self {
        let places = Vec::with_capacity(known.len());
        Self { known, places }
    }

    /// Remembers the listed objects that are known with the same uid and version. Returns for each whether it was.
    /// `None` stands for an object without a readable identity.
    pub(crate) fn keep(&mut self, listed: &[Option<Identity<'_>>]) -> Vec<bool> {
        let keys = listed.iter().map(|identity| identity.as_ref().map_or(("", ""), Identity::place));
        let known = self.known.get_all_in(&keys.collect::<Vec<_>>());
        let is_kept = known.into_iter().zip(listed).map(|(known, identity)| {
            let (Some(known), Some(identity)) = (known, identity) else { return false };
            let is_same = identity.is_of(&**known);
            if is_same {
                self.places.push(place(known));
            }
            is_same
        });
        is_kept.collect()
    }

    /// Completes the set at the end of the list.
    #[expect(
        clippy::stable_sort_primitive,
        reason = "most were made in the order of a list: it sees what is sorted"
    )]
    pub(crate) fn finish(&mut self) {
        self.places.sort();
        self.places.dedup();
    }

    /// Removes an object that was deleted after the list began. Call after [`finish`](Self::finish).
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        if let Some(known) = self.known.get(key)
            && let Ok(at) = self.places.binary_search(&place(&known))
        {
            self.places.remove(at);
        }
    }

    /// Whether the known objects are still those from the start of the list.
    pub(crate) fn is_of(&self, known: &Snapshot<K>) -> bool {
        self.known.has_objects_of(known)
    }

    /// Whether this very object is in the set.
    pub(crate) fn has(&self, object: &Arc<K>) -> bool {
        self.places.binary_search(&place(object)).is_ok()
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The objects, ordered by key.
    pub(crate) fn list(&self) -> Vec<Arc<K>> {
        let mut objects = self.known.list();
        objects.retain(|object| self.has(object));
        objects
    }
}

fn place<K>(object: &Arc<K>) -> usize {
    Arc::as_ptr(object).addr()
}

impl<K> fmt::Debug for UnchangedObjects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnchangedObjects({} of {})", self.places.len(), self.known.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::Indexer;

    fn object(name: &str, uid: &str, version: &str) -> ConfigMap {
        let metadata = json!({"name": name, "namespace": "n", "uid": uid, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn identity<'a>(name: &'a str, uid: &'a str, version: &'a str) -> Identity<'a> {
        let (name, namespace, uid) = (name.into(), Some("n".into()), uid.into());
        Identity { name, namespace, uid, resource_version: version.into() }
    }

    fn known() -> Indexer<ConfigMap> {
        let indexer = Indexer::new();
        indexer.replace(["c", "a", "b"].map(|name| object(name, "u", "1")).to_vec());
        indexer
    }

    fn names(kept: &UnchangedObjects<ConfigMap>) -> Vec<String> {
        kept.list().iter().filter_map(|object| object.metadata.name.clone()).collect()
    }

    #[test]
    fn only_unchanged_objects_are_kept() {
        let mut kept = UnchangedObjects::none_of(known().snapshot());
        let listed = [
            Some(identity("b", "u", "1")),
            Some(identity("c", "u", "2")),
            Some(identity("a", "another", "1")),
            Some(identity("d", "u", "1")),
            None,
            Some(identity("a", "u", "1")),
        ];
        assert_eq!(kept.keep(&listed), [true, false, false, false, false, true]);
        // An object that is listed twice is kept once.
        assert_eq!(kept.keep(&[Some(identity("b", "u", "1"))]), [true]);
        kept.finish();
        assert_eq!((kept.len(), names(&kept)), (2, vec!["a".to_owned(), "b".to_owned()]));
        kept.forget(&"n/b".parse().unwrap());
        kept.forget(&"n/c".parse().unwrap());
        assert_eq!((kept.len(), names(&kept)), (1, vec!["a".to_owned()]));
    }

    #[test]
    fn a_write_to_the_indexer_is_noticed() {
        let indexer = known();
        let kept = UnchangedObjects::none_of(indexer.snapshot());
        indexer.set_resource_version(Some("7".to_owned()));
        assert!(kept.is_of(&indexer.snapshot()));
        let same = indexer.get_in("n", "a").map(|object| ConfigMap::clone(&object));
        indexer.add(same.unwrap());
        assert!(!kept.is_of(&indexer.snapshot()));
    }
}
