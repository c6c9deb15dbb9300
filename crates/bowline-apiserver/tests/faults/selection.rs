//! Which requests a rule is about.

use bowline_apiserver::faults::{RecordedRequest, RequestFilter, Requests};
use bowline_apiserver::{User, Verb};
use http_body_util::Full;

use super::*;

/// Five requests: user, user agent, method, path. The creates have the names `a` and `b` in their bodies.
const REQUESTS: [(&str, &str, &str, &str, &str); 5] = [
    ("ann", "one/1", "POST", "/api/v1/namespaces/default/configmaps", "a"),
    ("ben", "one/2", "POST", "/api/v1/namespaces/default/configmaps", "b"),
    ("ann", "two/1", "GET", "/api/v1/namespaces/kube-system/pods/a/status", ""),
    ("ben", "two/2", "GET", "/apis/apps/v1/deployments", ""),
    ("ann", "two/3", "GET", "/version", ""),
];

/// Sends the requests.
async fn send(world: &World) {
    for (user, agent, method, path, name) in REQUESTS {
        let request = Request::builder().method(method).uri(path).header("user-agent", agent);
        let request = request.header("content-type", "application/json").extension(User::new(user, []));
        let body = Full::from(json!({"metadata": {"name": name}}).to_string());
        world.server.handle(request.body(body).expect("a request")).await.expect("it is not cut");
    }
}

/// The numbers of the requests, from 1, that were delayed since the last call.
fn delayed(world: &World) -> Vec<usize> {
    let requests = world.faults.requests().take();
    requests
        .iter()
        .zip(1..)
        .filter(|(request, _)| !request.faults.is_empty())
        .map(|(_, number)| number)
        .collect()
}

#[test]
fn each_condition_selects_its_requests_and_all_must_hold() {
    type Narrow = fn(RequestFilter<Requests>) -> RequestFilter<Requests>;
    let rows: [(&str, Narrow, &[usize]); 16] = [
        ("all", |all| all, &[1, 2, 3, 4, 5]),
        ("verb", |all| all.verb(Verb::Create), &[1, 2]),
        ("verbs", |all| all.verb([Verb::Create, Verb::List]), &[1, 2, 4]),
        ("group", |all| all.group("apps"), &[4]),
        ("resource", |all| all.resource("pods"), &[3]),
        ("kind", |all| all.kind("Deployment"), &[4]),
        ("plural as kind", |all| all.kind("deployments"), &[4]),
        ("subresource", |all| all.subresource("status"), &[3]),
        ("no subresource", |all| all.subresource("").name("a"), &[1]),
        ("namespace", |all| all.namespace("default"), &[1, 2]),
        ("no namespace", |all| all.namespace(""), &[4, 5]),
        ("name", |all| all.name("a"), &[1, 3]),
        ("user", |all| all.user("ben"), &[2, 4]),
        ("user agent", |all| all.user_agent("two/"), &[3, 4, 5]),
        ("function", |all| all.filter(|request| request.path == "/version"), &[5]),
        ("two functions", |all| all.filter(|it| it.user == "ann").filter(|it| it.verb == Verb::Get), &[3, 5]),
    ];
    World::run(1, async |world| {
        for (what, narrow, expected) in rows {
            let rule = narrow(world.faults.all()).delay(Duration::ZERO).remove_on_drop();
            send(&world).await;
            assert_eq!(delayed(&world), expected, "{what}");
            assert_eq!(rule.applied(), expected.len() as u64, "{what}");
        }
    });
}

#[test]
fn some_are_skipped_some_are_hit_and_the_rest_passes() {
    World::run(1, async |world| {
        let rule = world.faults.all().skip(1).times(2).delay(Duration::ZERO);
        send(&world).await;
        assert_eq!(delayed(&world), [2, 3]);
        assert_eq!((rule.matched(), rule.applied()), (5, 2));
    });
}

/// The requests, of a hundred, whose response was lost.
fn lost(world_seed: u64, rule_seed: Option<u64>) -> Vec<u64> {
    let mut lost = Vec::new();
    World::run(world_seed, async |world| {
        let rule = world.faults.all().probability(0.1);
        let rule = match rule_seed {
            Some(seed) => rule.seed(seed).lose_response(),
            None => rule.lose_response(),
        };
        for _ in 0..100 {
            world.get("a").await;
        }
        rule.assert_used();
        let requests = world.faults.requests().list();
        lost = requests
            .iter()
            .filter(|request| !request.faults.is_empty())
            .map(RecordedRequest::number)
            .collect();
    });
    lost
}

#[test]
fn the_same_seed_hits_the_same_requests() {
    let seeded = lost(1, Some(7));
    assert!((3..25).contains(&seeded.len()), "{seeded:?}");
    assert_eq!(seeded, lost(2, Some(7)), "whatever else is random");
    assert_ne!(seeded, lost(1, Some(8)));
    assert_eq!(lost(1, None), lost(1, None), "without one it is the simulation's");
    assert_ne!(lost(1, None), lost(2, None));
}

#[test]
#[should_panic(expected = "a fault that is applied 0 times is none")]
fn zero_times_is_refused() {
    let _ = bowline_apiserver::faults::Faults::new().all().times(0);
}

#[test]
#[should_panic(expected = "a probability is between 0 and 1, and this one is 10")]
fn a_probability_in_percent_is_refused() {
    let _ = bowline_apiserver::faults::Faults::new().all().probability(10.0);
}
