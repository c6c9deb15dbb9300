//! Writes events to an API server.

use bowline_machinery::validate_dns1123_label;
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::request::Error as RequestError;
use kube::core::{Request, Status};
use serde::Serialize;
use serde_json::{Value, json};

use super::record::timestamp;
use super::{EventRecord, EventSink, RepeatPolicy, SinkError, SinkFuture};
use crate::{Permission, Verb};

/// The API version in which events are written. Both versions are the same objects in the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventApi {
    /// events.k8s.io/v1, with series.
    #[default]
    EventsV1,
    /// The core group's v1, with counts.
    CoreV1,
}

/// Writes events as objects of an API server.
///
/// The event of an object without namespace is in `default`. The server's response decides:
///
/// | response | result |
/// |---|---|
/// | none, 429, or 500 and above | retried later |
/// | 404 for the update of a series | created again, with its count |
/// | 409 for a create | an earlier attempt succeeded: done, or patched if the count has grown |
/// | its namespace is being deleted or missing | dropped, without a warning |
/// | its namespace has an invalid name | dropped, and no request is sent |
/// | any other error (forbidden, invalid) | dropped |
#[derive(Clone)]
pub struct ApiSink {
    client: kube::Client,
    api: EventApi,
}

impl ApiSink {
    /// A sink for events.k8s.io/v1.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, api: EventApi::EventsV1 }
    }

    /// API version of the events. Default: events.k8s.io/v1.
    #[must_use]
    pub fn api(mut self, api: EventApi) -> Self {
        self.api = api;
        self
    }

    async fn put(&self, event: &EventRecord, earlier: bool) -> Result<(), SinkError> {
        match self.api {
            EventApi::EventsV1 => {
                let patch = || json!({"series": event.series()});
                self.put_as(event, &event.to_events_v1(), patch, earlier).await
            }
            EventApi::CoreV1 => {
                let patch = || {
                    json!({
                        "count": event.count,
                        "lastTimestamp": k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(timestamp(event.last)),
                        "message": event.note,
                    })
                };
                self.put_as(event, &event.to_core_v1(), patch, earlier).await
            }
        }
    }

    /// Writes an event: creates `whole`, or applies `patch` if it exists.
    async fn put_as<K>(
        &self,
        event: &EventRecord,
        whole: &K,
        patch: impl Fn() -> Value,
        earlier: bool,
    ) -> Result<(), SinkError>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        // The namespace can come from a user's object. An invalid one could change the path of the request.
        let mistakes = validate_dns1123_label(&event.namespace);
        if !mistakes.is_empty() {
            let why =
                format!("namespace {:?} of the event is not valid: {}", event.namespace, mistakes.join("; "));
            return Err(SinkError::Refused(why.into()));
        }
        let events = Request::new(K::url_path(&(), Some(&event.namespace)));
        let patch = || {
            let patch = Patch::Merge(patch());
            self.send(events.patch(&event.name, &PatchParams::default(), &patch))
        };
        if earlier {
            match patch().await {
                // Events expire soon.
                Err(error) if status(&error).is_some_and(Status::is_not_found) => {}
                outcome => return judge(outcome),
            }
        }
        let whole = serde_json::to_vec(whole).map_err(|error| SinkError::Refused(error.into()))?;
        match self.send(events.create(&PostParams::default(), whole)).await {
            Err(error) if status(&error).is_some_and(Status::is_already_exists) => {
                if event.count > 1 {
                    judge(patch().await)
                } else {
                    Ok(())
                }
            }
            outcome => judge(outcome),
        }
    }

    /// Sends a request. The response is not decoded, since it is not needed.
    async fn send(&self, request: Result<http::Request<Vec<u8>>, RequestError>) -> Result<(), kube::Error> {
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
    }
}

impl EventSink for ApiSink {
    fn name(&self) -> &'static str {
        "api"
    }

    fn repeats(&self) -> RepeatPolicy {
        match self.api {
            EventApi::EventsV1 => RepeatPolicy::Series,
            EventApi::CoreV1 => RepeatPolicy::Counted,
        }
    }

    fn permissions(&self) -> Vec<Permission> {
        let group = match self.api {
            EventApi::EventsV1 => "events.k8s.io",
            EventApi::CoreV1 => "",
        };
        vec![Permission::to_resource(group, "events", true, [Verb::Create, Verb::Patch]).because("events")]
    }

    fn write<'a>(&'a self, event: &'a EventRecord, earlier: bool) -> SinkFuture<'a> {
        Box::pin(self.put(event, earlier))
    }
}

impl std::fmt::Debug for ApiSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiSink").field("api", &self.api).finish_non_exhaustive()
    }
}

fn status(error: &kube::Error) -> Option<&Status> {
    if let kube::Error::Api(status) = error { Some(status) } else { None }
}

fn judge(outcome: Result<(), kube::Error>) -> Result<(), SinkError> {
    match outcome {
        // The server accepted the request; its text does not matter.
        Ok(()) | Err(kube::Error::FromUtf8(_)) => Ok(()),
        Err(error @ kube::Error::BuildRequest(_)) => Err(SinkError::Refused(error.into())),
        Err(error) => match status(&error) {
            None => Err(SinkError::Unavailable(error.into())),
            Some(status) if status.code == 429 || status.code == 409 || status.code >= 500 => {
                Err(SinkError::Unavailable(error.into()))
            }
            Some(status) if status.is_not_found() || is_namespace_terminating(status) => {
                Err(SinkError::NamespaceTerminating(error.into()))
            }
            Some(_) => Err(SinkError::Refused(error.into())),
        },
    }
}

fn is_namespace_terminating(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}
