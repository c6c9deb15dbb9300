//! What a page says, as plain data. The names of the fields are the contract of the JSON form: times are RFC 3339 in UTC,
//! durations are seconds.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// All that a page says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// When it was made.
    pub time: String,
    /// How the manager is doing, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerReport>,
    /// What somebody should look at, if anything.
    pub attention: Vec<Attention>,
    /// The controllers, by name.
    pub controllers: Vec<ControllerReport>,
    /// What is reconciled now, the longest first. What is done at once does not show.
    pub running: Vec<RunningReport>,
    /// The informers of all clusters.
    pub informers: Vec<InformerReport>,
    /// The last reconciles, newest first.
    pub reconciles: Vec<ReconcileReport>,
}

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Attention {
    /// What it is about: `controller foo`, `informer pods (v1)`.
    pub subject: String,
    /// What is the matter with it.
    pub problem: String,
}

/// A manager at one moment.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerReport {
    /// Who this process is in the election, or otherwise.
    pub identity: String,
    /// How long it has been running.
    #[serde(rename = "uptimeSeconds", serialize_with = "seconds")]
    pub uptime: Duration,
    /// Its part in the election.
    pub leadership: Leadership,
    /// Who leads, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// What it runs.
    pub runnables: Vec<RunnableReport>,
}

/// The part of a process in an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Leadership {
    /// There is no election: it does what a leader does.
    #[default]
    NoElection,
    /// It waits to lead.
    Waiting,
    /// It leads.
    Leading,
    /// It led, and does not any more.
    Lost,
}

/// Something that a manager runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnableReport {
    /// Its name.
    pub name: String,
    /// With what it is started and stopped.
    pub stage: String,
    /// What it is at: `waiting`, `running`, `ended`.
    pub state: String,
}

/// A controller at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerReport {
    /// Its name.
    pub name: String,
    /// The API group of what it reconciles; empty for the core group.
    pub group: String,
    /// The kind of what it reconciles; empty if there is no such kind.
    pub kind: String,
    /// What it is at.
    pub state: ControllerState,
    /// What it waits for before it begins, and why that does not come.
    pub waiting_for: Vec<String>,
    /// Why it ended, if not because it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether it works only where the leader is.
    pub needs_leadership: bool,
    /// What it watches.
    pub watches: Vec<String>,
    /// How many workers it has.
    pub workers: usize,
    /// How many of them reconcile now.
    pub busy: usize,
    /// How many objects wait for a worker.
    pub ready: usize,
    /// How many objects wait for their time: to be tried again, or looked at again.
    pub delayed: usize,
    /// Reconciles that went well and asked for nothing more.
    pub successes: u64,
    /// Reconciles that failed.
    pub errors: u64,
    /// Reconciles that went well and asked to be run again.
    pub requeues: u64,
}

/// What a controller is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ControllerState {
    /// It was never started, was stopped, or ended.
    Stopped,
    /// It has not seen yet what there is.
    Waiting,
    /// It has seen what there is, and waits for leadership.
    Warm,
    /// It reconciles.
    Working,
}

/// A reconcile that runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunningReport {
    /// The controller's name.
    pub controller: String,
    /// What is reconciled: `namespace/name`, or `name`.
    pub object: String,
    /// For how long.
    #[serde(rename = "runningSeconds", serialize_with = "seconds")]
    pub running: Duration,
}

/// An informer at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InformerReport {
    /// The name of its cluster.
    pub cluster: String,
    /// What it is an informer of: `deployments.apps/v1`.
    pub kind: String,
    /// How much of an object is kept: `typed`, `dynamic`, `metadata`.
    pub form: String,
    /// Whether everything was listed once.
    pub has_synced: bool,
    /// How many objects it has.
    pub objects: usize,
    /// Its parts, each with a list and a watch of its own.
    pub parts: Vec<PartReport>,
    /// How many objects cannot be read.
    pub unreadable_count: usize,
    /// Some of them.
    pub unreadable: Vec<UnreadableReport>,
    /// How often everything was listed.
    pub lists: u64,
    /// How often it was listed again.
    pub relists: u64,
    /// How often a watch was opened.
    pub watches: u64,
    /// How often a list or a watch failed.
    pub failures: u64,
    /// How many handlers it has.
    pub handlers: usize,
    /// How many events wait for the handler for which most do.
    pub backlog: usize,
    /// For how long nothing was heard of the server.
    #[serde(
        rename = "silentSeconds",
        serialize_with = "maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub silent: Option<Duration>,
}

/// A part of an informer at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PartReport {
    /// Where its objects are, in words.
    pub namespaces: String,
    /// What it is at, in words: `listing`, `watching`, `waiting to try again`, `stopped`.
    pub phase: String,
    /// Whether it was listed once.
    pub has_synced: bool,
    /// What failed last, unless it went well since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An object that cannot be read.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnreadableReport {
    /// Which: `namespace/name`, or `name`.
    pub object: String,
    /// Why.
    pub error: String,
}

/// A reconcile that is over.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ReconcileReport {
    /// When it began.
    pub started: String,
    /// How long ago it ended.
    #[serde(rename = "agoSeconds", serialize_with = "seconds")]
    pub ago: Duration,
    /// How long it took.
    #[serde(rename = "tookSeconds", serialize_with = "seconds")]
    pub took: Duration,
    /// The controller's name.
    pub controller: String,
    /// What was reconciled: `namespace/name`, or `name`.
    pub object: String,
    /// Why.
    pub triggers: Vec<String>,
    /// How many more triggers there were.
    pub more_triggers: u64,
    /// The how many-th try it was, from 1.
    pub attempt: u32,
    /// How it ended, in a word: see [`Outcome::as_str`](crate::Outcome::as_str).
    pub outcome: String,
    /// Whether it failed.
    pub is_failure: bool,
    /// How it ended, in words.
    pub detail: String,
    /// Its number, which is in the logs.
    pub id: String,
}

impl Leadership {
    /// In words.
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
    /// In words.
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
