//! What waits in a controller's queue with each request.

use bowline_workqueue::Coalesce;

use crate::trigger::{Trigger, Triggers};

/// Why a request is to be run, and how often it failed since it last did not. Kept beside the key, so that a run that does
/// not fail needs neither the limiter nor its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) triggers: Triggers,
    /// Errors in a row.
    pub(crate) failures: u32,
    /// The limiter remembers it: it failed or backed off, and did nothing else since.
    pub(crate) is_limited: bool,
}

impl Pending {
    pub(crate) fn new(trigger: Trigger) -> Self {
        Self { triggers: Triggers::one(trigger), failures: 0, is_limited: false }
    }
}

impl Coalesce for Pending {
    fn coalesce(&mut self, newer: Self) {
        self.triggers.coalesce(newer.triggers);
        self.failures = self.failures.max(newer.failures);
        self.is_limited |= newer.is_limited;
    }
}
