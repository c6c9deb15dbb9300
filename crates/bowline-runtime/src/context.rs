//! The context of a reconcile: the client, the recorder, cancellation, and the triggers.

use std::fmt;
use std::sync::Arc;

use bowline_clock::{Clock, Rng};
use tokio_util::sync::CancellationToken;

use crate::controller::Session;
use crate::{Client, Cluster, Recorder, Triggers};

/// The context of a reconcile: the client, the recorder of events, cancellation, and the triggers of the run.
///
/// Cheap to clone. It may outlive the reconcile; its triggers and id stay the same.
#[derive(Clone)]
pub struct Context {
    session: Arc<Session>,
    triggers: Triggers,
    id: ReconcileId,
    attempt: u32,
}

/// The id of one reconcile, which all its log lines have. Displays as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconcileId(u128);

/// Unique numbers, drawn without the lock of the random numbers: from a counter, mixed with random bits that are drawn
/// once. They are identifiers, not secrets.
pub(crate) struct ReconcileIds {
    high: u64,
    low: u64,
}

impl ReconcileIds {
    pub(crate) fn new(rng: &Rng) -> Self {
        Self { high: rng.next_u64(), low: rng.next_u64() }
    }

    pub(crate) fn draw(&mut self) -> ReconcileId {
        // The steps are odd, so that each half repeats only after 2^64 draws.
        self.high = self.high.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.low = self.low.wrapping_add(0xd1b5_4a32_d192_ed03);
        ReconcileId::from_random(u128::from(mix(self.high)) << 64 | u128::from(mix(self.low)))
    }
}

/// Mixes all bits, and maps different numbers to different ones: the finalizer of `SplitMix64`.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl Context {
    pub(crate) fn new(session: Arc<Session>, triggers: Triggers, id: ReconcileId, attempt: u32) -> Self {
        Self { session, triggers, id, attempt }
    }

    /// The client. Kinds that the controller watches are read from the cache.
    ///
    /// In a manager with leader election, the client of a controller that [needs
    /// leadership](crate::ControllerBuilder::needs_leadership) is behind a [fence](crate::leader_election::Fence), with
    /// all clients derived from it and its [`kube_client`](Client::kube_client): writes fail when this replica may not
    /// lead any more.
    #[must_use]
    pub fn client(&self) -> &Client {
        self.session.client()
    }

    /// The client of another cluster, for a controller that writes to several. Its field owner is the controller's
    /// name, unless the cluster's client already has one.
    ///
    /// It is fenced like [`client`](Self::client): if the controller needs leadership, its writes to that cluster fail
    /// when this replica may not lead any more. This covers the manager's clusters, from
    /// [`Manager::connect`](crate::Manager::connect) or [`Manager::add_cluster`](crate::Manager::add_cluster).
    /// [`Cluster::client`] and [`Cluster::kube_client`] are never fenced: do not write through them in a reconcile.
    #[must_use]
    pub fn client_of(&self, cluster: &Cluster) -> Client {
        let needs_leadership = self.session.core().options.needs_leadership;
        let client = if needs_leadership { cluster.elected_client() } else { cluster.client() };
        client.field_owner_or(self.controller())
    }

    /// The event recorder, with the controller as reporter.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        self.session.recorder()
    }

    /// The value of a type that was given to [`ControllerBuilder::state`](crate::ControllerBuilder::state).
    ///
    /// # Panics
    /// When the controller has no value of this type. The reconcile fails then, as with any panic, with an error that names
    /// the type and says to call `.state(..)` on the builder.
    #[must_use]
    #[track_caller]
    pub fn state<S: Send + Sync + 'static>(&self) -> &S {
        self.session.core().state.expect(self.controller())
    }

    /// Cancelled when the controller stops: a long reconcile should end then. The stop waits for it up to [a
    /// limit](crate::ControllerBuilder::stop_timeout). If leadership was lost, the reconcile is dropped at its next
    /// await instead.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        self.session.cancellation()
    }

    /// Attempt number, from 1: attempts since the object was last reconciled without an error.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The reasons of this run: all events since the object was last reconciled without an error.
    #[must_use]
    pub fn triggers(&self) -> &Triggers {
        &self.triggers
    }

    /// The id of this reconcile, which is also in its span.
    #[must_use]
    pub fn id(&self) -> ReconcileId {
        self.id
    }

    /// The clock, with random numbers.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.session.cluster().clock()
    }

    /// The controller's name.
    #[must_use]
    pub fn controller(&self) -> &str {
        self.session.name()
    }

    /// The cluster of the controller. Its client is not fenced: write through [`client`](Self::client), and to other
    /// clusters through [`client_of`](Self::client_of).
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
    /// From random bits, in the form of a version 4 UUID.
    pub(crate) fn from_random(bits: u128) -> Self {
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

/// Hexadecimal digits and dashes in one string: a formatter call per part costs several times as much.
impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_possible_truncation, reason = "the rest is in the other words")]
        let [first, second, third, fourth] = [96, 64, 32, 0].map(|at| digits((self.0 >> at) as u32));
        let mut text = [b'-'; 36];
        text[..8].copy_from_slice(&first);
        text[9..13].copy_from_slice(&second[..4]);
        text[14..18].copy_from_slice(&second[4..]);
        text[19..23].copy_from_slice(&third[..4]);
        text[24..28].copy_from_slice(&third[4..]);
        text[28..].copy_from_slice(&fourth);
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

/// All digits of a number at once, one per byte: branches on random digits would be mispredicted.
fn digits(number: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut all = u64::from(number);
    all = (all | all << 16) & 0x0000_ffff_0000_ffff;
    all = (all | all << 8) & 0x00ff_00ff_00ff_00ff;
    all = (all | all << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Six more than nine carries into the next four bits.
    let letters = (all + 6 * EACH) >> 4 & EACH;
    (all + u64::from(b'0') * EACH + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
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
    fn ids_are_all_different_and_the_same_for_the_same_seed() {
        let draw = |seed| {
            let mut ids = ReconcileIds::new(&Rng::seeded(seed));
            std::iter::repeat_with(|| ids.draw()).take(10_000).collect::<Vec<_>>()
        };
        let (one, another) = (draw(1), draw(2));
        let all: std::collections::BTreeSet<_> = one.iter().chain(&another).collect();
        assert_eq!(all.len(), 20_000);
        assert_eq!(one, draw(1));
    }

    #[test]
    fn an_id_is_shown_as_a_random_uuid() {
        let id = ReconcileId::from_random(u128::MAX);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let id = ReconcileId::from_random(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "01234567-89ab-4def-8123-456789abcdef");
    }
}
