//! The server: what it is made of, and the way of a request through it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::{Clock, panic_message};
use bowline_machinery::Status;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_service::Service;

use crate::authentication::User;
use crate::body::Body;
use crate::builder::Builder;
use crate::hooks::{Call, Disconnected, Hook, Verdict};
use crate::object::Meta;
use crate::query::Query;
use crate::registry::Registry;
use crate::request::{ResourcePath, Target, Verb};
use crate::{about, negotiate, rest};

/// The most bytes of a request's body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long a client may take to send it, as long as kube-apiserver lets a request last.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// So much more than [`MAX_BODY`] is taken and thrown away: a client that is still sending would not read the answer.
const MAX_DISCARDED: usize = 8 * MAX_BODY;

/// What objects are kept in.
pub(crate) type Store = bowline_storage::Store<Meta>;

/// The Kubernetes API in process: a [`tower_service::Service`] of HTTP requests. Clones share everything.
///
/// As a service it trusts its caller: whoever holds it is an administrator, unless a request carries a [`User`] in its
/// extensions. On a [socket](crate::Serving) everybody has to say who they are.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) hook: Option<Arc<dyn Hook>>,
    pub(crate) ready: AtomicBool,
    /// Held while custom resources come into force or go.
    pub(crate) custom: Mutex<()>,
    /// Whoever calls in process.
    pub(crate) admin: User,
}

