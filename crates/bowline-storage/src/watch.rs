//! A place in the log of a table that moves along.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::waiters::{Seat, Waiter};
use crate::{Event, Revision, Store, TableId};

/// The most events in one [`Batch`].
pub const BATCH: usize = 256;

/// The most events that are looked at while writers wait.
const SCAN: usize = 4096;

/// A place in the log of a table that moves along.
///
/// Nothing is kept for a watch but its place: one that is never read costs nothing, and ends with
/// [`Closed::FellBehind`] when the log has lost what it had yet to see. What the log loses of other prefixes while the
/// watch waits in [`next`](Watch::next) does not count.
pub struct Watch<M> {
    store: Store<M>,
    table: TableId,
    prefix: Arc<str>,
    /// All events up to here have been handed out, or are of no concern.
    seen: Revision,
    closed: Option<Closed>,
    seat: Option<Seat>,
}

/// Events that a watch had yet to see.
#[non_exhaustive]
pub struct Batch<M> {
    /// At least one, at most [`BATCH`], in the order of their commits.
    pub events: Vec<Event<M>>,
    /// With these, the watch has seen all that was committed up to this revision.
    pub revision: Revision,
}

/// Why a watch does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Events after that revision may be gone.
    #[error("revision {after} is compacted: the oldest is {oldest}, list again and watch from there")]
    Compacted {
        /// What was asked for.
        after: Revision,
        /// The oldest revision that can be watched from.
        oldest: Revision,
    },
    /// The revision has not been committed yet.
    #[error("revision {after} is in the future: the newest is {newest}, list again and watch from there")]
    Future {
        /// What was asked for.
        after: Revision,
        /// The newest revision.
        newest: Revision,
    },
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Closed {
    /// Events that it had yet to see are gone.
    #[error("the watch fell behind: events after revision {seen} are gone, list again and watch from there")]
    FellBehind {
        /// The last revision up to which it had seen everything.
        seen: Revision,
    },
    /// The table is gone.
    #[error("the table was dropped")]
    TableDropped,
}

impl<M> Watch<M> {
    pub(crate) fn new(store: Store<M>, table: TableId, prefix: &str, after: Revision) -> Self {
        let seat = store.shelf(table).map(|shelf| shelf.waiters().join());
        Self { store, table, prefix: prefix.into(), seen: after, closed: None, seat }
    }

    /// Waits for events and returns those that there are. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Closed`] when there is nothing more to come; it stays so.
    pub async fn next(&mut self) -> Result<Batch<M>, Closed> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// [`Watch::next`] for those who poll. Only the latest waker is woken.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<M>, Closed>> {
        loop {
            if let Some(closed) = self.closed {
                return Poll::Ready(Err(closed));
            }
            match self.step(context) {
                Ok(Some(step)) => return step.map(Ok),
                Ok(None) => {}
                Err(closed) => self.closed = Some(closed),
            }
        }
    }

    /// The watch has seen everything up to this revision. It moves along with the whole store while nothing happens
    /// that concerns the watch.
    #[must_use]
    pub fn revision(&self) -> Revision {
        let Some((shelf, seat)) = self.store.shelf(self.table).zip(self.seat) else { return self.seen };
        let guard = shelf.read();
        let Some(table) = &*guard else { return self.seen };
        match shelf.waiters().get(seat) {
            Waiter::Asleep { .. } => self.store.revision(),
            Waiter::Called { first } => first.previous(),
            Waiter::Awake if self.closed.is_none() && table.log().newest() <= self.seen => {
                self.store.revision()
            }
            Waiter::Awake => self.seen,
        }
    }

    /// Looks at the next events: `None` if none of them was of concern and there are more.
    fn step(&mut self, context: &Context<'_>) -> Result<Option<Poll<Batch<M>>>, Closed> {
        let (shelf, seat) = self.store.shelf(self.table).zip(self.seat).ok_or(Closed::TableDropped)?;
        // Declared before the guard, so that it goes after it: see `Waiters::replace`.
        let before;
        let guard = shelf.read();
        let table = guard.as_ref().ok_or(Closed::TableDropped)?;
        // All that is read here stays as it is while the guard lives.
        let newest = self.store.revision();
        let mut waiters = shelf.waiters();
        if table.log().newest() <= self.seen && matches!(waiters.get(seat), Waiter::Awake) {
            // It comes back after it has seen all. Nobody but the watch itself moves it from being awake.
            let _awake = waiters.replace(seat, self.asleep(context));
            self.seen = newest;
            return Ok(Some(Poll::Pending));
        }
        before = waiters.replace(seat, Waiter::Awake);
        drop(waiters);
        match before {
            Waiter::Awake => {}
            Waiter::Asleep { .. } => self.seen = newest,
            Waiter::Called { first } => self.seen = first.previous(),
        }
        if table.log().lost_after(self.seen) {
            return Err(Closed::FellBehind { seen: self.seen });
        }
        let mut events = Vec::new();
        let mut unseen = table.log().after(self.seen);
        for event in unseen.by_ref().take(SCAN) {
            self.seen = event.revision;
            if event.key().starts_with(&*self.prefix) {
                events.push(event.clone());
                if events.len() == BATCH {
                    break;
                }
            }
        }
        let at_end = unseen.len() == 0;
        if at_end {
            self.seen = newest;
        }
        if !events.is_empty() {
            return Ok(Some(Poll::Ready(Batch { events, revision: self.seen })));
        }
        if at_end {
            // Nobody but the watch itself moves it from being awake.
            let _awake = shelf.waiters().replace(seat, self.asleep(context));
            return Ok(Some(Poll::Pending));
        }
        Ok(None)
    }

    fn asleep(&self, context: &Context<'_>) -> Waiter {
        Waiter::Asleep { prefix: self.prefix.clone(), waker: context.waker().clone() }
    }
}

impl<M> Drop for Watch<M> {
    fn drop(&mut self) {
        if let Some((shelf, seat)) = self.store.shelf(self.table).zip(self.seat) {
            let before = shelf.waiters().leave(seat);
            drop(before);
        }
    }
}

impl<M> fmt::Debug for Watch<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watch")
            .field("table", &self.table)
            .field("prefix", &self.prefix)
            .field("seen", &self.seen)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for Batch<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Batch")
            .field("events", &self.events)
            .field("revision", &self.revision)
            .finish()
    }
}
