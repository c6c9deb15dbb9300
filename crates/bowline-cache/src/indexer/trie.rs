//! A persistent hash trie: a set with cheap copies that share their common parts. Owns the position of entries and the
//! copies made by a change. The user defines entries, and chooses between entries with equal hashes.

use std::array;
use std::iter::once;
use std::mem;
use std::slice;
use std::sync::Arc;

/// An entry of a [`Trie`].
pub(super) trait Hashed: Clone {
    /// Maximum entries of a leaf. A larger number makes the trie smaller and changes more expensive, because a change
    /// copies one leaf.
    const LEAF: usize;

    /// The hash of the entry; constant.
    fn hash(&self) -> u64;
}

/// Bits of the hash per level, from the lowest up. A change copies one branch per level with `WIDTH` references: narrow
/// branches make changes cheap, wide ones make the trie flat.
const BITS: u32 = 3;
const WIDTH: usize = 1 << BITS;

/// A set of entries by hash. Any number of entries may have the same hash.
///
/// A clone costs as much as one of an `Arc`. A change copies the path from the root to one leaf. Nodes that no clone
/// shares are changed in place, so later changes nearby cost less.
#[derive(Clone)]
pub(super) struct Trie<E> {
    root: Node<E>,
    len: usize,
}

/// The depth of a leaf depends on the number of entries. Children of a branch may be empty leaves.
#[derive(Clone)]
enum Node<E> {
    Leaf(Arc<[E]>),
    Branch(Arc<[Self; WIDTH]>),
}

impl<E: Hashed> Trie<E> {
    pub(super) fn new() -> Self {
        Self { root: Node::Leaf(Arc::default()), len: 0 }
    }

