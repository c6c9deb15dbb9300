//! Writes that compute for long run beside the threads that serve all other requests.

use bowline_apiserver::{ApiServer, Body};
use bowline_clock::Clock;
use futures::FutureExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn request(method: &str, path: &str, media_type: &str, body: &Value) -> Request<Full<bytes::Bytes>> {
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    request.body(Full::from(body.to_string())).expect("it is a request")
}

#[tokio::test]
async fn a_large_write_leaves_the_thread_to_others() {
    let server = ApiServer::builder().build().expect("it can be built");
    let map =
        |size: usize| json!({"metadata": {"name": format!("map-{size}")}, "data": {"k": "v".repeat(size)}});
    let created = |response: Response<Body>| assert_eq!(response.status(), 201);

    let small = server.handle(request("POST", MAPS, "application/json", &map(10)));
    created(small.now_or_never().expect("it is answered at once").expect("it is answered"));

    let mut large = Box::pin(server.handle(request("POST", MAPS, "application/json", &map(1_000_000))));
    assert!(large.as_mut().now_or_never().is_none(), "it is not computed on this thread");
    let healthz = server.handle(request("GET", "/healthz", "application/json", &Value::Null)).await;
    assert_eq!(healthz.expect("it is answered").status(), 200);
    created(large.await.expect("it is answered"));

    let operations: Vec<_> = (0..1000)
        .map(|index| json!({"op": "add", "path": format!("/data/k{index}"), "value": "v"}))
        .collect();
    let path = format!("{MAPS}/map-10");
    let mut patch =
        Box::pin(server.handle(request("PATCH", &path, "application/json-patch+json", &json!(operations))));
    assert!(patch.as_mut().now_or_never().is_none(), "a JSON patch is not computed on this thread");
    assert_eq!(patch.await.expect("it is answered").status(), 200);
}

/// Runs a test with one thread for long computations.
fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime can be made").block_on(test);
}

/// Sends a write while the thread for long computations is busy: it is not answered before that thread is free.
async fn waits_for_the_other_thread(server: &ApiServer, write: Request<Full<bytes::Bytes>>) {
    let scope = Clock::real().scope("test");
    let (release, busy) = std::sync::mpsc::channel::<()>();
    let busy = scope.spawn_blocking("busy", move || busy.recv());
    let text = format!("{} {}", write.method(), write.uri());
    let mut write = Box::pin(server.handle(write));
    assert!(write.as_mut().now_or_never().is_none(), "{text} is not done on the thread that serves requests");
    drop(release);
    assert_eq!(write.await.expect("it is answered").status(), 200, "{text}");
    let _ = busy.await;
}

#[test]
fn a_small_write_to_a_large_object_leaves_the_thread_to_others() {
    run(async {
        let server = ApiServer::builder().build().expect("it can be built");
        let map = json!({"metadata": {"name": "large"}, "data": {"k": "v".repeat(1_000_000)}});
        let created = server.handle(request("POST", MAPS, "application/json", &map)).await;
        assert_eq!(created.expect("it is answered").status(), 201);
        let path = format!("{MAPS}/large");
        let patch = request("PATCH", &path, "application/merge-patch+json", &json!({"data": {"a": "b"}}));
        waits_for_the_other_thread(&server, patch).await;
        let small = json!({"metadata": {"name": "large"}});
        waits_for_the_other_thread(&server, request("PUT", &path, "application/json", &small)).await;
        let delete = server.handle(request("DELETE", &path, "application/json", &json!({})));
        let answer = delete.now_or_never().expect("the object is small now").expect("it is answered");
        assert_eq!(answer.status(), 200);
    });
}

#[test]
fn deletes_of_collections_and_definitions_leave_the_thread_to_others() {
    run(async {
        let server = ApiServer::builder().build().expect("it can be built");
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}},
        });
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": [version],
                "names": {"plural": "gadgets", "kind": "Gadget"},
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let held = json!({
            "apiVersion": "example.com/v1", "kind": "Gadget",
            "metadata": {"name": "a", "finalizers": ["example.com/hold"]},
        });
        let gadgets = "/apis/example.com/v1/namespaces/default/gadgets";
        for (path, object) in [(definitions, &definition), (gadgets, &held)] {
            let created = server.handle(request("POST", path, "application/json", object)).await;
            assert_eq!(created.expect("it is answered").status(), 201);
        }
        let delete = |path: &str| request("DELETE", path, "application/json", &json!({}));
        waits_for_the_other_thread(&server, delete(MAPS)).await;
        waits_for_the_other_thread(&server, delete(&format!("{definitions}/gadgets.example.com"))).await;
        // It ends the deletion of the definition.
        let release = json!({"metadata": {"finalizers": null}});
        let release = request("PATCH", &format!("{gadgets}/a"), "application/merge-patch+json", &release);
        waits_for_the_other_thread(&server, release).await;
        let gone = server.handle(request("GET", gadgets, "application/json", &Value::Null)).await;
        assert_eq!(gone.expect("it is answered").status(), 404);
    });
}

#[tokio::test]
async fn a_full_server_refuses_creates_and_goes_on_with_reads_and_deletes() {
    let server = ApiServer::builder().max_bytes(200_000).build().expect("it can be built");
    let map =
        |index: usize| json!({"metadata": {"name": format!("m{index}")}, "data": {"k": "v".repeat(50_000)}});
    let ask = async |method: &str, path: &str, body: &Value| {
        let response =
            server.handle(request(method, path, "application/json", body)).await.expect("it is answered");
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.expect("it comes whole").to_bytes();
        (code, serde_json::from_slice::<Value>(&bytes).expect("it is JSON"))
    };
    let mut index = 0;
    let refused = loop {
        let (code, answer) = ask("POST", MAPS, &map(index)).await;
        if code != 201 {
            break (code, answer);
        }
        index += 1;
        assert!(index < 10, "it is full at some time");
    };
    assert_eq!((refused.0, &refused.1["reason"]), (507, &json!("InsufficientStorage")));
    assert!(
        refused.1["message"].as_str().is_some_and(|text| text.starts_with("the store is full")),
        "{refused:?}"
    );
    assert_eq!(ask("GET", MAPS, &Value::Null).await.0, 200);
    assert_eq!(ask("DELETE", &format!("{MAPS}/m0"), &Value::Null).await.0, 200);
    assert_eq!(ask("POST", MAPS, &map(index)).await.0, 201);
}
