//! One event as sinks see it, in neither of the two forms that the API has for it, and how it becomes each of them.

use std::fmt;
use std::time::SystemTime;

use bowline_clock::Rng;
use bowline_machinery::name_is_dns_subdomain;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;

/// The API refuses longer ones.
pub(super) const LONGEST_WORD: usize = 128;
pub(super) const LONGEST_NOTE: usize = 1024;

/// Whether people should worry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// All is well.
    Normal,
    /// Something is wrong, or is about to be.
    Warning,
}

impl EventType {
    /// As the API has it.
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

/// An event, with how often and when it was seen.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRecord {
    /// Its name in the API: that of the object and a number that no other event of this process has.
    pub name: String,
    /// That of the object; `default` for an object without one.
    pub namespace: String,
    /// Whether people should worry.
    pub event_type: EventType,
    /// Why, in one word for machines.
    pub reason: String,
    /// What was done, or failed, in one word for machines.
    pub action: String,
    /// What happened, for people.
    pub note: String,
    /// The object that it is about.
    pub regarding: ObjectReference,
    /// Another object that has to do with it.
    pub related: Option<ObjectReference>,
    /// The component that tells it.
    pub controller: String,
    /// Which one of its instances.
    pub instance: String,
    /// When it was first seen.
    pub first: SystemTime,
    /// When it was last seen.
    pub last: SystemTime,
    /// How often it was seen.
    pub count: u32,
}

impl EventRecord {
    /// As events.k8s.io/v1 has it: seen once, or a series.
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

    /// As the core group has it: with a count, and when it was seen first and last.
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

/// `object.number`, as Kubernetes names events; a random name if that is none that an event may have.
pub(super) fn event_name(object: &str, number: &str, rng: &Rng) -> String {
    let name = format!("{object}.{number}");
    if name_is_dns_subdomain(&name, false).is_empty() {
        return name;
    }
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}

/// A text of at most `limit` bytes: the API refuses longer ones.
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
