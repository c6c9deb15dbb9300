//! Hooks of the election. A panic in a hook is logged and changes nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bowline_clock::panic_message;

use crate::ElectionMetrics;

/// Called with the identity of each new leader.
pub(crate) type NewLeaderHook = Box<dyn Fn(&str) + Send + Sync>;

/// Called at the start or the end of a term.
pub(crate) type LeadershipHook = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(super) struct Hooks {
    pub(super) new_leader: Option<NewLeaderHook>,
    pub(super) started: Option<LeadershipHook>,
    pub(super) stopped: Option<LeadershipHook>,
    pub(super) metrics: Option<ElectionMetrics>,
}

impl Hooks {
    pub(super) fn new_leader(&self, leader: &str) {
        if let Some(hook) = &self.new_leader {
            call("on_new_leader", || hook(leader));
        }
    }

    pub(super) fn started(&self) {
        self.metrics.iter().for_each(|metrics| metrics.set_leading(true));
        if let Some(hook) = &self.started {
            call("on_started_leading", hook);
        }
    }

    pub(super) fn stopped(&self) {
        self.metrics.iter().for_each(|metrics| metrics.set_leading(false));
        if let Some(hook) = &self.stopped {
            call("on_stopped_leading", hook);
        }
    }
}

/// A panic must not end the candidate: no process would renew its lease.
fn call(name: &'static str, hook: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(hook)) {
        let panic = panic_message(&*panic);
        tracing::error!(hook = name, panic, "leader election hook panicked");
    }
}
