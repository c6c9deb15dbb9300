//! `/healthz`, `/livez` and `/readyz`.

use http::Method;
use serde_json::Value;

use crate::{Answer, Env};

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Checks that both arms have.
const CHECKS: [&str; 3] = ["ping", "etcd", "poststarthook/bootstrap-controller"];

fn text(answer: &Answer) -> &str {
    answer.body.as_str().unwrap_or_else(|| panic!("{:#} is no text", answer.body))
}

#[tokio::test]
async fn a_healthy_server_says_ok_as_plain_text() {
    let env = Env::new().await;
    for endpoint in ENDPOINTS {
        let answer = env.get(&format!("/{endpoint}")).await;
        assert_eq!((answer.code, text(&answer)), (200, "ok"), "{endpoint}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-cache, private");
    }
}

#[tokio::test]
async fn health_answers_to_any_method() {
    let env = Env::new().await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let answer = env.call(method, "/livez", &[], "").await;
        assert_eq!((answer.code, text(&answer)), (200, "ok"));
    }
    let head = env.call(Method::HEAD, "/livez", &[], "").await;
    assert_eq!((head.code, text(&head)), (200, ""));
}

#[tokio::test]
async fn verbose_tells_every_check_and_what_they_come_to() {
    let env = Env::new().await;
    for endpoint in ENDPOINTS {
        for query in ["verbose", "verbose=", "verbose=false"] {
            let answer = env.get(&format!("/{endpoint}?{query}")).await;
            let lines: Vec<_> = text(&answer).lines().collect();
            assert_eq!(answer.code, 200);
            for check in CHECKS {
                assert!(lines.contains(&format!("[+]{check} ok").as_str()), "{lines:#?}");
            }
            assert_eq!(lines.last().copied(), Some(format!("{endpoint} check passed").as_str()));
            assert!(text(&answer).ends_with('\n'));
        }
    }
}

#[tokio::test]
async fn a_check_that_is_excluded_counts_as_passed() {
    let env = Env::new().await;
    let answer = env.get("/readyz?verbose&exclude=ping&exclude=etcd").await;
    let lines: Vec<_> = text(&answer).lines().collect();
    for line in ["[+]ping excluded: ok", "[+]etcd excluded: ok", "[+]poststarthook/bootstrap-controller ok"] {
        assert!(lines.contains(&line), "{lines:#?}");
    }
    assert_eq!(env.get("/readyz?exclude=ping").await.expect(200), Value::from("ok"));
}

#[tokio::test]
async fn a_check_that_does_not_exist_cannot_be_excluded() {
    let env = Env::new().await;
    let answer = env.get("/livez?verbose&exclude=b&exclude=ping&exclude=a").await;
    let lines: Vec<_> = text(&answer).lines().rev().collect();
    assert_eq!(answer.code, 200);
    assert_eq!(lines[1], r#"warn: some health checks cannot be excluded: no matches for "a","b""#);
    assert_eq!(env.get("/livez?exclude=a").await.expect(200), Value::from("ok"));
}

#[tokio::test]
async fn a_single_check_is_below_its_endpoint() {
    let env = Env::new().await;
    for endpoint in ENDPOINTS {
        for check in CHECKS {
            let answer = env.get(&format!("/{endpoint}/{check}")).await;
            assert_eq!((answer.code, text(&answer)), (200, "ok"), "{endpoint}/{check}");
            let verbose = env.get(&format!("/{endpoint}/{check}?verbose")).await;
            assert_eq!(text(&verbose), "ok");
        }
    }
}

#[tokio::test]
async fn a_check_that_does_not_exist_is_no_page() {
    let env = Env::new().await;
    for path in ["/livez/nothing", "/readyz/poststarthook", "/healthz/ping/pong", "/healthz/"] {
        let answer = env.get(path).await;
        assert_eq!((answer.code, text(&answer)), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}
