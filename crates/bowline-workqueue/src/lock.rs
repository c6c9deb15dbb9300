//! Taking a lock that is held for tens of nanoseconds, also when threads do nothing but take it.
//!
//! Threads that hand such a lock back and forth spend their time on moving its cache lines between cores: two adders
//! together are then three times slower than one alone. So a thread that does not get the lock within a microsecond
//! or two gets out of the way, long enough for the others to do a thousand things undisturbed. Nobody has to wake it,
//! which would cost the holder a system call.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// How often a thread looks again before it gets out of the way, pausing twice as long each time.
const LOOKS: u32 = 4;

/// The first of these pauses, in turns of a spin loop.
const FIRST_PAUSE: u32 = 8;

/// How long a thread gets out of the way.
const NAP: Duration = Duration::from_micros(50);

/// After this many naps, some milliseconds, it waits to be woken, which gets it the lock however busy that is.
const NAPS: u32 = 32;

/// Whoever has much to do under the lock looks after so many keys, a microsecond, whether somebody wants it: sooner than
/// that one gets out of the way.
pub(crate) const PIECE: usize = 16;

/// For so many turns of a spin loop whoever gave way leaves the lock to others.
const WAY: u32 = 64;

/// A lock that tells who has it whether somebody else looks for it.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    mutex: Mutex<T>,
    /// How many threads look for it; not those that got out of the way.
    looking: AtomicU32,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { mutex: Mutex::new(value), looking: AtomicU32::new(0) }
    }

    /// Takes the lock, be it poisoned or not: foreign code that runs under a lock is caught, or has nothing half done when
    /// it panics.
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match try_lock(&self.mutex) {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.looking.load(Ordering::Relaxed) > 0
    }

    /// Waits a moment, without the lock, until one of those who look for it has it.
    pub(crate) fn give_way(&self) {
        for _ in 0..WAY {
            if !self.is_wanted() {
                return;
            }
            hint::spin_loop();
        }
    }

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        for _ in 0..NAPS {
            if let Some(guard) = self.look() {
                return guard;
            }
            nap();
        }
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> Option<MutexGuard<'_, T>> {
        self.looking.fetch_add(1, Ordering::Relaxed);
        let guard = (0..LOOKS).find_map(|look| {
            for _ in 0..FIRST_PAUSE << look {
                hint::spin_loop();
            }
            try_lock(&self.mutex)
        });
        self.looking.fetch_sub(1, Ordering::Relaxed);
        guard
    }
}

#[inline(always)]
fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a wait for another thread, which simulated time knows nothing of"
)]
fn nap() {
    thread::sleep(NAP);
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a lock is tested on threads")]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_lock_is_given_to_one_thread_at_a_time() {
        let counter = Lock::new(0_u32);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut counter = counter.lock();
                        let seen = *counter;
                        hint::black_box(&mut counter);
                        *counter = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*counter.lock(), 40_000);
    }

    #[test]
    fn a_thread_that_runs_out_of_naps_still_gets_the_lock() {
        let lock = Lock::new(());
        let (released, release) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let lock = &lock;
            let guard = lock.lock();
            let waiter = scope.spawn(move || {
                let _guard = lock.lock();
                release.try_recv()
            });
            // Longer than all naps together; were it shorter, the test would still hold, and test less.
            for _ in 0..4 * NAPS {
                nap();
            }
            released.send(()).expect("the waiter still waits");
            drop(guard);
            assert_eq!(waiter.join().expect("the waiter does not panic"), Ok(()));
        });
    }

    #[test]
    fn one_who_has_the_lock_for_long_sees_that_it_is_wanted_and_gives_way() {
        let lock = Lock::new(());
        thread::scope(|scope| {
            let guard = lock.lock();
            lock.give_way();
            // It never gets out of the way: on a busy machine this thread might not run while it looks.
            let waiter = scope.spawn(|| while lock.look().is_none() {});
            while !lock.is_wanted() {
                hint::spin_loop();
            }
            drop(guard);
            lock.give_way();
            waiter.join().expect("the waiter does not panic");
        });
        assert!(!lock.is_wanted(), "nobody looks for it any more");
    }

    #[test]
    fn a_poisoned_lock_is_taken_all_the_same() {
        let lock = Lock::new(1);
        thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _guard = lock.lock();
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(panics.join().is_err());
        });
        assert!(lock.mutex.is_poisoned());
        assert_eq!(*lock.lock(), 1);
    }
}
