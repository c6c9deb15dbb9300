//! What a reconciler is given beside the object: the tools, and why it runs.

use std::fmt;
use std::sync::Arc;

use bowline_clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::controller::Session;
use crate::{Client, Cluster, Recorder, Triggers};

/// What a reconciler is given beside the object: the client, the recorder of events, and why it runs.
///
/// Cheap to clone. It may outlive the reconcile, and its triggers and id stay those of it.
#[derive(Clone)]
pub struct Context {
    session: Arc<Session>,
    triggers: Triggers,
    id: ReconcileId,
    attempt: u32,
}

/// The number of one reconcile, by which everything that is logged about it can be found. Shown as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconcileId(u128);

impl Context {
    pub(crate) fn new(session: Arc<Session>, triggers: Triggers, id: ReconcileId, attempt: u32) -> Self {
        Self { session, triggers, id, attempt }
    }

    /// The client. Kinds that the controller watches are read from the cache.
    ///
    /// In a manager with leader election, that of a controller that [needs leadership](crate::ControllerBuilder::needs_leadership)
    /// is behind a [fence](crate::leader_election::Fence), with all that is made of it and its [`kube`](Client::kube): writes
    /// fail when this replica may not lead any more.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.session.client()
    }

    /// Tells people about objects, in the name of the controller.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        self.session.recorder()
    }

    /// Cancelled when the controller is told to stop: who waits for something for long should give up then. A reconcile
    /// that goes on is waited for, up to [a limit](crate::ControllerBuilder::stop_timeout), unless leadership was lost: then it
    /// is dropped where it waits, at once.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        self.session.cancellation()
    }

    /// The how many-th try this is since the object was last reconciled without an error: 1, unless the last one failed.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Why this runs: everything that happened since the object was last reconciled without an error.
    #[must_use]
    pub fn triggers(&self) -> &Triggers {
        &self.triggers
    }

    /// The number of this reconcile, which is also in the span around it.
    #[must_use]
    pub fn id(&self) -> ReconcileId {
        self.id
    }

    /// The time, and random numbers.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.session.cluster().clock()
    }

    /// The controller's name.
    #[must_use]
    pub fn controller(&self) -> &str {
        self.session.name()
    }

    /// The cluster that the controller belongs to. Its client is behind no fence.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.session.cluster()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("id", &self.id)
            .field("attempt", &self.attempt)
            .field("triggers", &format_args!("{}", self.triggers))
            .finish_non_exhaustive()
    }
}

impl ReconcileId {
    /// Of random bits, the form of a version 4 UUID.
    pub(crate) fn from_random(high: u64, low: u64) -> Self {
        let bits = (u128::from(high) << 64) | u128::from(low);
        let version = 0x4 << 76;
        let variant = 0x2 << 62;
        Self((bits & !(0xf << 76) & !(0x3 << 62)) | version | variant)
    }

    /// The number.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0
    }
}

/// Hexadecimal digits and dashes, all at once: a formatter that is called for each part costs several times as much.
impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'-'; 36];
        let mut at = 0;
        for byte in self.0.to_be_bytes() {
            if matches!(at, 8 | 13 | 18 | 23) {
                at += 1;
            }
            text[at] = DIGITS[usize::from(byte >> 4)];
            text[at + 1] = DIGITS[usize::from(byte & 0xf)];
            at += 2;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_as_a_random_uuid() {
        let id = ReconcileId::from_random(u64::MAX, u64::MAX);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let id = ReconcileId::from_random(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-4def-8123-456789abcdef");
    }
}
