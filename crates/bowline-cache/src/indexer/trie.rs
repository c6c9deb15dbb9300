//! A persistent hash trie: a set whose copies are cheap and share what they have in common. Owns where entries stand and
//! what is copied by a change; what an entry is, and which of several entries with one hash is meant, is its user's.

use std::array;
use std::iter::once;
use std::mem;
use std::slice;
use std::sync::Arc;

/// What a [`Trie`] holds.
pub(super) trait Hashed: Clone {
    /// How many entries stand side by side before they are spread over a branch: more make the trie smaller and changes
    /// more expensive, because a change copies one leaf.
    const LEAF: usize;

    /// Where the entry stands. It never changes.
    fn hash(&self) -> u64;
}

/// Bits of the hash that a branch looks at, from the lowest up. A change copies one branch on each level and so counts
/// up the references of `WIDTH` children on each: narrow branches make cheap changes, wide ones a low trie.
const BITS: u32 = 3;
const WIDTH: usize = 1 << BITS;

/// A set of entries by their hash, any number of which may have the same.
///
/// A clone costs as much as one of an `Arc`. A change copies the way from the root to one leaf, except for nodes that no
/// clone shares, which are changed in place: after the first change to a clone, others nearby cost less.
#[derive(Clone)]
pub(super) struct Trie<E> {
    root: Node<E>,
    len: usize,
}

/// Leaves are as low as their number of entries asks for; the children of a branch may be empty leaves.
#[derive(Clone)]
enum Node<E> {
    Leaf(Arc<[E]>),
    Branch(Arc<[Self; WIDTH]>),
}

impl<E: Hashed> Trie<E> {
    pub(super) fn new() -> Self {
        Self { root: Node::Leaf(Arc::default()), len: 0 }
    }

    /// Of entries no two of which are the same one.
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

    /// Whether this is the other one, or a clone of it that nobody has changed since.
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

    /// For each hash, the leaf where entries with it would be.
    ///
    /// Looking up one waits for memory on each level; here all wait together.
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

    /// The one with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn get(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&E> {
        self.at(hash).find(|entry| is_it(entry))
    }

    /// The same, to be changed in ways that leave its hash as it is.
    pub(super) fn get_mut(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<&mut E> {
        // Looking first: a way is not copied for nothing.
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

    /// Puts an entry in, in the place of the one with its hash for which `is_it` holds, which is returned.
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

    /// Takes out the entry with this hash for which `is_it` holds.
    pub(super) fn remove(&mut self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<E> {
        // Looking first: a way is not copied for nothing.
        self.get(hash, &is_it)?;
        let removed = self.root.remove(hash, 0, &is_it);
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// All entries, in no order.
    pub(super) fn iter(&self) -> Iter<'_, E> {
        Iter { above: Vec::new(), nodes: slice::from_ref(&self.root).iter(), leaf: [].iter() }
    }
}

impl<E: Hashed> Node<E> {
    /// The node at a depth that holds these entries.
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

    /// Those of a leaf.
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

    /// The leaf instead of a branch whose children are leaves with little in them; half of what a leaf can hold, so that
    /// an entry that comes and goes does not build and join a branch each time.
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

/// Which child of a branch, by what of the hash the branches above have not looked at.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are what is wanted")]
fn slot(rest: u64) -> usize {
    rest as usize % WIDTH
}

fn slot_at(hash: u64, depth: u32) -> usize {
    slot(hash >> (depth * BITS))
}

/// Whether a node at this depth has no bits left to tell entries apart by, so that it is a leaf whatever it holds.
fn is_lowest(depth: u32) -> bool {
    depth * BITS >= u64::BITS
}

fn place<E: Hashed>(entries: &[E], hash: u64, is_it: impl Fn(&E) -> bool) -> Option<usize> {
    entries.iter().position(|entry| entry.hash() == hash && is_it(entry))
}

/// The entries of a [`Trie`], in no order.
pub(super) struct Iter<'a, E> {
    /// What is left of the nodes above.
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
        // Those of the leaf that was copied are in both, one entry of which this test holds too.
        assert!(shared(&before) <= Pair::LEAF, "{} entries were copied", shared(&before));
    }

    #[test]
    fn what_nobody_shares_is_changed_in_place() {
        let mut trie = filled(1000);
        let place = |trie: &Trie<Pair>| trie.iter().next().map(std::ptr::from_ref);
        let before = place(&trie);
        let first = trie.iter().next().cloned().unwrap();
        trie.insert(Pair(first.0, first.1, Arc::new(7)), |other| other.1 == first.1);
        assert_eq!(place(&trie), before);
    }
}
