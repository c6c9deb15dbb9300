//! Requests on the wire, and their responses as bytes. Owns addresses, headers, statuses and warnings.

use std::collections::BTreeSet;
use std::mem;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use bowline_cache::ObjectKey;
use bowline_cache::internal::without_secrets;
use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::{ApiResource, Status};

use super::error::{ClientError, Operation};
use super::options::Options;
use crate::BoxError;
use crate::transport::{AnswerBody, RequestService};

/// Maximum bytes that are quoted of an error response that is not a `Status`.
const QUOTED: usize = 256;

/// Maximum number of different warnings that are remembered.
const REMEMBERED: usize = 256;

/// A warning of a server, and the operation that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// The operation.
    pub operation: Operation,
    /// The server's text.
    pub text: String,
}

/// Warnings that were logged, so that each is logged once.
#[derive(Default)]
pub(super) struct Warned {
    /// Kinds and texts.
    before: Mutex<BTreeSet<(String, String)>>,
}

impl Warned {
    /// Whether the kind did not have this warning before. After very many warnings, some count as new again.
    pub(super) fn is_new(&self, warning: &Warning) -> bool {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.len() >= REMEMBERED {
            before.clear();
        }
        before.insert((warning.operation.kind.clone(), warning.text.clone()))
    }
}

/// A path on the server, with its query.
pub(super) struct Address {
    text: String,
    has_query: bool,
}

impl Address {
    /// The path of a collection, or of one object in it.
    pub(super) fn new(resource: &ApiResource, namespace: Option<&str>, name: Option<&str>) -> Self {
        let mut text = String::with_capacity(128);
        text.push_str(if resource.group.is_empty() { "/api/" } else { "/apis/" });
        text.push_str(&resource.api_version);
        for (before, part) in
            [("/namespaces/", namespace), ("/", Some(resource.plural.as_str())), ("/", name)]
        {
            if let Some(part) = part {
                text.push_str(before);
                text.push_str(part);
            }
        }
        Self { text, has_query: false }
    }

    pub(super) fn subresource(mut self, name: Option<&str>) -> Self {
        if let Some(name) = name {
            self.text.push('/');
            self.text.push_str(name);
        }
        self
    }

    pub(super) fn put(&mut self, name: &str, value: &str) {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text.push_str(name);
        self.text.push('=');
        self.text.extend(byte_serialize(value.as_bytes()));
    }

    /// Adds the client's options for writes.
    pub(super) fn put_options(&mut self, options: &Options, with_fields: bool) {
        if options.dry_run {
            self.put("dryRun", "All");
        }
        if !with_fields {
            return;
        }
        if let Some(owner) = &options.field_owner {
            self.put("fieldManager", owner);
        }
        if let Some(validation) = options.field_validation {
            self.put("fieldValidation", validation.as_str());
        }
    }
}

/// A request that can be sent.
pub(super) struct Request {
    method: Method,
    address: Address,
    accept: &'static str,
    content_type: &'static str,
    body: Bytes,
    is_watch: bool,
}

/// The response to a request that succeeded.
pub(super) struct Answer {
    pub(super) warnings: Vec<String>,
    pub(super) body: AnswerBody,
}

/// An error response, or an error of the transport.
pub(super) enum Failure {
    Status(Box<Status>, Vec<String>),
    Transport(BoxError),
}

impl Request {
    /// A request without a body.
    pub(super) fn new(method: Method, address: Address, accept: &'static str) -> Self {
        Self { method, address, accept, content_type: "", body: Bytes::new(), is_watch: false }
    }

    pub(super) fn get(address: Address, accept: &'static str) -> Self {
        Self::new(Method::GET, address, accept)
    }

    /// With a body of a media type; neither if the type is empty.
    pub(super) fn body(mut self, content_type: &'static str, body: Bytes) -> Self {
        self.content_type = content_type;
        self.body = body;
        self
    }

    /// As a watch: events are not compressed, because kube decompresses only whole bodies.
    pub(super) fn watch(mut self) -> Self {
        self.is_watch = true;
        self
    }

    pub(super) async fn send(self, route: &RequestService) -> Result<Answer, Failure> {
        let mut request = http::Request::builder()
            .method(self.method.clone())
            .uri(self.address.text)
            .header(ACCEPT, self.accept);
        if self.is_watch {
            request = request.header(ACCEPT_ENCODING, "identity");
        }
        if !self.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        let request =
            request.body(Body::from(self.body)).map_err(|error| Failure::Transport(error.into()))?;
        let response = match route.send(request).await {
            Ok(response) => response,
            // A layer of the client may have decoded the error response.
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => match *error {
                    kube::Error::Api(status) => return Err(Failure::Status(status, Vec::new())),
                    error => return Err(Failure::Transport(without_secrets(error.into()))),
                },
                Err(error) => return Err(Failure::Transport(without_secrets(error))),
            },
        };
        let warnings = warnings(response.headers());
        if response.status().is_success() {
            return Ok(Answer { warnings, body: response.into_body() });
        }
        let status = read_status(response, &self.method).await.map_err(Failure::Transport)?;
        Err(Failure::Status(Box::new(status), warnings))
    }
}

/// Maximum bytes that are read of an error response. Of a longer one, the start is quoted as text.
const MAX_ERROR: usize = 64 * 1024;

/// Maximum bytes of a response with one object: more than any object that an API server stores.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

