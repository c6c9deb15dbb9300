//! Invalid requests and their errors.

use http::Method;
use serde_json::{Value, json};

use crate::{Answer, Env};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// Posts a text to the configmaps of the namespace, without leaving anything there.
async fn post(env: &Env, body: &str) -> Answer {
    env.call(Method::POST, &format!("{}?dryRun=All", env.core("configmaps")), &JSON, body).await
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn every_error_is_a_status_as_json_that_nobody_keeps() {
    let env = Env::new().await;
    let path = format!("{}/nothing", env.core("configmaps"));
    let answer = env.get(&path).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.headers["cache-control"], "no-cache, private");
    assert_eq!(
        answer.expect(404),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "configmaps \"nothing\" not found", "reason": "NotFound",
            "details": {"name": "nothing", "kind": "configmaps"}, "code": 404,
        })
    );
}

#[tokio::test]
async fn paths_that_lead_to_no_resource_are_not_found() {
    let env = Env::new().await;
    for path in [
        "/api/v1/nothings",
        "/api/v1/namespaces/default/nothings",
        "/api/v1/namespaces/default/nothings/a",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/api/v1/namespaces/default/pods/a/nothing",
        "/api/v1/namespaces/default/pods/a/status/more",
        "/api/v1/namespaces/default/configmaps/a/b/c",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/a",
        "/api/v2/configmaps",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/nothings",
    ] {
        let answer = env.get(path).await;
        let message = "the server could not find the requested resource";
        assert_eq!(answer.expect_status(404, "NotFound", message)["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn methods_that_no_resource_has_are_not_allowed() {
    let env = Env::new().await;
    let maps = env.core("configmaps");
    let foo = Method::from_bytes(b"FOO").expect("a method may be called so");
    for path in [maps.clone(), format!("{maps}/a"), format!("{}/a/status", env.core("pods"))] {
        for method in [Method::OPTIONS, Method::TRACE, foo.clone()] {
            let answer = env.call(method, &path, &JSON, "{}").await;
            let message = "the server does not allow this method on the requested resource";
            assert_eq!(answer.expect_status(405, "MethodNotAllowed", message)["details"], json!({}));
        }
        assert_eq!(env.call(Method::HEAD, &path, &[], "").await.code, 405, "{path}");
    }
}

#[tokio::test]
async fn who_accepts_only_what_the_server_cannot_write_is_told_what_it_can() {
    let env = Env::new().await;
    let maps = env.core("configmaps");
    for (path, accept) in [
        (maps.as_str(), "text/html"),
        (&maps, "application/*"),
        ("/api/v1/namespaces/default", "image/png, text/html;q=0.5"),
        ("/version", "text/html"),
        ("/api", "text/html"),
        ("/apis/apps/v1", "text/html"),
    ] {
        let answer = env.call(Method::GET, path, &[("accept", accept)], "").await;
        let status = answer.expect(406);
        assert_eq!((&status["reason"], &status["details"]), (&json!("NotAcceptable"), &json!({})), "{path}");
        let expected = "406: Not Acceptable\n\nAvailable representations: application/json";
        assert!(message(&status).starts_with(expected), "{path}: {status:#}");
    }
    let headers = [("accept", "text/html"), ("content-type", "application/json")];
    let create = env.call(Method::POST, &maps, &headers, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(create.expect(406)["reason"], "NotAcceptable");
    assert_eq!(env.get(&format!("{maps}/a")).await.code, 404, "nothing was written");
}

#[tokio::test]
async fn who_wants_a_form_that_the_server_does_not_know_is_told_the_media_types() {
    let env = Env::new().await;
    for accept in
        ["application/json;as=Nothing;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v9"]
    {
        let answer = env.call(Method::GET, "/api/v1/namespaces/default", &[("accept", accept)], "").await;
        let status = answer.expect(406);
        assert_eq!((&status["reason"], status.get("details")), (&json!("NotAcceptable"), None));
        let expected = "only the following media types are accepted: application/json";
        assert!(message(&status).starts_with(expected), "{accept}: {status:#}");
    }
    for accept in ["", "*/*", "application/json", "application/json;q=0.5", "text/html, */*;q=0.1"] {
        let answer = env.call(Method::GET, "/api/v1/namespaces/default", &[("accept", accept)], "").await;
        assert_eq!(answer.expect(200)["kind"], "Namespace", "{accept}");
    }
}

#[tokio::test]
async fn a_body_in_a_format_that_the_server_cannot_read_is_refused() {
    let env = Env::new().await;
    let path = format!("{}?dryRun=All", env.core("configmaps"));
    for content_type in ["text/plain", "application/xml", "application/cbor", "nothing", "bad/"] {
        let headers = [("content-type", content_type)];
        let answer = env.call(Method::POST, &path, &headers, json!({"metadata": {"name": "a"}})).await;
        let status = answer.expect(415);
        assert_eq!((&status["reason"], status.get("details")), (&json!("UnsupportedMediaType"), None));
        let expected = "the body of the request was in an unknown format - accepted media types include: \
                        application/json";
        assert!(message(&status).starts_with(expected), "{content_type}: {status:#}");
    }
    for content_type in ["", "application/json; charset=utf-8", "application/JSON"] {
        let headers = [("content-type", content_type)];
        let answer = env.call(Method::POST, &path, &headers, json!({"metadata": {"name": "a"}})).await;
        assert_eq!(answer.code, 201, "{content_type:?}: {:#}", answer.body);
    }
}

#[tokio::test]
async fn a_patch_of_an_unknown_type_is_refused() {
    let env = Env::new().await;
    for content_type in ["application/json", "text/plain", ""] {
        let path = format!("{}/a", env.core("configmaps"));
        let answer = env.call(Method::PATCH, &path, &[("content-type", content_type)], "{}").await;
        let status = answer.expect_status(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        assert_eq!(status["details"], json!({}));
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_is_refused_with_what_is_wrong_and_how_it_begins() {
    let env = Env::new().await;
    for (body, error, shown) in [
        ("", "unexpected end of JSON input", "<empty>"),
        ("{", "unexpected end of JSON input", "{"),
        (r#"{"a""#, "unexpected end of JSON input", r#"{"a""#),
        ("\t", "unexpected end of JSON input", "09"),
        (
            r#"{"metadata":{"name":"a"}} trailing"#,
            "invalid character 't' after top-level value",
            r#"{"metadata":{"name":"a"}} trai ..."#,
        ),
        (
            r#"{"metadata":{"name":"a",}}"#,
            "invalid character '}' looking for beginning of object key string",
            r#"{"metadata":{"name":"a",}}"#,
        ),
        ("{'a':1}", r"invalid character '\'' looking for beginning of object key string", "{'a':1}"),
        (r#"{"a":01}"#, "invalid character '1' after object key:value pair", r#"{"a":01}"#),
        (r#"{"a":nul}"#, "invalid character '}' in literal null (expecting 'l')", r#"{"a":nul}"#),
        (
            "this is longer than thirty characters",
            "invalid character 'h' in literal true (expecting 'r')",
            "74686973206973206c6f6e676572207468616e2074686972747920636861 ...",
        ),
        (
            "kind: ConfigMap",
            "invalid character 'k' looking for beginning of value",
            "6b696e643a20436f6e6669674d6170",
        ),
    ] {
        let expected = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse \
             error: {error} ({shown})"
        );
        let status = post(&env, body).await.expect_status(400, "BadRequest", &expected);
        assert_eq!(status.get("details"), None);
    }
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let env = Env::new().await;
    for (body, kind, shown) in [
        ("[]", "array", "5b5d"),
        ("5", "number", "35"),
        ("\"x\"", "string", "227822"),
        ("true", "bool", "74727565"),
    ] {
        let expected = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({shown})"
        );
        post(&env, body).await.expect_status(400, "BadRequest", &expected);
    }
}

#[tokio::test]
async fn a_body_of_null_is_an_object_with_nothing_in_it() {
    let env = Env::new().await;
    for body in ["null", "{}", r#"{"apiVersion":"v1"}"#, r#"{"kind":"ConfigMap"}"#] {
        let expected =
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
        post(&env, body).await.expect_status(422, "Invalid", expected);
    }
}

#[tokio::test]
async fn absurd_nesting_is_refused() {
    let env = Env::new().await;
    let deep = |before: &str, open: &str| format!("{before}{}", open.repeat(20_000));
    for (body, character, shown) in [
        (deep("", "["), '[', "5b".repeat(30)),
        (deep("", r#"{"a":"#), '{', r#"{"a":"#.repeat(6)),
        (
            deep(r#"{"metadata":{"name":"a"},"data":"#, "["),
            '[',
            r#"{"metadata":{"name":"a"},"data"#.to_owned(),
        ),
    ] {
        let expected = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse \
             error: invalid character '{character}' exceeded max depth ({shown} ...)"
        );
        post(&env, &body).await.expect_status(400, "BadRequest", &expected);
    }
}

#[tokio::test]
async fn a_body_of_more_than_3_mib_is_too_large() {
    let env = Env::new().await;
    let body = |length: usize| {
        let object = r#"{"metadata":{"name":"a"},"x":""}"#;
        object.replace(r#""""#, &format!("\"{}\"", "y".repeat(length - object.len())))
    };
    let limit = 3 * 1024 * 1024;
    for (method, path, headers) in [
        (Method::POST, env.core("configmaps"), JSON),
        (Method::PUT, format!("{}/a", env.core("configmaps")), JSON),
        (
            Method::PATCH,
            format!("{}/a", env.core("configmaps")),
            [("content-type", "application/merge-patch+json")],
        ),
        (Method::DELETE, format!("{}/a", env.core("configmaps")), JSON),
    ] {
        let answer = env.call(method, &path, &headers, body(limit + 1)).await;
        let expected = "Request entity too large: limit is 3145728";
        let status = answer.expect_status(413, "RequestEntityTooLarge", expected);
        assert_eq!(status.get("details"), None);
    }
    let just =
        env.call(Method::POST, &format!("{}?dryRun=All", env.core("configmaps")), &JSON, body(limit)).await;
    assert_eq!(just.code, 201, "{:#}", just.body);
}

#[tokio::test]
async fn an_object_that_says_nonsense_of_its_kind_is_refused() {
    let env = Env::new().await;
    let bad_version = r#"{"kind":"ConfigMap","apiVersion":"a/b/c"}"#;
    let expected = "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: \
                    a/b/c ({\"kind\":\"ConfigMap\",\"apiVersio ...)";
    post(&env, bad_version).await.expect_status(400, "BadRequest", expected);
    for (body, field, kind) in
        [(r#"{"kind":5}"#, "kind", "number"), (r#"{"apiVersion":[]}"#, "apiVersion", "array")]
    {
        let expected = format!(
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {kind} into Go struct field .{field} of type string ({body})"
        );
        post(&env, body).await.expect_status(400, "BadRequest", &expected);
    }
}

#[tokio::test]
async fn what_is_no_unicode_is_replaced() {
    let env = Env::new().await;
    let path = format!("{}?dryRun=All", env.core("configmaps"));
    for (body, stored) in [
        (&b"{\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"a\xff\xfeb\"}}"[..], "a\u{fffd}\u{fffd}b"),
        (&br#"{"metadata":{"name":"a"},"data":{"k":"a\ud800b"}}"#[..], "a\u{fffd}b"),
        (&br#"{"metadata":{"name":"a"},"data":{"k":"\udc00\ud83d\ude00\\ud800"}}"#[..], "\u{fffd}😀\\ud800"),
    ] {
        let answer = env.send(Method::POST, &path, &JSON, body.to_vec()).await;
        assert_eq!(answer.expect(201)["data"]["k"], stored);
    }
}

#[tokio::test]
async fn parameters_that_cannot_be_read_are_refused_by_those_who_need_them() {
    let env = Env::new().await;
    let maps = env.core("configmaps");
    let map = format!("{maps}/a");
    for (method, path, query, error) in [
        (Method::GET, &maps, "limit=x", "parsing \"x\": invalid syntax"),
        (Method::GET, &maps, "limit=", "parsing \"\": invalid syntax"),
        (Method::GET, &maps, "limit=1.5", "parsing \"1.5\": invalid syntax"),
        (
            Method::GET,
            &maps,
            "limit=99999999999999999999",
            "parsing \"99999999999999999999\": value out of range",
        ),
        (Method::GET, &maps, "timeoutSeconds=x", "parsing \"x\": invalid syntax"),
        (Method::GET, &maps, "watch=1&timeoutSeconds=x", "parsing \"x\": invalid syntax"),
        (Method::DELETE, &maps, "limit=x", "parsing \"x\": invalid syntax"),
        (Method::DELETE, &map, "gracePeriodSeconds=x", "parsing \"x\": invalid syntax"),
        (Method::DELETE, &map, "gracePeriodSeconds=", "parsing \"\": invalid syntax"),
        (Method::DELETE, &maps, "gracePeriodSeconds=x", "parsing \"x\": invalid syntax"),
    ] {
        let answer = env.call(method, &format!("{path}?{query}"), &[], "").await;
        let expected = format!("strconv.ParseInt: {error}");
        let status = answer.expect_status(400, "BadRequest", &expected);
        assert_eq!(status.get("details"), None);
    }
    // Others ignore them.
    for query in ["gracePeriodSeconds=x", "nothing=1", "limit=-1", "limit=1&limit=x"] {
        assert_eq!(env.get(&format!("{maps}?{query}")).await.code, 200, "{query}");
    }
    assert_eq!(env.get("/api/v1/namespaces/default?limit=x").await.code, 200);
}

#[tokio::test]
async fn parameters_that_are_no_parameters_are_not_looked_at() {
    let env = Env::new().await;
    let maps = env.core("configmaps");
    for query in ["labelSelector=%zz", "%zz=1", "a;b", "labelSelector=a;b", "&&", "=1"] {
        assert_eq!(env.get(&format!("{maps}?{query}")).await.code, 200, "{query}");
    }
}

#[tokio::test]
async fn answers_are_written_nicely_for_those_who_ask_and_for_people() {
    let env = Env::new().await;
    let raw = |query: &'static str, agent: &'static str| {
        let client = env.client.clone();
        async move {
            let request = http::Request::get(format!("/api/v1/namespaces/default{query}"));
            let request = request.header("user-agent", agent).body(kube::client::Body::empty());
            let response = client.send(request.expect("a request")).await.expect("an answer");
            let bytes = response.into_body().collect_bytes().await.expect("the whole answer");
            String::from_utf8(bytes.to_vec()).expect("text")
        }
    };
    for (query, agent, nicely) in [
        ("?pretty=true", "x", true),
        ("?pretty=1", "x", true),
        ("?pretty=0", "curl/8", false),
        ("?pretty=false", "curl/8", false),
        ("", "curl/8.0", true),
        ("", "Wget/1", true),
        ("", "Mozilla/5.0", true),
        ("", "kubectl", false),
    ] {
        let text = raw(query, agent).await;
        assert_eq!(text.starts_with("{\n  \"kind\": \"Namespace\",\n"), nicely, "{query} {agent}: {text}");
    }
}
