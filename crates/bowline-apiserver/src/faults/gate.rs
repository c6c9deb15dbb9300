//! Requests and events that are held until a test releases them.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::rule::Rule;

/// Holds what its rule is applied to, until it is released. It dereferences to its [`Rule`]; removing the rule releases
/// too. Dropping a gate releases nothing. Clones are handles to the same gate.
#[derive(Clone)]
#[must_use = "what is held waits until the gate is released"]
pub struct Gate {
    rule: Rule,
    state: Arc<GateState>,
}

#[derive(Default)]
pub(super) struct GateState {
    inner: Mutex<Inner>,
    /// Notified when something begins to wait.
    reached: Notify,
}

#[derive(Default)]
struct Inner {
    is_open: bool,
    held: u64,
    /// In the order of arrival. One whose client left is closed, and is skipped.
    waiting: VecDeque<oneshot::Sender<()>>,
}

impl Gate {
    pub(super) fn new(rule: Rule, state: Arc<GateState>) -> Self {
        Self { rule, state }
    }

    /// Waits until the gate has held something; returns at once if it has.
    ///
    /// It waits without a limit. Use [`Clock::timeout`](bowline_clock::Clock::timeout) if it may never happen.
    pub async fn wait_reached(&self) {
        self.wait_held(1).await;
    }

    /// Waits until the gate has held this number of requests or events since it was set, including those that went on
    /// since. It waits without a limit.
    pub async fn wait_held(&self, count: u64) {
        loop {
            let mut reached = std::pin::pin!(self.state.reached.notified());
            // Registered before the look, so that nothing is missed between the two.
            reached.as_mut().enable();
            if self.state.lock().held >= count {
                return;
            }
            reached.await;
        }
    }

    /// Number of requests or events that wait now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.iter().filter(|waiting| !waiting.is_closed()).count()
    }

    /// Lets the one that has waited longest go on. Returns false if nothing waits.
    #[expect(clippy::must_use_candidate, reason = "it is called for its effect")]
    pub fn release_one(&self) -> bool {
        let mut inner = self.state.lock();
        while let Some(waiting) = inner.waiting.pop_front() {
            if waiting.send(()).is_ok() {
                return true;
            }
        }
        false
    }

    /// Lets everything that waits go on, and removes the rule.
    pub fn release(&self) {
        self.rule.remove();
    }
}

impl Deref for Gate {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        &self.rule
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("rule", &self.rule)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl GateState {
    /// Waits until it is released.
    pub(super) async fn pass(&self) {
        let (sender, released) = oneshot::channel();
        {
            let mut inner = self.lock();
            if inner.is_open {
                return;
            }
            inner.held += 1;
            inner.waiting.retain(|waiting| !waiting.is_closed());
            inner.waiting.push_back(sender);
        }
        self.reached.notify_waiters();
        // An error means that the gate opened.
        let _ = released.await;
    }

    pub(super) fn open(&self) {
        let mut inner = self.lock();
        inner.is_open = true;
        inner.waiting.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
