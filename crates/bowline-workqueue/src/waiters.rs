//! Who waits for the queue: workers for a key, drains for the end.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

/// A waiting worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Workers in the order in which they came, and the one of them whose timer stands for the earliest deadline.
///
/// A worker is taken off the list when it is woken for a key; until it comes, it is `notified`. A key that arrives
/// wakes a worker; beyond that, no more are woken than there are keys in line, and a wake-up that is not used is
/// passed on.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    waiting: BTreeMap<Ticket, Waker>,
    notified: usize,
    timer: Option<Ticket>,
    drains: Vec<Waker>,
}

/// What the waiters have to know of the rest of the queue.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent facts, not the states of one thing")]
pub(crate) struct Situation {
    /// How many keys are in line.
    pub(crate) ready: usize,
    /// Whether one has just got there.
    pub(crate) arrived: bool,
    /// Whether keys wait for their time.
    pub(crate) delayed: bool,
    /// Whether the earliest of those times came closer.
    pub(crate) deadline_moved: bool,
    /// Whether nobody is to wait any more.
    pub(crate) shutting_down: bool,
    /// Whether drains are over.
    pub(crate) idle: bool,
}

/// Wakers to be woken once the lock is released.
#[derive(Debug, Default)]
#[must_use = "somebody has to be woken"]
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
    /// A worker waits: on the list at its old place if it is there, or at the end.
    pub(crate) fn wait(&mut self, ticket: Option<Ticket>, cx: &Context<'_>) -> Ticket {
        if let Some(ticket) = ticket {
            if let Some(waker) = self.waiting.get_mut(&ticket) {
                waker.clone_from(cx.waker());
                return ticket;
            }
            // It was woken, and somebody else got the key.
            self.notified -= 1;
        }
        let new = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(new, cx.waker().clone());
        // A worker that changes its number keeps its timer.
        if ticket.is_some() && self.timer == ticket {
            self.timer = Some(new);
        }
        new
    }

    /// Makes `ticket` the keeper of the timer, unless another is; whether it is.
    pub(crate) fn keep_timer(&mut self, ticket: Ticket) -> bool {
        *self.timer.get_or_insert(ticket) == ticket
    }

    /// A worker that may have waited does so no more, with a key or without.
    pub(crate) fn leave(&mut self, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        if self.waiting.remove(&ticket).is_none() {
            self.notified -= 1;
        }
        if self.timer == Some(ticket) {
            self.timer = None;
        }
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.drains.is_empty()
    }

    /// Who is to be woken, as things are.
    pub(crate) fn wakes(&mut self, situation: Situation) -> Wakes {
        let mut wakes = Wakes::default();
        if situation.shutting_down {
            self.notified += self.waiting.len();
            wakes.all.extend(std::mem::take(&mut self.waiting).into_values());
        } else if situation.ready > 0
            && (situation.arrived || situation.ready > self.notified)
            && let Some((_, waker)) = self.waiting.pop_first()
        {
            // One is enough: it does the same in turn.
            self.notified += 1;
            wakes.worker = Some(waker);
        }
        wakes.timer = match self.timer {
            // A keeper that is not on the list was woken already, and looks at the deadlines when it comes.
            Some(keeper) if situation.deadline_moved => self.waiting.get(&keeper).cloned(),
            None if situation.delayed => self.waiting.values().next().cloned(),
            _ => None,
        };
        if situation.idle {
            wakes.all.append(&mut self.drains);
        }
        wakes
    }

    /// A drain waits for the queue to be idle.
    pub(crate) fn wait_idle(&mut self, cx: &Context<'_>) {
        if !self.drains.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.drains.push(cx.waker().clone());
        }
    }
}
