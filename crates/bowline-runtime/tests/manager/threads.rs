//! Managers on real threads: blocked threads, and concurrent calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline_clock::Task;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{Action, Cluster, Context, Manager, ManagerError, Request, Runnable, Stage};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use crate::world::{SECOND, World};

/// Timeout of any step; reached only if it hangs.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_blocking_reconcile_is_named_and_the_lease_left_to_expire() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let election = LeaderElectionConfig::new("default", "operator").identity("me");
        let builder = world.builder().leader_election(election).shutdown_timeout(SECOND / 2);
        let manager = builder.build().unwrap();
        let record = world.record.clone();
        let (until, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = std::sync::Mutex::new(blocked);
        let reconcile = move |_: Context, _: Request| {
            record.add("blocks");
            // Blocks like a library call without async, until the test is done.
            let _is_over = blocked.lock().expect("nobody panics with it").recv_timeout(LIMIT);
            std::future::ready(Ok::<_, std::io::Error>(Action::done()))
        };
        manager.controller::<ConfigMap>().named("blocking").register(reconcile).unwrap();
        manager.controller::<Secret>().register(world.reconciler("secrets")).unwrap();
        manager.add(world.noting("polite")).unwrap();
        let start = world.start(&manager);
        world.until("it blocks", || world.record.has("blocks") && world.record.has("polite begins")).await;
        manager.request_stop();
        let error = world.clock.timeout(LIMIT / 2, start).await.expect("it ends").unwrap().unwrap_err();
        let lease = Api::<Lease>::default_namespaced(world.client.clone()).get("operator").await.unwrap();
        assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some("me"), "something still acts");
        drop(until);
        let text = error.to_string();
        assert!(text.starts_with("did not end in time: controller blocking: "), "{text}");
        assert!(text.ends_with("worker 0"), "{text}");
        assert!(world.record.has("polite ends"));
    });
}

/// The time of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// During the start, without a stop.
    Start,
    /// During the start, and one of them stops it.
    StartAndStop,
    /// After all stages have started, and one of them stops it.
    Stop,
}

/// A runnable, and its state.
struct Added {
    /// Whether the manager accepted it.
    is_taken: bool,
    /// Whether its function was called.
    began: Arc<AtomicBool>,
    /// Whether the function and its future are dropped.
    gone: Arc<AtomicBool>,
}

impl Added {
    fn began(&self) -> bool {
        self.began.load(Ordering::SeqCst)
    }

    fn gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

/// Records its drop.
struct Held(Arc<AtomicBool>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The runnables that a thread added.
#[derive(Default)]
struct Called {
    runnables: Vec<Added>,
    clusters: Vec<Cluster>,
}

#[test]
fn calls_from_many_threads_neither_hang_nor_lose_anything() {
    World::run_in_real_time(|world| async move {
        for number in 0..300_u64 {
            let round =
                [Round::Start, Round::StartAndStop, Round::Stop][usize::try_from(number % 3).unwrap()];
            let ended = world.clock.timeout(LIMIT, call_at_once(&world, round)).await;
            assert!(ended.is_ok(), "round {number}, {round:?}, hangs");
        }
    });
}

async fn call_at_once(world: &World, round: Round) {
    let manager = world.manager();
    let early = (round == Round::Stop).then(|| world.start(&manager));
    if early.is_some() {
        manager.wait_ready().await.expect("it starts");
    }
    let threads: Vec<_> = (0..4).map(|thread| call(world, &manager, round, thread)).collect();
    let start = early.unwrap_or_else(|| world.start(&manager));
    let mut all = Called::default();
    for thread in threads {
        let called = thread.await.expect("it does not panic");
        all.runnables.extend(called.runnables);
        all.clusters.extend(called.clusters);
    }
    if round == Round::Start {
        assert!(all.runnables.iter().all(|it| it.is_taken) && all.clusters.len() == 8);
        world.until("everything runs", || all.runnables.iter().all(Added::began)).await;
        let has_listed =
            |cluster: &Cluster| cluster.cache().stats().iter().all(|(_, stats)| stats.lists == 1);
        world.until("everything is listed", || all.clusters.iter().all(has_listed)).await;
        manager.request_stop();
    }
    start.await.expect("it does not panic").expect("it ends well");
    for it in &all.runnables {
        // One whose stage has not started at the stop never runs.
        let has_to = it.is_taken && round != Round::StartAndStop;
        assert!(it.began() || !has_to, "{round:?}: one was taken and has not run");
        assert!(it.is_taken || !it.began(), "{round:?}: one was refused and has run");
        assert!(it.gone() || !it.began(), "{round:?}: one has not ended");
    }
    drop(manager);
    world.until("nothing is kept", || all.runnables.iter().all(Added::gone)).await;
}

/// Calls a manager from its own thread, with a random delay.
fn call(world: &World, manager: &Manager, round: Round, thread: usize) -> Task<Called> {
    let (manager, kube) = (manager.clone(), world.client.clone());
    let (spins, stops_at) = (world.clock.rng().range(0..20_000), world.clock.rng().range(0..10));
    world.scope.spawn_blocking("caller", move || {
        (0..spins).for_each(|_| std::hint::spin_loop());
        let mut called = Called::default();
        for number in 0..10 {
            if number == stops_at && thread == 0 && round != Round::Start {
                manager.request_stop();
            }
            called.runnables.push(add(&manager, thread + usize::try_from(number).expect("it is small")));
            if number % 5 != 0 {
                continue;
            }
            let further = manager.connect(kube.clone()).expect("a client").cached::<ConfigMap>();
            match manager.add_cluster(format!("{thread}-{number}"), further) {
                Ok(cluster) => called.clusters.push(cluster),
                Err(error) => assert!(matches!(error, ManagerError::Stopping { .. }), "{error}"),
            }
        }
        called
    })
}

fn add(manager: &Manager, number: usize) -> Added {
    let stages = [Stage::Server, Stage::Webhook, Stage::Cache, Stage::EveryReplica, Stage::Elected];
    let (began, gone) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (begins, held) = (began.clone(), Held(gone.clone()));
    let runnable = Runnable::new(format!("runnable {number}"), move |cancelled| async move {
        begins.store(true, Ordering::SeqCst);
        cancelled.cancelled().await;
        drop(held);
        Ok::<_, std::io::Error>(())
    });
    let is_taken = manager.add(runnable.in_stage(stages[number % stages.len()])).is_ok();
    Added { is_taken, began, gone }
}
