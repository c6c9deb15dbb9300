//! Stopping a candidate: before it leads, with a released lease, or with an abandoned one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_clock::{Clock, Simulation};
use bowline_machinery::Status;
use bowline_runtime::leader_election::{LeaderElectionConfig, LeaderElector};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;

use crate::{SECOND, candidate, holder, leave, logged, take_calls, world};

/// Runs a candidate until a time limit. Returns the time it took, if it does not lead.
async fn stand_for(elector: &LeaderElector, clock: &Clock, limit: Duration) -> Option<Duration> {
    let begun = clock.now();
    let leadership = elector.acquire_unless(clock.sleep(limit)).await;
    leadership.is_none().then(|| clock.now().duration_since(begun))
}

/// A candidate, and how often its hooks for start and end of a term were called.
fn counted(elector: LeaderElector) -> (LeaderElector, Arc<AtomicUsize>) {
    let terms = Arc::new(AtomicUsize::new(0));
    let (started, stopped) = (terms.clone(), terms.clone());
    let elector = elector
        .on_started_leading(move || {
            started.fetch_add(1, Ordering::SeqCst);
        })
        .on_stopped_leading(move || {
            stopped.fetch_add(1, Ordering::SeqCst);
        });
    (elector, terms)
}

#[test]
fn a_candidate_that_is_not_stopped_leads() {
    Simulation::new(40).run(|clock| async move {
        let (_, client) = world(&clock);
        let (elector, terms) = counted(candidate(&client, &clock, "a"));
        let leadership = elector.acquire_unless(std::future::pending()).await.unwrap();
        assert!(elector.fence().is_open());
        leadership.release().await;
        assert_eq!(terms.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn a_candidate_stops_at_once_before_and_between_attempts_and_during_a_read() {
    Simulation::new(41).run(|clock| async move {
        let (faults, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        assert!(second.acquire_unless(std::future::ready(())).await.is_none());
        assert!(take_calls(&faults).is_empty(), "there is nothing to ask");
        let _leadership = first.acquire().await;
        assert_eq!(stand_for(&second, &clock, 3 * SECOND).await, Some(3 * SECOND));
        faults.on(Verb::Get).delay(4 * SECOND);
        assert_eq!(stand_for(&second, &clock, 3 * SECOND).await, Some(3 * SECOND));
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
    });
}

#[test]
fn a_candidate_stopped_while_it_takes_the_lease_releases_it_without_a_term() {
    for (seed, before, after) in [(42, 2 * SECOND, Duration::ZERO), (43, Duration::ZERO, 2 * SECOND)] {
        Simulation::new(seed).run(|clock| async move {
            let (faults, client) = world(&clock);
            // Also when the lease of a term that ends would be left.
            let election =
                LeaderElectionConfig::new("default", "operator").identity("a").release_on_stop(false);
            let (first, terms) = counted(election.build(&clock, client.clone()).unwrap());
            faults.on(Verb::Create).delay(before);
            faults.on(Verb::Create).before_response().delay(after);
            assert_eq!(stand_for(&first, &clock, SECOND).await, Some(2 * SECOND));
            assert_eq!(holder(&client).await.as_deref(), Some(""));
            assert!(!first.fence().is_open());
            assert_eq!(terms.load(Ordering::SeqCst), 0);
            let second = candidate(&client, &clock, "b");
            let begun = clock.now();
            let _other = second.acquire().await;
            assert_eq!(clock.now(), begun);
        });
    }
}

#[test]
fn a_lease_taken_without_a_response_is_released_too() {
    // A request takes five seconds, and a pause at least two: stopped in the middle, and in the pause.
    for (seed, limit, took) in [(44, SECOND, 5 * SECOND), (45, 6 * SECOND, 6 * SECOND)] {
        Simulation::new(seed).run(|clock| async move {
            let (faults, client) = world(&clock);
            let (elector, terms) = counted(candidate(&client, &clock, "a"));
            faults.on(Verb::Create).before_response().delay(60 * SECOND);
            assert_eq!(stand_for(&elector, &clock, limit).await, Some(took));
            assert_eq!(take_calls(&faults), ["Get", "Create", "Get", "Update"]);
            assert_eq!(holder(&client).await.as_deref(), Some(""));
            assert_eq!(terms.load(Ordering::SeqCst), 0);
        });
    }
}

#[test]
fn an_abandoned_lease_is_not_written_and_expires() {
    Simulation::new(46).run(|clock| async move {
        let (faults, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let calls: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (hook, fence) = (calls.clone(), first.fence().clone());
        let first = first.on_stopped_leading(move || hook.lock().unwrap().push(fence.is_open()));
        let leadership = first.acquire().await;
        let _before = take_calls(&faults);
        leadership.abandon();
        assert!(!first.fence().is_open());
        assert_eq!(*calls.lock().unwrap(), [false], "called once, with the fence closed");
        let begun = clock.now();
        assert!(take_calls(&faults).is_empty());
        // Not even if it stands again, and is stopped, before or while it renews what it left.
        assert!(first.acquire_unless(std::future::ready(())).await.is_none());
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
        let _other = second.acquire().await;
        assert!(clock.now().duration_since(begun) >= 15 * SECOND);
    });
}

#[test]
fn a_candidate_that_abandoned_its_lease_does_not_release_it_later() {
    Simulation::new(47).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        elector.acquire().await.abandon();
        faults.on(Verb::Update).delay(2 * SECOND);
        assert_eq!(stand_for(&elector, &clock, SECOND).await, Some(2 * SECOND));
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
        assert!(!elector.fence().is_open(), "it does not lead");
    });
}

#[test]
fn a_lease_is_released_when_the_server_returns_in_time() {
    let logged = logged(|| {
        Simulation::new(60).run(|clock| async move {
            let (faults, client) = world(&clock);
            let elector = candidate(&client, &clock, "a");
            let leadership = elector.acquire().await;
            let away = leave(&faults);
            let scope = clock.scope("outage");
            let timer = clock.clone();
            scope.spawn("end", async move {
                timer.sleep(5 * SECOND).await;
                away.remove();
            });
            let begun = clock.now();
            leadership.release().await;
            assert_eq!(clock.now(), begun + 6 * SECOND, "it is tried each retry period");
            assert_eq!(holder(&client).await.as_deref(), Some(""));
        });
    });
    assert_eq!(logged.matches("lease released").count(), 1, "{logged}");
    assert!(!logged.contains(" WARN "), "{logged}");
}

#[test]
fn a_lease_that_cannot_be_released_is_left_at_the_deadline_and_logged_once() {
    // A conflict is followed by one read and one retry at once.
    for (seed, code, calls) in [(61, 500, 5), (62, 409, 15)] {
        let logged = logged(|| {
            Simulation::new(seed).run(|clock| async move {
                let (faults, client) = world(&clock);
                let elector = candidate(&client, &clock, "a");
                let leadership = elector.acquire().await;
                faults.on(Verb::Update).fail(Status::failure(code, "No", "not now"));
                let _before = take_calls(&faults);
                let begun = clock.now();
                leadership.release().await;
                assert_eq!(clock.now(), begun + 10 * SECOND);
                assert_eq!(take_calls(&faults).len(), calls);
            });
        });
        let warnings: Vec<_> = logged.lines().filter(|line| line.contains(" WARN ")).collect();
        assert_eq!(warnings.len(), 1, "{logged}");
        assert!(warnings[0].contains("left to expire") && warnings[0].contains("not now"), "{logged}");
    }
}

#[test]
fn a_deleted_lease_need_not_be_released() {
    Simulation::new(63).run(|clock| async move {
        let (faults, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        api.delete("operator", &DeleteParams::default()).await.unwrap();
        let _before = take_calls(&faults);
        let begun = clock.now();
        leadership.release().await;
        // That it cannot be replaced is a conflict here, as it is with any object that has another uid.
        assert_eq!((clock.now(), take_calls(&faults)), (begun, vec!["Update".to_owned(), "Get".to_owned()]));
        assert!(api.get_opt("operator").await.unwrap().is_none(), "it is not made again");

        let leadership = elector.acquire().await;
        faults.on(Verb::Update).fail(Status::failure(404, "NotFound", "there is no such lease"));
        let _before = take_calls(&faults);
        leadership.release().await;
        assert_eq!((clock.now(), take_calls(&faults)), (begun, vec!["Update".to_owned()]));
    });
}
