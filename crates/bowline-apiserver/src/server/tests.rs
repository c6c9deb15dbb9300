//! Limits that only the inside of a server shows.

use futures::FutureExt as _;
use http_body_util::Full;

use super::*;

#[tokio::test]
async fn large_writes_beyond_the_number_of_cores_wait() {
    let server = ApiServer::builder().build().expect("it can be built");
    let cores = std::thread::available_parallelism().expect("the system knows it").get();
    let permits = &server.inner.heavy_permits;
    assert_eq!(permits.available_permits(), cores);
    let busy = permits.acquire_many(u32::try_from(cores).expect("it is small")).await.expect("it is open");
    let map = format!(r#"{{"metadata": {{"name": "a"}}, "data": {{"k": "{}"}}}}"#, "v".repeat(LARGE_OBJECT));
    let request =
        Request::post("/api/v1/namespaces/default/configmaps").header("content-type", "application/json");
    let request = request.body(Full::from(map)).expect("it is a request");
    let mut write = Box::pin(server.handle(request));
    assert!(write.as_mut().now_or_never().is_none());
    assert_eq!(server.inner.heavy.running(), 0, "it holds no thread while it waits");
    drop(busy);
    assert_eq!(write.await.expect("it is answered").status(), 201);
    assert_eq!(permits.available_permits(), cores);
}
