//! Where lists and watches come from. Owns the requests as they are on the wire; what comes back is bytes, and the
//! reflector's to read.

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

use crate::kind::{Form, Kind};

/// Of an answer that is an error, no more than this is read.
const MAX_STATUS: usize = 64 * 1024;

/// A future that a [`ListWatch`] returns.
pub type ListWatchFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ListWatchError>> + Send + 'a>>;

/// The body of an answer, in pieces as they come.
pub type ByteStream = BoxStream<'static, Result<Bytes, ListWatchError>>;

/// A source of lists and watches: an API server, or what stands in for one in a test.
///
/// Both answer with what an API server sends: a list with `metadata` and `items`, and lines of
/// `{"type":…,"object":…}`.
pub trait ListWatch: Send + Sync + 'static {
    /// Lists, or gives one page of a list.
    fn list<'a>(&'a self, options: &'a ListOptions) -> ListWatchFuture<'a, ByteStream>;

    /// Watches.
    fn watch<'a>(&'a self, options: &'a WatchOptions) -> ListWatchFuture<'a, ByteStream>;
}

/// What is to be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListOptions {
    /// Not set: the newest there is. `0`: whatever the server has at hand. Otherwise no older than this.
    pub resource_version: Option<String>,
    /// No more than so many items.
    pub limit: Option<u32>,
    /// Where the last page ended.
    pub continue_token: Option<String>,
}

/// What is to be watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// Events after this one. With initial events: the state no older than this, or the newest there is.
    pub resource_version: Option<String>,
    /// Whether what is there already is sent first, and a bookmark when that is over.
    pub send_initial_events: bool,
    /// After this the server ends the watch.
    pub timeout: Duration,
}

/// Why there is no list or watch, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListWatchError {
    /// The server said no.
    #[error("{} ({} {})", .0.message, .0.code, .0.reason)]
    Status(Box<Status>),
    /// The server was not reached, or the connection was lost.
    #[error("{}", chain(&**.0))]
    Transport(#[source] Box<dyn Error + Send + Sync>),
    /// Nothing came for this long.
    #[error("nothing came for {0:?}: the connection is taken for dead")]
    Silent(Duration),
    /// What came is not what a server sends.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
}

/// An error and its causes. kube's and hyper's tell little by themselves.
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
    /// An error that something else met.
    pub fn transport(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Transport(error.into())
    }

    /// The HTTP status that the server answered with.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// What was asked for is too old: everything has to be listed again.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.code() == Some(410)
    }

    /// The server is not as far as the version that was asked for, and may never be.
    pub(crate) fn is_too_large_version(&self) -> bool {
        let Self::Status(status) = self else { return false };
        let says_so =
            |text: &str| text.contains("Too large resource version") || text == "ResourceVersionTooLarge";
        let causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 504
            && (says_so(&status.message) || causes.into_iter().any(|cause| says_so(&cause.reason)))
    }

    /// How long the server asks to be left alone.
    pub(crate) fn retry_after(&self) -> Duration {
        let Self::Status(status) = self else { return Duration::ZERO };
        let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        Duration::from_secs(seconds.into())
    }

    /// The server will not answer this request, now or later: it does not know or allow what is asked for. Not so when it is
    /// only busy.
    pub(crate) fn is_about_request(&self) -> bool {
        self.code().is_some_and(|code| (400..500).contains(&code) && code != 429)
    }

    /// In a word or two that tell nothing about the server, or about who asks.
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
            Self::Silent(_) => "the server is silent",
            Self::Malformed(_) => "the answer cannot be read",
        }
    }

    /// Whether nobody listens at the server's address.
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

/// Lists and watches of one kind from an API server: in one namespace or in all, all objects or those that are selected.
#[derive(Clone)]
pub struct ClientListWatch {
    client: Client,
    path: String,
    selectors: Selectors,
    form: Form,
}

/// What the server is to select by, in the syntax of a query; empty for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selectors {
    /// For example `app=web,tier!=cache`.
    pub labels: String,
    /// For example `spec.nodeName=node-1`.
    pub fields: String,
}

impl ClientListWatch {
    /// Of a kind, in a namespace or in all.
    #[must_use]
    pub fn new<K>(client: Client, kind: &Kind<K>, namespace: Option<&str>, selectors: Selectors) -> Self {
        let path = kube::core::DynamicObject::url_path(kind.resource(), namespace);
        Self { client, path, selectors, form: kind.form() }
    }

    async fn ask(&self, query: String, accept: &'static str) -> Result<ByteStream, ListWatchError> {
        let request = Request::get(format!("{}?{}", self.path, query))
            .header(ACCEPT, HeaderValue::from_static(accept))
            // A stream of events has to come as it happens, and kube does not read compressed ones to their end.
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
            Form::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Form::Typed | Form::Dynamic | Form::Packed => "application/json",
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
            Form::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            Form::Typed | Form::Dynamic | Form::Packed => "application/json",
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

/// Layers of the client may have read an error already.
fn of_kube(error: kube::Error) -> ListWatchError {
    match error {
        kube::Error::Api(status) => ListWatchError::Status(status),
        error => ListWatchError::transport(error),
    }
}

/// What an answer says that is not a success. Not everything on the way to a server speaks its language.
fn read_status(code: http::StatusCode, body: &[u8]) -> Status {
    let mut status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(256)]).into_owned();
        Status::failure(text.trim(), code.canonical_reason().unwrap_or("Unknown"))
    });
    status.code = code.as_u16();
    status
}
