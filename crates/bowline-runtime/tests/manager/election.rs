//! Who acts: one replica, behind its fence, warmed up before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::ObjectKey;
use bowline_runtime::leader_election::{FenceClosed, LeaderElection};
use bowline_runtime::{
    Action, Client, Cluster, Context, ControllerError, Manager, ManagerError, Request, Runnable,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{SECOND, World, failure};

#[test]
fn one_replica_reconciles_and_the_other_knows_all_when_it_takes_over() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        first.controller::<ConfigMap>().run(world.reconciler("first")).unwrap();
        let standby = second.controller::<ConfigMap>().run(world.reconciler("second")).unwrap();
        let first_start = world.start(&first);
        first.ready().await.unwrap();
        let second_start = world.start(&second);
        world.until("the standby has seen all", || standby.is_warm()).await;
        world.create("b").await;
        world.settle().await;
        assert_eq!(world.record.take(), ["first reconciles a", "first reconciles b"]);
        let watches = world.gate.watches("configmaps");
        first.stop();
        first_start.await.unwrap().unwrap();
        second.ready().await.unwrap();
        world.settle().await;
        let mut lines = world.record.take();
        lines.sort();
        assert_eq!(lines, ["second reconciles a", "second reconciles b"]);
        assert_eq!(world.gate.watches("configmaps"), watches, "nothing was listed anew");
        second.stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn a_controller_that_does_not_warm_up_asks_for_nothing_before_it_leads() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.elected().await;
        second.controller::<ConfigMap>().warm_up(false).run(world.reconciler("second")).unwrap();
        let second_start = world.start(&second);
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(world.gate.watches("configmaps"), 0);
        first.stop();
        first_start.await.unwrap().unwrap();
        second.ready().await.unwrap();
        world.settle().await;
        assert_eq!(world.record.lines(), ["second reconciles a"]);
        second.stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn a_standbys_controller_that_is_stopped_by_hand_stays_so_and_is_nobody_elses() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.elected().await;
        let standby = second.controller::<ConfigMap>().run(world.reconciler("second")).unwrap();
        let is_managed = |error: &ControllerError| matches!(error, ControllerError::Managed { .. });
        let twice = second.add(standby.clone()).unwrap_err();
        assert!(matches!(&twice, ManagerError::Controller(error) if is_managed(error)), "{twice}");
        let second_start = world.start(&second);
        world.until("the standby has seen all", || standby.is_warm()).await;
        world.create("b").await;
        world.settle().await;
        assert_eq!(standby.queue_stats().ready, 0, "nothing is queued that nobody works on");
        let _ = standby.stop().await.unwrap();
        assert!(is_managed(&standby.start().unwrap_err()));
        assert!(is_managed(&standby.run().await.unwrap_err()));
        first.stop();
        first_start.await.unwrap().unwrap();
        second.elected().await;
        world.settle().await;
        assert_eq!(world.record.lines(), [""; 0]);
        second.stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn what_needs_no_leadership_runs_on_every_replica() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.elected().await;
        second.controller::<ConfigMap>().needs_leadership(false).run(world.reconciler("second")).unwrap();
        let second_start = world.start(&second);
        world.until("it reconciles", || world.record.has("second reconciles a")).await;
        for (manager, start) in [(first, first_start), (second, second_start)] {
            manager.stop();
            start.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_lease_that_is_lost_in_the_middle_of_a_reconcile_stops_it_and_no_write_passes() {
    lose_the_lease(|manager, _| manager.cluster().clone());
}

#[test]
fn a_lost_lease_also_fences_the_controllers_of_further_clusters() {
    lose_the_lease(|manager, world| {
        manager
            .add_cluster("further", manager.connect(world.client.clone()).expect("connected"))
            .expect("added")
    });
    // One that the manager did not connect.
    lose_the_lease(|manager, world| {
        let builder = Cluster::builder(&world.scope.spawner(), world.client.clone());
        manager.add_cluster("further", builder).expect("added")
    });
}

fn lose_the_lease(cluster: impl FnOnce(&Manager, &World) -> Cluster) {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.replica("a");
        let cluster = cluster(&manager, &world);
        let record = world.record.clone();
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let reconcile = move |ctx: Context, request: Request| {
            let record = record.clone();
            *keep.lock().expect("nobody panics with it") = Some(ctx.client().clone());
            async move {
                record.add("begins");
                let _dropped = Dropped(record.clone());
                // Until long after the lease is gone, whatever the controller is told.
                loop {
                    ctx.clock().sleep(SECOND).await;
                    let map = ctx.client().get::<ConfigMap>(request.key()).await?;
                    let written = ctx.client().update(&ConfigMap::clone(&map)).await;
                    if let Err(error) = written {
                        record.add(format!("refused: {}", is_fenced(&error)));
                        std::future::pending::<()>().await;
                    }
                }
                #[expect(unreachable_code, reason = "it says what the future returns")]
                Ok::<_, bowline_runtime::Error>(Action::done())
            }
        };
        let controller = cluster.controller::<ConfigMap>().build(reconcile).expect("it can be built");
        manager.add(controller).expect("it is the manager's");
        manager.add(world.noting("other").on_every_replica()).expect("added");
        let start = world.start(&manager);
        manager.ready().await.expect("it starts");
        world.clock.sleep(3 * SECOND).await;
        // Renewals fail from here on; other writes would pass.
        world.gate.decide(|call| match &*call.resource {
            "leases" => failure(500, "InternalError", "no leases today"),
            _ => bowline_apiserver::Verdict::Proceed,
        });
        let error = start.await.expect("it ends").expect_err("the lease is lost");
        assert!(error.is_leadership_lost(), "{error}");
        assert!(error.to_string().contains("leader election lost: default/operator"), "{error}");
        assert!(error.to_string().contains("no leases today"), "{error}");
        let writes = map_writes(&world);
        // Somebody kept what the reconciler wrote with.
        let client: Client = kept.lock().expect("nobody panics with it").take().expect("it ran");
        let map = client.live().get::<ConfigMap>(&ObjectKey::new("default", "a")).await.expect("reads pass");
        let error = client.update(&ConfigMap::clone(&map)).await.expect_err("writes do not");
        assert!(is_fenced(&error), "{error}");
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(map_writes(&world), writes);
        let lines = world.record.lines();
        assert!(lines.contains(&"dropped".to_owned()), "{lines:?}");
        assert!(lines.contains(&"other ends".to_owned()), "{lines:?}");
        assert!(!lines.contains(&"refused: false".to_owned()), "{lines:?}");
    });
}

