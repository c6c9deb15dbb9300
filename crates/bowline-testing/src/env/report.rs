//! The text of a wait that timed out: the awaited state, the last state seen, the last events and reconciles.

use std::fmt;
use std::panic::Location;
use std::time::{Duration, SystemTime};

use bowline_cache::ObjectKey;
use bowline_runtime::ReconcileRecord;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::TestEnv;
use super::error::said;

/// Maximum number of objects that are shown as YAML.
const OBJECTS: usize = 3;
/// Maximum number of lines of each.
const LINES: usize = 80;
/// Maximum number of events, and of reconciles in each list.
const LAST: usize = 10;
/// Time to list events: the server may be what is broken.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(5);

/// The last state seen of the awaited objects.
pub(super) enum Seen {
    /// The wait was not for objects.
    Nothing,
    /// The objects could not be listed, for this reason if one is known.
    Unknown(Option<String>),
    /// There was no such object at any time.
    Never,
    /// There was one, and it was deleted in this last state.
    Gone(Value),
    /// These objects.
    Objects(Vec<Value>),
}

/// The awaited object.
pub(super) struct Awaited {
    pub(super) kind: String,
    pub(super) key: ObjectKey,
}

/// `Deployment test/web`.
impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.key)
    }
}

impl Awaited {
    /// Whether a reconcile was for this object, whatever its kind, or for one of its owners, or was triggered by this object.
    fn concerns(&self, run: &ReconcileRecord, owners: &[&str]) -> bool {
        let (name, namespace) = (run.request.name(), run.request.namespace());
        let is_near = namespace.is_none() || namespace == self.key.namespace();
        let mut triggers = run.triggers.iter();
        *run.request.key() == self.key
            || is_near && owners.contains(&name)
            || triggers.any(|trigger| trigger.source() == self.kind && trigger.object() == Some(&self.key))
    }
}

/// The text of the error.
pub(super) struct Report {
    what: String,
    location: &'static Location<'static>,
    waited: Duration,
    seen: Seen,
    namespace: String,
    /// The end of the operator's run, if it has ended.
    ended: Option<String>,
    events: Result<Vec<String>, String>,
    awaited: Option<Awaited>,
    /// The last reconciles that concern the awaited object.
    own: Vec<String>,
    /// The last other ones.
    others: Vec<String>,
}

impl Report {
    /// Completes the report from the server and the history of reconciles.
    pub(super) async fn write(
        env: &TestEnv,
        what: String,
        location: &'static Location<'static>,
        seen: Seen,
        awaited: Option<Awaited>,
    ) -> Self {
        let (now, has_runs) = (env.clock().system_time(), env.has_runs());
        let owners = seen.owners();
        let concerns =
            |run: &ReconcileRecord| awaited.as_ref().is_some_and(|awaited| awaited.concerns(run, &owners));
        let (own, others): (Vec<_>, Vec<_>) = env.history().runs().into_iter().partition(concerns);
        let lines =
            |runs: &[ReconcileRecord]| last(runs).iter().map(|run| line(run, now, has_runs)).collect();
        let (own, others) = (lines(&own), lines(&others));
        Self {
            what,
            location,
            waited: env.timeout,
            seen,
            namespace: env.namespace().to_owned(),
            ended: env.ended_run(),
            events: last_events(env, now).await,
            awaited,
            own,
            others,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, location, waited, seen, namespace, ended, events, awaited, own, others } = self;
        let file = location.file();
        writeln!(f, "waited {waited:?} {what}, at {file}:{}", location.line())?;
        write!(f, "{seen}")?;
        if let Some(ended) = ended {
            writeln!(f, "\nthe operator is not running: {ended}")?;
        }
        match events.as_deref() {
            Ok([]) => writeln!(f, "\nthere are no events in namespace {namespace}")?,
            Ok(events) => {
                writeln!(f, "\nlast events in namespace {namespace}:")?;
                for event in events {
                    writeln!(f, "  {event}")?;
                }
            }
            Err(error) => writeln!(f, "\nthe events in namespace {namespace} cannot be listed: {error}")?,
        }
        match awaited {
            _ if own.is_empty() && others.is_empty() => return write!(f, "\nnothing was reconciled"),
            None => return list(f, "last reconciles", others),
            Some(awaited) if own.is_empty() => write!(f, "\nno reconcile was for {awaited}")?,
            Some(awaited) => list(f, &format!("last reconciles for {awaited}"), own)?,
        }
        if others.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        list(f, "last other reconciles", others)
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, lines: &[String]) -> fmt::Result {
    write!(f, "\n{title}:")?;
    for line in lines {
        write!(f, "\n  {line}")?;
    }
    Ok(())
}

/// One reconcile with its age, and with the run of the operator if there were several.
pub(super) fn line(record: &ReconcileRecord, now: SystemTime, has_runs: bool) -> String {
    let run = if has_runs { format!("run {}, ", record.run) } else { String::new() };
    format!("{}  {run}{record}", age(record.started, now))
}

impl Seen {
    /// Names of the owners in the last state.
    fn owners(&self) -> Vec<&str> {
        let objects = match self {
            Self::Nothing | Self::Unknown(_) | Self::Never => &[],
            Self::Gone(object) => std::slice::from_ref(object),
            Self::Objects(objects) => objects.as_slice(),
        };
        let owners = objects.iter().filter_map(|object| object["metadata"]["ownerReferences"].as_array());
        owners.flatten().filter_map(|owner| owner["name"].as_str()).collect()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Unknown(None) => {
                writeln!(f, "\nno state was seen: the list from the server is not complete")
            }
            Self::Unknown(Some(error)) => writeln!(f, "\nno state was seen: {error}"),
            Self::Never => writeln!(f, "\nnot found at any time"),
            Self::Gone(object) => write!(f, "\nnot found: it was deleted; last state:\n{}", yaml(object)),
            Self::Objects(objects) => {
                let (whole, rest) = objects.split_at(objects.len().min(OBJECTS));
                let whole: Vec<_> = whole.iter().map(yaml).collect();
                write!(f, "\nlast seen:\n{}", whole.join("  ---\n"))?;
                if !rest.is_empty() {
                    writeln!(f, "\nand {} more: {}", rest.len(), names(rest))?;
                }
                Ok(())
            }
        }
    }
}

