//! Lists in pages, each as of the moment of the first.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::{Env, names, revision};

async fn with(env: &Env, count: usize) -> String {
    let path = env.core("configmaps");
    for number in 0..count {
        let parity = if number % 2 == 0 { "even" } else { "odd" };
        let name = char::from(b'a' + u8::try_from(number).expect("few")).to_string();
        let object = json!({"metadata": {"name": name, "labels": {"parity": parity}}});
        env.post(&path, object).await.expect(201);
    }
    path
}

fn token(list: &Value) -> String {
    list["metadata"]["continue"].as_str().unwrap_or_else(|| panic!("{list:#} goes on")).to_owned()
}

fn made(token: &Value) -> String {
    URL_SAFE_NO_PAD.encode(token.to_string())
}

#[tokio::test]
async fn pages_say_how_much_there_is_to_come() {
    let env = Env::new().await;
    let path = with(&env, 5).await;
    let first = env.get(&format!("{path}?limit=2")).await.expect(200);
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    let second = env.get(&format!("{path}?limit=2&continue={}", token(&first))).await.expect(200);
    assert_eq!((names(&second), &second["metadata"]["remainingItemCount"]), (vec!["c", "d"], &json!(1)));
    let third = env.get(&format!("{path}?limit=2&continue={}", token(&second))).await.expect(200);
    assert_eq!(names(&third), ["e"]);
    assert_eq!(third["metadata"], json!({"resourceVersion": first["metadata"]["resourceVersion"]}));
    // A page may be longer than the one before; without a limit it is the rest.
    let rest = env.get(&format!("{path}?continue={}", token(&first))).await.expect(200);
    assert_eq!(names(&rest), ["c", "d", "e"]);
}

#[tokio::test]
async fn pages_are_of_one_moment_whatever_is_written_meanwhile() {
    let env = Env::new().await;
    let path = with(&env, 5).await;
    let first = env.get(&format!("{path}?limit=2")).await.expect(200);
    env.delete(&format!("{path}/c")).await.expect(200);
    env.merge(&format!("{path}/d"), json!({"data": {"k": "v"}})).await.expect(200);
    env.post(&path, json!({"metadata": {"name": "bb"}})).await.expect(201);
    let second = env.get(&format!("{path}?limit=2&continue={}", token(&first))).await.expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["items"][1]["data"], Value::Null);
    assert_eq!(revision(&second), revision(&first));
    env.delete(&format!("{path}/e")).await.expect(200);
    let third = env.get(&format!("{path}?limit=2&continue={}", token(&second))).await.expect(200);
    assert_eq!(names(&third), ["e"]);
    assert_eq!(names(&env.get(&path).await.expect(200)), ["a", "b", "bb", "d"]);
}

#[tokio::test]
async fn a_page_of_selected_objects_is_full_and_does_not_say_how_many_come() {
    let env = Env::new().await;
    let path = with(&env, 6).await;
    let selector = "labelSelector=parity%3Deven";
    let first = env.get(&format!("{path}?limit=2&{selector}")).await.expect(200);
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(first["metadata"]["remainingItemCount"], Value::Null);
    let second = env.get(&format!("{path}?limit=2&{selector}&continue={}", token(&first))).await.expect(200);
    assert_eq!(names(&second), ["e"]);
    assert_eq!(second["metadata"]["continue"], Value::Null);
    let by_field = env.get(&format!("{path}?limit=1&fieldSelector=metadata.name!%3Da")).await.expect(200);
    assert_eq!(names(&by_field), ["b"]);
    assert_eq!(by_field["metadata"]["remainingItemCount"], Value::Null);
}

#[tokio::test]
async fn a_limit_that_nothing_exceeds_makes_one_page() {
    let env = Env::new().await;
    let path = with(&env, 2).await;
    for query in ["limit=2", "limit=9", "limit=0", "limit=-3", "limit=9223372036854775807"] {
        let list = env.get(&format!("{path}?{query}")).await.expect(200);
        assert_eq!(names(&list), ["a", "b"], "{query}");
        assert_eq!(list["metadata"].as_object().map(serde_json::Map::len), Some(1), "{query}: {list:#}");
    }
}

