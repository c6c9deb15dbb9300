//! Sources of lists and watches. Owns the requests on the wire; responses are bytes, which the reflector decodes.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderValue, Request};
use http_body_util::BodyExt as _;
use kube::core::Status;
use kube::{Client, Resource as _};

use crate::kind::{Kind, Representation};
use crate::redact::without_secrets;

/// Maximum bytes read from an error response.
const MAX_STATUS: usize = 64 * 1024;

/// A future that a [`ListWatch`] returns.
pub type ListWatchFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ListWatchError>> + Send + 'a>>;

/// A response body, as a stream of chunks.
pub type ByteStream = BoxStream<'static, Result<Bytes, ListWatchError>>;

/// A source of lists and watches: an API server, or a stand-in for one in tests.
///
/// Both methods return the bytes of a server's response: a list with `metadata` and `items`, or lines of
/// `{"type":…,"object":…}`.
pub trait ListWatch: Send + Sync + 'static {
    /// Lists all objects, or one page of them.
    fn list<'a>(&'a self, options: &'a ListOptions) -> ListWatchFuture<'a, ByteStream>;

    /// Opens a watch.
    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream>;
}

/// Parameters of a list request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Minimum version. `None`: the newest state. `0`: any state that the server has in memory.
    pub resource_version: Option<String>,
    /// Maximum items per page.
    pub limit: Option<u32>,
    /// Token of the next page, from the page before it.
    pub continue_token: Option<String>,
}

/// Parameters of a watch request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Start: events after this version. With initial events: a state no older than this; `None` for the newest.
    pub resource_version: Option<String>,
    /// Whether the server first sends the existing objects, and then a bookmark.
    pub send_initial_events: bool,
    /// Time after which the server ends the watch.
    pub timeout: Duration,
}

/// A list or watch that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListWatchError {
    /// The server returned an error status.
    #[error("{} ({} {})", .0.message, .0.code, .0.reason)]
    Status(Box<Status>),
    /// The server was not reached, or the connection was lost.
    #[error("{}", chain(&**.0))]
    Transport(#[source] Box<dyn Error + Send + Sync>),
    /// Nothing was received for this long.
    #[error("no data received for {0:?}: the connection is considered dead")]
    Timeout(Duration),
    /// The response is not valid.
    #[error("cannot decode the response: {0}")]
    Malformed(String),
}

/// An error with its causes: the messages of kube and hyper alone say little.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl ListWatchError {
    /// Wraps an error of a connection. Secrets in an error of credentials are left out.
    pub fn transport(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Transport(without_secrets(error.into()))
    }

    /// HTTP status code, if the server returned one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the requested version is too old, so that a new list is needed.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the server has not reached the requested version, and may never do so.
    pub(crate) fn is_too_large_version(&self) -> bool {
        let Self::Status(status) = self else { return false };
        let says_so =
            |text: &str| text.contains("Too large resource version") || text == "ResourceVersionTooLarge";
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 504
            && (says_so(&status.message) || causes.into_iter().any(|cause| says_so(&cause.reason)))
    }

    /// Delay that the server asks for before a retry.
    pub(crate) fn retry_after(&self) -> Duration {
        let Self::Status(status) = self else { return Duration::ZERO };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Duration::from_secs(seconds.into())
    }

    /// Whether the server refuses this request itself, so that a retry does not help: unknown or forbidden. Not if it
    /// is only busy.
    pub(crate) fn is_about_request(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code) && code != 429)
    }

    /// Short text that reveals nothing about the server or the user.
    pub(crate) fn brief(&self) -> &'static str {
        match self {
            Self::Status(status) => match status.code {
                401 => "not authenticated",
                403 => "forbidden",
                404 => "not found",
                429 => "the server is busy",
                400..500 => "refused",
                _ => "the server fails",
            },
            Self::Transport(_) => "the server cannot be reached",
            Self::Timeout(_) => "the server does not respond",
            Self::Malformed(_) => "cannot decode the response",
        }
    }

    /// Whether no process listens at the server's address.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        let Self::Transport(error) = self else { return false };
        let mut source: Option<&(dyn Error + 'static)> = Some(&**error);
        while let Some(error) = source {
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            {
                return true;
            }
            source = error.source();
        }
        false
    }
}

/// Lists and watches one kind on an API server: one namespace or all, optionally with selectors.
#[derive(Clone)]
pub struct ClientListWatch {
    client: Client,
    path: String,
    selectors: Selectors,
    form: Representation,
}