/// Says when a reconcile is over.
struct Dropped(crate::world::Record);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add("dropped");
    }
}

fn is_fenced(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut source = Some(error);
    while let Some(error) = source {
        if error.is::<FenceClosed>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn map_writes(world: &World) -> usize {
    let calls = world.gate.calls();
    calls.iter().filter(|call| call.resource == "configmaps" && call.verb == Verb::Update).count()
}

#[test]
fn a_lease_that_somebody_else_took_by_hand_ends_the_leader() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        manager.add(world.noting("elected")).unwrap();
        let start = world.start(&manager);
        manager.elected().await;
        world.settle().await;
        let leases = Api::<Lease>::default_namespaced(world.client.clone());
        let theirs = json!({"spec": {"holderIdentity": "somebody"}});
        leases.patch("operator", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
        let error = start.await.unwrap().unwrap_err();
        assert!(error.is_leadership_lost(), "{error}");
        assert!(error.to_string().contains("is held by somebody now"), "{error}");
    });
}

#[test]
fn a_server_that_denies_the_lease_is_asked_again_until_it_does_not() {
    World::run(1, |world| async move {
        world.gate.decide(|call| match &*call.resource {
            "leases" => failure(403, "Forbidden", "leases are forbidden in default"),
            _ => bowline_apiserver::Verdict::Proceed,
        });
        let manager = world.replica("a");
        manager.add(world.noting("everywhere").on_every_replica()).unwrap();
        manager.add(world.noting("elected")).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.record.lines(), ["everywhere begins"]);
        world.gate.heal();
        world.until("it leads", || world.record.has("elected begins")).await;
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn nonsense_durations_are_refused_when_it_is_built() {
    World::run(1, |world| async move {
        let election = LeaderElection::new("default", "operator").lease_duration(5 * SECOND);
        let error = world.builder().leader_election(election).build().unwrap_err();
        assert!(matches!(error, ManagerError::Election(_)));
        let text = error.to_string();
        assert!(
            text.contains("the lease duration (5s) must be longer than the renew deadline (10s)"),
            "{text}"
        );
    });
}

#[test]
fn a_stop_before_the_election_begins_no_term() {
    World::run(1, |world| async move {
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.elected().await;
        let clock = world.clock.clone();
        // It takes long to end.
        second
            .add(
                Runnable::new("slow", move |cancelled| async move {
                    cancelled.cancelled().await;
                    clock.sleep(20 * SECOND).await;
                    Ok::<_, std::io::Error>(())
                })
                .on_every_replica(),
            )
            .unwrap();
        second.add(world.noting("elected")).unwrap();
        let second_start = world.start(&second);
        world.settle().await;
        second.stop();
        world.settle().await;
        first.stop();
        first_start.await.unwrap().unwrap();
        second_start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), [""; 0]);
    });
}

