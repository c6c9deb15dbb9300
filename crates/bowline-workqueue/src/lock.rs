//! A lock that is held for tens of nanoseconds, under heavy contention.
//!
//! Threads that pass such a lock back and forth spend their time on moving its cache lines between cores: two adders
//! together are then three times slower than one alone. So a thread that does not get the lock within a microsecond or
//! two sleeps, long enough for the others to do a thousand operations. No thread has to wake it, which would cost the
//! holder a system call. While a list is added, workers do not sleep: the adder releases the lock for them in between.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// Number of attempts before a thread sleeps. The pause doubles after each.
const ATTEMPTS: u32 = 4;

/// The first of these pauses, in turns of a spin loop.
const FIRST_PAUSE: u32 = 8;

/// Duration of one sleep.
const SLEEP: Duration = Duration::from_micros(50);

/// Number of sleeps, some milliseconds together, before the thread blocks on the mutex, which always gets the lock.
const MAX_SLEEPS: u32 = 32;

/// Number of attempts of [`lock_first`](Lock::lock_first) while the lock is [shared](Lock::share). The sharing thread
/// yields it soon, and sleeping takes as long as adding a thousand keys.
const SHARED_ATTEMPTS: u32 = 128;

/// The pause between these attempts, in turns of a spin loop.
const SHARED_PAUSE: u32 = 16;

/// Number of keys, some microseconds, after which a sharing thread checks for waiting threads.
pub(crate) const SHARED_KEYS: usize = 64;

/// Turns of a spin loop for which a sharing thread leaves the lock to others: long enough for one attempt of each.
const YIELD_SPINS: u32 = FIRST_PAUSE << ATTEMPTS;

/// A lock for long and short operations: workers take keys while a long list is added.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    mutex: Mutex<T>,
    /// Number of threads that try [`lock_first`](Self::lock_first); sleeping ones do not count.
    waiting_first: AtomicU32,
    /// Number of threads that share the lock.
    sharing: AtomicU32,
}

/// Takes a lock many times in a row and yields it to others in between; from [`Lock::share`].
#[derive(Debug)]
pub(crate) struct Sharing<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { mutex: Mutex::new(value), waiting_first: AtomicU32::new(0), sharing: AtomicU32::new(0) }
    }

    /// Takes the lock, poisoned or not: a panic in foreign code under the lock is caught, or leaves no partial state.
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match try_lock(&self.mutex) {
            Some(guard) => guard,
            None => self.lock_contended(Self::spin),
        }
    }

    /// Takes the lock with preference: a sharing thread yields it in between.
    #[inline(always)]
    pub(crate) fn lock_first(&self) -> MutexGuard<'_, T> {
        match try_lock(&self.mutex) {
            Some(guard) => guard,
            None => self.lock_contended(Self::spin_first),
        }
    }

    /// For long operations under the lock.
    pub(crate) fn share(&self) -> Sharing<'_, T> {
        self.sharing.fetch_add(1, Ordering::Relaxed);
        Sharing(self)
    }

    #[cold]
    fn lock_contended<'a>(
        &'a self,
        spin: impl Fn(&'a Self) -> Option<MutexGuard<'a, T>>,
    ) -> MutexGuard<'a, T> {
        for _ in 0..MAX_SLEEPS {
            if let Some(guard) = spin(self) {
                return guard;
            }
            sleep();
        }
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spin(&self) -> Option<MutexGuard<'_, T>> {
        (0..ATTEMPTS).find_map(|attempt| self.try_after(FIRST_PAUSE << attempt))
    }

    fn spin_first(&self) -> Option<MutexGuard<'_, T>> {
        self.waiting_first.fetch_add(1, Ordering::Relaxed);
        let is_shared = |_: &u32| self.sharing.load(Ordering::Relaxed) > 0;
        let mut attempts = (0..SHARED_ATTEMPTS).take_while(is_shared);
        let guard = attempts.find_map(|_| self.try_after(SHARED_PAUSE)).or_else(|| self.spin());
        self.waiting_first.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    fn try_after(&self, pause: u32) -> Option<MutexGuard<'_, T>> {
        for _ in 0..pause {
            hint::spin_loop();
        }
        try_lock(&self.mutex)
    }
}

impl<T> Sharing<'_, T> {
    /// Whether a thread tries [`lock_first`](Lock::lock_first). Called by the holder of the lock.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.waiting_first.load(Ordering::Relaxed) > 0
    }

    /// Waits a moment, without the lock, until such threads have had it.
    pub(crate) fn yield_lock(&self) {
        for _ in 0..YIELD_SPINS {
            if !self.is_wanted() {
                return;
            }
            hint::spin_loop();
        }
    }
}

impl<T> Drop for Sharing<'_, T> {
    fn drop(&mut self) {
        self.0.sharing.fetch_sub(1, Ordering::Relaxed);
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
fn sleep() {
    thread::sleep(SLEEP);
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
    fn a_thread_still_gets_the_lock_after_its_last_sleep() {
        let lock = Lock::new(());
        let (released, release) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let lock = &lock;
            let guard = lock.lock();
            let waiter = scope.spawn(move || {
                let _guard = lock.lock();
                release.try_recv()
            });
            // Longer than all sleeps together; a shorter time would test less.
            for _ in 0..4 * MAX_SLEEPS {
                sleep();
            }
            released.send(()).expect("the waiter still waits");
            drop(guard);
            assert_eq!(waiter.join().expect("the waiter does not panic"), Ok(()));
        });
    }

    #[test]
    fn a_sharing_thread_yields_the_lock_to_a_waiting_one() {
        let lock = Lock::new(());
        let sharing = lock.share();
        assert_eq!(lock.sharing.load(Ordering::Relaxed), 1);
        thread::scope(|scope| {
            let guard = lock.lock();
            sharing.yield_lock();
            // It never sleeps: on a busy machine this thread might otherwise not run during an attempt.
            let waiter = scope.spawn(|| while lock.spin_first().is_none() {});
            while !sharing.is_wanted() {
                hint::spin_loop();
            }
            drop(guard);
            sharing.yield_lock();
            waiter.join().expect("the waiter does not panic");
        });
        assert!(!sharing.is_wanted(), "no thread waits for it any more");
        drop(sharing);
        assert_eq!(lock.sharing.into_inner(), 0);
    }

    #[test]
    fn a_sharing_thread_ignores_threads_without_preference() {
        let lock = Lock::new(());
        let sharing = lock.share();
        thread::scope(|scope| {
            let guard = lock.lock();
            let adder = scope.spawn(|| drop(lock.lock()));
            for _ in 0..4 {
                assert!(!sharing.is_wanted());
                sleep();
            }
            drop(guard);
            adder.join().expect("the adder does not panic");
        });
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
