//! Connections that have not made a request yet. Anybody can open any number of them, so they are the first to go when
//! there are too many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All such connections, in the order in which they came.
#[derive(Default)]
pub(crate) struct Silent {
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    next: u64,
    closers: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one connection among them, until it [breaks](Place::broken) its silence or is dropped.
pub(crate) struct Place {
    silent: Arc<Silent>,
    id: u64,
    is_broken: AtomicBool,
    closer: Arc<Notify>,
}

impl Silent {
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        let closer = Arc::new(Notify::new());
        let mut places = self.lock();
        let id = places.next;
        places.next += 1;
        places.closers.insert(id, closer.clone());
        Place { silent: self.clone(), id, is_broken: AtomicBool::new(false), closer }
    }

    /// Closes the one that has been silent for longest, if there is any.
    pub(crate) fn close_oldest(&self) {
        if let Some((_, closer)) = self.lock().closers.pop_first() {
            closer.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        // Nothing that can panic runs under this lock.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The connection makes a request.
    pub(crate) fn broken(&self) {
        if !self.is_broken.load(Ordering::Relaxed) && !self.is_broken.swap(true, Ordering::Relaxed) {
            self.silent.lock().closers.remove(&self.id);
        }
    }

    pub(crate) fn is_silent(&self) -> bool {
        !self.is_broken.load(Ordering::Relaxed)
    }

    /// Until the connection has to go for others.
    pub(crate) async fn closed(&self) {
        self.closer.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.broken();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_that_is_still_silent_is_closed() {
        let silent = Arc::new(Silent::default());
        let [first, second, third] = [(); 3].map(|()| silent.enter());
        first.broken();
        silent.close_oldest();
        second.closed().await;
        drop(third);
        silent.close_oldest();
        assert!(silent.lock().closers.is_empty() && !first.is_silent() && second.is_silent());
    }
}
