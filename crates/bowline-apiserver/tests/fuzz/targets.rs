//! Properties that hold for any bytes. These are the bodies of the fuzz targets in `fuzz/`, and of the tests beside this file.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_apiserver::ApiServer;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Long computations, such as deletes of collections, run on its other threads.
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime can be built"));

/// With three objects to go on with.
static SERVER: LazyLock<ApiServer> = LazyLock::new(|| {
    let server = ApiServer::builder().build().expect("a server can be built");
    for name in ["a", "b", "c"] {
        let object = json!({"metadata": {"name": name, "labels": {"l": name}}}).to_string();
        let request = Request::post(MAPS).header("content-type", "application/json");
        let request = request.body(Full::from(object)).expect("a request can be made");
        let response = server.handle(request).now_or_never().expect("it does not wait");
        assert!(response.is_ok_and(|response| response.status() == 201));
    }
    server
});

/// A token as it is, and put into base64: a list continues with it, or the client gets an error.
pub(crate) fn continue_token(data: &[u8]) {
    for token in [data.to_vec(), URL_SAFE_NO_PAD.encode(data).into_bytes()] {
        let token = percent_encode(&token, NON_ALPHANUMERIC);
        let (code, body) = answer(Request::get(format!("{MAPS}?limit=1&continue={token}")));
        match code {
            200 => assert_eq!(body["kind"], "ConfigMapList"),
            400 => assert_eq!(body["reason"], "BadRequest"),
            410 => assert_eq!(body["reason"], "Expired"),
            504 => assert_eq!(body["reason"], "Timeout"),
            _ => panic!("{code} for {token}: {body:#}"),
        }
        if let Some(next) = body["metadata"]["continue"].as_str() {
            let (code, _) = answer(Request::get(format!("{MAPS}?continue={next}")));
            assert_eq!(code, 200, "{next} came from the server");
        }
    }
}

/// A method, a path and a query, between spaces: whatever they are, there is an answer, and errors are a `Status`.
pub(crate) fn request(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut words = text.splitn(2, ' ');
    let method = words.next().and_then(|method| method.parse::<Method>().ok());
    let Some((method, uri)) = method.zip(words.next()) else { return };
    let request = Request::builder().method(method).uri(uri.trim_end());
    if request.uri_ref().is_none() {
        return;
    }
    let (code, body) = answer(request);
    if code >= 400 && body["kind"] == "Status" {
        assert_eq!((&body["status"], &body["code"]), (&json!("Failure"), &json!(code)), "{text}");
        assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{text}: {body:#}");
    }
}

/// The code, and the body unless it goes on for ever.
fn answer(request: http::request::Builder) -> (u16, Value) {
    let Ok(request) = request.body(Full::new(Bytes::new())) else { return (0, Value::Null) };
    let asked = format!("{} {}", request.method(), request.uri());
    let response = RUNTIME.block_on(SERVER.handle(request)).expect("nobody cuts the connection");
    let code = response.status().as_u16();
    let is_watch = http_body::Body::size_hint(response.body()).exact().is_none();
    if is_watch {
        return (code, Value::Null);
    }
    let bytes = response.into_body().collect().now_or_never().expect("it does not wait");
    let bytes = bytes.expect("it is not cut off").to_bytes();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    // A panic is caught, and shows here.
    assert_ne!(body["reason"], "InternalError", "{asked}: {body:#}");
    (code, body)
}