/// The body of a response with one object.
///
/// # Errors
/// When the connection breaks, or the response has more than 16 MiB.
pub(super) async fn read_object(body: AnswerBody) -> Result<Bytes, BoxError> {
    let (bytes, is_whole) = read_start(body, MAX_OBJECT).await?;
    if is_whole { Ok(bytes) } else { Err("the answer is longer than 16 MiB".into()) }
}

/// The start of a body, and whether it is the whole. Reads little more than the limit.
async fn read_start(body: AnswerBody, limit: usize) -> Result<(Bytes, bool), BoxError> {
    let mut body = pin!(body);
    let mut bytes = Bytes::new();
    // Chunks are copied together: a server may send single bytes.
    let mut joined = Vec::new();
    while bytes.len().max(joined.len()) <= limit
        && let Some(frame) = body.frame().await
    {
        let chunk = frame?.into_data().unwrap_or_default();
        if bytes.is_empty() && joined.is_empty() {
            bytes = chunk;
        } else {
            joined.extend_from_slice(&mem::take(&mut bytes));
            joined.extend_from_slice(&chunk);
        }
    }
    if !joined.is_empty() {
        bytes = joined.into();
    }
    let is_whole = bytes.len() <= limit;
    bytes.truncate(limit);
    Ok((bytes, is_whole))
}

/// The `Status` of an error response. A proxy may answer with something else, which is quoted.
async fn read_status(response: Response<AnswerBody>, method: &Method) -> Result<Status, BoxError> {
    let code = response.status();
    let (body, _) = read_start(response.into_body(), MAX_ERROR).await?;
    // The runtime's transport ends a longer body at the same length.
    let is_whole = body.len() < MAX_ERROR;
    let mut status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED)]).into_owned();
        let canonical = code.canonical_reason().unwrap_or("Unknown");
        Status::failure(text.trim(), if is_whole { canonical } else { usual_reason(code, method) })
    });
    status.code = code.as_u16();
    Ok(status)
}

/// Kubernetes' reason for a code, if the response does not give it. As in client-go, a conflict of a POST is about an
/// object that exists already.
fn usual_reason(code: StatusCode, method: &Method) -> &'static str {
    match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 if *method == Method::POST => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        500.. => "InternalError",
        _ => "Unknown",
    }
}

/// The texts of `Warning` headers in the form `299 - "text"` of RFC 7234. Others are ignored.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(WARNING).iter().filter_map(|value| {
        value.to_str().ok().or_else(|| {
            // Servers send UTF-8.
            std::str::from_utf8(value.as_bytes()).ok()
        })
    });
    all.filter_map(warning).collect()
}

fn warning(header: &str) -> Option<String> {
    let quoted = header.trim().strip_prefix("299 ")?.split_once(' ')?.1.trim_start().strip_prefix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => text.push(characters.next()?),
            character => text.push(character),
        }
    }
}

/// Whether a name can be a segment of a path without escapes. An empty one would turn an object into its collection.
pub(super) fn is_path_segment(name: &str) -> bool {
    let is_plain = |byte: u8| {
        byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'/' | b'%' | b'?' | b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}'
            )
    };
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(is_plain)
}

/// Whether a text can follow an object in a path: one segment or several.
pub(super) fn is_subresource(name: &str) -> bool {
    name.split('/').all(is_path_segment)
}

impl Failure {
    pub(super) fn into_error(self, operation: Operation) -> ClientError {
        let operation = Box::new(operation);
        match self {
            Self::Status(status, _) => ClientError::Status { operation, status },
            Self::Transport(source) => ClientError::Transport { operation, source },
        }
    }
}

/// Whether a status says that the object does not exist. A missing kind is another error.
pub(super) fn is_missing_object(status: &Status, key: &ObjectKey) -> bool {
    status.is_not_found() && status.details.as_ref().is_some_and(|details| details.name == key.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_taken_out_of_its_quotes() {
        assert_eq!(warning(r#"299 - "a \"b\" \\c""#).as_deref(), Some(r#"a "b" \c"#));
        assert_eq!(
            warning(r#"299 kube-apiserver "old" "Sat, 1 Jan 2000 00:00:00 GMT""#).as_deref(),
            Some("old")
        );
        for other in ["", "199 - \"x\"", "299 -", "299 - \"broken off", "299 - x"] {
            assert_eq!(warning(other), None, "{other}");
        }
    }

    #[test]
    fn a_warning_is_new_once_for_each_kind() {
        let warned = Warned::default();
        let say = |kind: &str, text: String| {
            let verb = crate::Verb::Create;
            let operation = Operation { verb, kind: kind.to_owned(), key: None, subresource: None };
            warned.is_new(&Warning { operation, text })
        };
        assert!(say("a", "x".to_owned()) && say("b", "x".to_owned()) && say("a", "y".to_owned()));
        assert!(!say("a", "x".to_owned()) && !say("b", "x".to_owned()));
        for number in 0..10_000 {
            assert!(say("a", number.to_string()));
        }
        assert!(warned.before.into_inner().unwrap().len() <= REMEMBERED, "it does not grow for ever");
    }

    #[test]
    fn what_would_lead_elsewhere_is_no_name() {
        for name in ["a", "a.b-c", "system:node:x", "a@b"] {
            assert!(is_path_segment(name), "{name}");
        }
        assert!(is_subresource("status") && is_subresource("proxy/metrics"));
        assert!(!is_subresource("../b/status") && !is_subresource("status?x=y") && !is_subresource(""));
        for name in ["", ".", "..", "a/b", "a?b", "a%2fb", "a b", "ä", "a#b"] {
            assert!(!is_path_segment(name), "{name}");
        }
    }
}