#[tokio::test]
async fn a_list_at_revision_zero_is_whole_whatever_the_limit() {
    let env = Env::new().await;
    let path = with(&env, 3).await;
    let made = revision(&env.get(&path).await.expect(200));
    let zero = format!("{path}?limit=1&resourceVersion=0");
    // A cache may be behind, but not for ever.
    let all = env.until(&zero, |answer| names(&answer.body).len() == 3).await.expect(200);
    assert_eq!(all["metadata"]["continue"], Value::Null);
    let newer = format!("{path}?limit=1&resourceVersion=0&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&env.get(&newer).await.expect(200)).len(), 3);
    let newer = format!("{path}?limit=1&resourceVersion={made}&resourceVersionMatch=NotOlderThan");
    let page = env.get(&newer).await.expect(200);
    assert_eq!((names(&page), &page["metadata"]["remainingItemCount"]), (vec!["a"], &json!(2)));
}

#[tokio::test]
async fn a_token_brings_its_own_revision() {
    let env = Env::new().await;
    let path = with(&env, 2).await;
    let first = env.get(&format!("{path}?limit=1")).await.expect(200);
    let token = token(&first);
    let answer = env.get(&format!("{path}?continue={token}&resourceVersion={}", revision(&first))).await;
    let message = "specifying resource version is not allowed when using continue";
    answer.expect_status(400, "BadRequest", message);
    let rest = env.get(&format!("{path}?continue={token}&resourceVersion=0")).await.expect(200);
    assert_eq!(names(&rest), ["b"]);
}

#[tokio::test]
async fn a_token_that_makes_no_sense_is_refused() {
    let env = Env::new().await;
    let path = with(&env, 1).await;
    let v1 = "meta.k8s.io/v1";
    for (token, why) in [
        ("@@@".to_owned(), ": illegal base64 data at input byte 0"),
        ("abc*".to_owned(), ": illegal base64 data at input byte 3"),
        ("eyJ2IjoxfQ==".to_owned(), ": illegal base64 data at input byte 10"),
        ("eyJ2I".to_owned(), ": illegal base64 data at input byte 4"),
        (
            made(&json!({"v": v1, "rv": 0, "start": "a"})),
            ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (
            made(&json!({"v": v1, "start": ""})),
            ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (made(&json!({"v": v1, "rv": 5, "start": ""})), ": encoded start key empty (version meta.k8s.io/v1)"),
        (
            made(&json!({"v": "meta.k8s.io/v2", "rv": 5, "start": "a"})),
            ": server does not recognize this encoded version meta.k8s.io/v2",
        ),
        (made(&json!({"rv": 5})), ": server does not recognize this encoded version "),
        (made(&json!({"v": v1, "rv": 5, "start": "../a"})), ": ../a"),
        (made(&json!({"v": v1, "rv": 5, "start": "a/./b"})), ": a/./b"),
        (made(&json!({"v": v1, "rv": 5, "start": "a//b"})), ": a//b"),
        (made(&json!({"v": v1, "rv": 5, "start": "a/"})), ": a/"),
    ] {
        let message = format!("invalid continue token: continue key is not valid{why}");
        env.get(&format!("{path}?continue={token}")).await.expect_status(400, "BadRequest", &message);
    }
    // The message quotes Go's JSON error.
    for token in [
        "abc".to_owned(),
        made(&json!("text")),
        made(&json!({"v": v1, "rv": "x", "start": "a"})),
        made(&json!({"v": v1, "rv": 1.5, "start": "a"})),
    ] {
        let status = env.get(&format!("{path}?continue={token}")).await.expect(400);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("invalid continue token: continue key is not valid: "), "{message}");
    }
}

#[tokio::test]
async fn a_token_without_a_revision_goes_on_with_what_is_there_now() {
    let env = Env::new().await;
    let path = with(&env, 3).await;
    let first = env.get(&format!("{path}?limit=1")).await.expect(200);
    env.delete(&format!("{path}/b")).await.expect(200);
    env.post(&path, json!({"metadata": {"name": "bb"}})).await.expect(201);
    // The token that comes with the error when a client's token is too old.
    let token = made(&json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "/a\u{0}"}));
    let next = env.get(&format!("{path}?limit=1&continue={token}")).await.expect(200);
    assert_eq!(names(&next), ["bb"]);
    assert!(revision(&next) > revision(&first));
    // From there on it is consistent again.
    env.delete(&format!("{path}/c")).await.expect(200);
    let token = self::token(&next);
    assert_eq!(names(&env.get(&format!("{path}?continue={token}")).await.expect(200)), ["c"]);
}

#[tokio::test]
async fn pages_cross_namespaces() {
    let env = Env::new().await;
    let label = env.unique("pages");
    let other = format!("{}-x", env.namespace);
    env.post("/api/v1/namespaces", json!({"metadata": {"name": other}})).await.expect(201);
    for namespace in [&env.namespace, &other] {
        for name in ["a", "b"] {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            env.post(&path, json!({"metadata": {"name": name, "labels": {"in": label}}})).await.expect(201);
        }
    }
    let mut path = format!("/api/v1/configmaps?limit=3&labelSelector=in%3D{label}");
    let first = env.get(&path).await.expect(200);
    assert_eq!(names(&first), ["a", "b", "a"]);
    path = format!("{path}&continue={}", token(&first));
    let second = env.get(&path).await.expect(200);
    assert_eq!(names(&second), ["b"]);
    assert_eq!(second["items"][0]["metadata"]["namespace"], env.namespace.as_str());
}
