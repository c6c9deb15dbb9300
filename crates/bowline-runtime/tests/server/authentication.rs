//! Scrapes with authentication and authorization by an API server.

use std::sync::{Arc, Mutex};

use bowline_runtime::Metrics;
use bowline_runtime::server::{MetricsServer, Request, ServerError, Tls, text};
use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::{Value, json};

use crate::encryption::ask;
use crate::world::{Running, local, scope};

/// The reviews that an API server received.
type Asked = Arc<Mutex<Vec<Value>>>;

/// An API server with these tokens: `a.b.good` of `ann`, who may see only `/metrics` and `/echo`; `a.b.idle` of `bob`,
/// who may see nothing; `a.b.lost`, whose review fails; and one of `eve`, whose access review fails.
fn api_server(asked: &Asked) -> kube::Client {
    let asked = asked.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let asked = asked.clone();
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            let review: Value = serde_json::from_slice(&body)?;
            let answered = answer(&review);
            asked.lock().expect("the lock is not poisoned").push(review);
            let (code, answer) = answered;
            let response = http::Response::builder().status(code).body(Full::new(answer.to_string().into()));
            Ok::<_, tower::BoxError>(response?)
        }
    });
    kube::Client::new(service, "default")
}

/// The response of an API server that does not serve a kind.
fn not_served() -> Value {
    json!({
        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "the server could not find the requested resource",
    })
}

fn answer(review: &Value) -> (u16, Value) {
    let mut answer = review.clone();
    let failure = json!({"kind": "Status", "status": "Failure", "message": "broken", "reason": "InternalError", "code": 500});
    if review["kind"] == "TokenReview" {
        let user = match review["spec"]["token"].as_str() {
            Some("a.b.good") => "ann",
            Some("a.b.idle") => "bob",
            Some("a.b.evil") => "eve",
            Some("a.b.lost") => return (500, failure),
            Some("a.b.unserved") => return (404, not_served()),
            _ => {
                answer["status"] = json!({"authenticated": false, "error": "unknown"});
                return (201, answer);
            }
        };
        let user = json!({"username": user, "uid": "7", "groups": ["team"], "extra": {"scope": ["a"]}});
        answer["status"] = json!({"authenticated": true, "user": user});
        return (201, answer);
    }
    assert_eq!(review["kind"], "SubjectAccessReview");
    let spec = &review["spec"];
    if spec["user"] == "eve" {
        return (500, failure);
    }
    let asked = &spec["nonResourceAttributes"];
    let is_allowed = spec["user"] == "ann" && asked["verb"] == "get" && asked["path"] != "/debug";
    answer["status"] = json!({"allowed": is_allowed});
    (201, answer)
}

async fn serve(asked: &Asked) -> Running {
    let echo = |request: Request| async move {
        let carries = request.headers().contains_key("authorization");
        text(StatusCode::OK, format!("carries a token: {carries}"))
    };
    let server = MetricsServer::new(local())
        .tls(Tls::self_signed())
        .authenticated(api_server(asked))
        .handler("/debug", echo)
        .handler("/echo", echo);
    let scope = scope();
    let bound = server.bind(&scope.spawner(), &Metrics::new()).await;
    Running::start(scope, bound)
}

fn kinds(asked: &Asked) -> Vec<String> {
    let asked = asked.lock().expect("the lock is not poisoned");
    asked.iter().map(|review| review["kind"].as_str().expect("it has a kind").to_owned()).collect()
}

#[tokio::test]
async fn only_authorized_scrapes_are_answered() {
    let asked = Asked::default();
    let server = serve(&asked).await;
    for (token, path, status, body) in [
        ("", "/metrics", 401, "Unauthorized\n"),
        ("authorization: Basic good\r\n", "/metrics", 401, "Unauthorized\n"),
        ("authorization: Bearer a.b.wrong\r\n", "/metrics", 401, "Unauthorized\n"),
        ("authorization: Bearer a.b.lost\r\n", "/metrics", 500, "Authentication failed\n"),
        (
            "authorization: Bearer a.b.unserved\r\n",
            "/metrics",
            500,
            "Authentication failed: the API server does not serve TokenReview\n",
        ),
        ("authorization: Bearer a.b.idle\r\n", "/metrics", 403, "Authorization denied for user bob\n"),
        ("authorization: Bearer a.b.good\r\n", "/debug", 403, "Authorization denied for user ann\n"),
        ("authorization: Bearer a.b.evil\r\n", "/metrics", 500, "Authorization for user eve failed\n"),
        ("", "/nothing", 404, "404 page not found\n"),
    ] {
        let answer = ask(&server, path, token).await;
        assert_eq!((answer.status, &*answer.body), (status, body), "{token}{path}");
    }
    let answer = ask(&server, "/echo", "authorization: Bearer a.b.good\r\n").await;
    assert_eq!((answer.status, &*answer.body), (200, "carries a token: false"));
    let answer = ask(&server, "/metrics", "authorization: bearer a.b.good\r\n").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("# TYPE"), "{answer:?}");
}

#[tokio::test]
async fn reviews_are_complete_and_cached() {
    let asked = Asked::default();
    let server = serve(&asked).await;
    for _ in 0..3 {
        assert_eq!(ask(&server, "/metrics", "authorization: Bearer a.b.good\r\n").await.status, 200);
        assert_eq!(ask(&server, "/metrics", "authorization: Bearer a.b.wrong\r\n").await.status, 401);
    }
    assert_eq!(kinds(&asked), ["TokenReview", "SubjectAccessReview", "TokenReview"]);
    let reviewed = json!({
        "user": "ann",
        "uid": "7",
        "groups": ["team", "system:authenticated"],
        "extra": {"scope": ["a"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(asked.lock().unwrap()[1]["spec"], reviewed);
    // A failed review is not cached.
    for _ in 0..2 {
        assert_eq!(ask(&server, "/metrics", "authorization: Bearer a.b.lost\r\n").await.status, 500);
    }
    assert_eq!(kinds(&asked).len(), 5);
}

#[tokio::test]
async fn authentication_requires_tls() {
    let scope = scope();
    let server = MetricsServer::new(local()).authenticated(api_server(&Asked::default()));
    let error = server.bind(&scope.spawner(), &Metrics::new()).await.expect_err("tokens need TLS");
    assert!(matches!(&error, ServerError::Unprotected { .. }), "{error:?}");
    assert!(error.to_string().contains("requires tokens: configure TLS"), "{error}");
}
