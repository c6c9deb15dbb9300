//! Hash maps whose order is random in production and repeats in a simulation.

use std::hash::{BuildHasher, Hasher};

use foldhash::SharedSeed;
use foldhash::quality::{FoldHasher, SeedableRandomState};

/// A map hashed with a [`HashState`]. Its iteration order must not be visible: use a `BTreeMap` where it is.
#[expect(clippy::disallowed_types, reason = "this is the allowed form: it has no random state of its own")]
pub type HashMap<K, V> = std::collections::HashMap<K, V, HashState>;

/// A set hashed with a [`HashState`]. Its iteration order must not be visible: use a `BTreeSet` where it is.
#[expect(clippy::disallowed_types, reason = "this is the allowed form: it has no random state of its own")]
pub type HashSet<T> = std::collections::HashSet<T, HashState>;

/// Builds hashers from a seed that [`Rng::hash_state`](crate::Rng::hash_state) drew.
///
/// Fast, and seeded per map, so that whoever chooses the keys cannot prepare collisions in advance. It has no
/// `Default` on purpose: a map that is ever iterated is made with
/// `HashMap::with_hasher(clock.rng().hash_state())`, one that is only looked up in may be made with
/// [`HashState::for_lookups`].
#[derive(Clone, Debug)]
pub struct HashState(SeedableRandomState);

impl HashState {
    /// A random state, in a simulation too: only for maps whose order cannot be seen, because nothing iterates
    /// over them or because the order does not matter to what the loop does.
    #[must_use]
    pub fn for_lookups() -> Self {
        Self(SeedableRandomState::random())
    }

    pub(crate) fn seeded(seed: u64, shared: &'static SharedSeed) -> Self {
        Self(SeedableRandomState::with_seed(seed, shared))
    }
}

impl BuildHasher for HashState {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0.build_hasher())
    }
}

/// The hasher of a [`HashState`].
#[derive(Clone)]
pub struct KeyHasher(FoldHasher<'static>);

/// Forwards the named methods, so that each takes the inner hasher's short way.
macro_rules! forward {
    ($($method:ident($value:ty))*) => {
        impl Hasher for KeyHasher {
            #[inline] fn finish(&self) -> u64 {
                self.0.finish()
            }
            $(#[inline] fn $method(&mut self, value: $value) {
                self.0.$method(value);
            })*
        }
    };
}

forward! {
    write(&[u8])
    write_u8(u8)
    write_u16(u16)
    write_u32(u32)
    write_u64(u64)
    write_u128(u128)
    write_usize(usize)
}
