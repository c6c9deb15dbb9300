//! Watches that are lists as well: all that is there as events, and a bookmark that says when that was all.

use serde_json::{Value, json};

use crate::{Env, event_names, revision};

const STREAM: &str = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[tokio::test]
async fn what_is_there_comes_first_and_a_bookmark_says_that_it_was_all() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["b", "a"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let now = env.revision(&path).await;
    for from in ["", "&resourceVersion=0", &format!("&resourceVersion={now}")] {
        let events = env.watch(&format!("{path}?{STREAM}{from}"), 3).await;
        assert_eq!(event_names(&events), [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")], "{from}");
        let bookmark = &events[2]["object"];
        assert!(revision(bookmark) >= now, "{from}: {bookmark:#}");
        let metadata = json!({
            "resourceVersion": revision(bookmark).to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        });
        assert_eq!(
            bookmark,
            &json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}),
            "{from}"
        );
    }
}

#[tokio::test]
async fn changes_come_after_the_bookmark() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let watch = format!("{path}?{STREAM}");
    // Writes go on until the watch has seen one.
    let writes = async {
        for round in 0_u32.. {
            env.merge(&format!("{path}/a"), json!({"data": {"k": round.to_string()}})).await.expect(200);
        }
    };
    let events = tokio::select! {
        biased;
        events = env.watch(&watch, 4) => events,
        () = writes => unreachable!("it goes on for ever"),
    };
    let kinds = [("ADDED", "a"), ("BOOKMARK", ""), ("MODIFIED", "a"), ("MODIFIED", "a")];
    assert_eq!(event_names(&events), kinds);
    let seen: Vec<_> = events.iter().map(|event| revision(&event["object"])).collect();
    assert!(seen[0] <= seen[1] && seen[1] < seen[2] && seen[2] < seen[3], "{seen:?}");
}

#[tokio::test]
async fn who_does_not_allow_bookmarks_is_not_told_when_that_was_all() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let events = env.watch(&format!("{path}?{query}"), 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a")]);
}

#[tokio::test]
async fn who_does_not_want_what_is_there_gets_only_what_comes() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let first = env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let none = env.watch(&format!("{path}?{query}"), 1).await;
    assert_eq!(none, Vec::<Value>::new());
    let after = env.watch(&format!("{path}?{query}&resourceVersion={}", revision(&first)), 1).await;
    assert_eq!(event_names(&after), [("ADDED", "b")]);
}

#[tokio::test]
async fn a_watch_from_nowhere_that_allows_bookmarks_ends_its_beginning_with_one() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    for query in ["", "&resourceVersion=0"] {
        let events = env.watch(&format!("{path}?allowWatchBookmarks=true{query}"), 2).await;
        assert_eq!(event_names(&events), [("ADDED", "a"), ("BOOKMARK", "")], "{query}");
        let annotations = &events[1]["object"]["metadata"]["annotations"];
        assert_eq!(annotations, &json!({"k8s.io/initial-events-end": "true"}), "{query}");
    }
}

#[tokio::test]
async fn a_bookmark_is_an_object_of_the_kind_with_nothing_in_it() {
    let env = Env::new().await;
    let metadata = |bookmark: &Value| {
        let version = &bookmark["metadata"]["resourceVersion"];
        json!({"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}})
    };
    for (path, rest) in [
        (env.core("pods"), json!({"spec": {"containers": null}, "status": {}})),
        (env.core("services"), json!({"spec": {}, "status": {"loadBalancer": {}}})),
        (env.core("secrets"), json!({})),
        (env.group("coordination.k8s.io/v1", "leases"), json!({"spec": {}})),
    ] {
        let events = env.watch(&format!("{path}?{STREAM}"), 1).await;
        let mut bookmark = events[0]["object"].clone();
        assert_eq!(bookmark["metadata"], metadata(&bookmark), "{path}");
        for known in ["kind", "apiVersion", "metadata"] {
            bookmark.as_object_mut().expect("an object").remove(known);
        }
        assert_eq!(bookmark, rest, "{path}");
    }
}

#[tokio::test]
async fn only_what_is_selected_comes_first() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b"] {
        env.post(&path, json!({"metadata": {"name": name, "labels": {"l": name}}})).await.expect(201);
    }
    for selector in ["labelSelector=l%3Db", "fieldSelector=metadata.name%3Db"] {
        let events = env.watch(&format!("{path}?{STREAM}&{selector}"), 2).await;
        assert_eq!(event_names(&events), [("ADDED", "b"), ("BOOKMARK", "")], "{selector}");
    }
}

#[tokio::test]
async fn options_of_a_watch_that_contradict_each_other_are_refused() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let requires = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let alone = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let exact = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    let continued = "Forbidden: resourceVersionMatch is forbidden when continue is provided";
    for (query, errors) in [
        ("sendInitialEvents=true", vec![requires]),
        ("sendInitialEvents=false", vec![requires]),
        ("resourceVersionMatch=NotOlderThan", vec![alone]),
        ("resourceVersionMatch=Exact&resourceVersion=1", vec![alone, exact]),
        ("sendInitialEvents=true&resourceVersionMatch=Exact&continue=x", vec![requires, exact, continued]),
    ] {
        let errors: Vec<_> = errors.iter().map(|error| format!("resourceVersionMatch: {error}")).collect();
        let text =
            if let [one] = errors.as_slice() { one.clone() } else { format!("[{}]", errors.join(", ")) };
        let answer = env.get(&format!("{path}?watch=true&{query}")).await;
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {text}");
        answer.expect_status(422, "Invalid", &message);
    }
}

#[tokio::test]
async fn a_beginning_in_the_future_is_an_error_in_the_stream() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let future = 1_u64 << 40;
    let events = env.watch(&format!("{path}?{STREAM}&resourceVersion={future}"), 2).await;
    assert_eq!(event_names(&events), [("ERROR", "")]);
    let status = &events[0]["object"];
    let message = status["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with(&format!("Timeout: Too large resource version: {future}, current: ")),
        "{message}"
    );
    assert_eq!((&status["code"], &status["reason"]), (&json!(504), &json!("Timeout")));
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}
