//! One event, independent of its API version, and its conversions to both versions.

use std::fmt;
use std::time::SystemTime;

use bowline_clock::Rng;
use bowline_machinery::name_is_dns_subdomain;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;

/// Limits of the API, in bytes.
pub(super) const MAX_WORD: usize = 128;
pub(super) const MAX_NOTE: usize = 1024;

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// A normal operation.
    Normal,
    /// A problem, present or expected.
    Warning,
}

impl EventType {
    /// The value in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An event, with its count and times.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRecord {
    /// Name in the API: the object's name and a number that is unique in this process.
    pub name: String,
    /// Namespace of the object; `default` for an object without one.
    pub namespace: String,
    /// Type of the event.
    pub event_type: EventType,
    /// Reason, one word for machines.
    pub reason: String,
    /// Action, one word for machines.
    pub action: String,
    /// Note for people.
    pub note: String,
    /// The object of the event.
    pub regarding: ObjectReference,
    /// A related object.
    pub related: Option<ObjectReference>,
    /// The reporting component.
    pub controller: String,
    /// The instance of the component.
    pub instance: String,
    /// Time of the first occurrence.
    pub first: SystemTime,
    /// Time of the last occurrence.
    pub last: SystemTime,
    /// Number of occurrences.
    pub count: u32,
}

impl EventRecord {
    /// The event in events.k8s.io/v1: a single event or a series.
    #[must_use]
    pub fn to_events_v1(&self) -> Event {
        Event {
            metadata: self.metadata(),
            event_time: Some(MicroTime(timestamp(self.first))),
            series: (self.count > 1).then(|| self.series()),
            type_: Some(self.event_type.as_str().to_owned()),
            reason: Some(self.reason.clone()),
            action: Some(self.action.clone()),
            note: Some(self.note.clone()),
            regarding: Some(self.regarding.clone()),
            related: self.related.clone(),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }

    /// The event in the core group's v1: with a count and times.
    #[must_use]
    pub fn to_core_v1(&self) -> CoreEvent {
        CoreEvent {
            metadata: self.metadata(),
            first_timestamp: Some(Time(timestamp(self.first))),
            last_timestamp: Some(Time(timestamp(self.last))),
            count: Some(count(self.count)),
            type_: Some(self.event_type.as_str().to_owned()),
            reason: Some(self.reason.clone()),
            action: Some(self.action.clone()),
            message: Some(self.note.clone()),
            involved_object: self.regarding.clone(),
            related: self.related.clone(),
            source: Some(EventSource {
                component: Some(self.controller.clone()),
                host: Some(self.instance.clone()),
            }),
            reporting_component: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..CoreEvent::default()
        }
    }

    pub(super) fn series(&self) -> EventSeries {
        EventSeries { count: count(self.count), last_observed_time: MicroTime(timestamp(self.last)) }
    }

    fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            ..ObjectMeta::default()
        }
    }
}

/// `object.number`, as Kubernetes names events; a random name if that is not valid.
pub(super) fn event_name(object: &str, number: &str, rng: &Rng) -> String {
    let name = format!("{object}.{number}");
    if name_is_dns_subdomain(&name, false).is_empty() {
        return name;
    }
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}

/// Truncates a text to `limit` bytes.
pub(super) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        const ELLIPSIS: &str = "…";
        let mut end = limit - ELLIPSIS.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(ELLIPSIS);
    }
    text
}

pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::MAX)
}

fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
