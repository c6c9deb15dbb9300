//! Classifies requests.

use http::header::UPGRADE;
use http::{Method, Request};
use percent_encoding::percent_decode_str;

/// Path segments after a namespace's name that are its subresources.
const OF_NAMESPACES: [&str; 2] = ["finalize", "status"];

/// Subresources with streams as responses.
const STREAMS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Whether the response is a stream that may be silent for any time: a watch, a followed log, or an upgrade.
pub(super) fn is_long_running<B>(request: &Request<B>) -> bool {
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

/// Whether a path is an old-style watch or a stream. Only the position counts, since objects and namespaces can have
/// any name.
fn is_stream(path: &str) -> bool {
    let parts = parts(path);
    matches!(parts[..], ["watch", _, ..]) || is_channel(&parts)
}

/// The path segments after group and version: namespace, resource, name and subresource.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = path.split('/').skip(1);
    let version = match parts.next() {
        Some("api") => parts.next(),
        Some("apis") => parts.nth(1),
        _ => None,
    };
    if version.is_none() {
        return Vec::new();
    }
    parts.filter(|part| !part.is_empty()).take(5).collect()
}

/// Whether the segments name one of the [`STREAMS`].
fn is_channel(parts: &[&str]) -> bool {
    of_resource(parts).get(2).is_some_and(|part| STREAMS.contains(part))
}

/// The segments without the namespace: resource, name and subresource.
fn of_resource<'a, 'b>(parts: &'a [&'b str]) -> &'a [&'b str] {
    match parts {
        ["namespaces", _, resource, ..] if !OF_NAMESPACES.contains(resource) => &parts[2..],
        _ => parts,
    }
}

/// Whether the response is one object or discovery data. Not for lists of objects, logs, streams and other paths, which
/// may have any length.
pub(super) fn is_for_object<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    if is_long_running(request) || !(path == "/api" || path.starts_with("/api/") || path.starts_with("/apis"))
    {
        return false;
    }
    match (request.method(), of_resource(&parts(path))) {
        (&Method::GET | &Method::DELETE, [_]) | (_, [_, _, "log"]) => false,
        (_, parts) => parts.len() <= 3,
    }
}

/// Whether the response may be a list or begin with one.
pub(super) fn may_list<B>(request: &Request<B>) -> bool {
    let streams = |query: &str| query.split('&').any(|pair| pair == "sendInitialEvents=true");
    request.method() == Method::GET
        && (!is_long_running(request) || request.uri().query().is_some_and(streams))
}

/// Whether the request changes nothing, so that it can be retried safely.
///
/// The method is not enough: exec, attach, port-forward and proxy run commands or carry other requests, also with GET.
/// An upgraded connection carries anything.
pub(crate) fn reads<B>(request: &Request<B>) -> bool {
    // A server decodes the path before it parses it.
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy();
    matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.headers().contains_key(UPGRADE)
        && !is_channel(&parts(&path))
}

/// Whether a 429 is a regular response for the caller: an eviction is rejected while it would violate a disruption
/// budget.
pub(super) fn expects_rejections<B>(request: &Request<B>) -> bool {
    request.uri().path().ends_with("/eviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(target: &str) -> Request<()> {
        Request::get(target).body(()).unwrap()
    }

    #[test]
    fn a_watch_begins_with_a_list_only_if_requested() {
        assert!(may_list(&get("/api/v1/pods")));
        assert!(may_list(&get("/api/v1/pods?watch=true&sendInitialEvents=true")));
        assert!(!may_list(&get("/api/v1/pods?watch=true")));
        assert!(!may_list(&Request::post("/api/v1/pods").body(()).unwrap()));
    }

    #[test]
    fn only_answers_with_one_object_are_limited() {
        for target in [
            "/api",
            "/apis/apps/v1",
            "/api/v1/namespaces/a",
            "/api/v1/namespaces/a/pods/b",
            "/api/v1/nodes/b/status",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        ] {
            assert!(is_for_object(&get(target)), "{target}");
        }
        for target in [
            "/openapi/v2",
            "/api/v1/pods",
            "/api/v1/namespaces",
            "/api/v1/namespaces/a/pods",
            "/api/v1/namespaces/a/pods/b/log",
            "/api/v1/namespaces/a/pods/b/proxy/metrics",
            "/api/v1/pods?watch=true",
        ] {
            assert!(!is_for_object(&get(target)), "{target}");
        }
        assert!(is_for_object(&Request::post("/api/v1/namespaces/a/pods").body(()).unwrap()));
        assert!(!is_for_object(&Request::delete("/api/v1/namespaces/a/pods").body(()).unwrap()));
    }

    #[test]
    fn a_request_that_may_run_commands_is_no_read() {
        for target in [
            "/api/v1/namespaces/a/pods/b/exec?command=promote",
            "/api/v1/namespaces/a/pods/b/attach",
            "/api/v1/namespaces/a/pods/b/portforward?ports=80",
            "/api/v1/namespaces/a/pods/b/proxy",
            "/api/v1/namespaces/a/services/b:80/proxy/promote",
            "/api/v1/nodes/b/proxy/run",
            "/api/v1/namespaces/a/pods/b/%65xec",
            "/api/v1/namespaces/a/pods/b%2Fexec",
            "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/b/portforward/22",
        ] {
            assert!(!reads(&get(target)), "{target}");
            assert!(!reads(&Request::head(target).body(()).unwrap()), "{target}");
        }
        let upgrade = Request::get("/api/v1/anything").header("upgrade", "websocket");
        assert!(!reads(&upgrade.body(()).unwrap()));
        assert!(!reads(&Request::post("/api/v1/namespaces/a/pods").body(()).unwrap()));
        for target in [
            "/api/v1/namespaces/a/pods/b",
            "/api/v1/namespaces/a/pods/exec",
            "/api/v1/namespaces/a/pods/b/log?follow=true",
            "/api/v1/namespaces/exec/pods/proxy/status",
            "/api/v1/pods?watch=true",
            "/version",
        ] {
            assert!(reads(&get(target)), "{target}");
        }
    }

    #[test]
    fn watches_and_streams_are_long_running() {
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
            assert!(is_long_running(&get(target)), "{target}");
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
            assert!(!is_long_running(&get(target)), "{target}");
        }
    }
}