impl ApiServer {
    /// Options of a server, with their defaults.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Forgets all history, as a compaction of etcd does: watches and lists at an older revision are answered with 410.
    pub fn compact(&self) {
        self.inner.store.compact(self.inner.store.revision());
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision().get()
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Disconnected`] if a [`Hook`] cut the connection.
    pub async fn handle<B>(&self, request: Request<B>) -> Result<Response<Body>, Disconnected>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let pretty = wants_pretty(&parts.headers, parts.uri.query().unwrap_or_default());
        let user = parts.extensions.get::<User>().unwrap_or(&self.inner.admin).clone();
        let (method, uri, caller) = (parts.method.clone(), parts.uri.clone(), user.clone());
        let incoming = Incoming {
            method: parts.method,
            target: Target::of(parts.uri.path()),
            uri: parts.uri,
            headers: parts.headers,
            user,
        };
        let log = |panic: &str| {
            tracing::error!(%method, path = uri.path(), user = caller.name(), panic, "a request panicked");
        };
        let answer = match caught(self.answer(incoming, body), log).await {
            Ok(answer) => answer,
            Err(Failure::Status(status)) => Answer::status(&status),
            Err(Failure::Disconnected) => return Err(Disconnected),
        };
        tracing::debug!(code = answer.code, %method, path = uri.path(), query = uri.query(), "answered");
        let response = answer.into_response(pretty);
        Ok(if method == Method::HEAD { without_body(response) } else { response })
    }

    async fn answer<B>(&self, incoming: Incoming, body: B) -> Result<Answer, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let inner = &self.inner;
        let query = Query::parse(incoming.uri.query().unwrap_or_default());
        let call = Arc::new(incoming.call(&query));
        if let Some(hook) = &inner.hook {
            obey(hook.before(&call).await)?;
        }
        let Target::Resource(path) = &incoming.target else {
            incoming.user.authorize_path(&incoming.target, &incoming.method, incoming.uri.path())?;
            let Incoming { target, method, headers, .. } = &incoming;
            return Ok(about::answer(inner, target, method, headers, &query)?);
        };
        incoming.user.authorize(path, &incoming.method, query.watch)?;
        if Verb::of(&incoming.method, path, query.watch).is_none() {
            return Err(method_not_allowed().into());
        }
        if incoming.method == Method::HEAD {
            rest::check_head(inner, path)?;
        }
        let bytes = match call.verb {
            Verb::Get | Verb::List | Verb::Watch => Bytes::new(),
            _ => match inner.clock.timeout(BODY_TIMEOUT, read(body)).await {
                Ok(bytes) => bytes?,
                Err(_) => return Err(too_slow().into()),
            },
        };
        let (answer, committed) =
            rest::answer(inner, &call, &incoming.user, path, &incoming.headers, &query, &bytes);
        if let Some(hook) = inner.hook.as_ref().filter(|_| committed) {
            obey(hook.committed(&call).await)?;
        }
        Ok(answer?)
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Disconnected;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Disconnected>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Disconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { server.handle(request).await })
    }
}

/// A request without its body.
struct Incoming {
    method: Method,
    target: Target,
    uri: http::Uri,
    headers: HeaderMap,
    user: User,
}

impl Incoming {
    fn call(&self, query: &Query) -> Call {
        let about = self.target.as_resource();
        let verb = about.and_then(|path| Verb::of(&self.method, path, query.watch));
        let text = |of: fn(&ResourcePath) -> &String| about.map(of).cloned().unwrap_or_default();
        let part = |of: fn(&ResourcePath) -> &Option<String>| about.and_then(|path| of(path).clone());
        Call {
            user: self.user.name().to_owned(),
            user_agent: header(&self.headers, "user-agent"),
            path: self.uri.path().to_owned(),
            verb: verb.unwrap_or_else(|| Verb::of_method(&self.method)),
            group: text(|path| &path.group),
            version: text(|path| &path.version),
            resource: text(|path| &path.resource),
            subresource: part(|path| &path.subresource),
            namespace: part(|path| &path.namespace),
            name: part(|path| &path.name),
            dry_run: query.dry_run.iter().any(|value| !value.is_empty()),
        }
    }
}

/// Why there is no ordinary answer.
pub(crate) enum Failure {
    Status(Box<Status>),
    Disconnected,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// What is answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Body,
    /// Those that are not the same for all answers.
    pub(crate) headers: HeaderMap,
    pub(crate) warnings: Vec<String>,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Answer {
    pub(crate) fn bytes(code: u16, bytes: Bytes) -> Self {
        Self { code, body: Body::from(bytes), headers: content_type(JSON), warnings: Vec::new() }
    }

    pub(crate) fn stream(body: Body) -> Self {
        Self { code: 200, body, headers: content_type(JSON), warnings: Vec::new() }
    }

    pub(crate) fn without_content(code: u16) -> Self {
        Self { code, body: Body::empty(), headers: HeaderMap::new(), warnings: Vec::new() }
    }

    /// The same as something else.
    pub(crate) fn of_type(mut self, media_type: &str) -> Self {
        if let Ok(media_type) = HeaderValue::from_str(media_type) {
            self.headers.insert(CONTENT_TYPE, media_type);
        }
        self
    }

    pub(crate) fn json(code: u16, document: &impl serde::Serialize) -> Self {
        let bytes = serde_json::to_vec(document).expect("a document can always be written to memory");
        Self::bytes(code, Bytes::from(bytes))
    }

    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        let mut headers = content_type(TEXT);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Self { code, body: Body::from(text.into()), headers, warnings: Vec::new() }
    }

    /// For a path that is not even one of an API.
    pub(crate) fn no_page() -> Self {
        Self::text(404, "404 page not found\n")
    }

    pub(crate) fn status(status: &Status) -> Self {
        Self::json(if status.code == 0 { 200 } else { status.code }, status)
    }

    fn into_response(self, pretty: bool) -> Response<Body> {
        let Self { code, mut body, headers, warnings } = self;
        let is_json =
            headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        if pretty && is_json {
            body = body.indented();
        }
        let mut response = Response::new(body);
        *response.status_mut() =
            http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        let headers = response.headers_mut();
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
        for warning in warnings {
            if let Some(value) = warning_header(&warning) {
                headers.append("warning", value);
            }
        }
        response
    }
}

fn content_type(media_type: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, media_type)])
}

/// `299 - "text"`, as RFC 7234 wants it quoted.
fn warning_header(text: &str) -> Option<HeaderValue> {
    let mut quoted = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            character if character.is_control() => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

/// A request that panics is answered, as kube-apiserver does, and hurts nobody else. What it was about to write is not
/// written: a write is one step that does not panic halfway.
async fn caught(
    answer: impl Future<Output = Result<Answer, Failure>>,
    log: impl Fn(&str),
) -> Result<Answer, Failure> {
    let mut answer = std::pin::pin!(answer);
    std::future::poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))).unwrap_or_else(|panic| {
            log(panic_message(&*panic));
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            Poll::Ready(Err(Status::internal(text).into()))
        })
    })
    .await
}

/// An answer to somebody whose request is not looked at.
pub(crate) fn status_response(status: &Status) -> Response<Body> {
    Answer::status(status).into_response(false)
}

fn obey(verdict: Verdict) -> Result<(), Failure> {
    match verdict {
        Verdict::Proceed => Ok(()),
        Verdict::Fail(status) => Err(status.into()),
        Verdict::Disconnect => Err(Failure::Disconnected),
    }
}

async fn read<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(body);
    match Limited::new(body.as_mut(), MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let mut discarded = 0;
            while let Some(Ok(frame)) = body.frame().await
                && discarded < MAX_DISCARDED
            {
                discarded += frame.data_ref().map_or(0, Bytes::len);
            }
            Err(Status::too_large(format!("Request entity too large: limit is {MAX_BODY}")).into())
        }
        Err(error) => {
            Err(Status::bad_request(format!("the body of the request could not be read: {error}")).into())
        }
    }
}

fn too_slow() -> Status {
    let message = "Timeout: request did not complete within the allotted timeout";
    let mut status = Status::failure(504, "Timeout", message);
    status.details = Some(Box::default());
    status
}

pub(crate) fn method_not_allowed() -> Status {
    let mut status = Status::failure(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    status.details = Some(Box::default());
    status
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// What a `HEAD` is answered with: all but the body, whose length is told.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = http_body::Body::size_hint(response.body()).exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::empty();
    response
}

/// People who use a browser or a terminal get something that they can read.
fn wants_pretty(headers: &HeaderMap, query: &str) -> bool {
    if query.contains("pretty")
        && let Some(pretty) = Query::parse(query).pretty
    {
        return pretty;
    }
    let agent = header(headers, "user-agent");
    negotiate::is_pretty(headers)
        || ["curl", "Wget", "Mozilla/5.0"].iter().any(|known| agent.starts_with(known))
}
