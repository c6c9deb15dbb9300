//! A panic while a request is answered hurts only that request.

use bowline_apiserver::{ApiServer, FrameVerdict, Hook, HookFuture, RequestInfo, Verb, Verdict, WatchFrame};
use futures::{AsyncBufReadExt as _, StreamExt as _};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// Panics for requests of this user agent.
struct Panicking;

impl Hook for Panicking {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(async {
            assert_ne!(call.user_agent, "panic before");
            Verdict::Proceed
        })
    }

    fn after_commit<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        assert_ne!(call.user_agent, "panic when committed");
        Box::pin(std::future::ready(Verdict::Proceed))
    }

    fn before_frame<'a>(
        &'a self,
        call: &'a RequestInfo,
        _frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        assert_eq!(call.verb, Verb::Watch);
        Box::pin(async {
            assert_ne!(call.user_agent, "panic in a frame");
            FrameVerdict::Send
        })
    }
}

fn client() -> Client {
    Client::new(ApiServer::builder().hook(Panicking).build().expect("a server can be built"), "default")
}

/// The code and body of an answer.
async fn answer(client: &Client, request: http::request::Builder, body: &str) -> (u16, Value) {
    let request = request.body(kube::client::Body::from(body.as_bytes().to_vec())).expect("a request");
    let response = client.send(request).await.expect("the server answers");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.expect("the whole answer comes");
    (code, serde_json::from_slice(&bytes).expect("it is JSON"))
}

#[tokio::test]
async fn a_request_that_panics_is_answered_with_a_status() {
    let client = client();
    let maps = "/api/v1/namespaces/default/configmaps";
    for (agent, stays) in [("panic before", 404), ("panic when committed", 200)] {
        let create = Request::post(maps).header("user-agent", agent);
        let (code, status) = answer(&client, create, r#"{"metadata":{"name":"a"}}"#).await;
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        assert_eq!(
            (code, status),
            (
                500,
                json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": format!("Internal error occurred: {message}"), "reason": "InternalError",
                    "details": {"causes": [{"message": message}]}, "code": 500,
                })
            )
        );
        // Committed writes stay, others do not exist, and the server goes on.
        assert_eq!(answer(&client, Request::get(format!("{maps}/a")), "").await.0, stays);
    }
}

#[tokio::test]
async fn a_watch_that_panics_is_cut_and_others_go_on() {
    let client = client();
    for (agent, healthy) in [("panic in a frame", false), ("healthy", true)] {
        let watch = Request::get("/api/v1/namespaces?watch=true").header("user-agent", agent);
        let stream = client.request_stream(watch.body(Vec::new()).expect("a request")).await;
        let mut lines = stream.expect("the watch begins").lines();
        let first = lines.next().await.expect("something comes");
        assert_eq!(first.is_ok(), healthy, "{first:?}");
    }
}
