//! Who is told what about the election. A hook that panics is logged and changes nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bowline_clock::panic_message;

use crate::ElectionMetrics;

/// Who is told of new leaders.
pub(crate) type Told = Box<dyn Fn(&str) + Send + Sync>;

/// Who is told of the beginning or the end of a term.
pub(crate) type Called = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
pub(super) struct Hooks {
    pub(super) new_leader: Option<Told>,
    pub(super) started: Option<Called>,
    pub(super) stopped: Option<Called>,
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

/// A panic must not end the candidate: its lease would stay, and nobody would renew it.
fn call(name: &'static str, hook: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(hook)) {
        let panic = panic_message(&*panic);
        tracing::error!(hook = name, panic, "a hook of the leader election panicked; the election goes on");
    }
}
