//! A server to ask, and a namespace to do it in.

use std::sync::LazyLock;
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Clock;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::{Body, ConfigExt as _};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// Where the kubeconfig of a real kube-apiserver is.
const REAL: &str = "BOWLINE_REAL_KUBECONFIG";

/// How long anything may take. Nothing takes as long on either arm unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

static EMBEDDED: LazyLock<ApiServer> =
    LazyLock::new(|| ApiServer::builder().build().expect("the embedded server can be built"));

/// A client of the arm that is tested, and a fresh namespace.
pub(crate) struct Env {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// A server's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// The body, as it came.
    pub(crate) text: String,
}

impl Env {
    pub(crate) async fn new() -> Self {
        let client = client().await;
        let mut env = Self { client, namespace: String::new() };
        let namespace = json!({"metadata": {"generateName": "contract-"}});
        let answer = env.post("/api/v1/namespaces", namespace).await;
        let namespace = answer.expect(201);
        namespace["metadata"]["name"].as_str().expect("it has a name").clone_into(&mut env.namespace);
        env
    }

    pub(crate) fn is_real() -> bool {
        std::env::var_os(REAL).is_some()
    }

    /// The path of a core resource in the namespace.
    pub(crate) fn core(&self, resource: &str) -> String {
        format!("/api/v1/namespaces/{}/{resource}", self.namespace)
    }

    /// The path of a resource of a group and version, `apps/v1`, in the namespace.
    pub(crate) fn group(&self, group_version: &str, resource: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{resource}", self.namespace)
    }

    /// A name that no other case has, for what has no namespace.
    pub(crate) fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace.trim_start_matches("contract-"))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, &[("content-type", "application/json")], body).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, &[("content-type", "application/json")], body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, &[], "").await
    }

    pub(crate) async fn delete_with(&self, path: &str, options: Value) -> Answer {
        self.call(Method::DELETE, path, &[("content-type", "application/json")], options).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Answer {
        self.call(Method::PATCH, path, &[("content-type", "application/merge-patch+json")], patch).await
    }

    pub(crate) async fn json_patch(&self, path: &str, patch: Value) -> Answer {
        self.call(Method::PATCH, path, &[("content-type", "application/json-patch+json")], patch).await
    }

    /// Any request. The body is sent as it is printed.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl ToString,
    ) -> Answer {
        self.send(method, path, headers, body.to_string().into_bytes()).await
    }

    /// Any request with any bytes.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request can be made");
        let clock = clock();
        let answer = clock.timeout(PATIENCE, async {
            let response = self.client.send(request).await.expect("the server answers");
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.expect("the whole answer comes").to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| Value::from(text.as_str()));
            Answer { code: parts.status.as_u16(), headers: parts.headers, body, text }
        });
        answer.await.expect("an answer comes in time")
    }

    /// Reads until the answer is as it should be.
    pub(crate) async fn until(&self, path: &str, is_so: impl FnMut(&Answer) -> bool) -> Answer {
        self.until_with(path, &[], is_so).await
    }

    /// Likewise, with these headers.
    pub(crate) async fn until_with(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        mut is_so: impl FnMut(&Answer) -> bool,
    ) -> Answer {
        let looking = async {
            loop {
                let answer = self.call(Method::GET, path, headers, "").await;
                if is_so(&answer) {
                    return answer;
                }
                clock().sleep(Duration::from_millis(20)).await;
            }
        };
        clock().timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{path} does not become so"))
    }

    /// Watches until `enough` events have come, or the watch ends.
    pub(crate) async fn watch(&self, path: &str, enough: usize) -> Vec<Value> {
        let separator = if path.contains('?') { '&' } else { '?' };
        self.events(&format!("{path}{separator}watch=true"), &[], enough).await
    }

    /// The events that a path answers with, until there are enough or they end.
    pub(crate) async fn events(&self, path: &str, headers: &[(&str, &str)], enough: usize) -> Vec<Value> {
        let events = async {
            let mut request = Request::get(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Vec::new()).expect("a request can be made");
            let stream = self.client.request_stream(request).await.expect("the watch begins");
            let lines = stream.lines().take(enough).map_ok(|line| {
                serde_json::from_str::<Value>(&line)
                    .unwrap_or_else(|error| panic!("{line} is no event: {error}"))
            });
            lines.try_collect().await.expect("the watch goes on")
        };
        clock().timeout(PATIENCE, events).await.expect("the events come in time")
    }

    /// The newest revision that a list of a path shows.
    pub(crate) async fn revision(&self, path: &str) -> u64 {
        revision(&self.get(path).await.expect(200))
    }
}

/// The revision of an object or a list.
pub(crate) fn revision(of: &Value) -> u64 {
    let revision = of["metadata"]["resourceVersion"].as_str().and_then(|revision| revision.parse().ok());
    revision.unwrap_or_else(|| panic!("{of:#} has a revision"))
}

/// The names of a list's items.
pub(crate) fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list:#} has items"));
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

/// The types of events, and the names of what they are about.
pub(crate) fn event_names(events: &[Value]) -> Vec<(&str, &str)> {
    events
        .iter()
        .map(|event| {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            (event["type"].as_str().unwrap_or_default(), name)
        })
        .collect()
}

impl Answer {
    /// The body, if the code is the one that should come.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{:#}", self.body);
        self.body
    }

    /// The answer must be a `Status` with this code, reason and message.
    #[track_caller]
    pub(crate) fn expect_status(self, code: u16, reason: &str, message: &str) -> Value {
        let body = self.expect(code);
        assert_eq!(body["kind"], "Status", "{body:#}");
        assert_eq!(body["message"], message, "{body:#}");
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{body:#}");
        assert_eq!(body["code"], code, "{body:#}");
        body
    }

    /// The texts of the warnings, as they are quoted in the headers.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect()
    }
}

/// The time of this machine: the other arm knows no other.
pub(crate) fn clock() -> Clock {
    Clock::real()
}

async fn client() -> Client {
    let Some(path) = std::env::var_os(REAL) else {
        return Client::new(EMBEDDED.clone(), "default");
    };
    let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig can be read");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the kubeconfig is right");
    let connector = config.rustls_https_connector().expect("the certificates are right");
    let executor = hyper_util::rt::TokioExecutor::new();
    // Without kube's retries: the suite is about single answers.
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().expect("the credentials are right"))
        .map_err(Into::<Box<dyn std::error::Error + Send + Sync>>::into)
        .service(hyper_util::client::legacy::Client::builder(executor).build(connector));
    Client::new(service, config.default_namespace)
}
