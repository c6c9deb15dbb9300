//! The order of lists: by namespace, then by name. Owns a sort that avoids most comparisons of keys.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use bowline_clock::{HashMap, HashState};

use super::entry::Entry;

/// The entries, ordered by key.
pub(super) fn sorted<K>(mut entries: Vec<&Entry<K>>) -> Vec<&Entry<K>> {
    let Some(first) = entries.first().map(|entry| namespace(entry)) else { return entries };
    if entries.iter().all(|entry| namespace(entry) == first) {
        sort_by_name(&mut entries);
        return entries;
    }
    let mut namespaces = HashMap::<&str, Vec<&Entry<K>>>::with_hasher(HashState::for_lookups());
    let total = entries.len();
    for entry in entries {
        namespaces.entry(namespace(entry)).or_default().push(entry);
    }
    let mut namespaces: Vec<_> = namespaces.into_iter().collect();
    namespaces.sort_unstable_by_key(|(namespace, _)| *namespace);
    let mut sorted = Vec::with_capacity(total);
    for (_, mut group) in namespaces {
        sort_by_name(&mut group);
        sorted.append(&mut group);
    }
    sorted
}

/// The first `limit` entries in the order of keys. It holds no more than that many at once, and sorts only those.
pub(super) fn first<'a, K>(entries: impl Iterator<Item = &'a Entry<K>>, limit: usize) -> Vec<&'a Entry<K>> {
    if limit == 0 {
        return Vec::new();
    }
    let mut kept = BinaryHeap::new();
    for entry in entries {
        if kept.len() < limit {
            kept.push(ByKey(entry));
        } else if let Some(mut last) = kept.peek_mut()
            && entry.key < last.0.key
        {
            *last = ByKey(entry);
        }
    }
    sorted(kept.into_iter().map(|entry| entry.0).collect())
}

/// An entry, ordered by its key.
struct ByKey<'a, K>(&'a Entry<K>);

impl<K> Ord for ByKey<'_, K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl<K> PartialOrd for ByKey<'_, K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for ByKey<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K> Eq for ByKey<'_, K> {}

/// Compares the eight bytes after the common prefix as one number, and the names only if these are equal. The number is
/// local, while a name is a memory access away.
fn sort_by_name<K>(entries: &mut [&Entry<K>]) {
    let common = common(entries);
    let mut heads: Vec<_> = entries.iter().map(|entry| (head_of(entry.key.name(), common), *entry)).collect();
    heads.sort_unstable_by(|(head, entry), (other_head, other)| {
        head.cmp(other_head).then_with(|| entry.key.name().cmp(other.key.name()))
    });
    for (place, (_, entry)) in entries.iter_mut().zip(heads) {
        *place = entry;
    }
}

fn namespace<K>(entry: &Entry<K>) -> &str {
    entry.key.namespace().unwrap_or_default()
}

/// Length of the common prefix of all names.
fn common<K>(entries: &[&Entry<K>]) -> usize {
    let Some(first) = entries.first() else { return 0 };
    let first = first.key.name().as_bytes();
    entries.iter().fold(first.len(), |common, entry| {
        let name = entry.key.name().as_bytes();
        if name.get(..common) == Some(&first[..common]) {
            return common;
        }
        name.iter().zip(&first[..common]).take_while(|(a, b)| a == b).count()
    })
}

/// The eight bytes after the common prefix, as a number with the same order. A shorter name is padded with zeros, so
/// that ties are possible.
fn head_of(name: &str, common: usize) -> u64 {
    let bytes = &name.as_bytes()[common..];
    if let Some(head) = bytes.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bowline_machinery::ObjectKey;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_ordered_as_their_keys_are(
            parts in vec(("[ab]{0,2}", "(x|long-name-that-all-have-)?[a\0é]{0,18}"), 0..60),
            are_in_one in any::<bool>(),
        ) {
            let entry = |(namespace, name): &(String, String)| Entry {
                hash: 0,
                key: ObjectKey::new(if are_in_one { "all" } else { namespace }, name),
                object: Arc::new(()),
            };
            let entries: Vec<_> = parts.iter().map(entry).collect();
            let found: Vec<_> = sorted(entries.iter().collect()).into_iter().map(|entry| &entry.key).collect();
            let mut expected: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
            expected.sort();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_first_entries_are_the_start_of_all(
            parts in vec(("[ab]{0,2}", "[a-c]{0,4}"), 0..60),
            limit in 0..70_usize,
        ) {
            let entry = |(namespace, name): &(String, String)| Entry {
                hash: 0,
                key: ObjectKey::new(namespace, name),
                object: Arc::new(()),
            };
            let entries: Vec<_> = parts.iter().map(entry).collect();
            let found: Vec<_> = first(entries.iter(), limit).into_iter().map(|entry| &entry.key).collect();
            let mut expected: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
            expected.sort();
            expected.truncate(limit);
            prop_assert_eq!(found, expected);
        }
    }
}
