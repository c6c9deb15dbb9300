//! Watches: events, their order, and the end.

use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::{Env, event_names, names, revision};

#[tokio::test]
async fn a_watch_from_nowhere_begins_with_what_is_there() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["b", "a", "c"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    env.merge(&format!("{path}/a"), json!({"data": {"k": "v"}})).await.expect(200);
    env.delete(&format!("{path}/c")).await.expect(200);
    for query in ["", "?resourceVersion=", "?resourceVersion=0"] {
        // A real server may answer the last one from a cache that has not seen the deletion.
        let events = env.watch(&format!("{path}{query}"), 2).await;
        assert_eq!(event_names(&events), [("ADDED", "a"), ("ADDED", "b")], "{query}");
        assert_eq!(events[0]["object"]["data"]["k"], "v", "{query}");
        assert_eq!(events[0]["object"]["kind"], "ConfigMap", "{query}");
    }
}

#[tokio::test]
async fn a_watch_from_a_revision_shows_all_that_came_after_it() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let first = env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let changed = env.merge(&format!("{path}/a"), json!({"data": {"k": "1"}})).await.expect(200);
    env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    let events = env.watch(&format!("{path}?resourceVersion={}", revision(&first)), 2).await;
    assert_eq!(event_names(&events), [("MODIFIED", "a"), ("ADDED", "b")]);
    assert_eq!(revision(&events[0]["object"]), revision(&changed));
    let events = env.watch(&format!("{path}?resourceVersion={}", revision(&changed)), 1).await;
    assert_eq!(event_names(&events), [("ADDED", "b")]);
}

#[tokio::test]
async fn a_deletion_shows_the_last_state_at_the_revision_of_the_deletion() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    env.delete(&format!("{path}/a")).await.expect(200);
    let now = env.revision(&path).await;
    let events = env.watch(&format!("{path}?resourceVersion={}", revision(&made)), 1).await;
    let object = &events[0]["object"];
    assert_eq!(event_names(&events), [("DELETED", "a")]);
    assert_eq!((&object["data"]["k"], &object["kind"]), (&json!("v"), &json!("ConfigMap")));
    assert!(revision(object) > revision(&made) && revision(object) <= now, "{object:#}");
    assert_eq!(object["metadata"]["uid"], made["metadata"]["uid"]);
}

#[tokio::test]
async fn what_begins_to_be_selected_is_added_and_what_ceases_is_deleted() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let start = env.revision(&path).await;
    let object = format!("{path}/a");
    env.post(&path, json!({"metadata": {"name": "a", "labels": {"l": "out"}}})).await.expect(201);
    let patch = json!({"metadata": {"labels": {"l": "in"}}, "data": {"k": "1"}});
    let added = env.merge(&object, patch).await.expect(200);
    let modified = env.merge(&object, json!({"data": {"k": "2"}})).await.expect(200);
    let patch = json!({"metadata": {"labels": {"l": "out"}}, "data": {"k": "3"}});
    let left = env.merge(&object, patch).await.expect(200);
    env.merge(&object, json!({"data": {"k": "4"}})).await.expect(200);
    let back = env.merge(&object, json!({"metadata": {"labels": {"l": "in"}}})).await.expect(200);
    env.delete(&object).await.expect(200);
    let events = env.watch(&format!("{path}?resourceVersion={start}&labelSelector=l%3Din"), 5).await;
    let kinds = [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")];
    assert_eq!(event_names(&events), kinds);
    let seen: Vec<_> = events.iter().map(|event| revision(&event["object"])).collect();
    assert_eq!(seen[..4], [&added, &modified, &left, &back].map(revision));
    assert!(seen[4] > seen[3]);
    // The event has the object as it was, with the revision of the change that made it leave.
    let gone = &events[2]["object"];
    assert_eq!((&gone["metadata"]["labels"]["l"], &gone["data"]["k"]), (&json!("in"), &json!("2")));
    assert_eq!(events[4]["object"]["data"]["k"], "4");
}

