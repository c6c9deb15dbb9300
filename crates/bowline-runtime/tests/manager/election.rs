//! Leadership: one replica is active, behind its fence, with warm caches.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_cache::ObjectKey;
use bowline_runtime::leader_election::{FenceClosed, LeaderElectionConfig};
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
fn one_replica_reconciles_and_the_other_takes_over_with_synced_caches() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        first.controller::<ConfigMap>().register(world.reconciler("first")).unwrap();
        let standby = second.controller::<ConfigMap>().register(world.reconciler("second")).unwrap();
        let first_start = world.start(&first);
        first.wait_ready().await.unwrap();
        let second_start = world.start(&second);
        world.until("the standby has seen all", || standby.is_warm()).await;
        world.create("b").await;
        world.settle().await;
        assert_eq!(world.record.take(), ["first reconciles a", "first reconciles b"]);
        let watches = world.watches("configmaps");
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second.wait_ready().await.unwrap();
        world.settle().await;
        let mut lines = world.record.take();
        lines.sort();
        assert_eq!(lines, ["second reconciles a", "second reconciles b"]);
        assert_eq!(world.watches("configmaps"), watches, "nothing was listed anew");
        second.request_stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn the_lease_has_a_connection_of_its_own_and_nothing_else_uses_it() {
    World::run(1, |world| async move {
        world.create("a").await;
        let faults = Faults::new();
        let host = ApiServer::builder().clock(world.clock.clone()).faults(&faults).build().unwrap();
        let replica = |identity: &str| {
            let election = LeaderElectionConfig::new("default", "operator").identity(identity);
            let builder = world.builder().leader_election(election);
            builder.lease_connection(kube::Client::new(host.clone(), "default")).build().unwrap()
        };
        let (first, second) = (replica("a"), replica("b"));
        first.controller::<ConfigMap>().register(world.reconciler("first")).unwrap();
        second.controller::<ConfigMap>().register(world.reconciler("second")).unwrap();
        let first_start = world.start(&first);
        first.wait_ready().await.unwrap();
        let second_start = world.start(&second);
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(world.record.take(), ["first reconciles a"], "one of them leads");
        let requests = faults.requests();
        assert!(requests.count() > 20, "{}", requests.list());
        assert_eq!(faults.requests().resource("leases").count(), requests.count(), "{}", requests.list());
        assert_eq!(world.faults.requests().resource("leases").count(), 0);
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(world.record.take(), ["second reconciles a"]);
        // The leadership is lost when that connection breaks.
        faults.all().lose_request();
        let ended = second_start.await.unwrap().unwrap_err();
        assert!(ended.is_leadership_lost(), "{ended}");
    });
}

#[test]
fn a_controller_without_warm_up_sends_no_request_before_it_leads() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.wait_elected().await;
        second.controller::<ConfigMap>().warm_up(false).register(world.reconciler("second")).unwrap();
        let second_start = world.start(&second);
        world.clock.sleep(60 * SECOND).await;
        assert_eq!(world.watches("configmaps"), 0);
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(world.record.lines(), ["second reconciles a"]);
        second.request_stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn a_stopped_controller_of_a_standby_stays_stopped() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.wait_elected().await;
        let standby = second.controller::<ConfigMap>().register(world.reconciler("second")).unwrap();
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
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second.wait_elected().await;
        world.settle().await;
        assert_eq!(world.record.lines(), [""; 0]);
        second.request_stop();
        second_start.await.unwrap().unwrap();
    });
}