fn names(objects: &[Value]) -> String {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    objects.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Indented YAML, cut after a maximum number of lines.
fn yaml(object: &Value) -> String {
    let text = serde_saphyr::to_string(object).unwrap_or_else(|_| object.to_string());
    let mut lines: Vec<_> = text.lines().map(|line| format!("  {line}\n")).collect();
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        lines.truncate(LINES);
        lines.push(format!("  … and {more} more lines\n"));
    }
    lines.concat()
}

async fn last_events(env: &TestEnv, now: SystemTime) -> Result<Vec<String>, String> {
    // Both event groups serve the same objects.
    let events = Api::<Event>::namespaced(env.kube_client().clone(), env.namespace());
    let params = ListParams::default();
    let list = env.clock().timeout(EVENTS_TIMEOUT, events.list(&params)).await;
    let mut list = list.map_err(|late| late.to_string())?.map_err(|error| said(&error))?.items;
    list.sort_by_key(time_of);
    Ok(last(&list).iter().map(|event| describe_event(event, now)).collect())
}

/// Time of the last occurrence.
fn time_of(event: &Event) -> Option<SystemTime> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let precise = series.or(event.event_time.as_ref()).map(|time| SystemTime::from(time.0));
    let in_seconds = || event.last_timestamp.as_ref().map(|time| SystemTime::from(time.0));
    let created = || event.metadata.creation_timestamp.as_ref().map(|time| SystemTime::from(time.0));
    precise.or_else(in_seconds).or_else(created)
}

fn describe_event(event: &Event, now: SystemTime) -> String {
    let age = time_of(event).map_or_else(String::new, |time| format!("{}  ", age(time, now)));
    let about = &event.involved_object;
    let times = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let (kind, name) = (text(&about.kind), text(&about.name));
    let (type_, reason, message) = (text(&event.type_), text(&event.reason), text(&event.message));
    format!("{age}{type_} {reason} {kind}/{name}: {message}{times}")
}

fn age(time: SystemTime, now: SystemTime) -> String {
    format!("{:>6?} ago", round(now.duration_since(time).unwrap_or_default()))
}

/// Rounded to milliseconds, and to tenths of a second from one second on.
fn round(duration: Duration) -> Duration {
    let step = if duration < Duration::from_secs(1) { 1 } else { 100 };
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) / step * step)
}

fn last<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(LAST)..]
}
