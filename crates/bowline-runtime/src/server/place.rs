//! The places that connections have: who may stay for how long, and who goes first when there are too many.
//!
//! A connection on which nothing is asked costs its client nothing, so that anybody can have many. They are the ones to go:
//! a probe or a scrape gets in whatever else is connected.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use tokio::sync::Notify;

/// Who is not connected for longer may be about to ask.
const GRACE: Duration = Duration::from_millis(250);

/// The connections on which no request is being answered, the one that has been so for longest first. Who waits for the rest of
/// a request is one of them.
#[derive(Default)]
pub(super) struct Resting {
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    closers: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

/// The place of one connection.
pub(super) struct Place {
    resting: Arc<Resting>,
    clock: Clock,
    closer: Arc<Notify>,
    state: Mutex<State>,
}

struct State {
    /// Its key among those that rest.
    rest: Option<u64>,
    /// When it has to have done something.
    deadline: Instant,
}

impl Resting {
    /// A new connection, which has to make a request within the limit.
    pub(super) fn enter(self: &Arc<Self>, clock: &Clock, limit: Duration) -> Place {
        let state = Mutex::new(State { rest: None, deadline: clock.now() });
        let place = Place { resting: self.clone(), clock: clock.clone(), closer: Arc::default(), state };
        place.rests(limit);
        place
    }

    /// Closes the one that rests for longest, as soon as there is one that rests for more than a moment.
    pub(super) async fn close_oldest(&self, clock: &Clock) {
        loop {
            let next = {
                let mut connections = lock(&self.connections);
                let oldest = connections.closers.first_entry();
                let until =
                    oldest.as_ref().map_or_else(|| clock.now() + GRACE, |oldest| oldest.get().0 + GRACE);
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

impl Place {
    /// A request is being answered; whoever does that limits how long it takes.
    pub(super) fn works(&self) {
        let mut state = lock(&self.state);
        state.deadline = Instant::MAX;
        if let Some(rest) = state.rest.take() {
            lock(&self.resting.connections).closers.remove(&rest);
        }
    }

    /// The client has to take its answer and ask again, or to say the rest of what it asks, within the limit.
    pub(super) fn rests(&self, limit: Duration) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let mut connections = lock(&self.resting.connections);
        let rest = connections.next;
        connections.next += 1;
        connections.closers.insert(rest, (now, self.closer.clone()));
        if let Some(before) = state.rest.replace(rest) {
            connections.closers.remove(&before);
        }
        state.deadline = now + limit;
    }

    /// Whether no request is being answered.
    pub(super) fn is_resting(&self) -> bool {
        lock(&self.state).rest.is_some()
    }

    /// Until the connection has to go.
    pub(super) async fn lost(&self) {
        let mut closed = std::pin::pin!(self.closer.notified());
        let mut overdue = self.clock.sleep_until(lock(&self.state).deadline);
        poll_fn(|cx| {
            if closed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            // What the connection did since it was asked last may have moved the deadline, in either direction.
            let deadline = lock(&self.state).deadline;
            if overdue.deadline() != deadline {
                overdue = self.clock.sleep_until(deadline);
            }
            Pin::new(&mut overdue).poll(cx)
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.works();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use bowline_clock::Simulation;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_rests_for_longest_goes_first_and_who_works_stays() {
        Simulation::new(0).run(|clock| async move {
            let resting = Arc::new(Resting::default());
            let [first, second, third] = [(); 3].map(|()| resting.enter(&clock, SECOND * 60));
            first.works();
            second.works();
            second.rests(SECOND * 60);
            resting.close_oldest(&clock).await;
            assert!(clock.timeout(SECOND, third.lost()).await.is_ok());
            resting.close_oldest(&clock).await;
            assert!(clock.timeout(SECOND, second.lost()).await.is_ok());
            assert!(clock.timeout(SECOND, resting.close_oldest(&clock)).await.is_err());
            assert!(clock.timeout(SECOND, first.lost()).await.is_err());
            drop([first, second, third]);
            assert!(lock(&resting.connections).closers.is_empty());
        });
    }

    #[test]
    fn who_has_just_come_is_given_a_moment() {
        Simulation::new(0).run(|clock| async move {
            let resting = Arc::new(Resting::default());
            let place = resting.enter(&clock, SECOND * 60);
            assert!(clock.timeout(GRACE / 2, resting.close_oldest(&clock)).await.is_err());
            assert!(clock.timeout(GRACE, resting.close_oldest(&clock)).await.is_ok());
            assert!(clock.timeout(SECOND, place.lost()).await.is_ok());
        });
    }

    #[test]
    fn who_does_nothing_goes_when_its_time_is_over() {
        Simulation::new(0).run(|clock| async move {
            let place = Arc::new(Resting::default()).enter(&clock, SECOND);
            clock.sleep(SECOND / 2).await;
            let (lost, begun) = (place.lost(), clock.now());
            let used = async {
                place.works();
                clock.sleep(SECOND * 60).await;
                place.rests(SECOND * 3);
            };
            // In one task, as in a connection.
            let ended = clock.timeout(SECOND * 600, futures::future::join(used, lost)).await;
            assert!(ended.is_ok(), "it never goes");
            assert_eq!(clock.now(), begun + SECOND * 63);
        });
    }
}
