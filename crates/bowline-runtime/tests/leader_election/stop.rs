//! Who stops: before it leads, with the lease given up, or with the lease left alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_clock::{Clock, Simulation};
use bowline_machinery::Status;
use bowline_runtime::leader_election::{Elector, LeaderElection};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::DeleteParams;

use crate::{SECOND, candidate, holder, logged, world};

/// Stands for election until so much time has passed. Says how long that took, if it does not lead.
async fn stand_for(elector: &Elector, clock: &Clock, limit: Duration) -> Option<Duration> {
    let begun = clock.now();
    let leadership = elector.acquire_unless(clock.sleep(limit)).await;
    leadership.is_none().then(|| clock.now().since(begun))
}

/// A candidate, and how often it was told that a term began or ended.
fn counted(elector: Elector) -> (Elector, Arc<AtomicUsize>) {
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
fn who_is_not_stopped_leads() {
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
fn who_is_stopped_before_or_between_tries_or_while_it_reads_stops_at_once() {
    Simulation::new(41).run(|clock| async move {
        let (server, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        assert!(second.acquire_unless(std::future::ready(())).await.is_none());
        assert!(server.take_calls().is_empty(), "there is nothing to ask");
        let _leadership = first.acquire().await;
        assert_eq!(stand_for(&second, &clock, 3 * SECOND).await, Some(3 * SECOND));
        server.set_pace(&clock, Verb::Get, 4 * SECOND, Duration::ZERO);
        assert_eq!(stand_for(&second, &clock, 3 * SECOND).await, Some(3 * SECOND));
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
    });
}

#[test]
fn who_is_stopped_while_it_takes_the_lease_gives_it_up_again_and_no_term_began() {
    for (seed, before, after) in [(42, 2 * SECOND, Duration::ZERO), (43, Duration::ZERO, 2 * SECOND)] {
        Simulation::new(seed).run(|clock| async move {
            let (server, client) = world(&clock);
            // Also when the lease of a term that ends would be left.
            let election = LeaderElection::new("default", "operator").identity("a").release_on_stop(false);
            let (first, terms) = counted(election.build(client.clone(), &clock).unwrap());
            server.set_pace(&clock, Verb::Create, before, after);
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
fn a_lease_that_was_taken_without_an_answer_is_given_up_too() {
    // The answer is waited for for five seconds, and a pause is two at least: stopped in the middle, and in the pause.
    for (seed, limit, took) in [(44, SECOND, 5 * SECOND), (45, 6 * SECOND, 6 * SECOND)] {
        Simulation::new(seed).run(|clock| async move {
            let (server, client) = world(&clock);
            let (elector, terms) = counted(candidate(&client, &clock, "a"));
            server.set_pace(&clock, Verb::Create, Duration::ZERO, 60 * SECOND);
            assert_eq!(stand_for(&elector, &clock, limit).await, Some(took));
            assert_eq!(server.take_calls(), ["Get", "Create", "Get", "Update"]);
            assert_eq!(holder(&client).await.as_deref(), Some(""));
            assert_eq!(terms.load(Ordering::SeqCst), 0);
        });
    }
}

#[test]
fn a_lease_that_is_abandoned_is_not_written_and_ends_by_itself() {
    Simulation::new(46).run(|clock| async move {
        let (server, client) = world(&clock);
        let (first, second) = (candidate(&client, &clock, "a"), candidate(&client, &clock, "b"));
        let told: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (hook, fence) = (told.clone(), first.fence().clone());
        let first = first.on_stopped_leading(move || hook.lock().unwrap().push(fence.is_open()));
        let leadership = first.acquire().await;
        server.take_calls();
        leadership.abandon();
        assert!(!first.fence().is_open());
        assert_eq!(*told.lock().unwrap(), [false], "told once, with the fence closed");
        let begun = clock.now();
        assert!(server.take_calls().is_empty());
        // Not even if it stands again, and is stopped, before or while it renews what it left.
        assert!(first.acquire_unless(std::future::ready(())).await.is_none());
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
        let _other = second.acquire().await;
        assert!(clock.now().since(begun) >= 15 * SECOND);
    });
}

#[test]
fn who_stands_again_after_it_abandoned_its_lease_and_is_stopped_does_not_give_it_up() {
    Simulation::new(47).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        elector.acquire().await.abandon();
        server.set_pace(&clock, Verb::Update, 2 * SECOND, Duration::ZERO);
        assert_eq!(stand_for(&elector, &clock, SECOND).await, Some(2 * SECOND));
        assert_eq!(holder(&client).await.as_deref(), Some("a"));
        assert!(!elector.fence().is_open(), "it does not lead");
    });
}

#[test]
fn a_lease_is_given_up_when_the_server_comes_back_in_time() {
    let logged = logged(|| {
        Simulation::new(60).run(|clock| async move {
            let (server, client) = world(&clock);
            let elector = candidate(&client, &clock, "a");
            let leadership = elector.acquire().await;
            server.is_away.store(true, Ordering::SeqCst);
            let scope = clock.scope("outage");
            let (is_away, timer) = (server.is_away.clone(), clock.clone());
            scope.spawn("end", async move {
                timer.sleep(5 * SECOND).await;
                is_away.store(false, Ordering::SeqCst);
            });
            let begun = clock.now();
            leadership.release().await;
            assert_eq!(clock.now(), begun + 6 * SECOND, "it is tried each retry period");
            assert_eq!(holder(&client).await.as_deref(), Some(""));
        });
    });
    assert_eq!(logged.matches("gave the lease up").count(), 1, "{logged}");
    assert!(!logged.contains(" WARN "), "{logged}");
}

#[test]
fn a_lease_that_cannot_be_given_up_is_left_at_the_deadline_which_is_told_once() {
    // A conflict is followed by a look and another try at once, but only by one.
    for (seed, code, calls) in [(61, 500, 5), (62, 409, 15)] {
        let logged = logged(|| {
            Simulation::new(seed).run(|clock| async move {
                let (server, client) = world(&clock);
                let elector = candidate(&client, &clock, "a");
                let leadership = elector.acquire().await;
                *server.refusal.lock().unwrap() = Some(Status::failure(code, "No", "not now"));
                server.take_calls();
                let begun = clock.now();
                leadership.release().await;
                assert_eq!(clock.now(), begun + 10 * SECOND);
                assert_eq!(server.take_calls().len(), calls);
            });
        });
        let warnings: Vec<_> = logged.lines().filter(|line| line.contains(" WARN ")).collect();
        assert_eq!(warnings.len(), 1, "{logged}");
        assert!(warnings[0].contains("it ends by itself") && warnings[0].contains("not now"), "{logged}");
    }
}

#[test]
fn a_lease_that_is_gone_need_not_be_given_up() {
    Simulation::new(63).run(|clock| async move {
        let (server, client) = world(&clock);
        let elector = candidate(&client, &clock, "a");
        let leadership = elector.acquire().await;
        let api: Api<Lease> = Api::namespaced(client.clone(), "default");
        api.delete("operator", &DeleteParams::default()).await.unwrap();
        server.take_calls();
        let begun = clock.now();
        leadership.release().await;
        // That it cannot be replaced is a conflict here, as it is with any object that has another uid.
        assert_eq!((clock.now(), server.take_calls()), (begun, vec!["Update".to_owned(), "Get".to_owned()]));
        assert!(api.get_opt("operator").await.unwrap().is_none(), "it is not made again");

        let leadership = elector.acquire().await;
        *server.refusal.lock().unwrap() = Some(Status::failure(404, "NotFound", "there is no such lease"));
        server.take_calls();
        leadership.release().await;
        assert_eq!((clock.now(), server.take_calls()), (begun, vec!["Update".to_owned()]));
    });
}