#[test]
fn work_without_leadership_runs_on_every_replica() {
    World::run(1, |world| async move {
        world.create("a").await;
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.wait_elected().await;
        second
            .controller::<ConfigMap>()
            .needs_leadership(false)
            .register(world.reconciler("second"))
            .unwrap();
        let second_start = world.start(&second);
        world.until("it reconciles", || world.record.has("second reconciles a")).await;
        for (manager, start) in [(first, first_start), (second, second_start)] {
            manager.request_stop();
            start.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_lease_lost_during_a_reconcile_stops_it_and_its_writes() {
    lose_the_lease(|manager, _| manager.cluster().clone());
}

#[test]
fn a_lost_lease_also_fences_the_controllers_of_further_clusters() {
    lose_the_lease(|manager, world| {
        manager
            .add_cluster("further", manager.connect(world.client.clone()).expect("connected"))
            .expect("added")
    });
    // A cluster that the manager did not connect.
    lose_the_lease(|manager, world| {
        let builder = Cluster::builder(&world.scope.spawner(), world.client.clone());
        manager.add_cluster("further", builder).expect("added")
    });
}

#[test]
fn a_reconciler_writes_to_another_cluster_only_while_it_leads() {
    World::run(1, |world| async move {
        world.create("a").await;
        let manager = world.replica("a");
        let builder = Cluster::builder(&world.scope.spawner(), world.client.clone());
        let further = manager.add_cluster("further", builder).expect("added");
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reconcile = |cluster: Cluster| {
            let keep = kept.clone();
            move |ctx: Context, _: Request| {
                keep.lock().expect("nobody panics with it").push(ctx.client_of(&cluster));
                async { Ok::<_, bowline_runtime::Error>(Action::done()) }
            }
        };
        let elected = manager.controller::<ConfigMap>().named("elected");
        elected.register(reconcile(further.clone())).expect("it can be built");
        let start = world.start(&manager);
        manager.wait_ready().await.expect("it starts");
        world.clock.sleep(3 * SECOND).await;
        let client = kept.lock().expect("nobody panics with it").pop().expect("it ran");
        let map = client.live().get::<ConfigMap>(&ObjectKey::new("default", "a")).await.expect("it is there");
        let mut map = ConfigMap::clone(&map);
        map.data = Some([("written".to_owned(), "1".to_owned())].into());
        client.update(&map).await.expect("it leads");
        assert!(format!("{client:?}").contains("\"elected\""), "it owns fields by the controller's name");
        manager.request_stop();
        start.await.expect("it ends").expect("it is well");
        map.metadata.resource_version = None;
        let error = client.update(&map).await.expect_err("it leads no more");
        assert!(is_fenced(&error), "{error}");
        further.client().update(&map).await.expect("this one is not fenced");
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
                // Runs until long after the lease has expired, and ignores its cancellation.
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
        manager.wait_ready().await.expect("it starts");
        world.clock.sleep(3 * SECOND).await;
        // Renewals fail from here on; other writes would pass.
        world.faults.all().resource("leases").fail(failure(500, "InternalError", "no leases today"));
        let error = start.await.expect("it ends").expect_err("the lease is lost");
        assert!(error.is_leadership_lost(), "{error}");
        assert!(error.to_string().contains("leadership lost: default/operator"), "{error}");
        assert!(error.to_string().contains("no leases today"), "{error}");
        let writes = map_writes(&world);
        // A client kept from the reconciler.
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

/// Records the end of a reconcile.
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
    world.faults.requests().verb(Verb::Update).resource("configmaps").count()
}

#[test]
fn a_lease_reassigned_by_hand_ends_the_leader() {
    World::run(1, |world| async move {
        let manager = world.replica("a");
        manager.add(world.noting("elected")).unwrap();
        let start = world.start(&manager);
        manager.wait_elected().await;
        world.settle().await;
        let leases = Api::<Lease>::default_namespaced(world.client.clone());
        let theirs = json!({"spec": {"holderIdentity": "another"}});
        leases.patch("operator", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
        let error = start.await.unwrap().unwrap_err();
        assert!(error.is_leadership_lost(), "{error}");
        assert!(error.to_string().contains("is held by another now"), "{error}");
    });
}

#[test]
fn denied_lease_requests_are_retried() {
    World::run(1, |world| async move {
        world.faults.all().resource("leases").fail(failure(
            403,
            "Forbidden",
            "leases are forbidden in default",
        ));
        let manager = world.replica("a");
        manager.add(world.noting("everywhere").on_every_replica()).unwrap();
        manager.add(world.noting("elected")).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(5)).await;
        assert_eq!(world.record.lines(), ["everywhere begins"]);
        world.faults.remove_all();
        world.until("it leads", || world.record.has("elected begins")).await;
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn invalid_durations_are_refused_at_build() {
    World::run(1, |world| async move {
        let election = LeaderElectionConfig::new("default", "operator").lease_duration(5 * SECOND);
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
fn a_stop_before_the_election_starts_no_term() {
    World::run(1, |world| async move {
        let (first, second) = (world.replica("a"), world.replica("b"));
        let first_start = world.start(&first);
        first.wait_elected().await;
        let clock = world.clock.clone();
        // It ends slowly.
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
        second.request_stop();
        world.settle().await;
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second_start.await.unwrap().unwrap();
        assert_eq!(world.record.lines(), [""; 0]);
    });
}

#[test]
fn term_hooks_are_called_and_the_lease_is_a_liveness_check() {
    World::run(1, |world| async move {
        let record = world.record.clone();
        let (started, stopped) = (record.clone(), record.clone());
        let election = LeaderElectionConfig::new("default", "operator").identity("a");
        let builder = world.builder().leader_election(election);
        let builder = builder.on_started_leading(move || started.add("started"));
        let manager = builder.on_stopped_leading(move || stopped.add("stopped")).build().unwrap();
        assert_eq!(manager.liveness().names(), ["leader-election"]);
        assert_eq!(world.manager().liveness().names(), [""; 0]);
        let start = world.start(&manager);
        manager.wait_elected().await;
        assert_eq!(record.lines(), ["started"]);
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert_eq!(record.lines(), ["started", "stopped"]);
    });
}

#[test]
fn new_leaders_are_told() {
    World::run(1, |world| async move {
        let record = world.record.clone();
        let election = LeaderElectionConfig::new("default", "operator").identity("b");
        let second = world.builder().leader_election(election);
        let second = second.on_new_leader(move |leader| record.add(leader)).build().unwrap();
        let first = world.replica("a");
        let first_start = world.start(&first);
        first.wait_elected().await;
        let second_start = world.start(&second);
        world.clock.sleep(5 * SECOND).await;
        first.request_stop();
        first_start.await.unwrap().unwrap();
        second.wait_elected().await;
        assert_eq!(world.record.lines(), ["a", "b"]);
        second.request_stop();
        second_start.await.unwrap().unwrap();
    });
}

/// Replicas start, stop and lose access to their lease at random: two of them never reconcile at the same time.
#[test]
fn two_replicas_never_act_at_once() {
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
                manager.controller::<ConfigMap>().named("maps").register(reconcile).unwrap();
                let start = world.start(&manager);
                replicas.push((manager, start));
                world.clock.sleep(Duration::from_millis(rng.range(0..20_000))).await;
                match rng.range(0..3) {
                    0 => {
                        // Stops one of them.
                        let (manager, _) =
                            &replicas[usize::try_from(rng.range(0..replicas.len() as u64)).unwrap()];
                        manager.request_stop();
                    }
                    1 => {
                        // Leases cannot be written for a while.
                        world.faults.all().resource("leases").fail(failure(
                            500,
                            "InternalError",
                            "no leases today",
                        ));
                        world.clock.sleep(Duration::from_millis(rng.range(0..15_000))).await;
                        world.faults.remove_all();
                    }
                    _ => {}
                }
            }
            for (manager, start) in replicas {
                manager.request_stop();
                let ended = start.await.unwrap();
                assert!(ended.is_ok() || ended.is_err_and(|error| error.is_leadership_lost()), "seed {seed}");
            }
            assert!(runs.load(Ordering::SeqCst) > 0, "seed {seed}: nothing happened");
            assert_eq!(violations.load(Ordering::SeqCst), 0, "seed {seed}: two replicas acted");
        });
    }
}

/// Counts running reconciles.
struct Inside(Arc<AtomicUsize>);

impl Inside {
    fn enter(acting: &Arc<AtomicUsize>, violations: &AtomicUsize) -> Self {
        // Each replica has one worker, so two running reconciles mean two replicas. A panic in a reconcile would be
        // caught.
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
