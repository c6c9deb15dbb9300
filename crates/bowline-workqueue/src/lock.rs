//! Taking a lock that is held for tens of nanoseconds, also when threads do nothing but take it.
//!
//! Threads that hand such a lock back and forth spend their time on moving its cache lines between cores: two adders
//! together are then three times slower than one alone. So a thread that does not get the lock within a microsecond
//! or two gets out of the way, long enough for the others to do a thousand things undisturbed. Nobody has to wake it,
//! which would cost the holder a system call.

use std::hint;
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

/// Takes the lock, be it poisoned or not: foreign code that runs under a lock is caught, or has nothing half done when
/// it panics.
#[inline(always)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match try_lock(mutex) {
        Some(guard) => guard,
        None => lock_contended(mutex),
    }
}

#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..NAPS {
        for look in 0..LOOKS {
            for _ in 0..FIRST_PAUSE << look {
                hint::spin_loop();
            }
            if let Some(guard) = try_lock(mutex) {
                return guard;
            }
        }
        nap();
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let counter = Mutex::new(0_u32);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let mut counter = lock(&counter);
                        let seen = *counter;
                        hint::black_box(&mut counter);
                        *counter = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*lock(&counter), 40_000);
    }

    #[test]
    fn a_thread_that_runs_out_of_naps_still_gets_the_lock() {
        let mutex = Mutex::new(());
        let (released, release) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let mutex = &mutex;
            let guard = lock(mutex);
            let waiter = scope.spawn(move || {
                let _guard = lock(mutex);
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
    fn a_poisoned_lock_is_taken_all_the_same() {
        let mutex = Mutex::new(1);
        thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _guard = lock(&mutex);
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(panics.join().is_err());
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 1);
    }
}
