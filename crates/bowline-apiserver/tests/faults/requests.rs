//! Faults of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bowline_apiserver::{Verb, Verdict};
use bowline_machinery::{GroupResource, Status};

use super::*;

/// The status of the next create.
async fn refusal(world: &World, name: &str) -> kube::core::Status {
    match world.maps().create(&PostParams::default(), &map(name)).await {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_look_like_those_of_kubernetes_and_nothing_is_done() {
    World::run(1, async |world| {
        let maps = || world.faults.on(Verb::Create).resource("configmaps").times(1);
        maps().deny();
        maps().conflict();
        maps().internal_error();
        maps().fail(Status::already_exists(&GroupResource::new("", "configmaps"), "a"));
        maps().fail(Status::failure(503, "ServiceUnavailable", "the server is away"));
        let mut refusals = Vec::new();
        for _ in 0..5 {
            let status = refusal(&world, "a").await;
            refusals.push(format!("{} {}: {}", status.code, status.reason, status.message));
        }
        assert_eq!(
            refusals,
            [
                "403 Forbidden: configmaps \"a\" is forbidden: User \"admin\" cannot create resource \"configmaps\" in API \
                 group \"\" in the namespace \"default\": denied by a fault rule",
                "409 Conflict: Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply \
                 your changes to the latest version and try again",
                "500 InternalError: Internal error occurred: failed by a fault rule",
                "409 AlreadyExists: configmaps \"a\" already exists",
                "503 ServiceUnavailable: the server is away",
            ]
        );
        assert_eq!(world.names().await, [] as [&str; 0]);
        assert_eq!(world.create("a").await, Some(200), "each rule is used up");
        world.faults.assert_all_used();
    });
}

#[test]
fn a_request_for_no_resource_can_be_denied() {
    World::run(1, async |world| {
        let health = world.faults.on(Verb::Get).filter(|request| request.path == "/healthz").deny();
        let get = async |path: &str| {
            let request = Request::get(path).body(Vec::new()).expect("a request");
            code(world.client.request_text(request).await)
        };
        assert_eq!((get("/healthz").await, get("/livez").await), (Some(403), Some(200)));
        health.assert_used();
    });
}

#[test]
fn too_many_requests_say_when_to_come_back() {
    World::run(1, async |world| {
        world.faults.all().too_many_requests(Duration::from_secs(7));
        let request =
            Request::get("/api/v1/namespaces").body(kube::client::Body::empty()).expect("a request");
        let response = world.client.send(request).await.expect("an answer");
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (429, &"7".parse().unwrap())
        );
        let status = refusal(&world, "a").await;
        assert_eq!(status.details.map(|details| details.retry_after_seconds), Some(7));
    });
}

#[test]
fn delays_add_up_and_a_refusal_may_follow() {
    World::run(1, async |world| {
        world.faults.writes().delay(2 * SECOND);
        let again = world.faults.on(Verb::Create).delay(3 * SECOND);
        assert_eq!((world.create("a").await, world.seconds()), (Some(200), 5));
        again.remove();
        world.faults.writes().conflict();
        assert_eq!((world.create("b").await, world.seconds()), (Some(409), 7));
        world.faults.writes().deny();
        assert_eq!(world.create("b").await, Some(409), "the first rule that ends a request is the last");
        assert_eq!((world.get("a").await, world.seconds()), (Some(200), 9));
    });
}

#[test]
fn held_requests_go_on_when_they_are_released_in_the_order_of_their_arrival() {
    World::run(1, async |world| {
        let gate = world.faults.on(Verb::Create).resource("configmaps").hold();
        let test = async {
            gate.wait_reached().await;
            gate.wait_held(3).await;
            assert_eq!((world.names().await.len(), gate.waiting()), (0, 3));
            assert!(gate.release_one());
            world.clock.sleep(SECOND).await;
            assert_eq!(world.names().await, ["c"], "it came first");
            gate.release();
            world.clock.sleep(SECOND).await;
            assert_eq!(world.names().await, ["a", "b", "c"]);
            assert!(!gate.release_one());
        };
        let ((), c, b, a) = futures::join!(test, world.create("c"), world.create("b"), world.create("a"));
        assert_eq!([a, b, c], [Some(200); 3]);
        assert_eq!(world.create("d").await, Some(200), "the gate is open for good");
        assert_eq!((gate.matched(), gate.applied()), (3, 3));
    });
}

#[test]
fn a_held_request_whose_client_left_is_not_done() {
    World::run(1, async |world| {
        let gate = world.faults.on(Verb::Create).hold();
        assert!(world.clock.timeout(SECOND, world.create("a")).await.is_err());
        assert_eq!(gate.waiting(), 0);
        assert!(!gate.release_one());
        gate.release();
        assert_eq!(world.get("a").await, Some(404));
    });
}

#[test]
fn a_lost_request_is_not_done_and_a_lost_response_is() {
    World::run(1, async |world| {
        let creates = || world.faults.on(Verb::Create).times(1);
        creates().lose_request();
        assert_eq!((world.create("a").await, world.get("a").await), (None, Some(404)));
        creates().lose_response();
        assert_eq!((world.create("a").await, world.get("a").await), (None, Some(200)));
        let read = world.faults.on(Verb::Get).lose_response();
        assert_eq!(world.get("a").await, None);
        read.assert_used();
    });
}

#[test]
fn only_responses_of_writes_that_committed_are_lost() {
    World::run(1, async |world| {
        let lost = world.faults.writes().lose_response();
        assert_eq!(world.delete("a").await, Some(404));
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        assert_eq!(code(world.maps().create(&dry, &map("a")).await), Some(200));
        assert_eq!(lost.matched(), 0);
        assert_eq!(world.create("a").await, None);
        assert_eq!(world.touch("a", "1").await, None);
        assert_eq!(world.touch("a", "1").await, Some(200), "it changes nothing");
        assert_eq!(lost.applied(), 2);
    });
}

#[test]
fn any_fault_can_come_before_the_response() {
    World::run(1, async |world| {
        let creates = || world.faults.on(Verb::Create).before_response();
        let slow = creates().delay(5 * SECOND);
        let seen = async {
            world.clock.sleep(SECOND).await;
            world.get("a").await
        };
        assert_eq!(futures::join!(world.create("a"), seen), (Some(200), Some(200)));
        assert_eq!(world.seconds(), 5);
        slow.remove();
        let failing = creates().internal_error().remove_on_drop();
        assert_eq!((world.create("b").await, world.get("b").await), (Some(500), Some(200)));
        drop(failing);
        let gate = creates().hold();
        let release = async {
            gate.wait_reached().await;
            assert_eq!(world.get("c").await, Some(200));
            gate.release();
        };
        assert_eq!(futures::join!(world.create("c"), release), (Some(200), ()));
    });
}

#[test]
fn a_function_runs_while_the_request_waits() {
    World::run(1, async |world| {
        assert_eq!(world.create("a").await, Some(200));
        let (maps, clock) = (world.maps(), world.clock.clone());
        let meddling = world.faults.on(Verb::Update).times(1).run(move |request| {
            let (maps, clock) = (maps.clone(), clock.clone());
            async move {
                clock.sleep(SECOND).await;
                let patch = Patch::Merge(json!({"data": {"by": "another"}}));
                let name = request.name.expect("it has a name");
                maps.patch(&name, &PatchParams::default(), &patch).await.expect("patched");
            }
        });
        let old = world.maps().get("a").await.expect("it is there");
        let update = world.maps().replace("a", &PostParams::default(), &old).await;
        assert_eq!((code(update), world.seconds()), (Some(409), 1));
        meddling.assert_used();
    });
}

#[test]
fn a_function_may_decide_and_what_it_lets_pass_does_not_count_as_applied() {
    World::run(1, async |world| {
        let calls = Arc::new(AtomicU64::new(0));
        let counted = calls.clone();
        let every_other = world.faults.on(Verb::Create).decide(move |_| {
            let is_odd = counted.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            if is_odd { Verdict::Disconnect } else { Verdict::Proceed }
        });
        let codes = [world.create("a").await, world.create("b").await, world.create("c").await];
        assert_eq!(codes, [Some(200), None, Some(200)]);
        assert_eq!((every_other.matched(), every_other.applied()), (3, 1));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_passes_a_rule_with_times_while_its_function_decides_about_another() {
    let (clock, faults) = (Clock::real(), Faults::new());
    let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build().expect("it can be built");
    let maps = Api::<ConfigMap>::default_namespaced(Client::new(server, "default"));
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let (arrived, mut has_arrived) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel();
    let mut names = Vec::new();
    let creates = faults.on(Verb::Create).filter(move |call| {
        // The function of the rule runs right after this.
        arrived.send(call.name.clone()).is_ok()
    });
    let rule = creates.times(1).decide(move |call| {
        names.push(call.name.clone());
        if names.len() > 1 {
            return Verdict::Disconnect;
        }
        asked.send(()).expect("the test waits");
        released.recv().expect("it is released");
        Verdict::Proceed
    });
    let scope = clock.scope("clients");
    let create = |name: &'static str| {
        let maps = maps.clone();
        scope.spawn(name, async move { code(maps.create(&PostParams::default(), &map(name)).await) })
    };
    let first = create("a");
    is_asked.recv().await.expect("the function is called");
    let second = create("b");
    while has_arrived.recv().await.expect("the second arrives").as_deref() != Some("b") {}
    release.send(()).expect("the function waits");
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Some(200), None));
    assert_eq!((rule.matched(), rule.applied()), (2, 1));
}

#[test]
fn a_continue_token_expires_with_a_token_to_go_on_and_other_lists_do_not() {
    World::run(1, async |world| {
        for name in ["a", "b", "c"] {
            world.create(name).await;
        }
        let expired = world.faults.on(Verb::List).expire();
        let page = world.maps().list(&ListParams::default().limit(2)).await.expect("the first page");
        assert_eq!(expired.matched(), 0);
        let token = page.metadata.continue_.expect("there is more");
        let rest = async |token: &str| {
            let path = format!("/api/v1/namespaces/default/configmaps?limit=2&continue={token}");
            let request = Request::get(path).body(kube::client::Body::empty()).expect("a request");
            let response = world.client.send(request).await.expect("an answer");
            let code = response.status().as_u16();
            let body = response.into_body().collect_bytes().await.expect("all of it");
            (code, serde_json::from_slice::<Value>(&body).expect("JSON"))
        };
        let (code, status) = rest(&token).await;
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
        expired.remove();
        let next = status["metadata"]["continue"].as_str().expect("a token to go on");
        let (code, list) = rest(next).await;
        assert_eq!((code, &list["items"][0]["metadata"]["name"]), (200, &json!("c")));
    });
}

#[test]
fn a_watch_that_begins_expires_with_an_error_event() {
    World::run(1, async |world| {
        let expired = world.faults.on(Verb::Watch).resource("configmaps").times(1).expire();
        let mut watch = world.watch("").await;
        assert_eq!(world.next(&mut watch, SECOND).await, event("ERROR 410"));
        assert_eq!(world.next(&mut watch, SECOND).await, Next::End);
        let mut watch = world.watch("").await;
        assert_eq!(world.next(&mut watch, SECOND).await, Next::Nothing, "the next one stays");
        assert_eq!(expired.applied(), 1);
    });
}