#[tokio::test]
async fn objects_come_and_go_with_their_selected_fields() {
    let env = Env::new().await;
    let path = env.core("pods");
    let start = env.revision(&path).await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    env.post(&path, pod).await.expect(201);
    for phase in ["Running", "Succeeded"] {
        env.merge(&format!("{path}/a/status"), json!({"status": {"phase": phase}})).await.expect(200);
    }
    let events =
        env.watch(&format!("{path}?resourceVersion={start}&fieldSelector=status.phase%3DRunning"), 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a"), ("DELETED", "a")]);
    assert_eq!(events[1]["object"]["status"]["phase"], "Running");
    assert!(revision(&events[1]["object"]) > revision(&events[0]["object"]));
}

#[tokio::test]
async fn every_watcher_sees_the_same_order() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let start = env.revision(&path).await;
    let watch = format!("{path}?resourceVersion={start}");
    let watchers = join_all((0..3).map(|_| env.watch(&watch, 24)));
    let writers = join_all((0..4).map(|writer| {
        let (env, path) = (&env, &path);
        async move {
            let name = format!("w{writer}");
            env.post(path, json!({"metadata": {"name": name}})).await.expect(201);
            for round in 0..5 {
                let patch = json!({"data": {"round": round.to_string()}});
                env.merge(&format!("{path}/{name}"), patch).await.expect(200);
            }
        }
    }));
    let (seen, _) = futures::join!(watchers, writers);
    let revisions =
        |events: &[Value]| -> Vec<u64> { events.iter().map(|event| revision(&event["object"])).collect() };
    assert!(revisions(&seen[0]).is_sorted_by(|a, b| a < b), "{:?}", revisions(&seen[0]));
    for other in &seen[1..] {
        assert_eq!(event_names(other), event_names(&seen[0]));
        assert_eq!(revisions(other), revisions(&seen[0]));
    }
    assert_eq!(revisions(&env.watch(&watch, 24).await), revisions(&seen[0]));
}

#[tokio::test]
async fn a_watch_of_all_namespaces_sees_them_all_and_of_one_only_that() {
    let env = Env::new().await;
    let label = env.unique("scope");
    let other = format!("{}-x", env.namespace);
    env.post("/api/v1/namespaces", json!({"metadata": {"name": other}})).await.expect(201);
    let start = env.revision(&env.core("configmaps")).await;
    for (namespace, name) in [(&other, "a"), (&env.namespace, "b"), (&other, "c")] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        env.post(&path, json!({"metadata": {"name": name, "labels": {"in": label}}})).await.expect(201);
    }
    let query = format!("resourceVersion={start}&labelSelector=in%3D{label}");
    let all = env.watch(&format!("/api/v1/configmaps?{query}"), 3).await;
    assert_eq!(event_names(&all), [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]);
    let there = env.watch(&format!("/api/v1/namespaces/{other}/configmaps?{query}"), 2).await;
    assert_eq!(event_names(&there), [("ADDED", "a"), ("ADDED", "c")]);
}

#[tokio::test]
async fn a_watch_from_the_future_waits_for_it() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let future = env.revision(&path).await + (1 << 40);
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let events = env.watch(&format!("{path}?resourceVersion={future}&timeoutSeconds=1"), 1).await;
    assert_eq!(events, Vec::<Value>::new());
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let path = format!("{path}?watch=1&resourceVersion={}", env.revision(&path).await);
    let paths = ["1", "-1"].map(|seconds| format!("{path}&timeoutSeconds={seconds}"));
    for answer in join_all(paths.iter().map(|path| env.get(path))).await {
        assert_eq!((answer.code, answer.text.as_str()), (200, ""));
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.headers["cache-control"], "no-cache, private");
        assert!(!answer.headers.contains_key("content-length"), "{:?}", answer.headers);
    }
}

