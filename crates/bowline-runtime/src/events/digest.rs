//! Digests of texts, to recognize equal texts without storing them.

use std::hash::{BuildHasher, Hash as _};

use bowline_clock::{HashState, Rng};

/// Digest of a list of texts, 128 bits. Collisions are practically impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digest(u64, u64);

/// Creates digests with random keys, so that collisions cannot be prepared.
pub(super) struct Digester(HashState, HashState);

/// A list of texts in progress.
pub(super) struct Texts(Hasher, Hasher);

type Hasher = <HashState as BuildHasher>::Hasher;

impl Digester {
    pub(super) fn new(rng: &Rng) -> Self {
        Self(rng.hash_state(), rng.hash_state())
    }

    /// Starts an empty list.
    pub(super) fn texts(&self) -> Texts {
        Texts(self.0.build_hasher(), self.1.build_hasher())
    }

    /// Digest of one text.
    pub(super) fn digest(&self, text: &str) -> Digest {
        let mut texts = self.texts();
        texts.push(text);
        texts.digest()
    }
}

impl Texts {
    /// Adds a text. Boundaries count: `a`, `bc` is another list than `ab`, `c`.
    pub(super) fn push(&mut self, text: &str) {
        text.hash(&mut self.0);
        text.hash(&mut self.1);
    }

    /// Digest of the list so far; more texts may follow.
    pub(super) fn digest(&self) -> Digest {
        use std::hash::Hasher as _;
        Digest(self.0.finish(), self.1.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn lists_with_other_texts_or_boundaries_have_other_digests() {
        let digester = Digester::new(&Rng::seeded(1));
        let digest = |list: &[&str]| {
            let mut texts = digester.texts();
            for text in list {
                texts.push(text);
            }
            let Digest(first, second) = texts.digest();
            (first, second)
        };
        let lists: [&[&str]; 8] =
            [&[], &[""], &["", ""], &["a", "bc"], &["ab", "c"], &["abc"], &["abc", ""], &["c", "ab"]];
        assert_eq!(lists.iter().map(|list| digest(list)).collect::<BTreeSet<_>>().len(), lists.len());
        assert_eq!(digest(&["a", "bc"]), digest(&["a", "bc"]));
        assert_eq!(digester.digest("abc"), {
            let mut texts = digester.texts();
            texts.push("abc");
            texts.digest()
        });
        let (first, second) = digest(&["abc"]);
        assert_ne!(first, second, "the halves are two digests, not one");
    }
}
