//! Requests as they are on the wire, and their answers as bytes. Owns addresses, headers, statuses and warnings.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use bowline_cache::ObjectKey;
use bytes::Bytes;
use form_urlencoded::byte_serialize;
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::{ApiResource, Status};

use super::error::{ClientError, Operation};
use super::options::Options;
use crate::BoxError;
use crate::transport::{AnswerBody, Route};

/// Of an answer that is an error, no more than this is quoted if it is no status.
const QUOTED: usize = 256;

/// So many different warnings are known again.
const REMEMBERED: usize = 256;

/// What a server warned of, and during what.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// What was done.
    pub operation: Operation,
    /// What it says.
    pub text: String,
}

/// What was warned of before, so that it is logged once.
#[derive(Default)]
pub(super) struct Warned {
    /// Kinds and texts.
    before: Mutex<BTreeSet<(String, String)>>,
}

impl Warned {
    /// Whether this was not said of the kind before. Of very many warnings, some are new again.
    pub(super) fn is_new(&self, warning: &Warning) -> bool {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.len() >= REMEMBERED {
            before.clear();
        }
        before.insert((warning.operation.kind.clone(), warning.text.clone()))
    }
}

/// An address on the server, with its query.
pub(super) struct Address {
    text: String,
    has_query: bool,
}

impl Address {
    /// Of a collection, or of one object in it.
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

    /// What a write is told by its client.
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
    pub(super) method: Method,
    pub(super) address: Address,
    pub(super) accept: &'static str,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

/// The answer to a request that succeeded.
pub(super) struct Answer {
    pub(super) warnings: Vec<String>,
    pub(super) body: AnswerBody,
}

/// Why there is no answer, or not a good one.
pub(super) enum Failure {
    Status(Box<Status>, Vec<String>),
    Transport(BoxError),
}

impl Request {
    pub(super) async fn send(self, route: &Route) -> Result<Answer, Failure> {
        let mut request =
            http::Request::builder().method(self.method).uri(self.address.text).header(ACCEPT, self.accept);
        if !self.content_type.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        let request =
            request.body(Body::from(self.body)).map_err(|error| Failure::Transport(error.into()))?;
        let response = match route.send(request).await {
            Ok(response) => response,
            // Layers of the client may have read an error already.
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => match *error {
                    kube::Error::Api(status) => return Err(Failure::Status(status, Vec::new())),
                    error => return Err(Failure::Transport(error.into())),
                },
                Err(error) => return Err(Failure::Transport(error)),
            },
        };
        let warnings = warnings(response.headers());
        if response.status().is_success() {
            return Ok(Answer { warnings, body: response.into_body() });
        }
        let status = read_status(response).await.map_err(Failure::Transport)?;
        Err(Failure::Status(Box::new(status), warnings))
    }
}

/// What an answer says that is not a success. Not everything on the way to a server speaks its language.
async fn read_status(response: Response<AnswerBody>) -> Result<Status, BoxError> {
    let code = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    let mut status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body[..body.len().min(QUOTED)]).into_owned();
        Status::failure(text.trim(), code.canonical_reason().unwrap_or("Unknown"))
    });
    status.code = code.as_u16();
    Ok(status)
}

/// The texts of `Warning` headers: `299 - "text"`, as RFC 7234 has them. What is none is left out.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let all = headers.get_all(WARNING).iter().filter_map(|value| {
        value.to_str().ok().or_else(|| {
            // Texts are UTF-8 more often than Latin-1.
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

/// Whether a name can stand in an address as it is. An empty one would make a collection of an object.
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

/// Whether this can stand behind an object in an address: one segment or several.
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

/// Whether a status says that one object is not there, not that there is no such kind.
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
