//! Takeover by another replica: after a crash, and after manual changes of the lease.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_clock::{Clock, Instant, Task};
use bowline_runtime::{Action, Context, Manager, ManagerError, Request, Runnable};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::World;

/// The defaults of an election.
const LEASE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(2);

/// The time of the last event.
#[derive(Clone, Default)]
struct Last(Arc<Mutex<Option<Instant>>>);

impl Last {
    fn note(&self, clock: &Clock) {
        *self.0.lock().expect("nobody panics with it") = Some(clock.now());
    }

    fn get(&self) -> Option<Instant> {
        *self.0.lock().expect("nobody panics with it")
    }
}

#[test]
fn the_other_replica_reconciles_only_after_the_lease_expired() {
    for seed in 0..30 {
        World::run(seed, |world| async move {
            world.create("a").await;
            let written = Last::default();
            let (note, clock) = (written.clone(), world.clock.clone());
            world.faults.on([Verb::Create, Verb::Update]).resource("leases").run(move |_| {
                note.note(&clock);
                std::future::ready(())
            });
            let (first, second) = (world.replica("a"), world.replica("b"));
            first.controller::<ConfigMap>().register(world.reconciler("first")).unwrap();
            let reconciled = Last::default();
            let note = reconciled.clone();
            let reconcile = move |ctx: Context, _: Request| {
                note.note(ctx.clock());
                std::future::ready(Ok::<_, std::io::Error>(Action::done()))
            };
            let standby = second.controller::<ConfigMap>().register(reconcile).unwrap();
            let doomed = world.scope.scope("doomed");
            let manager = first.clone();
            doomed.spawn("start", async move { manager.run().await });
            first.wait_ready().await.unwrap();
            let start = world.start(&second);
            world.until("the other is warm", || standby.is_warm()).await;
            let delay = world.clock.rng().range(0..10_000);
            world.clock.sleep(Duration::from_millis(delay)).await;
            assert!(reconciled.get().is_none(), "seed {seed}: two act");

            // Its future is dropped at an arbitrary point.
            doomed.abort();
            doomed.wait_ended().await;
            let renewed = written.get().unwrap();
            world.until("the other reconciles", || reconciled.get().is_some()).await;
            let took = reconciled.get().unwrap().duration_since(renewed);
            assert!(took >= LEASE, "seed {seed}: after {took:?}");
            // It observed the last renewal up to one pause later, and reads again when the lease has expired: both with
            // a jitter of a fifth.
            assert!(took <= LEASE + RETRY.mul_f64(1.4), "seed {seed}: after {took:?}");
            second.request_stop();
            start.await.unwrap().unwrap();
        });
    }
}

/// Manual changes of a lease, and the replicas that may lead afterwards.
fn deeds() -> [(&'static str, Option<Value>, &'static [&'static str]); 11] {
    let spec = |spec: Value| Some(json!({ "spec": spec }));
    let either = &["a", "b"];
    [
        ("deleted", None, either),
        ("without a spec", Some(json!({ "spec": null })), either),
        ("with an empty holder", spec(json!({ "holderIdentity": "" })), either),
        ("without a holder", spec(json!({ "holderIdentity": null })), either),
        ("given to the other", spec(json!({ "holderIdentity": "b" })), &["b"]),
        ("given to a stranger", spec(json!({ "holderIdentity": "stranger" })), &["b"]),
        ("of a second", spec(json!({ "leaseDurationSeconds": 1 })), either),
        ("of the past", spec(json!({ "renewTime": "1999-12-31T23:59:59.000000Z" })), &["a"]),
        ("of the future", spec(json!({ "renewTime": "2999-12-31T23:59:59.000000Z" })), &["a"]),
        ("with many transitions", spec(json!({ "leaseTransitions": i32::MAX })), &["a"]),
        ("with a label", Some(json!({ "metadata": { "labels": { "mine": "yes" } } })), &["a"]),
    ]
}

#[test]
fn one_replica_leads_after_any_manual_change_of_the_lease() {
    for seed in 0..10 {
        for (deed, change, may_lead) in deeds() {
            World::run(seed, |world| async move {
                let acting = Arc::new(AtomicUsize::new(0));
                let replicas = ["a", "b"].map(|identity| {
                    let manager = world.replica(identity);
                    manager.add(acts(&acting)).unwrap();
                    manager
                });
                let first = world.start(&replicas[0]);
                replicas[0].wait_elected().await;
                let second = world.start(&replicas[1]);
                world.clock.sleep(Duration::from_millis(world.clock.rng().range(0..10_000))).await;
                assert_eq!(leaders(&replicas), ["a"]);
                let leases = Api::<Lease>::default_namespaced(world.client.clone());
                match &change {
                    None => drop(leases.delete("operator", &DeleteParams::default()).await.unwrap()),
                    Some(change) => {
                        let patch = Patch::Merge(change);
                        leases.patch("operator", &PatchParams::default(), &patch).await.unwrap();
                    }
                }
                world.clock.sleep(Duration::from_mins(1)).await;
                let leaders = leaders(&replicas);
                let [leader] = &leaders[..] else { panic!("seed {seed}, {deed}: {leaders:?} lead") };
                assert!(may_lead.contains(&&**leader), "seed {seed}, {deed}: {leader} leads");
                let lease = leases.get("operator").await.unwrap();
                let holder = lease.spec.and_then(|spec| spec.holder_identity);
                assert_eq!(holder.as_ref(), Some(leader), "seed {seed}, {deed}");
                assert_eq!(acting.load(Ordering::SeqCst), 1, "seed {seed}, {deed}: who acts");
                for (manager, start) in replicas.iter().zip([first, second]) {
                    let led_before = manager.elector().unwrap().identity() == "a" && leader != "a";
                    see_its_end(manager, start, led_before).await;
                }
            });
        }
    }
}

/// A leader-only runnable that is counted while it runs, however it ends.
fn acts(acting: &Arc<AtomicUsize>) -> Runnable {
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    let acting = acting.clone();
    Runnable::new("elected", move |cancelled| async move {
        acting.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(acting);
        cancelled.cancelled().await;
        Ok::<_, std::io::Error>(())
    })
}

/// The replicas whose fence lets writes pass.
fn leaders(replicas: &[Manager]) -> Vec<String> {
    let electors = replicas.iter().filter_map(Manager::elector);
    electors.filter(|elector| elector.fence().is_open()).map(|it| it.identity().to_owned()).collect()
}

/// A running replica ends without an error; one that lost its lease has ended with that error.
async fn see_its_end(manager: &Manager, start: Task<Result<(), ManagerError>>, has_lost: bool) {
    manager.request_stop();
    match start.await.expect("it does not panic") {
        Ok(()) => assert!(!has_lost),
        Err(error) => assert!(has_lost && error.is_leadership_lost(), "{error}"),
    }
}
