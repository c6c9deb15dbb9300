//! Hash maps with a random order in production and a repeatable one in a simulation.

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
/// Fast, and seeded per map, so that a client that chooses keys cannot prepare collisions. It has no `Default` on
/// purpose. Create a map that is iterated with `HashMap::with_hasher(clock.rng().hash_state())`; a map that is only
/// used for lookups may use [`HashState::for_lookups`].
#[derive(Clone, Debug)]
pub struct HashState(SeedableRandomState);

impl HashState {
    /// A random state, also in a simulation. Only for maps whose order is not visible, because they are not iterated,
    /// or because the order does not affect the loop's result.
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

/// Forwards the named methods, so that each uses the inner hasher's fast path.
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
