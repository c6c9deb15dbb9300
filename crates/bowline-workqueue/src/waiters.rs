//! Waiting tasks: workers that wait for a key, and drains that wait for the end.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

/// A waiting worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Workers in the order of their arrival, and the one whose timer runs until the earliest deadline.
///
/// A worker is removed from the list when it is woken for a key; until it runs, it is `notified`. An added key wakes
/// one worker. Beyond that, no more workers are woken than keys are ready, and an unused wake-up is passed on.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    waiting: BTreeMap<Ticket, Waker>,
    notified: usize,
    timer: Option<Ticket>,
    drains: Vec<Waker>,
}

/// The state of the queue that the waiters depend on.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent facts, not the states of one thing")]
pub(crate) struct Situation {
    /// Number of ready keys.
    pub(crate) ready: usize,
    /// Whether a key has just become ready.
    pub(crate) arrived: bool,
    /// Whether keys are delayed.
    pub(crate) delayed: bool,
    /// Whether the earliest deadline moved closer.
    pub(crate) deadline_moved: bool,
    /// Whether the queue shuts down, so that no task may wait.
    pub(crate) shutting_down: bool,
    /// Whether drains are complete.
    pub(crate) idle: bool,
}

/// Wakers to wake after the lock is released.
#[derive(Debug, Default)]
#[must_use = "wake the waiting tasks"]
pub(crate) struct Wakes {
    worker: Option<Waker>,
    timer: Option<Waker>,
    all: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn wake(self) {
        if let Some(waker) = self.worker {
            waker.wake();
        }
        if let Some(waker) = self.timer {
            waker.wake();
        }
        for waker in self.all {
            waker.wake();
        }
    }
}

impl Waiters {
    /// Registers a waiting worker: at its old position on the list if it has one, or at the end.
    pub(crate) fn wait(&mut self, ticket: Option<Ticket>, cx: &Context<'_>) -> Ticket {
        if let Some(ticket) = ticket {
            if let Some(waker) = self.waiting.get_mut(&ticket) {
                waker.clone_from(cx.waker());
                return ticket;
            }
            // It was woken, and another worker got the key.
            self.notified -= 1;
        }
        let new = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(new, cx.waker().clone());
        // A worker with a new ticket keeps its timer.
        if ticket.is_some() && self.timer == ticket {
            self.timer = Some(new);
        }
        new
    }

    /// Lets `ticket` run the timer, unless another does, and returns whether it does.
    pub(crate) fn keep_timer(&mut self, ticket: Ticket) -> bool {
        *self.timer.get_or_insert(ticket) == ticket
    }

    /// Removes a worker that got a key or stopped waiting; it may not be on the list.
    pub(crate) fn leave(&mut self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        if self.waiting.remove(&ticket).is_none() {
            self.notified -= 1;
        }
        if self.timer == Some(ticket) {
            self.timer = None;
        }
    }

    /// Whether no task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.drains.is_empty()
    }

    /// The wakers to wake in this situation.
    pub(crate) fn wakes(&mut self, situation: Situation) -> Wakes {
        let mut wakes = Wakes::default();
        if situation.shutting_down {
            self.notified += self.waiting.len();
            wakes.all.extend(std::mem::take(&mut self.waiting).into_values());
        } else if situation.ready > 0
            && (situation.arrived || situation.ready > self.notified)
            && let Some((_, waker)) = self.waiting.pop_first()
        {
            // One is enough: it wakes the next one.
            self.notified += 1;
            wakes.worker = Some(waker);
        }
        wakes.timer = match self.timer {
            // If the worker with the timer is not on the list, it is woken already and checks the deadlines when it
            // runs.
            Some(keeper) if situation.deadline_moved => self.waiting.get(&keeper).cloned(),
            None if situation.delayed => self.waiting.values().next().cloned(),
            _ => None,
        };
        if situation.idle {
            wakes.all.append(&mut self.drains);
        }
        wakes
    }

    /// Registers a drain that waits for the queue to be idle.
    pub(crate) fn wait_idle(&mut self, cx: &Context<'_>) {
        if !self.drains.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.drains.push(cx.waker().clone());
        }
    }
}
