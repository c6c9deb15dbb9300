//! The server: its parts, and the path of a request through them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::{Clock, Scope, panic_message};
use bowline_machinery::Status;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::Semaphore;
use tower_service::Service;

use crate::authentication::User;
use crate::body::Body;
use crate::builder::ApiServerBuilder;
#[cfg(feature = "faults")]
use crate::faults::Exchange;
use crate::hooks::{Disconnected, Hook, RequestInfo, Verdict};
use crate::object::{self, Meta};
use crate::query::Query;
use crate::registry::Registry;
use crate::request::{ResourcePath, Target, Verb};
use crate::{negotiate, non_resource, rest};

/// Maximum bytes of a request's body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// Maximum time for its transmission: kube-apiserver's request timeout.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Further bytes beyond [`MAX_BODY`] that are read and dropped: a client that is still sending would not read the
/// response.
const MAX_DISCARDED: usize = 8 * MAX_BODY;

/// Writes with larger bodies, or of larger objects, are processed on other threads than those that serve requests.
const LARGE_OBJECT: usize = 64 * 1024;

/// The object store.
pub(crate) type Store = bowline_storage::Store<Meta>;

/// The Kubernetes API in process: a [`tower_service::Service`] of HTTP requests. Clones share everything.
///
/// As a service it trusts its caller: in-process requests are the administrator's, unless a request carries a [`User`] in its
/// extensions. On a [socket](crate::ServerHandle) clients authenticate.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) hook: Option<Arc<dyn Hook>>,
    #[cfg(feature = "faults")]
    pub(crate) faults: Option<crate::faults::Faults>,
    pub(crate) ready: AtomicBool,
    /// Writes with long computations.
    pub(crate) heavy: Scope,
    /// One permit for each of them that may run at a time.
    pub(crate) heavy_permits: Arc<Semaphore>,
    /// Held while definitions are served or removed.
    pub(crate) custom: Mutex<()>,
    /// The user of in-process requests.
    pub(crate) admin: User,
}

impl ApiServer {
    /// Options of a server, with their defaults.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// Drops the history, as a compaction of etcd does: watches and lists at an older revision get a 410.
    pub fn compact(&self) {
        self.inner.store.compact(self.inner.store.revision());
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision().get()
    }

