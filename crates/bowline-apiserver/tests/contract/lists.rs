//! Reading objects and lists: which revision, in which order, and options that make no sense.

use futures::future::join_all;
use http::Method;
use serde_json::json;

use crate::{Env, names, revision};

#[tokio::test]
async fn a_list_says_its_kind_and_its_items_do_not() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await.expect(201);
    let list = env.get(&path).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(list["metadata"].as_object().map(serde_json::Map::len), Some(1), "{list:#}");
    let item = list["items"][0].as_object().expect("an object");
    assert!(!item.contains_key("kind") && !item.contains_key("apiVersion"), "{item:#?}");
    assert_eq!(item["data"], json!({"k": "v"}));
}

#[tokio::test]
async fn a_list_of_nothing_has_no_items_even_where_there_is_no_namespace() {
    let env = Env::new().await;
    for path in [env.core("configmaps"), "/api/v1/namespaces/no-such-namespace/configmaps".to_owned()] {
        let list = env.get(&path).await.expect(200);
        assert_eq!(list["items"], json!([]), "{path}");
        assert!(revision(&list) > 0, "{path}");
    }
}

#[tokio::test]
async fn lists_are_in_the_order_of_namespace_and_name() {
    let env = Env::new().await;
    let label = env.unique("order");
    // As keys, a namespace that goes on with a hyphen comes before the one that it begins with.
    let other = format!("{}-x", env.namespace);
    env.post("/api/v1/namespaces", json!({"metadata": {"name": other}})).await.expect(201);
    for (namespace, name) in
        [(&env.namespace, "b"), (&other, "c"), (&env.namespace, "a.a"), (&env.namespace, "a")]
    {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        env.post(&path, json!({"metadata": {"name": name, "labels": {"in": label}}})).await.expect(201);
    }
    let list = env.get(&format!("/api/v1/configmaps?labelSelector=in%3D{label}")).await.expect(200);
    let namespaces =
        list["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["namespace"]);
    assert_eq!(namespaces.collect::<Vec<_>>(), [&other, &env.namespace, &env.namespace, &env.namespace]);
    assert_eq!(names(&list), ["c", "a", "a.a", "b"]);
    assert_eq!(names(&env.get(&env.core("configmaps")).await.expect(200)), ["a", "a.a", "b"]);
}

#[tokio::test]
async fn lists_at_no_revision_at_zero_and_at_least_at_one_are_as_new_as_asked_for() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let made = revision(&env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201));
    for query in [
        String::new(),
        format!("?resourceVersion={made}"),
        format!("?resourceVersion={made}&resourceVersionMatch=NotOlderThan"),
        format!("?resourceVersion={made}&resourceVersionMatch=Exact"),
        format!("?resourceVersion={made}&limit=1"),
    ] {
        let list = env.get(&format!("{path}{query}")).await.expect(200);
        assert_eq!(names(&list), ["a"], "{query}");
        let exact = query.contains("Exact") || query.contains("limit");
        assert!(if exact { revision(&list) == made } else { revision(&list) >= made }, "{query}: {list:#}");
    }
    // Any revision will do, but there is one.
    env.get(&format!("{path}?resourceVersion=0")).await.expect(200);
    env.get(&format!("{path}?resourceVersion=0&resourceVersionMatch=NotOlderThan")).await.expect(200);
}

#[tokio::test]
async fn a_list_at_an_exact_revision_shows_what_was_then() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "old"}})).await.expect(201);
    let then = revision(&env.post(&path, json!({"metadata": {"name": "gone"}})).await.expect(201));
    env.merge(&format!("{path}/a"), json!({"data": {"k": "new"}})).await.expect(200);
    env.delete(&format!("{path}/gone")).await.expect(200);
    env.post(&path, json!({"metadata": {"name": "b"}})).await.expect(201);
    for query in ["resourceVersionMatch=Exact", "limit=9"] {
        let list = env.get(&format!("{path}?resourceVersion={then}&{query}")).await.expect(200);
        assert_eq!(names(&list), ["a", "gone"], "{query}");
        assert_eq!(list["items"][0]["data"]["k"], "old", "{query}");
        assert_eq!(revision(&list), then, "{query}");
    }
    let list = env.get(&format!("{path}?resourceVersion={then}")).await.expect(200);
    assert_eq!(names(&list), ["a", "b"]);
}

