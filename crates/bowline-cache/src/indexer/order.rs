//! The order of lists: by namespace, then by name. Owns how it is come by without comparing keys by the hundred thousand.

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

/// Names are compared by the eight bytes after what all begin with, as one number, and themselves only where these are the
/// same: a number is at hand, a name is wherever its entry is.
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

/// How many bytes all names begin with.
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

/// The eight bytes behind the first ones, as a number that is ordered as they are, up to a shorter one that ends in zeros.
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
    }
}
