//! Random numbers: from the operating system in production, from a seed in a simulation.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::SharedSeed;
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::HashState;

/// A source of random numbers. Clones share it.
///
/// The generator is cryptographic (`ChaCha12`). A real clock seeds it from the operating system; a simulation
/// seeds it with a number that is printed when the simulation fails, and the same number draws the same values.
#[derive(Clone)]
pub struct Rng {
    generator: Arc<Mutex<StdRng>>,
    hash_seed: &'static SharedSeed,
}

impl Rng {
    pub(crate) fn from_system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
        let generator = rand::make_rng();
        Self { generator: Arc::new(Mutex::new(generator)), hash_seed: SharedSeed::global_random() }
    }

    /// A generator that draws the same values for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            generator: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
            hash_seed: SharedSeed::global_fixed(),
        }
    }

    /// A new generator, seeded from this one: draws from one do not affect the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        let generator = StdRng::from_rng(&mut *self.lock());
        Self { generator: Arc::new(Mutex::new(generator)), hash_seed: self.hash_seed }
    }

    /// Any 64 bits.
    #[must_use]
    pub fn next_u64(&self) -> u64 {
        self.lock().next_u64()
    }

    /// A number in `range`, each equally likely; `range.start` if the range is empty.
    #[must_use]
    pub fn range(&self, range: Range<u64>) -> u64 {
        if range.is_empty() { range.start } else { self.lock().random_range(range) }
    }

    /// A number from 0 (included) to 1 (excluded).
    #[must_use]
    pub fn unit(&self) -> f64 {
        self.lock().random()
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.lock().fill_bytes(bytes);
    }

    /// `base` plus a random part of up to `factor` times `base`, so that many clients do not act in step. Saturates at
    /// [`Duration::MAX`]; a factor that is not positive adds nothing.
    #[must_use]
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        // The comparison is also false for a factor that is not a number.
        let extra = if factor > 0.0 { base.as_secs_f64() * factor * self.unit() } else { 0.0 };
        base.saturating_add(Duration::try_from_secs_f64(extra).unwrap_or(Duration::MAX))
    }

    /// A random duration, shorter than `most`; zero if that is zero.
    #[must_use]
    pub fn up_to(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.range(0..u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The seed of a hash map, see [`HashState`].
    #[must_use]
    pub fn hash_state(&self) -> HashState {
        HashState::seeded(self.next_u64(), self.hash_seed)
    }

    fn lock(&self) -> MutexGuard<'_, StdRng> {
        // The generator is valid after any of its methods, even if a caller's thread panicked.
        self.generator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Rng {
    /// Hides the state: it would allow predicting tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rng").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HashSet;

    #[test]
    fn the_same_seed_draws_the_same_values() {
        let draw = |seed| {
            let rng = Rng::seeded(seed);
            let mut bytes = [0; 9];
            rng.fill(&mut bytes);
            let fork = rng.fork();
            (rng.next_u64(), bytes, rng.range(0..1000), rng.unit().to_bits(), fork.next_u64())
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn a_system_generator_differs_each_time() {
        assert_ne!(Rng::from_system().next_u64(), Rng::from_system().next_u64());
    }

    #[test]
    fn a_hash_set_of_one_seed_iterates_in_one_order() {
        let order = |seed| {
            let mut set = HashSet::with_hasher(Rng::seeded(seed).hash_state());
            set.extend(0..100);
            set.into_iter().collect::<Vec<i32>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn jitter_stays_within_its_factor_and_never_panics() {
        let rng = Rng::seeded(1);
        let second = Duration::from_secs(1);
        for _ in 0..1000 {
            let drawn = rng.jitter(second, 0.5);
            assert!((second..=second * 3 / 2).contains(&drawn), "{drawn:?}");
        }
        for nonsense in [0.0, -1.0, f64::NAN] {
            assert_eq!(rng.jitter(second, nonsense), second);
        }
        assert_eq!(rng.jitter(Duration::MAX, 1.0), Duration::MAX);
        assert_eq!(rng.jitter(second, f64::INFINITY), Duration::MAX);
    }

    #[test]
    fn an_empty_range_gives_its_start() {
        assert_eq!(Rng::seeded(1).range(5..5), 5);
    }
}
