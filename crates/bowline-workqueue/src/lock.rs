//! Taking a lock that is held for tens of nanoseconds, also when threads do nothing but take it.
//!
//! Threads that hand such a lock back and forth spend their time on moving its cache lines between cores: two adders
//! together are then three times slower than one alone. So a thread that does not get the lock within a microsecond
//! or two gets out of the way, long enough for the others to do a thousand things undisturbed. Nobody has to wake it,
//! which would cost the holder a system call. Only workers stay while a list is added: they are let in between.

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

/// How often one who comes [first](Lock::lock_first) looks again while somebody [shares](Lock::share) the lock, who lets him in
/// before long: to get out of the way takes as long as to add a thousand keys.
const LOOKS_AT_SHARED: u32 = 128;

/// The pauses between these.
const PAUSE_AT_SHARED: u32 = 16;

/// Whoever shares the lock looks after so many keys, some microseconds, whether somebody wants it.
pub(crate) const PIECE: usize = 64;

/// For so many turns of a spin loop whoever gives way leaves the lock to others: long enough for each to look once more.
const WAY: u32 = FIRST_PAUSE << LOOKS;

/// A lock that who has much to do under it shares with who has little to do: lists are added while workers take keys.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    mutex: Mutex<T>,
    /// How many of those who come first look for it; not those that got out of the way.
    looking: AtomicU32,
    /// How many share it.
    sharing: AtomicU32,
}

/// Somebody who takes a lock many times in a row, and lets others at it in between; from [`Lock::share`].
#[derive(Debug)]
pub(crate) struct Sharing<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { mutex: Mutex::new(value), looking: AtomicU32::new(0), sharing: AtomicU32::new(0) }
    }

    /// Takes the lock, be it poisoned or not: foreign code that runs under a lock is caught, or has nothing half done when
    /// it panics.
    #[inline(always)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match try_lock(&self.mutex) {
            Some(guard) => guard,
            None => self.lock_contended(Self::look),
        }
    }

    /// The same, for who is waited for: whoever shares the lock lets him have it in between.
    #[inline(always)]
    pub(crate) fn lock_first(&self) -> MutexGuard<'_, T> {
        match try_lock(&self.mutex) {
            Some(guard) => guard,
            None => self.lock_contended(Self::look_first),
        }
    }

    /// For who has much to do under the lock.
    pub(crate) fn share(&self) -> Sharing<'_, T> {
        self.sharing.fetch_add(1, Ordering::Relaxed);
        Sharing(self)
    }

    #[cold]
    fn lock_contended<'a>(
        &'a self,
        look: impl Fn(&'a Self) -> Option<MutexGuard<'a, T>>,
    ) -> MutexGuard<'a, T> {
        for _ in 0..NAPS {
            if let Some(guard) = look(self) {
                return guard;
            }
            nap();
        }
        self.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self) -> Option<MutexGuard<'_, T>> {
        (0..LOOKS).find_map(|look| self.look_after(FIRST_PAUSE << look))
    }

    fn look_first(&self) -> Option<MutexGuard<'_, T>> {
        self.looking.fetch_add(1, Ordering::Relaxed);
        let is_shared = |_: &u32| self.sharing.load(Ordering::Relaxed) > 0;
        let mut looks = (0..LOOKS_AT_SHARED).take_while(is_shared);
        let guard = looks.find_map(|_| self.look_after(PAUSE_AT_SHARED)).or_else(|| self.look());
        self.looking.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    fn look_after(&self, pause: u32) -> Option<MutexGuard<'_, T>> {
        for _ in 0..pause {
            hint::spin_loop();
        }
        try_lock(&self.mutex)
    }
}

impl<T> Sharing<'_, T> {
    /// Whether one who comes first looks for the lock: to be asked by who has it.
    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.looking.load(Ordering::Relaxed) > 0
    }

    /// Waits a moment, without the lock, until those who look for it have had it.
    pub(crate) fn give_way(&self) {
        for _ in 0..WAY {
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
    fn one_who_shares_the_lock_sees_that_it_is_wanted_and_gives_way() {
        let lock = Lock::new(());
        let sharing = lock.share();
        assert_eq!(lock.sharing.load(Ordering::Relaxed), 1);
        thread::scope(|scope| {
            let guard = lock.lock();
            sharing.give_way();
            // It never gets out of the way: on a busy machine this thread might not run while it looks.
            let waiter = scope.spawn(|| while lock.look_first().is_none() {});
            while !sharing.is_wanted() {
                hint::spin_loop();
            }
            drop(guard);
            sharing.give_way();
            waiter.join().expect("the waiter does not panic");
        });
        assert!(!sharing.is_wanted(), "nobody looks for it any more");
        drop(sharing);
        assert_eq!(lock.sharing.into_inner(), 0);
    }

    #[test]
    fn one_who_shares_the_lock_does_not_see_those_who_do_not_come_first() {
        let lock = Lock::new(());
        let sharing = lock.share();
        thread::scope(|scope| {
            let guard = lock.lock();
            let adder = scope.spawn(|| drop(lock.lock()));
            for _ in 0..4 {
                assert!(!sharing.is_wanted());
                nap();
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
