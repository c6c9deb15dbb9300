//! Waiting for a key.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bowline_clock::Instant;

use crate::env::{Clock, Sleep, poll_cooperate};
use crate::shared::{Ended, State};
use crate::waiters::Ticket;
use crate::{Coalesce, Item, Key, WorkQueue};

/// The future of [`WorkQueue::get`].
#[must_use = "futures do nothing unless polled"]
pub struct Get<'q, K: Key, P: Coalesce = ()> {
    queue: &'q WorkQueue<K, P>,
    /// The worker's previous run, which ends with the first poll.
    ended: Option<Ended>,
    /// Whether to take a key also when the task has used up its tokio budget.
    is_eager: bool,
    /// Boxed, because most of the time a key is ready, and then there is nothing to set up or to clear.
    waiting: Option<Box<Waiting>>,
}

/// A worker on the list.
struct Waiting {
    ticket: Ticket,
    /// The deadline of its timer, if it runs the timer.
    deadline: Option<Instant>,
    timer: Option<Sleep>,
}

impl<'q, K: Key, P: Coalesce> Get<'q, K, P> {
    pub(crate) fn new(queue: &'q WorkQueue<K, P>) -> Self {
        Self { queue, ended: None, is_eager: false, waiting: None }
    }

    /// Waits for a worker that ends a run.
    #[inline(always)]
    pub(crate) fn after(queue: &'q WorkQueue<K, P>, ended: Ended) -> Self {
        Self { queue, ended: Some(ended), is_eager: false, waiting: None }
    }

    /// Takes a ready key also when the task has used up tokio's budget (128 keys), for workers that yield by
    /// themselves. Yielding costs a thread wake-up, and the worker may continue on another thread.
    #[inline(always)]
    pub fn eager(mut self) -> Self {
        self.is_eager = true;
        self
    }

    #[inline(always)]
    fn ticket(&self) -> Option<Ticket> {
        self.waiting.as_ref().map(|waiting| waiting.ticket)
    }

    /// Ends the previous run, once.
    #[inline(always)]
    fn end(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.queue.done(ended);
        }
    }

    /// Registers the worker, and stores the deadline of the timer if it runs the timer.
    fn wait(&mut self, state: &mut State<K, P>, cx: &Context<'_>) {
        let ticket = state.waiters.wait(self.ticket(), cx);
        let keeps_timer = state.machine.has_delayed() && state.waiters.keep_timer(ticket);
        let deadline = if keeps_timer { state.machine.next_deadline() } else { None };
        match &mut self.waiting {
            Some(waiting) => (waiting.ticket, waiting.deadline) = (ticket, deadline),
            None => self.waiting = Some(Box::new(Waiting { ticket, deadline, timer: None })),
        }
    }
}

impl Waiting {
    /// Polls the timer, if there is one; ready when its deadline has passed.
    fn poll_timer(&mut self, clock: &Clock, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.as_ref().map(Sleep::deadline) != self.deadline {
            self.timer = self.deadline.map(|deadline| clock.sleep_until(deadline));
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        ready!(Pin::new(timer).poll(cx));
        self.timer = None;
        Poll::Ready(())
    }
}

impl<'q, K: Key, P: Coalesce> Future for Get<'q, K, P> {
    type Output = Option<Item<'q, K, P>>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut progress = None;
        if !this.is_eager {
            let Poll::Ready(made) = poll_cooperate(cx) else {
                this.end();
                return Poll::Pending;
            };
            progress = Some(made);
        }
        let shared = &*this.queue.shared;
        loop {
            let ended = this.ended.take();
            let now = ended.map_or_else(|| shared.metrics_now(), |ended| ended.at);
            let mut state = shared.lock_first();
            if let Some(ended) = ended {
                state.done(shared, ended);
            }
            state.promote(shared);
            if let Some(slot) = state.machine.next() {
                let item = state.hand_out(this.queue, slot, now);
                state.waiters.leave(this.ticket());
                shared.release(state);
                this.waiting = None;
                if let Some(progress) = progress {
                    progress.made_progress();
                }
                return Poll::Ready(Some(item));
            }
            if state.machine.is_shutting_down() {
                state.waiters.leave(this.ticket());
                shared.release(state);
                this.waiting = None;
                return Poll::Ready(None);
            }
            this.wait(&mut state, cx);
            shared.release(state);
            if let Some(waiting) = &mut this.waiting {
                ready!(waiting.poll_timer(&shared.clock, cx));
            }
        }
    }
}

impl<K: Key, P: Coalesce> Drop for Get<'_, K, P> {
    #[inline(always)]
    fn drop(&mut self) {
        self.end();
        if let Some(waiting) = self.waiting.take() {
            self.queue.shared.with(|state| state.waiters.leave(Some(waiting.ticket)));
        }
    }
}

impl<K: Key, P: Coalesce> fmt::Debug for Get<'_, K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("waiting", &self.waiting.is_some()).finish_non_exhaustive()
    }
}
