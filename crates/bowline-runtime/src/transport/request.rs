//! What can be told of a request by looking at it.

use http::header::UPGRADE;
use http::{Method, Request};

/// What may come behind a namespace without being a resource in it.
const OF_NAMESPACES: [&str; 2] = ["finalize", "status"];

/// Subresources whose answers last as long as somebody reads them.
const STREAMS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Whether its answer may be silent for any time, or take any time to come: a watch, a log that is followed, a stream.
pub(super) fn lasts<B>(request: &Request<B>) -> bool {
    let is_true = |value: &str| matches!(value, "" | "1" | "true");
    let asks = |query: &str| {
        query.split('&').any(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            matches!(name, "watch" | "follow") && is_true(value)
        })
    };
    request.headers().contains_key(UPGRADE)
        || request.uri().query().is_some_and(asks)
        || is_stream(request.uri().path())
}

/// Whether a path is that of an old-style watch or of a stream. Only the place tells: objects and namespaces may be
/// called anything.
fn is_stream(path: &str) -> bool {
    let mut parts = path.split('/').skip(1);
    let version = match parts.next() {
        Some("api") => parts.next(),
        Some("apis") => parts.nth(1),
        _ => None,
    };
    if version.is_none() {
        return false;
    }
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).take(5).collect();
    let parts = match parts[..] {
        ["watch", _, ..] => return true,
        ["namespaces", _, resource, ..] if !OF_NAMESPACES.contains(&resource) => &parts[2..],
        _ => &parts[..],
    };
    // The resource, the name, and what of it.
    parts.get(2).is_some_and(|part| STREAMS.contains(part))
}

/// Whether its answer may be a list, or begins with one.
pub(super) fn lists<B>(request: &Request<B>) -> bool {
    let streams = |query: &str| query.split('&').any(|pair| pair == "sendInitialEvents=true");
    request.method() == Method::GET && (!lasts(request) || request.uri().query().is_some_and(streams))
}

/// Whether it changes nothing, so that it may be sent again without knowing what became of it.
pub(super) fn reads<B>(request: &Request<B>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && !request.headers().contains_key(UPGRADE)
}

/// Whether a refusal for now is an answer that whoever asks waits for: an eviction is refused while a budget is used up.
pub(super) fn wants_refusals<B>(request: &Request<B>) -> bool {
    request.uri().path().ends_with("/eviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> Request<()> {
        Request::get(target).body(()).unwrap()
    }

    #[test]
    fn a_watch_begins_with_a_list_only_if_it_asks_for_one() {
        assert!(lists(&get("/api/v1/pods")));
        assert!(lists(&get("/api/v1/pods?watch=true&sendInitialEvents=true")));
        assert!(!lists(&get("/api/v1/pods?watch=true")));
        assert!(!lists(&Request::post("/api/v1/pods").body(()).unwrap()));
    }

    #[test]
    fn watches_and_streams_last_and_other_requests_do_not() {
        for target in [
            "/api/v1/pods?watch=true",
            "/api/v1/pods?limit=5&watch=1",
            "/api/v1/watch/pods",
            "/apis/apps/v1/watch/deployments",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/api/v1/namespaces/a/pods/b/exec?command=ls",
            "/api/v1/namespaces/a/services/b/proxy/healthz",
            "/api/v1/nodes/b/proxy/",
            "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/b/portforward/22",
        ] {
            assert!(lasts(&get(target)), "{target}");
        }
        for target in [
            "/api/v1/pods",
            "/api/v1/pods?watch=false",
            "/api/v1/pods?labelSelector=watch%3Dtrue",
            "/api/v1/namespaces/a/pods/watch",
            "/api/v1/namespaces/a/pods/b/log",
            "/api/v1/namespaces/proxy",
            "/api/v1/namespaces/exec/pods",
            "/api/v1/namespaces/watch/pods/b",
            "/api/v1/namespaces/a/pods/exec",
            "/api/v1/namespaces/a/configmaps/proxy",
            "/api/v1/nodes/attach/status",
            "/apis/networking.example/v1/namespaces/a/portforward/b",
            "/apis/proxy/v1/things",
            "/proxy/exec/watch",
        ] {
            assert!(!lasts(&get(target)), "{target}");
        }
    }
}
