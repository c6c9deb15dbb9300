//! Hooks: calls and their order, and requests that a hook refuses.

mod calls;
mod verdicts;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{
    ApiServer, Disconnected, FrameVerdict, Hook, HookFuture, RequestInfo, User, Verdict, WatchFrame,
};
use bowline_clock::Clock;
use bowline_machinery::Status;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// The calls of a hook, in order: `before`, `committed` or the frame, and the request.
type Seen = Arc<Mutex<Vec<(String, RequestInfo)>>>;

/// Remembers all it sees, and does what the name of a client or of an object asks for: `fail before`, `cut committed`.
struct Obedient {
    seen: Seen,
    clock: Clock,
}

impl Obedient {
    async fn verdict(&self, moment: &str, call: &RequestInfo) -> Verdict {
        self.seen.lock().expect("nobody panics with it").push((moment.to_owned(), call.clone()));
        match call.user_agent.strip_suffix(moment).map(str::trim) {
            Some("fail") => Verdict::Fail(Status::failure(418, "Teapot", "the hook says no")),
            Some("cut") => Verdict::Disconnect,
            Some("slow") => {
                self.clock.sleep(Duration::from_secs(10)).await;
                Verdict::Proceed
            }
            _ => Verdict::Proceed,
        }
    }
}

impl Hook for Obedient {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(self.verdict("before", call))
    }

    fn after_commit<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        Box::pin(self.verdict("committed", call))
    }

    fn before_frame<'a>(
        &'a self,
        call: &'a RequestInfo,
        frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        let moment = format!("{} {}/{}", frame.event, frame.namespace, frame.name);
        self.seen.lock().expect("nobody panics with it").push((moment, call.clone()));
        let verdict = match frame.name {
            "skip" => FrameVerdict::Skip,
            "close" => FrameVerdict::Close,
            "cut" => FrameVerdict::Disconnect,
            _ => FrameVerdict::Send,
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// A server with a hook, and what the hook saw.
struct World {
    server: ApiServer,
    seen: Seen,
}

impl World {
    fn new() -> Self {
        Self::on(Clock::real())
    }

    fn on(clock: Clock) -> Self {
        let seen = Seen::default();
        let hook = Obedient { seen: seen.clone(), clock: clock.clone() };
        let server = ApiServer::builder().clock(clock).hook(hook).build().expect("a server can be built");
        Self { server, seen }
    }

    /// The hook's calls since the last time.
    fn seen(&self) -> Vec<(String, RequestInfo)> {
        std::mem::take(&mut self.seen.lock().expect("nobody panics with it"))
    }

    /// Likewise, only when.
    fn moments(&self) -> Vec<String> {
        self.seen().into_iter().map(|(moment, _)| moment).collect()
    }

    /// A request by a client that calls itself `agent`. Of a watch, the first frame is read.
    async fn send(
        &self,
        agent: &str,
        user: Option<User>,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Value), Disconnected> {
        let media_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("user-agent", agent).header("content-type", media_type);
        if let Some(user) = user {
            request = request.extension(user);
        }
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = request.body(Full::from(body)).expect("a request can be made");
        let response = self.server.handle(request).await?;
        let code = response.status().as_u16();
        let mut body = response.into_body();
        let bytes = if path.contains("watch=true") {
            let frame = body.frame().await.expect("a frame comes")?;
            frame.into_data().expect("it has data")
        } else {
            body.collect().await?.to_bytes()
        };
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// A request of an administrator that is answered so.
    async fn done(&self, method: Method, path: &str, body: Value, code: u16) -> Value {
        let (answered, object) =
            self.send("a test", None, method, path, &body).await.expect("the connection is not cut");
        assert_eq!(answered, code, "{path}: {object:#}");
        object
    }
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "a", "image": "b"}]},
    })
}
