//! Requests for a revision that is compacted, and a watcher that never reads. A real server compacts
//! in minutes and when it likes, so only the embedded one is asked.

use bowline_apiserver::{ApiServer, Body};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> http::Response<Body> {
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Full::default() } else { Full::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(body);
    server.handle(request.expect("a request can be made")).await.expect("nobody cuts the connection")
}

async fn call(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let response = send(server, method, path, body).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("it is not cut off").to_bytes();
    (code, serde_json::from_slice(&bytes).expect("it is JSON"))
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    call(server, Method::GET, path, Value::Null).await
}

async fn create(server: &ApiServer, name: &str) {
    let (code, body) = call(server, Method::POST, MAPS, json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201, "{body:#}");
}

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

/// The events of the next frame; `None` at the end.
async fn frame(body: &mut Body) -> Option<Vec<Value>> {
    let bytes = body.frame().await?.expect("it is not cut off").into_data().expect("there are no trailers");
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Some(lines.map(|line| serde_json::from_slice(line).expect("an event is a line of JSON")).collect())
}

#[tokio::test]
async fn a_page_of_a_forgotten_time_is_gone_and_the_rest_can_be_had_as_it_is_now() {
    let server = ApiServer::builder().build().expect("a server can be built");
    for name in ["a", "b", "c", "d"] {
        create(&server, name).await;
    }
    let (_, first) = get(&server, &format!("{MAPS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().expect("it goes on").to_owned();
    call(&server, Method::DELETE, &format!("{MAPS}/c"), Value::Null).await;
    create(&server, "bb").await;
    server.compact();
    let (code, status) = get(&server, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let message = status["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("The provided continue parameter is too old to display a consistent list"));
    let token = status["metadata"]["continue"].as_str().expect("there is another token").to_owned();
    let (code, rest) = get(&server, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, names(&rest)), (200, vec!["bb"]));
    let token = rest["metadata"]["continue"].as_str().expect("it goes on");
    let (code, rest) = get(&server, &format!("{MAPS}?continue={token}")).await;
    assert_eq!((code, names(&rest)), (200, vec!["d"]));
}

#[tokio::test]
async fn lists_and_watches_from_a_forgotten_time_are_told_so() {
    let server = ApiServer::builder().build().expect("a server can be built");
    create(&server, "a").await;
    let then = server.revision();
    create(&server, "b").await;
    server.compact();
    for query in ["resourceVersionMatch=Exact", "limit=5"] {
        let (code, status) = get(&server, &format!("{MAPS}?resourceVersion={then}&{query}")).await;
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")), "{query}");
        assert_eq!(status["message"], "The resourceVersion for the provided list is too old.", "{query}");
    }
    // At least as new is not too much to ask for.
    let (code, list) = get(&server, &format!("{MAPS}?resourceVersion={then}")).await;
    assert_eq!((code, names(&list)), (200, vec!["a", "b"]));
    let path = format!("{MAPS}?watch=true&resourceVersion={then}");
    let mut body = send(&server, Method::GET, &path, Value::Null).await.into_body();
    let events = frame(&mut body).await.expect("there is an event");
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(frame(&mut body).await, None);
}

#[tokio::test]
async fn an_open_watch_does_not_mind_what_is_forgotten() {
    let server = ApiServer::builder().build().expect("a server can be built");
    let path = format!("{MAPS}?watch=true&resourceVersion={}", server.revision());
    let mut body = send(&server, Method::GET, &path, Value::Null).await.into_body();
    create(&server, "a").await;
    assert_eq!(frame(&mut body).await.map(|events| events.len()), Some(1));
    server.compact();
    create(&server, "b").await;
    let events = frame(&mut body).await.expect("it goes on");
    assert_eq!(events[0]["object"]["metadata"]["name"], "b");
}

#[tokio::test]
async fn a_watcher_that_never_reads_is_closed_and_others_see_everything() {
    const HISTORY: usize = 64 * 1024;
    let server = ApiServer::builder().history_bytes(HISTORY).build().expect("a server can be built");
    create(&server, "a").await;
    let start = server.revision();
    let path = format!("{MAPS}?watch=true&resourceVersion={start}");
    let mut lazy = send(&server, Method::GET, &path, Value::Null).await.into_body();
    let mut eager = send(&server, Method::GET, &path, Value::Null).await.into_body();
    let mut seen = 0;
    for round in 0..500 {
        let patch = json!({"data": {"round": round.to_string(), "text": "x".repeat(4096)}});
        let (code, _) = call(&server, Method::PATCH, &format!("{MAPS}/a"), patch).await;
        assert_eq!(code, 200);
        seen += frame(&mut eager).await.expect("it goes on").len();
    }
    assert_eq!(seen, 500);
    // Nothing was kept for it, so there is nothing more to come than what all share.
    let mut held = 0;
    while let Some(frame) = lazy.frame().await {
        held += frame.expect("it is not cut off").into_data().map_or(0, |data| data.len());
    }
    assert!(held <= HISTORY, "{held}");
    let mut again = send(&server, Method::GET, &path, Value::Null).await.into_body();
    let events = frame(&mut again).await.expect("there is an event");
    assert_eq!(events[0]["object"]["reason"], "Expired");
}

#[tokio::test]
async fn what_a_watcher_has_missed_comes_in_pieces() {
    let server = ApiServer::builder().build().expect("a server can be built");
    let path = format!("{MAPS}?watch=true&resourceVersion={}", server.revision());
    let mut body = send(&server, Method::GET, &path, Value::Null).await.into_body();
    for number in 0..100 {
        let object =
            json!({"metadata": {"name": format!("a{number}")}, "data": {"text": "x".repeat(50_000)}});
        assert_eq!(call(&server, Method::POST, MAPS, object).await.0, 201);
    }
    let mut seen = 0;
    while seen < 100 {
        let bytes = body.frame().await.expect("it goes on").expect("it is not cut off");
        let bytes = bytes.into_data().expect("there are no trailers");
        assert!(bytes.len() < 200_000, "{}", bytes.len());
        seen += bytes.split(|byte| *byte == b'\n').count() - 1;
    }
    assert_eq!(seen, 100);
}
