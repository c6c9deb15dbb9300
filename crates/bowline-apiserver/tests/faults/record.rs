//! The record of requests, and whether rules were used.

use bowline_apiserver::faults::RequestOutcome;
use bowline_apiserver::{BuildError, Verb};

use super::*;

#[test]
fn the_record_has_a_line_for_each_request() {
    World::run(1, async |world| {
        world.create("a").await;
        world.faults.on(Verb::Patch).kind("ConfigMap").delay(SECOND / 2);
        world.faults.on(Verb::Patch).kind("ConfigMap").conflict();
        world.touch("a", "1").await;
        world.faults.on(Verb::Delete).lose_response();
        world.delete("a").await;
        let hold = world.faults.on(Verb::Create).hold();
        assert!(world.clock.timeout(SECOND, world.create("b")).await.is_err());
        let waiting = async {
            hold.wait_held(2).await;
            let pending = world.faults.requests().name("c").list();
            hold.release();
            pending
        };
        let (_, pending) = futures::join!(world.create("c"), waiting);
        assert_eq!(pending[0].outcome, RequestOutcome::Pending);
        let request = Request::get("/version").body(Vec::new()).expect("a request");
        world.client.request_text(request).await.expect("an answer");
        assert_eq!(
            world.faults.requests().list().to_string(),
            "#1 0.000s create configmaps default/a by admin: 201\n\
             #2 0.000s patch configmaps default/a by admin: 409; faults: delay 500ms, conflict\n\
             #3 0.500s delete configmaps default/a by admin: connection cut; faults: cut\n\
             #4 0.500s create configmaps default/b by admin: client left; faults: hold\n\
             #5 1.500s create configmaps default/c by admin: 201; faults: hold\n\
             #6 1.500s get /version by admin: 200\n"
        );
        let codes = |requests: bowline_apiserver::faults::RecordedRequests| {
            requests.iter().map(bowline_apiserver::faults::RecordedRequest::code).collect::<Vec<_>>()
        };
        assert_eq!(codes(world.faults.requests().name("a").list()), [Some(201), Some(409), None]);
        assert_eq!(world.faults.requests().verb(Verb::Create).count(), 3);
        assert_eq!(codes(world.faults.requests().verb(Verb::Create).take()), [Some(201), None, Some(201)]);
        assert_eq!(world.faults.requests().count(), 3, "those that were taken are gone");
    });
}

#[test]
fn the_record_keeps_the_newest_requests() {
    World::run_with(1, Faults::with_max_requests(3), async |world| {
        for name in ["a", "b", "c", "d", "e"] {
            world.get(name).await;
        }
        let names: Vec<_> =
            world.faults.requests().list().into_iter().filter_map(|it| it.info.name).collect();
        assert_eq!(names, ["c", "d", "e"]);
        assert_eq!(world.faults.dropped_requests(), 2);
    });
}

#[test]
fn a_rule_that_was_never_applied_fails_the_test_with_its_place() {
    World::run(1, async |world| {
        let used = world.faults.on(Verb::Get).deny();
        let unused = world.faults.on(Verb::Update).kind("Deployment").name("web").times(2).conflict();
        world.get("a").await;
        used.assert_used();
        let message = |check: &dyn Fn()| {
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).expect_err("it panics");
            panic.downcast_ref::<String>().expect("a text").clone()
        };
        for message in [message(&|| unused.assert_used()), message(&|| world.faults.assert_all_used())] {
            let expected = "a fault was never applied: rule 2: conflict on update kind=Deployment name=web (matched 0, \
                            applied 0), set at crates/bowline-apiserver/tests/faults/record.rs:";
            assert!(message.starts_with(expected), "{message}");
        }
        unused.remove();
        assert!(
            message(&|| world.faults.assert_all_used()).contains("rule 2"),
            "it does not matter that it is gone"
        );
    });
}

#[test]
fn all_rules_can_be_removed_at_once() {
    World::run(1, async |world| {
        world.faults.on(Verb::Get).deny();
        let gate = world.faults.on(Verb::Create).hold();
        let remove = async {
            gate.wait_reached().await;
            world.faults.remove_all();
        };
        assert_eq!(futures::join!(world.create("a"), remove).0, Some(200));
        assert_eq!(world.get("a").await, Some(200));
    });
}

#[test]
fn a_kit_has_one_server() {
    World::run(1, async |world| {
        let second = ApiServer::builder().faults(&world.faults).build();
        assert!(matches!(second, Err(BuildError::FaultsInUse)));
    });
}