#[test]
fn the_beginning_and_the_end_of_a_term_are_told_and_the_lease_is_a_check_of_liveness() {
    World::run(1, |world| async move {
        let told = world.record.clone();
        let (started, stopped) = (told.clone(), told.clone());
        let election = LeaderElection::new("default", "operator").identity("a");
        let builder = world.builder().leader_election(election);
        let builder = builder.on_started_leading(move || started.add("started"));
        let manager = builder.on_stopped_leading(move || stopped.add("stopped")).build().unwrap();
        assert_eq!(manager.liveness().names(), ["leader-election"]);
        assert_eq!(world.manager().liveness().names(), [""; 0]);
        let start = world.start(&manager);
        manager.elected().await;
        assert_eq!(told.lines(), ["started"]);
        manager.stop();
        start.await.unwrap().unwrap();
        assert_eq!(told.lines(), ["started", "stopped"]);
    });
}

#[test]
fn new_leaders_are_told() {
    World::run(1, |world| async move {
        let record = world.record.clone();
        let election = LeaderElection::new("default", "operator").identity("b");
        let second = world.builder().leader_election(election);
        let second = second.on_new_leader(move |leader| record.add(leader)).build().unwrap();
        let first = world.replica("a");
        let first_start = world.start(&first);
        first.elected().await;
        let second_start = world.start(&second);
        world.clock.sleep(5 * SECOND).await;
        first.stop();
        first_start.await.unwrap().unwrap();
        second.elected().await;
        assert_eq!(world.record.lines(), ["a", "b"]);
        second.stop();
        second_start.await.unwrap().unwrap();
    });
}

/// Replicas that come, go and are cut off from their lease at random: never do two of them reconcile at the same time.
#[test]
fn at_no_time_do_two_replicas_act() {
    for seed in 0..20 {
        World::run(seed, |world| async move {
            let acting = Arc::new(AtomicUsize::new(0));
            let runs = Arc::new(AtomicUsize::new(0));
            let violations = Arc::new(AtomicUsize::new(0));
            for number in 0..5 {
                world.create(&format!("map-{number}")).await;
            }
            let rng = world.clock.rng();
            let mut replicas = Vec::new();
            for round in 0..12 {
                let manager = world.replica(&format!("replica-{round}"));
                let (acting, runs, violations) = (acting.clone(), runs.clone(), violations.clone());
                let reconcile = move |ctx: Context, _: Request| {
                    let (runs, inside) = (runs.clone(), Inside::enter(&acting, &violations));
                    async move {
                        runs.fetch_add(1, Ordering::SeqCst);
                        ctx.clock().sleep(SECOND / 5).await;
                        drop(inside);
                        Ok::<_, std::io::Error>(Action::requeue_after(SECOND))
                    }
                };
                manager.controller::<ConfigMap>().named("maps").run(reconcile).unwrap();
                let start = world.start(&manager);
                replicas.push((manager, start));
                world.clock.sleep(Duration::from_millis(rng.range(0..20_000))).await;
                match rng.range(0..3) {
                    0 => {
                        // One is told to stop.
                        let (manager, _) =
                            &replicas[usize::try_from(rng.range(0..replicas.len() as u64)).unwrap()];
                        manager.stop();
                    }
                    1 => {
                        // Leases cannot be written for a while.
                        world.gate.decide(|call| match &*call.resource {
                            "leases" => failure(500, "InternalError", "no leases today"),
                            _ => bowline_apiserver::Verdict::Proceed,
                        });
                        world.clock.sleep(Duration::from_millis(rng.range(0..15_000))).await;
                        world.gate.heal();
                    }
                    _ => {}
                }
            }
            for (manager, start) in replicas {
                manager.stop();
                let ended = start.await.unwrap();
                assert!(ended.is_ok() || ended.is_err_and(|error| error.is_leadership_lost()), "seed {seed}");
            }
            assert!(runs.load(Ordering::SeqCst) > 0, "seed {seed}: nothing happened");
            assert_eq!(violations.load(Ordering::SeqCst), 0, "seed {seed}: two replicas acted");
        });
    }
}

/// Counts who is inside.
struct Inside(Arc<AtomicUsize>);

impl Inside {
    fn enter(acting: &Arc<AtomicUsize>, violations: &AtomicUsize) -> Self {
        // One worker each: two inside are two replicas. A panic in a reconcile would be caught.
        let others = acting.fetch_add(1, Ordering::SeqCst);
        violations.fetch_add(others, Ordering::SeqCst);
        Self(acting.clone())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
