//! Watches: positions in the log of a table.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::waiters::{Waiter, WaiterId};
use crate::{Event, Revision, Store, TableId};

/// Maximum number of events in one [`Batch`].
pub const BATCH: usize = 256;

/// Maximum number of events scanned while writers wait.
const SCAN: usize = 4096;

/// A watch of a table: a position in its log.
///
/// The store keeps only the position. A watch that is never read costs nothing, and ends with
/// [`WatchClosed::FellBehind`] when the log drops events that it has not read. Dropped events of other prefixes do not
/// count while the watch waits in [`next`](Watch::next).
pub struct Watch<M> {
    store: Store<M>,
    table: TableId,
    prefix: Arc<str>,
    /// All events up to here were returned, or do not match the prefix.
    seen: Revision,
    closed: Option<WatchClosed>,
    waiter: Option<WaiterId>,
}

/// New events of a watch.
#[non_exhaustive]
pub struct Batch<M> {
    /// At least one, at most [`BATCH`], in commit order.
    pub events: Vec<Event<M>>,
    /// The watch is complete up to this revision.
    pub revision: Revision,
}

/// A watch cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchError {
    /// Events after that revision may be dropped.
    #[error("revision {after} is compacted: the oldest is {oldest}, list again and watch from there")]
    Compacted {
        /// The requested revision.
        after: Revision,
        /// The oldest revision from which a watch can start.
        oldest: Revision,
    },
    /// The revision has not been committed yet.
    #[error("revision {after} is in the future: the newest is {newest}, list again and watch from there")]
    Future {
        /// The requested revision.
        after: Revision,
        /// The newest revision.
        newest: Revision,
    },
}

/// A watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WatchClosed {
    /// The log dropped events that the watch had not read.
    #[error("the watch fell behind: events after revision {seen} are gone, list again and watch from there")]
    FellBehind {
        /// The last revision up to which the watch was complete.
        seen: Revision,
    },
    /// The table was dropped.
    #[error("the table was dropped")]
    TableDropped,
}

impl<M> Watch<M> {
    pub(crate) fn new(store: Store<M>, table: TableId, prefix: &str, after: Revision) -> Self {
        let waiter = store.slot(table).map(|slot| slot.waiters().join());
        Self { store, table, prefix: prefix.into(), seen: after, closed: None, waiter }
    }

    /// Waits for events and returns the available ones. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`WatchClosed`] when no more events follow; later calls return it again.
    pub async fn next(&mut self) -> Result<Batch<M>, WatchClosed> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next batch, as [`Watch::next`] does. Only the latest waker is woken.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Batch<M>, WatchClosed>> {
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

    /// The revision up to which the watch is complete. It advances with the whole store while no event matches the
    /// watch.
    #[must_use]
    pub fn revision(&self) -> Revision {
        let Some((slot, waiter)) = self.store.slot(self.table).zip(self.waiter) else { return self.seen };
        let guard = slot.read();
        let Some(table) = &*guard else { return self.seen };
        match slot.waiters().get(waiter) {
            Waiter::Asleep { .. } => self.store.revision(),
            Waiter::Woken { first } => first.previous(),
            Waiter::Awake if self.closed.is_none() && table.log().newest() <= self.seen => {
                self.store.revision()
            }
            Waiter::Awake => self.seen,
        }
    }

    /// Scans the next events: `None` if none matches and there are more.
    fn step(&mut self, context: &Context<'_>) -> Result<Option<Poll<Batch<M>>>, WatchClosed> {
        let (slot, waiter) = self.store.slot(self.table).zip(self.waiter).ok_or(WatchClosed::TableDropped)?;
        // Declared before the guard, so that it is dropped after it: see `Waiters::replace`.
        let before;
        let guard = slot.read();
        let table = guard.as_ref().ok_or(WatchClosed::TableDropped)?;
        // The state read here does not change while the guard lives.
        let newest = self.store.revision();
        let mut waiters = slot.waiters();
        if table.log().newest() <= self.seen && matches!(waiters.get(waiter), Waiter::Awake) {
            // It sleeps after it has read all events. Only the watch itself changes its state from awake.
            let _awake = waiters.replace(waiter, self.asleep(context));
            self.seen = newest;
            return Ok(Some(Poll::Pending));
        }
        before = waiters.replace(waiter, Waiter::Awake);
        drop(waiters);
        match before {
            Waiter::Awake => {}
            Waiter::Asleep { .. } => self.seen = newest,
            Waiter::Woken { first } => self.seen = first.previous(),
        }
        if table.log().lost_after(self.seen) {
            return Err(WatchClosed::FellBehind { seen: self.seen });
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
            // Only the watch itself changes its state from awake.
            let _awake = slot.waiters().replace(waiter, self.asleep(context));
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
        if let Some((slot, waiter)) = self.store.slot(self.table).zip(self.waiter) {
            let before = slot.waiters().leave(waiter);
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