#[tokio::test]
async fn bookmarks_come_before_the_end_to_those_who_want_them() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let start = env.revision(&path).await;
    let path = format!("{path}?resourceVersion={start}&timeoutSeconds=4");
    let asking = format!("{path}&allowWatchBookmarks=true");
    let (mut with, without) = futures::join!(env.watch(&asking, 1), env.watch(&path, 1));
    // A real server aims at two seconds before the end, and sometimes misses.
    for _ in 0..5 {
        if with.is_empty() {
            with = env.watch(&asking, 1).await;
        }
    }
    assert_eq!(event_names(&with), [("BOOKMARK", "")]);
    let bookmark = &with[0]["object"];
    assert!(revision(bookmark) >= start);
    let version = &bookmark["metadata"]["resourceVersion"];
    let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": version}});
    assert_eq!(bookmark, &expected);
    assert_eq!(without, Vec::<Value>::new());
}

#[tokio::test]
async fn a_single_object_is_watched_by_its_name() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let start = env.revision(&path).await;
    for name in ["a", "b"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    for name in ["b", "a"] {
        env.merge(&format!("{path}/{name}"), json!({"data": {"k": "v"}})).await.expect(200);
    }
    let expected = [("ADDED", "a"), ("MODIFIED", "a")];
    let events =
        env.watch(&format!("{path}?resourceVersion={start}&fieldSelector=metadata.name%3Da"), 2).await;
    assert_eq!(event_names(&events), expected);
    let old = format!("/api/v1/watch/namespaces/{}/configmaps", env.namespace);
    let events = env.events(&format!("{old}/a?resourceVersion={start}"), &[], 2).await;
    assert_eq!(event_names(&events), expected);
    let both = format!("{old}/a?resourceVersion={start}&fieldSelector=metadata.name%3Da");
    assert_eq!(event_names(&env.events(&both, &[], 2).await), expected);
    for selector in ["metadata.name%3Db", "metadata.name!%3Db", "metadata.namespace%3Dx"] {
        let answer = env.get(&format!("{old}/a?fieldSelector={selector}")).await;
        answer.expect_status(400, "BadRequest", "fieldSelector metadata.name doesn't match requested name");
    }
}

#[tokio::test]
async fn the_old_watch_paths_still_watch() {
    let env = Env::new().await;
    let label = env.unique("old");
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a", "labels": {"in": label}}})).await.expect(201);
    for path in ["namespaces/NS/configmaps", "configmaps"] {
        let path = format!("/api/v1/watch/{}?labelSelector=in%3D{label}", path.replace("NS", &env.namespace));
        assert_eq!(event_names(&env.events(&path, &[], 1).await), [("ADDED", "a")], "{path}");
    }
    let namespace = env.events(&format!("/api/v1/watch/namespaces/{}", env.namespace), &[], 1).await;
    assert_eq!(event_names(&namespace), [("ADDED", env.namespace.as_str())]);
    let group = format!("/apis/apps/v1/watch/namespaces/{}/deployments?timeoutSeconds=1", env.namespace);
    assert_eq!(env.events(&group, &[], 1).await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_old_watch_paths_do_nothing_else() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let old = format!("/api/v1/watch/namespaces/{}/configmaps", env.namespace);
    let headers = [("content-type", "application/json")];
    for (method, path) in [
        (Method::POST, old.clone()),
        (Method::DELETE, old.clone()),
        (Method::DELETE, format!("{old}/a")),
        (Method::PUT, format!("{old}/a")),
    ] {
        let body = json!({"metadata": {"name": "b"}});
        let answer = env.call(method.clone(), &path, &headers, body).await;
        let message = "the server does not allow this method on the requested resource";
        answer.expect_status(405, "MethodNotAllowed", message);
    }
    for path in [format!("{old}/a/status"), "/api/v1/watch/nothing".to_owned()] {
        let answer = env.get(&path).await;
        answer.expect_status(404, "NotFound", "the server could not find the requested resource");
    }
    assert_eq!(names(&env.get(&path).await.expect(200)), ["a"]);
}

#[tokio::test]
async fn a_watch_knows_no_pages_and_is_never_pretty() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b"] {
        env.post(&path, json!({"metadata": {"name": name}})).await.expect(201);
    }
    let events = env.watch(&format!("{path}?limit=1&pretty=true"), 2).await;
    assert_eq!(event_names(&events), [("ADDED", "a"), ("ADDED", "b")]);
}
