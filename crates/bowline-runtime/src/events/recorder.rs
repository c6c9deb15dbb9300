//! Records events for a component.

use std::fmt;
use std::sync::Arc;

use bowline_machinery::validate_qualified_name;
use k8s_openapi::api::core::v1::ObjectReference;

use super::record::{MAX_NOTE, MAX_WORD, cut};
use super::{Broadcaster, EventRecord, EventType, ToReference};
use crate::AsObject;

/// Records events about objects. A clone is the same recorder.
///
/// It never waits and never fails: events that cannot be written are logged and counted by the [`Broadcaster`].
///
/// ```no_run
/// use std::sync::Arc;
/// use bowline_runtime::{Cluster, EventType, NewEvent};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
///
/// fn tell(cluster: &Cluster, deployment: Arc<Deployment>, pod: &Pod) {
///     let recorder = cluster.recorder("web-controller");
///     recorder.event(&deployment, EventType::Normal, "Synced", "all is as it should be");
///     recorder.record(&deployment, NewEvent::warning("PodLost", "a pod is gone").action("Watch").related(pod));
/// }
/// ```
#[derive(Clone)]
pub struct Recorder {
    broadcaster: Broadcaster,
    controller: Arc<str>,
    instance: Arc<str>,
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an event does nothing until it is recorded"]
pub struct NewEvent {
    event_type: EventType,
    reason: String,
    note: String,
    action: Option<String>,
    related: Option<ObjectReference>,
}

impl NewEvent {
    /// Creates an event. `reason` is one word for machines, in `UpperCamelCase`; `note` is for people.
    pub fn new(event_type: EventType, reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self { event_type, reason: reason.into(), note: note.into(), action: None, related: None }
    }

    /// Creates an event of type `Normal`.
    pub fn normal(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason, note)
    }

    /// Creates an event of type `Warning`.
    pub fn warning(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason, note)
    }

    /// Action, in one word for machines. Default: the reason, since the API requires one.
    pub fn action(mut self, action: impl Into<String>) -> Self {
        self.action = Some(action.into());
        self
    }

    /// A related object. Default: none.
    pub fn related<K: ToReference>(mut self, object: &impl AsObject<K>) -> Self {
        self.related = Some(object.as_object().to_reference());
        self
    }
}

impl Recorder {
    pub(super) fn new(broadcaster: Broadcaster, component: &str, host: &str) -> Self {
        let controller = qualified(component);
        let instance = cut(format!("{controller}-{host}"), MAX_WORD);
        Self { broadcaster, controller: controller.into(), instance: instance.into() }
    }

    /// The instance of the component. Default: the component and the host name.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = cut(instance.into(), MAX_WORD).into();
        self
    }

    /// Records an event about an object.
    ///
    /// `reason` is one word for machines, in `UpperCamelCase`; `note` is for people.
    pub fn event<K: ToReference>(
        &self,
        object: &impl AsObject<K>,
        event_type: EventType,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) {
        self.record(object, NewEvent::new(event_type, reason, note));
    }

    /// Records an event about an object, with all options.
    pub fn record<K: ToReference>(&self, object: &impl AsObject<K>, event: NewEvent) {
        self.record_about(object.as_object().to_reference(), event);
    }

    /// Records an event about a reference: an object that is not loaded, or a part of one.
    ///
    /// Texts over the API's limits (128 bytes for reason and action, 1024 for the note) are truncated.
    pub fn record_about(&self, regarding: ObjectReference, event: NewEvent) {
        let time = self.broadcaster.clock().system_time();
        let reason = cut(event.reason, MAX_WORD);
        self.broadcaster.record(EventRecord {
            // Most events are repetitions and need no name.
            name: String::new(),
            namespace: regarding
                .namespace
                .clone()
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| "default".to_owned()),
            event_type: event.event_type,
            action: event.action.map_or_else(|| reason.clone(), |action| cut(action, MAX_WORD)),
            reason,
            note: cut(event.note, MAX_NOTE),
            regarding,
            related: event.related,
            controller: self.controller.to_string(),
            instance: self.instance.to_string(),
            first: time,
            last: time,
            count: 1,
        });
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("controller", &self.controller)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

/// Converts a component to a name that is valid in the API.
fn qualified(component: &str) -> String {
    if validate_qualified_name(component).is_empty() {
        return component.to_owned();
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let name: String =
        component.chars().map(|letter| if allowed(letter) { letter } else { '-' }).take(63).collect();
    let name = name.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    if name.is_empty() { "bowline".to_owned() } else { name.to_owned() }
}
