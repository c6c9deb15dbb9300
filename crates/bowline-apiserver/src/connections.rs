//! The connections of a socket, by client and activity, and the choice of one to close when there are too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// All connections of a socket. One is *idle* while it has no request in progress, also before its first one.
///
/// Any client can open connections and request health, any number of times. So anonymous connections are closed first,
/// and at most `max_anonymous` exist: the rest is reserved for authenticated clients. They are closed even with a
/// request in progress, since a client can prolong it (an HTTP/2 stream without a window). Their regular requests are
/// short.
pub(crate) struct Connections {
    max_anonymous: usize,
    state: Mutex<State>,
    /// A connection of a known client has become idle.
    rested: Notify,
}

#[derive(Default)]
struct State {
    next: u64,
    /// Anonymous connections: first the one whose last request ended longest ago.
    anonymous: BTreeMap<u64, Arc<Notify>>,
    /// Idle authenticated connections, longest idle first.
    idle_known: BTreeMap<u64, Arc<Notify>>,
}

/// One connection, until it is dropped.
pub(crate) struct ConnectionSlot {
    connections: Arc<Connections>,
    activity: Mutex<Activity>,
    closer: Arc<Notify>,
}

struct Activity {
    /// Number of requests in progress.
    requests: usize,
    has_requested: bool,
    is_known: bool,
    /// Key among the connections that may be closed, while it is one of them.
    key: Option<u64>,
}

/// A request in progress; it ends on drop.
pub(crate) struct ActiveRequest(Arc<ConnectionSlot>);

impl Connections {
    /// A quarter is reserved for authenticated clients, if the maximum permits.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max_anonymous: (max - max / 4).max(1),
            state: Mutex::default(),
            rested: Notify::new(),
        })
    }

    /// Adds a connection. If there are too many anonymous ones, the first of them is closed.
    pub(crate) fn enter(self: &Arc<Self>) -> ConnectionSlot {
        let closer = Arc::new(Notify::new());
        let mut state = self.lock();
        if state.anonymous.len() >= self.max_anonymous {
            state.close_anonymous();
        }
        let key = Some(state.add(false, &closer));
        drop(state);
        let activity = Activity { requests: 0, has_requested: false, is_known: false, key };
        ConnectionSlot { connections: self.clone(), activity: Mutex::new(activity), closer }
    }

    /// Closes an anonymous connection, or else the longest idle one. Returns whether there was one.
    pub(crate) fn close_one(&self) -> bool {
        let mut state = self.lock();
        if state.close_anonymous() {
            return true;
        }
        let Some((_, closer)) = state.idle_known.pop_first() else { return false };
        closer.notify_one();
        true
    }

    /// Waits until a connection may become closable.
    pub(crate) async fn rested(&self) {
        self.rested.notified().await;
    }

    /// No code under this lock can panic. It is taken after a connection's lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn close_anonymous(&mut self) -> bool {
        let Some((_, closer)) = self.anonymous.pop_first() else { return false };
        closer.notify_one();
        true
    }

    fn closable(&mut self, is_known: bool) -> &mut BTreeMap<u64, Arc<Notify>> {
        if is_known { &mut self.idle_known } else { &mut self.anonymous }
    }

    fn add(&mut self, is_known: bool, closer: &Arc<Notify>) -> u64 {
        let key = self.next;
        self.next += 1;
        self.closable(is_known).insert(key, closer.clone());
        key
    }
}

impl ConnectionSlot {
    /// Begins a request of an authenticated or anonymous client. A connection once authenticated stays so.
    pub(crate) fn begin(self: &Arc<Self>, is_known: bool) -> ActiveRequest {
        let mut activity = self.activity();
        activity.requests += 1;
        activity.has_requested = true;
        let was_known = activity.is_known;
        activity.is_known |= is_known;
        if activity.is_known
            && let Some(key) = activity.key.take()
        {
            self.connections.lock().closable(was_known).remove(&key);
        }
        ActiveRequest(self.clone())
    }

    /// Whether it has had no request yet.
    pub(crate) fn is_silent(&self) -> bool {
        !self.activity().has_requested
    }

    /// Waits until the connection has to close in favor of others.
    pub(crate) async fn closed(&self) {
        self.closer.notified().await;
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.requests -= 1;
        if activity.requests > 0 {
            return;
        }
        let connections = &self.0.connections;
        let mut state = connections.lock();
        if activity.is_known {
            activity.key = Some(state.add(true, &self.0.closer));
            connections.rested.notify_one();
        } else if let Some(key) = activity.key.take()
            // Otherwise it is about to be closed.
            && state.anonymous.remove(&key).is_some()
        {
            activity.key = Some(state.add(false, &self.0.closer));
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let activity = self.activity();
        if let Some(key) = activity.key {
            self.connections.lock().closable(activity.is_known).remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn is_closed(place: &ConnectionSlot) -> bool {
        place.closed().now_or_never().is_some()
    }

    #[test]
    fn the_longest_idle_connection_is_closed_and_anonymous_ones_first() {
        let connections = Connections::new(100);
        let [known, first, second, stalled, busy] = [(); 5].map(|()| Arc::new(connections.enter()));
        drop(known.begin(true));
        drop(first.begin(false)); // After the second one now.
        let _stalled = stalled.begin(false);
        let _busy = busy.begin(true);
        for place in [&second, &stalled, &first, &known] {
            assert!(!is_closed(place));
            assert!(connections.close_one());
            assert!(is_closed(place));
        }
        assert!(!connections.close_one());
        assert!(!is_closed(&busy), "a request is under way");
    }

    #[test]
    fn who_waits_for_room_is_woken_when_a_connection_becomes_idle() {
        let connections = Connections::new(8);
        let place = Arc::new(connections.enter());
        let busy = place.begin(true);
        assert!(!connections.close_one() && connections.rested().now_or_never().is_none());
        drop(busy);
        assert!(connections.rested().now_or_never().is_some() && connections.close_one());
    }

    #[test]
    fn a_quarter_is_kept_for_clients_that_are_known() {
        let connections = Connections::new(8);
        let known = [(); 8].map(|()| {
            let place = Arc::new(connections.enter());
            drop(place.begin(true));
            place
        });
        let anonymous: Vec<_> = (0..7).map(|_| Arc::new(connections.enter())).collect();
        assert!(!known.iter().any(|place| is_closed(place)), "known clients are not counted");
        let closed: Vec<_> = anonymous.iter().map(|place| is_closed(place)).collect();
        assert_eq!(closed, [true, false, false, false, false, false, false], "six may be there at once");
        drop((known, anonymous));
        let state = connections.lock();
        assert!(state.anonymous.is_empty() && state.idle_known.is_empty());
    }

    #[test]
    fn a_connection_is_idle_when_its_last_request_has_ended() {
        let connections = Connections::new(8);
        let place = Arc::new(connections.enter());
        let (first, second) = (place.begin(true), place.begin(false));
        drop(first);
        connections.close_one();
        assert!(!is_closed(&place) && !place.is_silent());
        drop(second);
        connections.close_one();
        assert!(is_closed(&place));
    }
}
