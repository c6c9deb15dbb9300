//! The order of lists: by namespace, then by name. Owns how it is come by without comparing keys by the hundred thousand.

use bowline_clock::{HashMap, HashState};

use super::entry::Entry;

/// The entries, ordered by key.
///
/// Entries are grouped by namespace, and in a group ordered by the sixteen bytes after what all its names begin with,
/// as one number; names are compared only where these are the same.
pub(super) fn sorted<K>(entries: Vec<&Entry<K>>) -> Vec<&Entry<K>> {
    let mut namespaces = HashMap::<&str, Vec<(u128, &Entry<K>)>>::with_hasher(HashState::for_lookups());
    let total = entries.len();
    for entry in entries {
        namespaces.entry(entry.key.namespace().unwrap_or_default()).or_default().push((0, entry));
    }
    let mut namespaces: Vec<_> = namespaces.into_iter().collect();
    namespaces.sort_unstable_by_key(|(namespace, _)| *namespace);
    let mut sorted = Vec::with_capacity(total);
    for (_, mut group) in namespaces {
        let common = common(&group);
        for (head, entry) in &mut group {
            *head = head_of(&entry.key.name().as_bytes()[common..]);
        }
        group.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.key.name().cmp(b.1.key.name())));
        sorted.extend(group.into_iter().map(|(_, entry)| entry));
    }
    sorted
}

/// How many bytes all names begin with.
fn common<K>(group: &[(u128, &Entry<K>)]) -> usize {
    let Some((_, first)) = group.first() else { return 0 };
    let first = first.key.name().as_bytes();
    group.iter().fold(first.len(), |common, (_, entry)| {
        let pairs = entry.key.name().bytes().zip(&first[..common]);
        pairs.take_while(|(a, b)| a == *b).count()
    })
}

/// The first sixteen bytes as a number that is ordered as they are, up to a shorter one that ends in zeros.
fn head_of(bytes: &[u8]) -> u128 {
    let mut head = [0; 16];
    let length = bytes.len().min(head.len());
    head[..length].copy_from_slice(&bytes[..length]);
    u128::from_be_bytes(head)
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
        ) {
            let entry = |(namespace, name): &(String, String)| Entry {
                hash: 0, key: ObjectKey::new(namespace, name), object: Arc::new(()),
            };
            let entries: Vec<_> = parts.iter().map(entry).collect();
            let found: Vec<_> = sorted(entries.iter().collect()).into_iter().map(|entry| &entry.key).collect();
            let mut expected: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