/// Selectors for the server, in query syntax. Empty: all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Selectors {
    /// Label selector, for example `app=web,tier!=cache`.
    pub labels: String,
    /// Field selector, for example `spec.nodeName=node-1`.
    pub fields: String,
}

impl Selectors {
    /// Selectors for all objects.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Label selector, for example `app=web,tier!=cache`. Default: all objects.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = selector.into();
        self
    }

    /// Field selector, for example `spec.nodeName=node-1`. Default: all objects.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = selector.into();
        self
    }
}

impl ClientListWatch {
    /// Lists and watches a kind in a namespace, or in all.
    #[must_use]
    pub fn new<K>(client: Client, kind: &Kind<K>, namespace: Option<&str>, selectors: Selectors) -> Self {
        let path = kube::core::DynamicObject::url_path(kind.resource(), namespace);
        Self { client, path, selectors, form: kind.form() }
    }

    async fn ask(&self, query: String, accept: &'static str) -> Result<ByteStream, ListWatchError> {
        let request = Request::get(format!("{}?{}", self.path, query))
            .header(ACCEPT, HeaderValue::from_static(accept))
            // Events must arrive without delay, and kube does not decode compressed streams to their end.
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .body(kube::client::Body::empty())
            .map_err(ListWatchError::transport)?;
        let response = self.client.send(request).await.map_err(of_kube)?;
        let status = response.status();
        let mut body = response.into_body().into_data_stream().map_err(ListWatchError::transport).boxed();
        if status.is_success() {
            return Ok(body);
        }
        let mut bytes = Vec::new();
        while let Some(Ok(piece)) = body.next().await {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_STATUS {
                break;
            }
        }
        Err(ListWatchError::Status(Box::new(read_status(status, &bytes))))
    }

    fn query(&self) -> Query {
        let mut query = Query(form_urlencoded::Serializer::new(String::new()));
        query.put_some("labelSelector", Some(&self.selectors.labels).filter(|text| !text.is_empty()));
        query.put_some("fieldSelector", Some(&self.selectors.fields).filter(|text| !text.is_empty()));
        query
    }
}

/// The query of a request.
struct Query(form_urlencoded::Serializer<'static, String>);

impl Query {
    fn put(&mut self, name: &str, value: &str) {
        self.0.append_pair(name, value);
    }

    fn put_some(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }
}

impl ListWatch for ClientListWatch {
    fn list<'a>(&'a self, options: &'a ListOptions) -> ListWatchFuture<'a, ByteStream> {
        let ListOptions { resource_version, limit, continue_token } = options;
        let mut query = self.query();
        query.put_some("resourceVersion", resource_version.as_ref());
        if resource_version.as_ref().is_some_and(|version| version != "0") {
            query.put("resourceVersionMatch", "NotOlderThan");
        }
        query.put_some("limit", limit.map(|limit| limit.to_string()).as_ref());
        query.put_some("continue", continue_token.as_ref());
        let accept = match self.form {
            Representation::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Representation::Typed | Representation::Dynamic | Representation::Packed => "application/json",
        };
        Box::pin(self.ask(query.0.finish(), accept))
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream> {
        let WatchOptions { resource_version, send_initial_events, timeout } = options;
        let mut query = self.query();
        query.put("watch", "true");
        query.put("allowWatchBookmarks", "true");
        query.put("timeoutSeconds", &timeout.as_secs().to_string());
        query.put_some("resourceVersion", resource_version.as_ref());
        if *send_initial_events {
            query.put("sendInitialEvents", "true");
            query.put("resourceVersionMatch", "NotOlderThan");
        }
        let accept = match self.form {
            Representation::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Representation::Typed | Representation::Dynamic | Representation::Packed => "application/json",
        };
        Box::pin(self.ask(query.0.finish(), accept))
    }
}

impl fmt::Debug for ClientListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientListWatch")
            .field("path", &self.path)
            .field("selectors", &self.selectors)
            .finish_non_exhaustive()
    }
}

/// A layer of the client may have decoded the error response already.
fn of_kube(error: kube::Error) -> ListWatchError {
    match error {
        kube::Error::Api(status) => ListWatchError::Status(status),
        error => ListWatchError::transport(error),
    }
}

/// Decodes an error response. Proxies and gateways may send other texts than a `Status`.
fn read_status(code: http::StatusCode, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned();
        Status::failure(text.trim(), code.canonical_reason().unwrap_or("Unknown"))
    });
    status.code = code.as_u16();
    status
}
