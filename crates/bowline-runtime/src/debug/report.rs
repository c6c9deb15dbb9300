//! The content of the page as plain data. The names of the fields are the contract of the JSON form: times are RFC 3339
//! in UTC, durations are seconds.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The content of the page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// Time of the report.
    pub time: String,
    /// The manager, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerReport>,
    /// Problems that need attention.
    pub attention: Vec<Attention>,
    /// The controllers, by name.
    pub controllers: Vec<ControllerReport>,
    /// Current reconciles, the longest first. Very short ones do not appear.
    pub running: Vec<RunningReport>,
    /// Delayed requests, the earliest first: at most 256 per controller. The total of a controller is its
    /// [`delayed`](ControllerReport::delayed).
    pub delayed: Vec<DelayedReport>,
    /// Number of delayed requests of all shown controllers.
    pub delayed_count: usize,
    /// The informers of all clusters.
    pub informers: Vec<InformerReport>,
    /// The last reconciles, newest first.
    pub reconciles: Vec<ReconcileReport>,
}

/// A problem that needs attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attention {
    /// The component with the problem: `controller foo`, `informer pods (v1)`.
    pub subject: String,
    /// The problem.
    pub problem: String,
}

/// A manager at one moment.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerReport {
    /// Identity of this process, in the election if there is one.
    pub identity: String,
    /// Time since the start.
    #[serde(rename = "uptimeSeconds", serialize_with = "seconds")]
    pub uptime: Duration,
    /// State of leadership.
    pub leadership: LeadershipState,
    /// Identity of the leader, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The runnables.
    pub runnables: Vec<RunnableReport>,
}

/// State of a process in an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum LeadershipState {
    /// There is no election: the process is active.
    #[default]
    NoElection,
    /// The process waits for leadership.
    Waiting,
    /// The process leads.
    Leading,
    /// The process has lost leadership.
    Lost,
}

/// A runnable of a manager.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnableReport {
    /// Its name.
    pub name: String,
    /// Its stage.
    pub stage: String,
    /// Its state: `waiting`, `running`, `ended`.
    pub state: String,
}

/// A controller at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerReport {
    /// Its name.
    pub name: String,
    /// API group of the reconciled kind; empty for the core group.
    pub group: String,
    /// The reconciled kind; empty if there is none.
    pub kind: String,
    /// Its state.
    pub state: ControllerState,
    /// Sources that have not synced, with the reasons.
    pub waiting_for: Vec<String>,
    /// Changes that were dropped because a predicate or handler panicked on every attempt.
    pub unhandled_changes: Vec<String>,
    /// Error with which it ended; absent if it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it works only on the leader.
    pub needs_leadership: bool,
    /// Its watches.
    pub watches: Vec<String>,
    /// Number of workers.
    pub workers: usize,
    /// Number of busy workers.
    pub busy: usize,
    /// Number of ready objects.
    pub ready: usize,
    /// Number of delayed objects: retries and requeues.
    pub delayed: usize,
    /// Number of successful reconciles without a requeue.
    pub successes: u64,
    /// Number of failed reconciles.
    pub errors: u64,
    /// Number of successful reconciles with a requeue.
    pub requeues: u64,
}

/// State of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ControllerState {
    /// Never started, stopped, or ended.
    Stopped,
    /// Its caches have not synced.
    Waiting,
    /// Its caches have synced; it waits for leadership.
    Warm,
    /// Its workers run.
    Working,
}

/// A current reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunningReport {
    /// The controller's name.
    pub controller: String,
    /// The object: `namespace/name`, or `name`.
    pub object: String,
    /// Duration so far.
    #[serde(rename = "runningSeconds", serialize_with = "seconds")]
    pub running: Duration,
}

/// A delayed request: a retry, or a requeue by its reconciler.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DelayedReport {
    /// The controller's name.
    pub controller: String,
    /// The object: `namespace/name`, or `name`.
    pub object: String,
    /// Time when it is due.
    pub due: String,
    /// Duration until it is due.
    #[serde(rename = "dueInSeconds", serialize_with = "seconds")]
    pub due_in: Duration,
}

/// An informer at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InformerReport {
    /// The name of its cluster.
    pub cluster: String,
    /// The kind: `deployments.apps/v1`.
    pub kind: String,
    /// The representation of its objects: `typed`, `dynamic`, `metadata`.
    pub form: String,
    /// Whether the first list is complete.
    pub has_synced: bool,
    /// Number of objects.
    pub objects: usize,
    /// Its reflectors, each with its own list and watch.
    pub parts: Vec<PartReport>,
    /// Number of objects that cannot be decoded.
    pub unreadable_count: usize,
    /// Some of these objects.
    pub unreadable: Vec<UnreadableReport>,
    /// Number of lists.
    pub lists: u64,
    /// Number of relists.
    pub relists: u64,
    /// Number of opened watches.
    pub watches: u64,
    /// Number of failed lists and watches.
    pub failures: u64,
    /// Number of handlers.
    pub handlers: usize,
    /// Number of events that wait for the slowest handler.
    pub backlog: usize,
    /// Time since the last data from the server.
    #[serde(
        rename = "silentSeconds",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub silent: Option<Duration>,
}

/// A reflector of an informer at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PartReport {
    /// Its namespaces, as text.
    pub namespaces: String,
    /// Its phase: `listing`, `watching`, `waiting for retry`, `stopped`.
    pub phase: String,
    /// Whether its first list is complete.
    pub has_synced: bool,
    /// Last error, unless a request succeeded since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An object that cannot be decoded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnreadableReport {
    /// The object: `namespace/name`, or `name`.
    pub object: String,
    /// The error.
    pub error: String,
}

/// A finished reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReconcileReport {
    /// Time of its start.
    pub started: String,
    /// Time since its end.
    #[serde(rename = "agoSeconds", serialize_with = "seconds")]
    pub ago: Duration,
    /// Its duration.
    #[serde(rename = "tookSeconds", serialize_with = "seconds")]
    pub took: Duration,
    /// The controller's name.
    pub controller: String,
    /// The object: `namespace/name`, or `name`.
    pub object: String,
    /// Its triggers.
    pub triggers: Vec<String>,
    /// Number of further triggers.
    pub more_triggers: u64,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Its outcome in one word: see [`ReconcileOutcome::as_str`](crate::ReconcileOutcome::as_str).
    pub outcome: String,
    /// Whether it failed.
    pub is_failure: bool,
    /// Its outcome as text.
    pub detail: String,
    /// Its ID, which also appears in the logs.
    pub id: String,
}

impl LeadershipState {
    /// The state as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoElection => "no election",
            Self::Waiting => "waits to lead",
            Self::Leading => "leads",
            Self::Lost => "does not lead any more",
        }
    }
}

impl ControllerState {
    /// The state as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Waiting => "waiting",
            Self::Warm => "warm, waits for leadership",
            Self::Working => "working",
        }
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn maybe_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}
