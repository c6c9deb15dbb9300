//! The payload of a request in a controller's queue.

use bowline_workqueue::Coalesce;

use crate::trigger::{Trigger, Triggers};

/// Triggers of a request, and its failures since the last success. Kept beside the key, so that a successful run needs
/// neither the limiter nor its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueuePayload {
    pub(crate) triggers: Triggers,
    /// Number of errors in a row.
    pub(crate) failures: u32,
    /// Whether the limiter has state for it: it failed or backed off, with no success since.
    pub(crate) is_limited: bool,
}

impl QueuePayload {
    pub(crate) fn new(trigger: Trigger) -> Self {
        Self { triggers: Triggers::one(trigger), failures: 0, is_limited: false }
    }
}

impl Coalesce for QueuePayload {
    fn coalesce(&mut self, newer: Self) {
        self.triggers.coalesce(newer.triggers);
        self.failures = self.failures.max(newer.failures);
        self.is_limited |= newer.is_limited;
    }
}
