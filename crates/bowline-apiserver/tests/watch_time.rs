//! How long watches last and when bookmarks come, on simulated time.

use std::time::Duration;

use bowline_apiserver::{ApiServer, Body};
use bowline_clock::{Clock, Simulation};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn create(server: &ApiServer, resource: &str, name: &str) {
    let object = json!({"metadata": {"name": name}}).to_string();
    let request = Request::post(format!("/api/v1/namespaces/default/{resource}"));
    let request = request.header("content-type", "application/json").body(Full::from(object));
    let response = server.handle(request.expect("a request can be made")).await;
    assert!(response.is_ok_and(|response| response.status() == 201));
}

async fn watch(server: &ApiServer, query: &str) -> Body {
    let path = format!("{MAPS}?watch=true&resourceVersion={}&{query}", server.revision());
    let request = Request::get(path).body(Full::default()).expect("a request can be made");
    server.handle(request).await.expect("nobody cuts the connection").into_body()
}

/// All events until the end, with the second in which they came; and the second of the end.
async fn until_the_end(clock: &Clock, mut body: Body) -> (Vec<(u64, Value)>, u64) {
    let start = clock.now();
    let mut events = Vec::new();
    while let Some(frame) = body.frame().await {
        let bytes = frame.expect("it is not cut off").into_data().expect("there are no trailers");
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event = serde_json::from_slice(line).expect("an event is a line of JSON");
            events.push((clock.now().duration_since(start).as_secs(), event));
        }
    }
    (events, clock.now().duration_since(start).as_secs())
}

fn simulate<F: Future<Output = ()>>(world: impl FnOnce(Clock, ApiServer) -> F) {
    Simulation::new(0).run(|clock| {
        let server = ApiServer::builder().clock(clock.clone()).build().expect("a server can be built");
        world(clock, server)
    });
}

#[test]
fn bookmarks_come_every_minute_and_shortly_before_the_end() {
    simulate(async |clock, server| {
        let body = watch(&server, "allowWatchBookmarks=true&timeoutSeconds=200").await;
        let (events, end) = until_the_end(&clock, body).await;
        assert!(events.iter().all(|(_, event)| event["type"] == "BOOKMARK"), "{events:#?}");
        let seconds: Vec<_> = events.iter().map(|(second, _)| *second).collect();
        assert_eq!((seconds, end), (vec![60, 120, 180, 198], 200));
    });
}

#[test]
fn bookmarks_move_along_with_what_happens_elsewhere() {
    simulate(async |clock, server| {
        let body = watch(&server, "allowWatchBookmarks=true&timeoutSeconds=100").await;
        let writes = async {
            clock.sleep(Duration::from_secs(30)).await;
            create(&server, "secrets", "s").await;
        };
        let before = server.revision();
        let ((events, _), ()) = futures::join!(until_the_end(&clock, body), writes);
        assert_eq!(server.revision(), before + 1);
        let revision = events.first().map(|(_, event)| &event["object"]["metadata"]["resourceVersion"]);
        assert_eq!(revision, Some(&json!(server.revision().to_string())));
    });
}

#[test]
fn who_does_not_want_bookmarks_hears_nothing_until_the_end() {
    simulate(async |clock, server| {
        for seconds in [1, 59, 3600, 86_400] {
            let body = watch(&server, &format!("timeoutSeconds={seconds}")).await;
            assert_eq!(until_the_end(&clock, body).await, (Vec::new(), seconds));
        }
    });
}

#[test]
fn a_watch_without_a_time_lasts_between_half_an_hour_and_an_hour() {
    simulate(async |clock, server| {
        let mut ends = Vec::new();
        for _ in 0..20 {
            let body = watch(&server, "").await;
            ends.push(until_the_end(&clock, body).await.1);
        }
        assert!(ends.iter().all(|end| (1800..3600).contains(end)), "{ends:?}");
        ends.sort_unstable();
        ends.dedup();
        assert!(ends.len() > 10, "not all at once: {ends:?}");
    });
}