    /// Builds a trie from distinct entries.
    pub(super) fn of_distinct(entries: Vec<E>) -> Self {
        let len = entries.len();
        Self { root: Node::build(entries, 0), len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether both are clones without a change in between.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Node::Leaf(one), Node::Leaf(other)) => Arc::ptr_eq(one, other),
            (Node::Branch(one), Node::Branch(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The entries with this hash.
    #[inline]
    pub(super) fn at(&self, hash: u64) -> impl Iterator<Item = &E> {
        let (mut node, mut rest) = (&self.root, hash);
        let leaf = loop {
            match node {
                Node::Leaf(entries) => break entries,
                Node::Branch(children) => node = &children[slot(rest)],
            }
            rest >>= BITS;
        };
        leaf.iter().filter(move |entry| entry.hash() == hash)
    }

    /// For each hash, the leaf that holds its entries.
    ///
    /// A lookup waits for memory on each level; here the waits of all hashes overlap.
    pub(super) fn leaves(&self, hashes: &[u64]) -> Vec<&[E]> {
        let mut ways: Vec<_> = hashes.iter().map(|hash| (&self.root, *hash)).collect();
        let mut is_moving = true;
        while mem::take(&mut is_moving) {
            for (node, rest) in &mut ways {
                if let Node::Branch(children) = node {
                    *node = &children[slot(*rest)];
                    *rest >>= BITS;
                    is_moving = true;
                }
            }
        }
        ways.into_iter().map(|(node, _)| node.entries()).collect()
    }

    /// The entry with this hash that satisfies `is_it`.
    #[inline]
    pub(super) fn get(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        self.at(hash).find(|entry| is_it(entry))
    }

    /// Same as [`get`](Self::get), mutable. The change must keep the hash.
    pub(super) fn get_mut(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        // Look up first, to avoid needless copies of the path.
        self.get(hash, &is_it)?;
        let (mut node, mut rest) = (&mut self.root, hash);
        loop {
            match node {
                Node::Leaf(entries) => {
                    let place = place(entries, hash, is_it)?;
                    return Some(&mut Arc::make_mut(entries)[place]);
                }
                Node::Branch(children) => node = &mut Arc::make_mut(children)[slot(rest)],
            }
            rest >>= BITS;
        }
    }

    /// Inserts an entry. Replaces and returns the one with its hash that satisfies `is_it`.
    pub(super) fn insert(&mut self, entry: E, is_it: impl Fn(&E) -> bool) -> Option<E> {
        let hash = entry.hash();
        let (mut node, mut depth) = (&mut self.root, 0);
        loop {
            match node {
                Node::Branch(children) => {
                    node = &mut Arc::make_mut(children)[slot_at(hash, depth)];
                    depth += 1;
                }
                Node::Leaf(entries) => {
                    if let Some(place) = place(entries, hash, is_it) {
                        return Some(mem::replace(&mut Arc::make_mut(entries)[place], entry));
                    }
                    let all = entries.iter().cloned().chain(once(entry));
                    if entries.len() < E::LEAF {
                        *entries = all.collect();
                    } else {
                        *node = Node::build(all.collect(), depth);
                    }
                    self.len += 1;
                    return None;
                }
            }
        }
    }

    /// Removes the entry with this hash that satisfies `is_it`.
    pub(super) fn remove(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<E> {
        // Look up first, to avoid needless copies of the path.
        self.get(hash, &is_it)?;
        let removed = self.root.remove(hash, 0, &is_it);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// All entries, unordered.
    pub(super) fn iter(&self) -> Iter<'_, E> {
        Iter { above: Vec::new(), nodes: slice::from_ref(&self.root).iter(), leaf: [].iter() }
    }
}

impl<E: Hashed> Node<E> {
    /// Builds the node at a depth with these entries.
    fn build(entries: Vec<E>, depth: u32) -> Self {
        if entries.len() <= E::LEAF || is_lowest(depth) {
            return Self::Leaf(entries.into());
        }
        let mut slots: [Vec<E>; WIDTH] = array::from_fn(|_| Vec::new());
        for entry in entries {
            slots[slot_at(entry.hash(), depth)].push(entry);
        }
        Self::Branch(Arc::new(slots.map(|entries| Self::build(entries, depth + 1))))
    }

    /// The entries of a leaf.
    fn entries(&self) -> &[E] {
        match self {
            Self::Leaf(entries) => entries,
            Self::Branch(_) => &[],
        }
    }

    fn remove(&mut self, hash: u64, depth: u32, is_it: &impl Fn(&E) -> bool) -> Option<E> {
        match self {
            Self::Leaf(entries) => {
                let place = place(entries, hash, is_it)?;
                let removed = entries[place].clone();
                *entries = entries[..place].iter().chain(&entries[place + 1..]).cloned().collect();
                Some(removed)
            }
            Self::Branch(children) => {
                let children = Arc::make_mut(children);
                let removed = children[slot_at(hash, depth)].remove(hash, depth + 1, is_it)?;
                if let Some(leaf) = Self::joined(children) {
                    *self = leaf;
                }
                Some(removed)
            }
        }
    }

    /// The leaf to replace a branch with few entries in leaves. The threshold is half of a full leaf, so that an entry
    /// that comes and goes does not split and join each time.
    fn joined(children: &[Self; WIDTH]) -> Option<Self> {
        let mut total = 0;
        for child in children {
            match child {
                Self::Leaf(entries) => total += entries.len(),
                Self::Branch(_) => return None,
            }
        }
        if total > E::LEAF / 2 {
            return None;
        }
        let mut all = Vec::with_capacity(total);
        for child in children {
            if let Self::Leaf(entries) = child {
                all.extend_from_slice(entries);
            }
        }
        Some(Self::Leaf(all.into()))
    }
}

/// Index of the child, by the lowest bits that are left.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are what is wanted")]
fn slot(rest: u64) -> usize {
    rest as usize % WIDTH
}

fn slot_at(hash: u64, depth: u32) -> usize {
    slot(hash >> (depth * BITS))
}

/// Whether all bits of the hash are used at this depth, so that the node must be a leaf.
fn is_lowest(depth: u32) -> bool {
    depth * BITS >= u64::BITS
}

fn place<E: Hashed>(entries: &[E], hash: u64, is_it: impl Fn(&E) -> bool) -> Option<usize> {
    entries.iter().position(|entry| entry.hash() == hash && is_it(entry))
}

/// Iterator over the entries of a [`Trie`], unordered.
pub(super) struct Iter<'a, E> {
    /// Remaining nodes of the levels above.
    above: Vec<slice::Iter<'a, Node<E>>>,
    nodes: slice::Iter<'a, Node<E>>,
    leaf: slice::Iter<'a, E>,
}

impl<'a, E> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(entry);
            }
            match self.nodes.next() {
                Some(Node::Leaf(entries)) => self.leaf = entries.iter(),
                Some(Node::Branch(children)) => {
                    self.above.push(mem::replace(&mut self.nodes, children.iter()));
                }
                None => self.nodes = self.above.pop()?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Pair(u64, u16, Arc<u16>);

    impl Hashed for Pair {
        const LEAF: usize = 4;

        fn hash(&self) -> u64 {
            self.0
        }
    }

    fn check(trie: &Trie<Pair>, model: &BTreeMap<u16, Pair>) {
        let mut all: Vec<_> = trie.iter().cloned().collect();
        all.sort_by_key(|pair| pair.1);
        assert_eq!(all, model.values().cloned().collect::<Vec<_>>());
        assert_eq!((trie.len(), trie.is_empty()), (model.len(), model.is_empty()));
        for pair in model.values() {
            assert_eq!(trie.get(pair.0, |other| other.1 == pair.1), Some(pair));
            let same = model.values().filter(|other| other.0 == pair.0).count();
            assert_eq!(trie.at(pair.0).count(), same);
        }
        let hashes: Vec<_> = model.values().map(|pair| pair.0).collect();
        for (leaf, pair) in trie.leaves(&hashes).into_iter().zip(model.values()) {
            assert!(leaf.contains(pair));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_trie_is_a_set_whatever_the_hashes(
            steps in vec((0..200_u16, any::<u16>(), 0..8_u8), 0..300),
            kept in prop_oneof![Just(u64::MAX), Just(0), Just(7), Just(7 << 61), Just(1 << 63)],
        ) {
            let hash = |key: u16| (u64::from(key) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) & kept;
            let (mut trie, mut model, mut earlier) = (Trie::new(), BTreeMap::new(), Vec::new());
            for (key, value, action) in steps {
                let is_it = |pair: &Pair| pair.1 == key;
                match action {
                    0..4 => {
                        let pair = Pair(hash(key), key, Arc::new(value));
                        assert_eq!(trie.insert(pair.clone(), is_it), model.insert(key, pair));
                    }
                    4..6 => assert_eq!(trie.remove(hash(key), is_it), model.remove(&key)),
                    6 => {
                        let found = trie.get_mut(hash(key), is_it).map(|pair| pair.2 = Arc::new(value));
                        let expected = model.get_mut(&key).map(|pair| pair.2 = Arc::new(value));
                        assert_eq!(found, expected);
                    }
                    _ => earlier.push((trie.clone(), model.clone())),
                }
                check(&trie, &model);
            }
            check(&Trie::of_distinct(model.values().cloned().collect()), &model);
            for (trie, model) in earlier {
                check(&trie, &model);
            }
        }
    }

    fn filled(count: u16) -> Trie<Pair> {
        let pair = |key| Pair((u64::from(key) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15), key, Arc::new(0));
        let mut trie = Trie::new();
        for key in 0..count {
            trie.insert(pair(key), |other| other.1 == key);
        }
        trie
    }

    #[test]
    fn a_trie_from_which_everything_is_removed_is_one_leaf_again() {
        let mut trie = filled(1000);
        assert!(matches!(trie.root, Node::Branch(_)));
        for pair in trie.clone().iter() {
            trie.remove(pair.0, |other| other.1 == pair.1);
        }
        assert!(matches!(&trie.root, Node::Leaf(entries) if entries.is_empty()));
    }

    #[test]
    fn a_change_copies_one_leaf_and_shares_the_others() {
        let mut trie = filled(1000);
        let before = trie.clone();
        let shared = |trie: &Trie<Pair>| trie.iter().filter(|pair| Arc::strong_count(&pair.2) > 1).count();
        assert_eq!(shared(&before), 0);
        let first = before.iter().next().cloned();
        let first = first.unwrap();
        trie.remove(first.0, |other| other.1 == first.1);
        // The entries of the copied leaf are in both tries; this test holds one of them too.
        assert!(shared(&before) <= Pair::LEAF, "{} entries were copied", shared(&before));
    }

    #[test]
    fn unshared_nodes_are_changed_in_place() {
        let mut trie = filled(1000);
        let place = |trie: &Trie<Pair>| trie.iter().next().map(std::ptr::from_ref);
        let before = place(&trie);
        let first = trie.iter().next().cloned().unwrap();
        trie.insert(Pair(first.0, first.1, Arc::new(7)), |other| other.1 == first.1);
        assert_eq!(place(&trie), before);
    }
}
