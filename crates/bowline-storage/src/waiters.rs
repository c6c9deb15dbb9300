//! The watchers of one table that wait for something to happen.

use std::sync::Arc;
use std::task::Waker;

use crate::Revision;

/// Where a watch is in its table's [`Waiters`], as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat(usize);

/// What a watch is up to.
pub(crate) enum Waiter {
    /// It reads the log, or nobody asks it to.
    Awake,
    /// It had seen all when it went to sleep, and nothing with its prefix has happened since.
    Asleep { prefix: Arc<str>, waker: Waker },
    /// It had seen all when it went to sleep, and this was the first event with its prefix since.
    Called { first: Revision },
}

/// All watches of one table. It is read and written under the table's lock, so that it agrees with the log.
#[derive(Default)]
pub(crate) struct Waiters {
    seats: Vec<Waiter>,
    free: Vec<usize>,
}

impl Waiters {
    pub(crate) fn join(&mut self) -> Seat {
        if let Some(seat) = self.free.pop() {
            return Seat(seat);
        }
        self.seats.push(Waiter::Awake);
        Seat(self.seats.len() - 1)
    }

    /// Frees a seat. Returns who was on it, as [`Waiters::replace`] does.
    pub(crate) fn leave(&mut self, seat: Seat) -> Waiter {
        self.free.push(seat.0);
        self.replace(seat, Waiter::Awake)
    }

    pub(crate) fn get(&self, seat: Seat) -> &Waiter {
        self.seats.get(seat.0).unwrap_or(&Waiter::Awake)
    }

    /// Returns who was there before, to be dropped without a lock: a waker can be the last that holds a task, and the
    /// task can hold a watch of this table.
    #[must_use]
    pub(crate) fn replace(&mut self, seat: Seat, waiter: Waiter) -> Waiter {
        match self.seats.get_mut(seat.0) {
            Some(place) => std::mem::replace(place, waiter),
            None => waiter,
        }
    }

    /// Who has to be woken because of an event.
    pub(crate) fn call(&mut self, key: &str, revision: Revision) -> Vec<Waker> {
        self.call_those(revision, |prefix| key.starts_with(prefix))
    }

    /// Wakes all, because the table is gone.
    pub(crate) fn call_all(&mut self, revision: Revision) -> Vec<Waker> {
        self.call_those(revision, |_| true)
    }

    fn call_those(&mut self, first: Revision, concerns: impl Fn(&str) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for waiter in &mut self.seats {
            let Waiter::Asleep { prefix, .. } = &*waiter else { continue };
            if concerns(prefix)
                && let Waiter::Asleep { waker, .. } = std::mem::replace(waiter, Waiter::Called { first })
            {
                wakers.push(waker);
            }
        }
        wakers
    }
}
