//! The text of a wait that was in vain: all that somebody asks next.

use std::fmt;
use std::panic::Location;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::Value;

use super::TestEnv;
use super::error::said;

/// So many objects are shown whole.
const OBJECTS: usize = 3;
/// So many lines of each.
const LINES: usize = 80;
/// So many events and reconciles.
const LAST: usize = 10;
/// The server may be what is broken.
const PATIENCE: Duration = Duration::from_secs(5);

/// What was last seen of what was waited for.
pub(super) enum Seen {
    /// It is not about objects.
    Nothing,
    /// The server did not tell, and maybe why.
    Unknown(Option<String>),
    /// There was no such object at any time.
    Never,
    /// There was one, and it is gone.
    Gone(Value),
    /// These.
    Objects(Vec<Value>),
}

/// The text.
pub(super) struct Report {
    what: String,
    location: &'static Location<'static>,
    waited: Duration,
    seen: Seen,
    namespace: String,
    events: Result<Vec<String>, String>,
    runs: Vec<String>,
}

impl Report {
    /// Asks the server and the journal for the rest.
    pub(super) async fn write(
        env: &TestEnv,
        what: String,
        location: &'static Location<'static>,
        seen: Seen,
    ) -> Self {
        let now = env.clock().wall();
        let runs = env.cluster().journal().runs();
        Self {
            what,
            location,
            waited: env.timeout,
            seen,
            namespace: env.namespace().to_owned(),
            events: last_events(env, now).await,
            runs: last(&runs).iter().map(|run| format!("{}  {run}", age(run.started, now))).collect(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, location, waited, seen, namespace, events, runs } = self;
        let file = location.file();
        writeln!(f, "waited {waited:?} {what}, at {file}:{}", location.line())?;
        write!(f, "{seen}")?;
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
        if runs.is_empty() {
            return write!(f, "\nnothing was reconciled");
        }
        write!(f, "\nlast reconciles:")?;
        for run in runs {
            write!(f, "\n  {run}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Unknown(None) => writeln!(f, "\nthe server has not told what there is"),
            Self::Unknown(Some(error)) => writeln!(f, "\nthe server does not tell what there is: {error}"),
            Self::Never => writeln!(f, "\nnot found: there was none at any time"),
            Self::Gone(object) => write!(f, "\nnot found: it is gone, and was last\n{}", yaml(object)),
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

/// Indented, and cut where it becomes too long.
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
    // Events of both groups are the same objects.
    let events = Api::<Event>::namespaced(env.kube().clone(), env.namespace());
    let params = ListParams::default();
    let list = env.clock().timeout(PATIENCE, events.list(&params)).await;
    let mut list = list.map_err(|late| late.to_string())?.map_err(|error| said(&error))?.items;
    list.sort_by_key(time_of);
    Ok(last(&list).iter().map(|event| describe_event(event, now)).collect())
}

/// When it happened last.
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

/// To milliseconds, and to tenths of a second when it is long: nobody reads more.
fn round(duration: Duration) -> Duration {
    let step = if duration < Duration::from_secs(1) { 1 } else { 100 };
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) / step * step)
}

fn last<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(LAST)..]
}
