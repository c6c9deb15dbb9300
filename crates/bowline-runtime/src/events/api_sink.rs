//! Events in the API server.

use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::request::Error as RequestError;
use kube::core::{Request, Status};
use serde::Serialize;
use serde_json::{Value, json};

use super::record::timestamp;
use super::{EventRecord, Repeats, Sink, SinkError, SinkFuture};

/// In which of its two forms the API server is told of events. They are the same objects there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventApi {
    /// events.k8s.io/v1, with series.
    #[default]
    EventsV1,
    /// The core group's v1, with counts.
    CoreV1,
}

/// Events as objects of the API server.
///
/// An event whose object has no namespace is in `default`. What the server answers decides:
///
/// | answer | then |
/// |---|---|
/// | none, 429, or 500 and above | tried again later |
/// | a repeat's event is not there | it is created, with its count |
/// | an event to be created is there | an earlier try got through: done, or patched if it was seen more often since |
/// | its namespace is being deleted or gone | given up, and not worth a warning |
/// | anything else (forbidden, invalid) | given up |
#[derive(Clone)]
pub struct ApiSink {
    client: kube::Client,
    api: EventApi,
}

impl ApiSink {
    /// Events of events.k8s.io/v1.
    #[must_use]
    pub fn new(client: kube::Client) -> Self {
        Self { client, api: EventApi::EventsV1 }
    }

    /// In which form. Default: events.k8s.io/v1.
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

    /// Writes an event in one of its forms: `whole`, or what `patch` says if it is there already.
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
        let events = Request::new(K::url_path(&(), Some(&event.namespace)));
        let patch = || {
            let patch = Patch::Merge(patch());
            self.send(events.patch(&event.name, &PatchParams::default(), &patch))
        };
        if earlier {
            match patch().await {
                // Events do not live long.
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

    /// Sends a request. Nobody wants to know what the server has then, so the answer is not decoded.
    async fn send(&self, request: Result<http::Request<Vec<u8>>, RequestError>) -> Result<(), kube::Error> {
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
    }
}

impl Sink for ApiSink {
    fn name(&self) -> &'static str {
        "api"
    }

    fn repeats(&self) -> Repeats {
        match self.api {
            EventApi::EventsV1 => Repeats::Series,
            EventApi::CoreV1 => Repeats::Counted,
        }
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
        // The server did as it was told, whatever it says of it.
        Ok(()) | Err(kube::Error::FromUtf8(_)) => Ok(()),
        Err(error @ kube::Error::BuildRequest(_)) => Err(SinkError::Refused(error.into())),
        Err(error) => match status(&error) {
            None => Err(SinkError::Away(error.into())),
            Some(status) if status.code == 429 || status.code == 409 || status.code >= 500 => {
                Err(SinkError::Away(error.into()))
            }
            Some(status) if status.is_not_found() || is_namespace_terminating(status) => {
                Err(SinkError::Pointless(error.into()))
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
