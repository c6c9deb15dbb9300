//! Waiting watches of one table.

use std::sync::Arc;
use std::task::Waker;

use crate::Revision;

/// The index of a watch in its table's [`Waiters`], for its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(usize);

/// The state of a watch.
pub(crate) enum Waiter {
    /// It reads the log, or is not polled.
    Awake,
    /// It had read all events when it went to sleep, and no event with its prefix came since.
    Asleep { prefix: Arc<str>, waker: Waker },
    /// It had read all events when it went to sleep, and this was the first event with its prefix since.
    Woken { first: Revision },
}

/// All watches of one table. Accessed under the table's lock, so that it is consistent with the log.
#[derive(Default)]
pub(crate) struct Waiters {
    waiters: Vec<Waiter>,
    free: Vec<usize>,
}

impl Waiters {
    pub(crate) fn join(&mut self) -> WaiterId {
        if let Some(id) = self.free.pop() {
            return WaiterId(id);
        }
        self.waiters.push(Waiter::Awake);
        WaiterId(self.waiters.len() - 1)
    }

    /// Frees an index. Returns its waiter, as [`Waiters::replace`] does.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Waiter {
        self.free.push(id.0);
        self.replace(id, Waiter::Awake)
    }

    pub(crate) fn get(&self, id: WaiterId) -> &Waiter {
        self.waiters.get(id.0).unwrap_or(&Waiter::Awake)
    }

    /// Returns the previous waiter, to be dropped without a lock: a waker can own the last reference to a task, and the
    /// task can own a watch of this table.
    #[must_use]
    pub(crate) fn replace(&mut self, id: WaiterId, waiter: Waiter) -> Waiter {
        match self.waiters.get_mut(id.0) {
            Some(place) => std::mem::replace(place, waiter),
            None => waiter,
        }
    }

    /// Marks the sleeping watches with a matching prefix as woken, and returns their wakers.
    pub(crate) fn take_wakers(&mut self, key: &str, revision: Revision) -> Vec<Waker> {
        self.take_matching(revision, |prefix| key.starts_with(prefix))
    }

    /// Marks all sleeping watches as woken, because the table is dropped.
    pub(crate) fn take_all_wakers(&mut self, revision: Revision) -> Vec<Waker> {
        self.take_matching(revision, |_| true)
    }

    fn take_matching(&mut self, first: Revision, matches: impl Fn(&str) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for waiter in &mut self.waiters {
            let Waiter::Asleep { prefix, .. } = &*waiter else { continue };
            if matches(prefix)
                && let Waiter::Asleep { waker, .. } = std::mem::replace(waiter, Waiter::Woken { first })
            {
                wakers.push(waker);
            }
        }
        wakers
    }
}
