//! Writes that compute for long run beside the threads that serve all other requests.

use bowline_apiserver::{ApiServer, Body};
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