#[tokio::test]
async fn a_revision_that_has_not_come_is_a_timeout() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let future = 1_u64 << 40;
    // {"v":"meta.k8s.io/v1","rv":1099511627776,"start":"/a\u0000"}
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTA5OTUxMTYyNzc3Niwic3RhcnQiOiIvYVx1MDAwMCJ9";
    let paths = [
        format!("{path}?resourceVersion={future}"),
        format!("{path}?resourceVersion={future}&resourceVersionMatch=NotOlderThan"),
        format!("{path}?resourceVersion={future}&resourceVersionMatch=Exact"),
        format!("{path}?resourceVersion={future}&limit=1"),
        format!("{path}?continue={token}"),
        format!("{path}/a?resourceVersion={future}"),
    ];
    for (path, answer) in paths.iter().zip(join_all(paths.iter().map(|path| env.get(path))).await) {
        let status = answer.expect(504);
        let message = status["message"].as_str().unwrap_or_default();
        let expected = format!("Timeout: Too large resource version: {future}, current: ");
        assert!(message.starts_with(&expected), "{path}: {message}");
        assert_eq!(status["reason"], "Timeout", "{path}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        assert_eq!(status["details"], json!({"causes": [cause], "retryAfterSeconds": 1}), "{path}");
    }
}

#[tokio::test]
async fn a_resource_version_that_is_no_number_is_refused() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    for (version, why) in [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("%2B1", "invalid syntax"),
        ("99999999999999999999", "value out of range"),
    ] {
        let text = version.replace("%2B", "+");
        let detail =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}");
        let list = env.get(&format!("{path}?resourceVersion={version}")).await;
        list.expect_status(400, "BadRequest", &format!("invalid resource version: {detail}"));
        // To a real server, it is its own fault here.
        env.get(&format!("{path}/a?resourceVersion={version}")).await.expect_status(500, "", &detail);
        let watch = env.get(&format!("{path}?watch=true&resourceVersion={version}")).await;
        watch.expect_status(500, "", &detail);
    }
}

#[tokio::test]
async fn a_resource_version_match_must_fit_the_other_options() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let unset = "resourceVersionMatch is forbidden unless resourceVersion is provided";
    let continued = "resourceVersionMatch is forbidden when continue is provided";
    let unknown = "supported values: \"Exact\", \"NotOlderThan\", \"\"";
    let zero = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    let list = "sendInitialEvents is forbidden for list";
    for (query, errors) in [
        ("resourceVersionMatch=Exact", vec![("resourceVersionMatch", "Forbidden", unset)]),
        ("resourceVersionMatch=Exact&resourceVersion=0", vec![("resourceVersionMatch", "Forbidden", zero)]),
        (
            "resourceVersionMatch=x&resourceVersion=1",
            vec![("resourceVersionMatch", "Unsupported value: \"x\"", unknown)],
        ),
        (
            "resourceVersionMatch=x",
            vec![
                ("resourceVersionMatch", "Forbidden", unset),
                ("resourceVersionMatch", "Unsupported value: \"x\"", unknown),
            ],
        ),
        (
            "resourceVersionMatch=NotOlderThan&continue=x",
            vec![
                ("resourceVersionMatch", "Forbidden", unset),
                ("resourceVersionMatch", "Forbidden", continued),
            ],
        ),
        ("sendInitialEvents=true", vec![("sendInitialEvents", "Forbidden", list)]),
    ] {
        let texts: Vec<_> =
            errors.iter().map(|(field, kind, detail)| format!("{field}: {kind}: {detail}")).collect();
        let text = if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {text}");
        let answer = env.get(&format!("{path}?{query}")).await;
        let status = answer.expect_status(422, "Invalid", &message);
        assert_eq!(status["details"]["group"], "meta.k8s.io");
        assert_eq!(status["details"]["kind"], "ListOptions");
        let causes = status["details"]["causes"].as_array().expect("causes");
        assert_eq!(causes.len(), errors.len(), "{query}");
        for (cause, (field, kind, detail)) in causes.iter().zip(&errors) {
            assert_eq!(cause["field"], *field, "{query}");
            assert_eq!(cause["message"], format!("{kind}: {detail}"), "{query}");
        }
    }
}

#[tokio::test]
async fn numbers_among_the_options_of_a_list_are_numbers() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    for (query, text, why) in [
        ("limit=many", "many", "invalid syntax"),
        ("limit=", "", "invalid syntax"),
        ("limit=1.5", "1.5", "invalid syntax"),
        ("limit=9223372036854775808", "9223372036854775808", "value out of range"),
        ("timeoutSeconds=soon", "soon", "invalid syntax"),
        ("watch=true&timeoutSeconds=soon", "soon", "invalid syntax"),
    ] {
        let message = format!("strconv.ParseInt: parsing {text:?}: {why}");
        env.get(&format!("{path}?{query}")).await.expect_status(400, "BadRequest", &message);
    }
    // A get has no such options.
    env.get(&format!("{path}/a?limit=many&timeoutSeconds=soon")).await.expect(200);
}