    /// Handles a request.
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
            Err(Failure::Status(status)) => ApiResponse::status(&status),
            #[cfg(feature = "faults")]
            Err(Failure::Answer(answer)) => *answer,
            Err(Failure::Disconnected) => return Err(Disconnected),
        };
        tracing::debug!(code = answer.code, %method, path = uri.path(), query = uri.query(), "answered");
        let response = answer.into_response(pretty);
        Ok(if method == Method::HEAD { without_body(response) } else { response })
    }

    async fn answer<B>(&self, incoming: Incoming, body: B) -> Result<ApiResponse, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        refuse_impersonation(&incoming)?;
        #[cfg_attr(not(feature = "faults"), expect(unused_mut, reason = "only the fault kit changes it"))]
        let mut query = Query::parse(incoming.uri.query().unwrap_or_default());
        let call = Arc::new(incoming.call(&query));
        #[cfg(feature = "faults")]
        if let Some(faults) = &self.inner.faults {
            let mut exchange = Exchange::begin(faults, &self.inner, &call, &mut query);
            let answer = self.answer_with_faults(incoming, body, &call, query, &mut exchange).await;
            exchange.finish(&answer);
            return answer;
        }
        let bytes = self.accept(&incoming, body, &call, &query).await?;
        self.complete(incoming, &call, query, bytes).await?.0.map_err(Failure::from)
    }

    /// The same, with the rules of the fault kit before the request is done and before its response.
    #[cfg(feature = "faults")]
    async fn answer_with_faults<B>(
        &self,
        incoming: Incoming,
        body: B,
        call: &Arc<RequestInfo>,
        mut query: Query,
        exchange: &mut Exchange,
    ) -> Result<ApiResponse, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let bytes = self.accept(&incoming, body, call, &query).await?;
        exchange.before_request(&mut query, &bytes).await?;
        let (answer, committed) = self.complete(incoming, call, query, bytes).await?;
        exchange.before_response(committed).await?;
        Ok(exchange.watch(answer?))
    }

    /// Calls the hook, authorizes the user, and reads the body.
    async fn accept<B>(
        &self,
        incoming: &Incoming,
        body: B,
        call: &RequestInfo,
        query: &Query,
    ) -> Result<Bytes, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let inner = &self.inner;
        if let Some(hook) = &inner.hook {
            obey(hook.before_request(call).await)?;
        }
        let Target::Resource(path) = &incoming.target else {
            incoming.user.authorize_path(&incoming.target, &incoming.method, incoming.uri.path())?;
            return Ok(Bytes::new());
        };
        incoming.user.authorize(path, &incoming.method, query.watch)?;
        if Verb::of(&incoming.method, path, query.watch).is_none() {
            return Err(method_not_allowed().into());
        }
        if incoming.method == Method::HEAD {
            rest::check_head(inner, path)?;
        }
        match call.verb {
            Verb::Get | Verb::List | Verb::Watch => Ok(Bytes::new()),
            _ => match inner.clock.timeout(BODY_TIMEOUT, read(body)).await {
                Ok(bytes) => bytes,
                Err(_) => Err(too_slow().into()),
            },
        }
    }

    /// Handles a request. Returns its response, and whether something was written.
    async fn complete(
        &self,
        incoming: Incoming,
        call: &Arc<RequestInfo>,
        query: Query,
        bytes: Bytes,
    ) -> Result<(Result<ApiResponse, Status>, bool), Failure> {
        let inner = &self.inner;
        let Target::Resource(path) = &incoming.target else {
            let Incoming { target, method, headers, .. } = &incoming;
            return Ok((non_resource::answer(inner, target, method, headers, &query), false));
        };
        let (answer, committed) = if is_heavy(inner, call, path, &bytes, &incoming.headers) {
            self.answer_on_a_thread(incoming, call, query, bytes).await?
        } else {
            rest::answer(inner, call, &incoming.user, path, &incoming.headers, &query, &bytes)
        };
        if let Some(hook) = inner.hook.as_ref().filter(|_| committed) {
            obey(hook.after_commit(call).await)?;
        }
        Ok((answer, committed))
    }

    /// Handles a request with a long computation on other threads than those that serve requests, as many at a time as
    /// there are cores. A started write is completed even if its client leaves.
    async fn answer_on_a_thread(
        &self,
        incoming: Incoming,
        call: &Arc<RequestInfo>,
        query: Query,
        bytes: Bytes,
    ) -> Result<(Result<ApiResponse, Status>, bool), Failure> {
        let permit = self.inner.heavy_permits.clone().acquire_owned().await.map_err(|_| panicked())?;
        let (inner, call) = (self.inner.clone(), call.clone());
        let work = self.inner.heavy.spawn_blocking("write", move || {
            let _permit = permit;
            let path = incoming.target.as_resource()?;
            Some(rest::answer(&inner, &call, &incoming.user, path, &incoming.headers, &query, &bytes))
        });
        match work.await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => Err(panicked().into()),
        }
    }
}

