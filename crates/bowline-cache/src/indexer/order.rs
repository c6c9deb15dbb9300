//! The order of lists: by namespace, then by name. Owns how it is come by without comparing keys by the hundred thousand.

use std::cmp::Ordering;

use bowline_clock::{HashMap, HashState};

use super::entry::Entry;

/// Fewer entries than this are not grouped.
const FEW: usize = 512;

/// The entries, ordered by key.
///
/// Texts are compared by the sixteen bytes after what all begin with, as one number, and themselves only where these are
/// the same. Many entries are grouped by namespace before.
pub(super) fn sorted<K>(mut entries: Vec<&Entry<K>>) -> Vec<&Entry<K>> {
    if entries.len() < FEW {
        sort_few(&mut entries);
        return entries;
    }
    let mut namespaces = HashMap::<&str, Vec<(u128, &Entry<K>)>>::with_hasher(HashState::for_lookups());
    let total = entries.len();
    for entry in entries {
        namespaces.entry(namespace(entry)).or_default().push((0, entry));
    }
    let mut namespaces: Vec<_> = namespaces.into_iter().collect();
    namespaces.sort_unstable_by_key(|(namespace, _)| *namespace);
    let mut sorted = Vec::with_capacity(total);
    for (_, mut group) in namespaces {
        let common = common(group.iter().map(|(_, entry)| entry.key.name()));
        for (head, entry) in &mut group {
            *head = head_of(entry.key.name(), common);
        }
        group.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.key.name().cmp(b.1.key.name())));
        sorted.extend(group.into_iter().map(|(_, entry)| entry));
    }
    sorted
}

fn sort_few<K>(entries: &mut [&Entry<K>]) {
    let before = common(entries.iter().map(|entry| namespace(entry)));
    let in_name = common(entries.iter().map(|entry| entry.key.name()));
    let heads = |entry: &&Entry<K>| (head_of(namespace(entry), before), head_of(entry.key.name(), in_name));
    let mut heads: Vec<_> = entries.iter().map(|entry| (heads(entry), *entry)).collect();
    heads.sort_unstable_by(|((namespace, name), a), ((other_namespace, other_name), b)| {
        // Texts whose numbers are the same may differ all the same, and what follows them does not count then.
        match namespace.cmp(other_namespace) {
            Ordering::Equal if self::namespace(a) == self::namespace(b) => {
                name.cmp(other_name).then_with(|| a.key.name().cmp(b.key.name()))
            }
            Ordering::Equal => self::namespace(a).cmp(self::namespace(b)),
            order => order,
        }
    });
    for (place, (_, entry)) in entries.iter_mut().zip(heads) {
        *place = entry;
    }
}

fn namespace<K>(entry: &Entry<K>) -> &str {
    entry.key.namespace().unwrap_or_default()
}

/// How many bytes all texts begin with.
fn common<'a>(mut texts: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    let first = first.as_bytes();
    texts.fold(first.len(), |common, text| {
        let text = text.as_bytes();
        if text.get(..common) == Some(&first[..common]) {
            return common;
        }
        text.iter().zip(&first[..common]).take_while(|(a, b)| a == b).count()
    })
}

/// The sixteen bytes behind the first ones, as a number that is ordered as they are, up to a shorter one that ends in zeros.
fn head_of(text: &str, common: usize) -> u128 {
    let bytes = &text.as_bytes()[common..];
    if let Some(head) = bytes.first_chunk() {
        return u128::from_be_bytes(*head);
    }
    let mut head = [0; 16];
    head[..bytes.len()].copy_from_slice(bytes);
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
            // Few at first, then many.
            for times in [1, FEW] {
                let many: Vec<_> = (0..times).flat_map(|_| &entries).collect();
                let found: Vec<_> = sorted(many.clone()).into_iter().map(|entry| &entry.key).collect();
                let mut expected: Vec<_> = many.iter().map(|entry| &entry.key).collect();
                expected.sort();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