#[tokio::test]
async fn of_an_option_that_is_given_twice_the_first_counts() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    for name in ["a", "b", "c"] {
        env.post(&path, json!({"metadata": {"name": name, "labels": {"l": name}}})).await.expect(201);
    }
    let list = env.get(&format!("{path}?labelSelector=l%3Da&labelSelector=l%3Db")).await.expect(200);
    assert_eq!(names(&list), ["a"]);
    assert_eq!(names(&env.get(&format!("{path}?limit=2&limit=1")).await.expect(200)), ["a", "b"]);
}

#[tokio::test]
async fn an_object_is_read_once_even_if_a_watch_is_asked_for() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    let answer = env.get(&format!("{path}/a?watch=true")).await.expect(200);
    assert_eq!(answer["kind"], "ConfigMap");
    let missing = env.get(&format!("{path}/b?watch=true")).await;
    let status = missing.expect_status(404, "NotFound", "configmaps \"b\" not found");
    assert_eq!(status["details"], json!({"name": "b", "kind": "configmaps"}));
}

#[tokio::test]
async fn an_object_in_a_namespace_has_no_path_without_it() {
    let env = Env::new().await;
    env.post(&env.core("configmaps"), json!({"metadata": {"name": "a"}})).await.expect(201);
    for path in ["/api/v1/configmaps/a", "/api/v1/watch/configmaps/a", "/api/v1/namespaces/default/nodes"] {
        let answer = env.get(path).await;
        let message = "the server could not find the requested resource";
        let status = answer.expect_status(404, "NotFound", message);
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn built_in_kinds_know_no_head() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}})).await.expect(201);
    for path in [path.clone(), format!("{path}/a"), format!("{path}/b"), format!("{path}?watch=true")] {
        let answer = env.call(Method::HEAD, &path, &[], "").await;
        assert_eq!(answer.code, 405, "{path}");
    }
}

#[tokio::test]
async fn people_get_what_they_can_read() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    env.post(&path, json!({"metadata": {"name": "a"}, "data": {"k": "v\n\"{["}})).await.expect(201);
    let object = format!("{path}/a");
    for (path, agent, pretty) in [
        (object.clone(), "x", false),
        (format!("{object}?pretty=true"), "x", true),
        (format!("{object}?pretty=1"), "x", true),
        (format!("{object}?pretty=T"), "x", true),
        (format!("{object}?pretty=yes"), "x", false),
        (object.clone(), "curl/8.5.0", true),
        (format!("{object}?pretty="), "curl/8.5.0", true),
        (format!("{object}?pretty=false"), "curl/8.5.0", false),
        (object.clone(), "Mozilla/5.0 (X11)", true),
        (object.clone(), "Mozilla/4.0", false),
        (format!("{path}?pretty=true"), "x", true),
        (format!("{path}/b?pretty=true"), "x", true),
        (format!("{path}/b"), "x", false),
    ] {
        let answer = env.call(Method::GET, &path, &[("user-agent", agent)], "").await;
        assert!(answer.body.is_object(), "{path}: {}", answer.text);
        assert_eq!(answer.text.starts_with("{\n  \"kind\": \""), pretty, "{path} {agent}: {}", answer.text);
        assert_eq!(answer.text.ends_with("\n}"), pretty, "{path} {agent}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_path_may_end_with_a_slash_and_is_otherwise_taken_at_its_word() {
    let env = Env::new().await;
    let path = env.core("configmaps");
    let label = env.unique("slash");
    env.post(&path, json!({"metadata": {"name": "a", "labels": {"in": label}}})).await.expect(201);
    assert_eq!(names(&env.get(&format!("{path}/")).await.expect(200)), ["a"]);
    assert_eq!(env.get(&format!("{path}/a/")).await.expect(200)["kind"], "ConfigMap");
    assert_eq!(env.get(&format!("{path}/%61")).await.expect(200)["kind"], "ConfigMap");
    // A namespace that is empty is none.
    let list =
        env.get(&format!("/api/v1/namespaces//configmaps?labelSelector=in%3D{label}")).await.expect(200);
    assert_eq!(names(&list), ["a"]);
    // A slash is one, however it is written.
    for path in [format!("{path}//a"), format!("{path}/a%2Fb"), format!("{path}/a/b/c")] {
        let answer = env.get(&path).await;
        answer.expect_status(404, "NotFound", "the server could not find the requested resource");
    }
    let answer = env.get(&format!("/{path}")).await;
    assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
}
