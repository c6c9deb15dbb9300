//! The queue between reflectors and the indexer. Owns the order of changes, and the limit of waiting ones.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::unchanged_objects::UnchangedObjects;
use bowline_machinery::ObjectKey;

/// Default limit of queued deltas.
pub(crate) const CAPACITY: usize = 4096;

/// Maximum deltas per [`pop`](DeltaFifo::pop), which become visible to readers together.
const TAKEN_AT_ONCE: usize = 1024;

/// A change on its way from a reflector to the indexer.
pub(crate) enum Delta<K> {
    /// A new or changed object.
    Applied(Arc<K>),
    /// A deleted object, in its final state.
    Deleted(Arc<K>),
    /// A deleted object with an undecodable final state; the last known state is used instead.
    Gone(UndecodableRef),
    /// A complete list.
    Replaced(Replaced<K>),
    /// No changes up to this version.
    Bookmark {
        /// The part of the informer.
        part: usize,
        /// Version of the collection.
        resource_version: String,
    },
    /// A resync is due.
    Sync,
}

/// Identity of an undecodable object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UndecodableRef {
    /// Key of the object.
    pub(crate) key: ObjectKey,
    /// Uid, if it could be read.
    pub(crate) uid: Option<String>,
}

/// A complete list of one part of an informer. A known object of the part that is not in it was deleted, and the
/// deletion was missed.
pub(crate) struct Replaced<K> {
    /// The part of the informer.
    pub(crate) part: usize,
    /// Objects that are unchanged since the list began.
    pub(crate) kept: Option<UnchangedObjects<K>>,
    /// The other objects.
    pub(crate) items: Vec<Arc<K>>,
    /// Undecodable objects, which keep their last known state.
    pub(crate) unreadable: Vec<UndecodableRef>,
    /// Version of the collection.
    pub(crate) resource_version: String,
}

/// A bounded queue of deltas, in order.
///
/// Like client-go's `RealFIFO`, and unlike `DeltaFIFO`, it does not group deltas by key. The order between objects is
/// the server's, and merging happens only for handlers that fall behind. A relist is one delta, so that it becomes
/// visible at once. Deletions in it are found when it is applied: by then all earlier deltas are applied, so none can
/// be missed.
///
/// Many tasks may push; one task pops.
pub(crate) struct DeltaFifo<K> {
    waiting: Mutex<VecDeque<Delta<K>>>,
    capacity: usize,
    filled: Notify,
    emptied: Notify,
}

impl<K> DeltaFifo<K> {
    /// Creates a queue for at least one delta and up to `capacity`, plus one batch.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            capacity: capacity.max(1),
            filled: Notify::new(),
            emptied: Notify::new(),
        }
    }

    /// Pushes deltas as one unit. Waits while the queue is full.
    pub(crate) async fn push(&self, deltas: impl IntoIterator<Item = Delta<K>>) {
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

    /// Pushes [`Delta::Sync`], unless it is the last delta already.
    pub(crate) fn push_sync(&self) {
        let mut waiting = self.lock();
        if !matches!(waiting.back(), Some(Delta::Sync)) {
            waiting.push_back(Delta::Sync);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Waits for at least one delta, and returns the next ones.
    pub(crate) async fn pop(&self) -> Vec<Delta<K>> {
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

    /// The number of queued deltas.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
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
            assert_eq!(fifo.len(), 0);
        });
    }

    #[test]
    fn a_push_waits_while_the_queue_is_full() {
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
    fn a_pop_waits_for_a_delta() {
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