/// Whether a write may compute for long, or wait for one that does:
/// - it has a large body or a large stored object, or is a JSON patch of an object of any size;
/// - it deletes a collection;
/// - it is about a definition, whose schemas are compiled and whose objects are deleted, or about a kind whose
///   definition is being deleted.
fn is_heavy(
    inner: &Inner,
    call: &RequestInfo,
    path: &ResourcePath,
    body: &Bytes,
    headers: &HeaderMap,
) -> bool {
    match call.verb {
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => return false,
        Verb::DeleteCollection => return true,
        Verb::Patch if matches!(negotiate::patch(headers), Ok(negotiate::PatchType::Json)) => return true,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {}
    }
    if body.len() > LARGE_OBJECT || path.resource == "customresourcedefinitions" {
        return true;
    }
    let Some(resource) = inner.registry.find(&path.group, &path.version, &path.resource) else {
        return false;
    };
    let stored = path
        .name
        .as_ref()
        .and_then(|name| inner.store.get(resource.table, &object::key(path.namespace.as_deref(), name)));
    resource.behaviour.is_terminating() || stored.is_some_and(|record| record.body.len() > LARGE_OBJECT)
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
    fn call(&self, query: &Query) -> RequestInfo {
        let about = self.target.as_resource();
        let verb = about.and_then(|path| Verb::of(&self.method, path, query.watch));
        let text = |of: fn(&ResourcePath) -> &String| about.map(of).cloned().unwrap_or_default();
        let part = |of: fn(&ResourcePath) -> &Option<String>| about.and_then(|path| of(path).clone());
        RequestInfo {
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

/// Reason why there is no ordinary response.
pub(crate) enum Failure {
    Status(Box<Status>),
    /// A fault replaces the response.
    #[cfg(feature = "faults")]
    Answer(Box<ApiResponse>),
    Disconnected,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// A response before its encoding.
pub(crate) struct ApiResponse {
    pub(crate) code: u16,
    pub(crate) body: Body,
    /// Headers beyond the common ones.
    pub(crate) headers: HeaderMap,
    pub(crate) warnings: Vec<String>,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl ApiResponse {
    pub(crate) fn bytes(code: u16, bytes: Bytes) -> Self {
        Self { code, body: Body::from(bytes), headers: content_type(JSON), warnings: Vec::new() }
    }

    pub(crate) fn stream(body: Body) -> Self {
        Self { code: 200, body, headers: content_type(JSON), warnings: Vec::new() }
    }

    pub(crate) fn without_content(code: u16) -> Self {
        Self { code, body: Body::empty(), headers: HeaderMap::new(), warnings: Vec::new() }
    }

    /// Sets the media type.
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

    /// A path outside all APIs.
    pub(crate) fn no_page() -> Self {
        Self::text(404, "404 page not found\n")
    }

    pub(crate) fn status(status: &Status) -> Self {
        let mut answer = Self::json(if status.code == 0 { 200 } else { status.code }, status);
        // kube-apiserver repeats it in a header, where clients look for it.
        if let Some(seconds) = status.details.as_ref().map(|details| details.retry_after_seconds)
            && seconds > 0
        {
            answer.headers.insert(RETRY_AFTER, seconds.into());
        }
        answer
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

/// `299 - "text"`, quoted as in RFC 7234.
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

/// Answers a request that panics, as kube-apiserver does; other requests go on. Its write is not committed: a commit is
/// one step that cannot panic halfway.
async fn caught(
    answer: impl Future<Output = Result<ApiResponse, Failure>>,
    log: impl Fn(&str),
) -> Result<ApiResponse, Failure> {
    let mut answer = std::pin::pin!(answer);
    std::future::poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))).unwrap_or_else(|panic| {
            log(panic_message(&*panic));
            Poll::Ready(Err(panicked().into()))
        })
    })
    .await
}

fn panicked() -> Status {
    Status::internal("This request caused apiserver to panic. Look in the logs for details.")
}

/// The response to a request that is refused before its body is read.
pub(crate) fn status_response(status: &Status) -> Response<Body> {
    ApiResponse::status(status).into_response(false)
}

/// Impersonation is not implemented. Ignoring its headers would let a test of least privilege pass that should fail.
fn refuse_impersonation(incoming: &Incoming) -> Result<(), Status> {
    let impersonates = |name: &http::HeaderName| name.as_str().starts_with("impersonate-");
    let Some(header) = incoming.headers.keys().find(|name| impersonates(name)) else { return Ok(()) };
    let who = self::header(&incoming.headers, "impersonate-user");
    let message = format!(
        "forbidden: User {:?} cannot impersonate {who:?}: this server does not implement impersonation (header {header})",
        incoming.user.name()
    );
    let mut status = Status::failure(403, "Forbidden", message);
    status.details = Some(Box::default());
    Err(status)
}

pub(crate) fn obey(verdict: Verdict) -> Result<(), Failure> {
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

/// The response to a `HEAD`: headers with the body's length, without the body.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = http_body::Body::size_hint(response.body()).exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::empty();
    response
}

/// Whether the client is a browser or a terminal, which gets indented JSON.
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

#[cfg(test)]
mod tests;
