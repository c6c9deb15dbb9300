//! The queue between what reads from the server and what keeps its objects. Owns the order of changes and how many may wait.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::kept::Kept;
use bowline_machinery::ObjectKey;

/// So many deltas may wait by default.
pub(crate) const CAPACITY: usize = 4096;

/// So many deltas are taken at once: readers see their changes at once too.
const TAKEN_AT_ONCE: usize = 1024;

/// A change on its way from a server to an indexer.
pub enum Delta<K> {
    /// There is such an object, new or changed.
    Applied(Arc<K>),
    /// It is gone; this is what it last was.
    Deleted(Arc<K>),
    /// It is gone, and what it last was could not be read: what is known of it has to do.
    Gone(Unreadable),
    /// All that there is now.
    Replaced(Replaced<K>),
    /// Nothing happened up to here.
    Bookmark {
        /// The part that it is about.
        part: usize,
        /// The version of the collection.
        resource_version: String,
    },
    /// It is time to tell some handlers again of everything.
    Sync,
}

/// An object that could not be read, as far as it is known which it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreadable {
    /// Its key.
    pub key: ObjectKey,
    /// Its uid, if that much could be read.
    pub uid: Option<String>,
}

/// All that there is in one part of what an informer covers. What is known of that part and not here has vanished; a
/// deletion was missed.
pub struct Replaced<K> {
    /// Which part of the informer this is about.
    pub part: usize,
    /// The objects whose uid and version were known already when the list began.
    pub kept: Option<Kept<K>>,
    /// The other ones.
    pub items: Vec<Arc<K>>,
    /// Objects that are there but could not be read: what is known of them stays.
    pub unreadable: Vec<Unreadable>,
    /// The version of the collection.
    pub resource_version: String,
}

/// A bounded queue of deltas in the order in which they happened.
///
/// Unlike client-go's `DeltaFIFO` (and like its successor), it does not gather the deltas of one key: the order between
/// objects is what the server sent, and merging is left to the handlers that fall behind. A relist is one delta, so that it
/// becomes visible at once. What vanished in it is told when it is taken out, against what is known then: all that came
/// before has been applied by then, and nothing can be missed.
///
/// Many may push, one takes.
pub struct DeltaFifo<K> {
    waiting: Mutex<VecDeque<Delta<K>>>,
    capacity: usize,
    filled: Notify,
    emptied: Notify,
}

impl<K> DeltaFifo<K> {
    /// A queue in which so many deltas may wait, at least one, and one batch more.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            capacity: capacity.max(1),
            filled: Notify::new(),
            emptied: Notify::new(),
        }
    }

    /// Adds deltas, when there is room: while more wait than may, this waits too. They stay together.
    pub async fn push(&self, deltas: impl IntoIterator<Item = Delta<K>>) {
        let mut deltas = Some(deltas);
        loop {
            let emptied = self.emptied.notified();
            {
                let mut waiting = self.lock();
                if waiting.len() < self.capacity
                    && let Some(deltas) = deltas.take()
                {
                    waiting.extend(deltas);
                }
            }
            if deltas.is_none() {
                self.filled.notify_one();
                return;
            }
            emptied.await;
        }
    }

    /// Adds [`Delta::Sync`] if none waits already: telling everything twice in a row tells nothing more.
    pub fn push_sync(&self) {
        let mut waiting = self.lock();
        if !matches!(waiting.back(), Some(Delta::Sync)) {
            waiting.push_back(Delta::Sync);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Waits for deltas and takes some, at least one.
    pub async fn pop(&self) -> Vec<Delta<K>> {
        loop {
            let taken: Vec<_> = {
                let mut waiting = self.lock();
                let many = waiting.len().min(TAKEN_AT_ONCE);
                waiting.drain(..many).collect()
            };
            if !taken.is_empty() {
                self.emptied.notify_waiters();
                return taken;
            }
            self.filled.notified().await;
        }
    }

    /// How many deltas wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Delta<K>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> fmt::Debug for DeltaFifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("waiting", &self.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Delta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(_) => f.write_str("Applied"),
            Self::Deleted(_) => f.write_str("Deleted"),
            Self::Gone(object) => write!(f, "Gone({})", object.key),
            Self::Replaced(replaced) => fmt::Debug::fmt(replaced, f),
            Self::Bookmark { part, resource_version } => write!(f, "Bookmark({part}, {resource_version})"),
            Self::Sync => f.write_str("Sync"),
        }
    }
}

impl<K> fmt::Debug for Replaced<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaced")
            .field("part", &self.part)
            .field("kept", &self.kept)
            .field("items", &self.items.len())
            .field("unreadable", &self.unreadable)
            .field("resource_version", &self.resource_version)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;
    use std::time::Duration;

    use super::*;

    fn applied(number: u32) -> Delta<u32> {
        Delta::Applied(Arc::new(number))
    }

    fn numbers(deltas: &[Delta<u32>]) -> Vec<u32> {
        deltas
            .iter()
            .filter_map(|delta| if let Delta::Applied(number) = delta { Some(**number) } else { None })
            .collect()
    }

    #[test]
    fn deltas_come_out_in_the_order_in_which_they_went_in() {
        Simulation::new(1).run(|_| async {
            let fifo = DeltaFifo::new(CAPACITY);
            fifo.push((0..3).map(applied)).await;
            fifo.push([applied(3)]).await;
            assert_eq!(numbers(&fifo.pop().await), [0, 1, 2, 3]);
            assert!(fifo.is_empty());
        });
    }

    #[test]
    fn who_pushes_too_much_waits_for_room() {
        Simulation::new(1).run(|clock| async move {
            let fifo = Arc::new(DeltaFifo::new(2));
            fifo.push((0..5).map(applied)).await;
            let scope = clock.scope("test");
            let pusher = fifo.clone();
            let pushing = scope.spawn("pusher", async move { pusher.push([applied(5)]).await });
            clock.sleep(Duration::from_secs(1)).await;
            assert_eq!(fifo.len(), 5);
            assert_eq!(numbers(&fifo.pop().await).len(), 5);
            pushing.await.unwrap();
            assert_eq!(numbers(&fifo.pop().await), [5]);
        });
    }

    #[test]
    fn who_takes_waits_for_something_to_take() {
        Simulation::new(1).run(|clock| async move {
            let fifo = Arc::new(DeltaFifo::new(2));
            let scope = clock.scope("test");
            let taker = fifo.clone();
            let taking = scope.spawn("taker", async move { numbers(&taker.pop().await) });
            clock.sleep(Duration::from_secs(1)).await;
            fifo.push([applied(7)]).await;
            assert_eq!(taking.await.unwrap(), [7]);
        });
    }

    #[test]
    fn one_sync_is_enough() {
        let fifo = DeltaFifo::<u32>::new(2);
        fifo.push_sync();
        fifo.push_sync();
        assert_eq!(fifo.len(), 1);
    }
}
