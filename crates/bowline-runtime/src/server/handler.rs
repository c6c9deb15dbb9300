//! Handlers of requests, by path.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};

use super::ServerError;

/// A request with its complete body.
pub type Request = http::Request<Bytes>;

/// A response of a handler.
pub type Response = http::Response<Bytes>;

/// Handles requests.
pub(super) type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// A plain-text response.
#[must_use]
pub fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(text.into().into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The response to a method other than `GET` and `HEAD` on a read-only path.
pub(crate) fn refuse_change(method: &Method) -> Option<Response> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Some(response)
}

/// The handler of a path.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) handler: Handler,
    pub(super) access: Access,
}

/// Access to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Any method, with a body.
    Any,
    /// `GET` and `HEAD` without a body; other requests are rejected before they are read.
    ReadOnly,
    /// Like `Any`, but without TLS only under a local host name.
    Private,
}

/// The handlers of a server, by path.
#[derive(Default)]
pub(super) struct Routes(BTreeMap<String, Route>);

impl Routes {
    pub(super) fn add(&mut self, purpose: &str, path: String, route: Route) -> Result<(), ServerError> {
        let is_odd = |c: char| matches!(c, '?' | '#') || c.is_whitespace() || c.is_control();
        let problem = match self.0.get(&path) {
            _ if !path.starts_with('/') => "a path begins with a slash",
            _ if path.contains(is_odd) => "a path has no query, fragment or space",
            Some(_) => "it has one",
            None => {
                self.0.insert(path, route);
                return Ok(());
            }
        };
        Err(ServerError::Path { purpose: purpose.to_owned(), path, problem })
    }

    /// The handler of a path, or of the nearest parent path.
    pub(super) fn find(&self, path: &str) -> Option<&Route> {
        let folders = path.rmatch_indices('/').map(|(at, _)| &path[..=at]);
        std::iter::once(path).chain(folders).find_map(|path| self.0.get(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_nearest_handler_answers() {
        let mut routes = Routes::default();
        for path in ["/metrics", "/debug/", "/debug/deep/", "/debug/exact"] {
            let handler: Handler = Arc::new(move |_| Box::pin(async move { text(StatusCode::OK, path) }));
            routes.add("tests", path.to_owned(), Route { handler, access: Access::Any }).unwrap();
        }
        for (path, answer) in [
            ("/metrics", Some("/metrics")),
            ("/metrics/", None),
            ("/", None),
            ("", None),
            ("*", None),
            ("/debug", None),
            ("/debug/", Some("/debug/")),
            ("/debug/more/yet", Some("/debug/")),
            ("/debug/exact", Some("/debug/exact")),
            ("/debug/deep/more", Some("/debug/deep/")),
        ] {
            let answered = match routes.find(path) {
                Some(route) => Some((route.handler)(Request::default()).await.into_body()),
                None => None,
            };
            assert_eq!(answered.as_deref(), answer.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn a_path_must_be_valid_and_has_one_handler() {
        let mut routes = Routes::default();
        let handler: Handler = Arc::new(|_| Box::pin(async { text(StatusCode::OK, "") }));
        let route = Route { handler, access: Access::Any };
        routes.add("tests", "/a".to_owned(), route.clone()).unwrap();
        for (path, problem) in [("/a", "it has one"), ("a", "begins with a slash"), ("/a?b", "has no query")]
        {
            let error = routes.add("tests", path.to_owned(), route.clone()).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("the server for tests"), "{error}");
        }
    }
}
