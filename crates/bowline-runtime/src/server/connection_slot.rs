//! Slots of connections: their time limits, and which one is closed when there are too many.
//!
//! Idle connections are cheap for a client, so that one client can open many. They are closed first, so that probes and
//! scrapes can always connect.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use tokio::sync::Notify;

/// Minimum idle time before a connection is closed: a new client may be about to send a request.
const MIN_IDLE: Duration = Duration::from_millis(250);

/// The connections without a request in progress, oldest first. A connection that waits for the rest of a request
/// counts as idle.
#[derive(Default)]
pub(super) struct IdleConnections {
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    closers: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

/// The slot of one connection.
pub(super) struct ConnectionSlot {
    idle: Arc<IdleConnections>,
    clock: Clock,
    closer: Arc<Notify>,
    state: Mutex<State>,
}

struct State {
    /// Key in the idle connections, if it is one.
    idle_key: Option<u64>,
    /// Time at which the connection is closed unless there is progress.
    deadline: Instant,
}

impl IdleConnections {
    /// Adds a connection, which must send a request within the limit.
    pub(super) fn enter(self: &Arc<Self>, clock: &Clock, limit: Duration) -> ConnectionSlot {
        let state = Mutex::new(State { idle_key: None, deadline: clock.now() });
        let slot = ConnectionSlot { idle: self.clone(), clock: clock.clone(), closer: Arc::default(), state };
        slot.set_idle(limit);
        slot
    }

    /// Closes the connection that is idle for longest, once one exceeds the minimum idle time.
    pub(super) async fn close_oldest(&self, clock: &Clock) {
        loop {
            let next = {
                let mut connections = lock(&self.connections);
                let oldest = connections.closers.first_entry();
                let until = oldest
                    .as_ref()
                    .map_or_else(|| clock.now() + MIN_IDLE, |oldest| oldest.get().0 + MIN_IDLE);
                if let Some(oldest) = oldest.filter(|_| until <= clock.now()) {
                    oldest.remove().1.notify_one();
                    return;
                }
                until
            };
            clock.sleep_until(next).await;
        }
    }
}

impl ConnectionSlot {
    /// A request is in progress; its handler enforces its own limit.
    pub(super) fn set_busy(&self) {
        let mut state = lock(&self.state);
        state.deadline = Instant::MAX;
        if let Some(idle_key) = state.idle_key.take() {
            lock(&self.idle.connections).closers.remove(&idle_key);
        }
    }

    /// The client must read the response and send the next request, or the rest of this one, within the limit.
    pub(super) fn set_idle(&self, limit: Duration) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let mut connections = lock(&self.idle.connections);
        let idle_key = connections.next;
        connections.next += 1;
        connections.closers.insert(idle_key, (now, self.closer.clone()));
        if let Some(before) = state.idle_key.replace(idle_key) {
            connections.closers.remove(&before);
        }
        state.deadline = now + limit;
    }

    /// Whether no request is in progress.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.state).idle_key.is_some()
    }

    /// Waits until the connection must be closed.
    pub(super) async fn wait_closed(&self) {
        let mut closed = std::pin::pin!(self.closer.notified());
        let mut overdue = self.clock.sleep_until(lock(&self.state).deadline);
        poll_fn(|cx| {
            if closed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            // The deadline may have moved in either direction since the last poll.
            let deadline = lock(&self.state).deadline;
            if overdue.deadline() != deadline {
                overdue = self.clock.sleep_until(deadline);
            }
            Pin::new(&mut overdue).poll(cx)
        })
        .await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_busy();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_longest_idle_connection_is_closed_first_and_busy_ones_stay() {
        Simulation::new(0).run(|clock| async move {
            let idle = Arc::new(IdleConnections::default());
            let [first, second, third] = [(); 3].map(|()| idle.enter(&clock, SECOND * 60));
            first.set_busy();
            second.set_busy();
            second.set_idle(SECOND * 60);
            idle.close_oldest(&clock).await;
            assert!(clock.timeout(SECOND, third.wait_closed()).await.is_ok());
            idle.close_oldest(&clock).await;
            assert!(clock.timeout(SECOND, second.wait_closed()).await.is_ok());
            assert!(clock.timeout(SECOND, idle.close_oldest(&clock)).await.is_err());
            assert!(clock.timeout(SECOND, first.wait_closed()).await.is_err());
            drop([first, second, third]);
            assert!(lock(&idle.connections).closers.is_empty());
        });
    }

    #[test]
    fn a_new_connection_has_a_minimum_idle_time() {
        Simulation::new(0).run(|clock| async move {
            let idle = Arc::new(IdleConnections::default());
            let slot = idle.enter(&clock, SECOND * 60);
            assert!(clock.timeout(MIN_IDLE / 2, idle.close_oldest(&clock)).await.is_err());
            assert!(clock.timeout(MIN_IDLE, idle.close_oldest(&clock)).await.is_ok());
            assert!(clock.timeout(SECOND, slot.wait_closed()).await.is_ok());
        });
    }

    #[test]
    fn an_idle_connection_is_closed_at_its_deadline() {
        Simulation::new(0).run(|clock| async move {
            let slot = Arc::new(IdleConnections::default()).enter(&clock, SECOND);
            clock.sleep(SECOND / 2).await;
            let (wait_closed, begun) = (slot.wait_closed(), clock.now());
            let used = async {
                slot.set_busy();
                clock.sleep(SECOND * 60).await;
                slot.set_idle(SECOND * 3);
            };
            // Concurrently in one task, as in a connection.
            let ended = clock.timeout(SECOND * 600, futures::future::join(used, wait_closed)).await;
            assert!(ended.is_ok(), "it never goes");
            assert_eq!(clock.now(), begun + SECOND * 63);
        });
    }
}
