//! A managed controller reconciles when permitted, and ends as requested.

use std::io::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::{Clock, Task};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;

use super::{Website, World, map, website};
use crate::controller::RunControl;
use crate::{
    Action, Cluster, Context, Controller, ControllerBuilder, ControllerError, Object, Request, StopReport,
    UnsyncedSource,
};

pub(super) type Ran = Task<Result<StopReport, ControllerError>>;

/// Reconciled objects, in order.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(super) fn all(&self) -> Vec<String> {
        let mut seen = self.0.lock().expect("nobody panics with it").clone();
        seen.sort();
        seen
    }

    /// A controller whose reconciles are done at once.
    pub(super) fn by<K: Object>(&self, builder: ControllerBuilder<K>) -> Controller {
        let seen = self.clone();
        let built = builder.build(move |_: Context, request: Request| {
            seen.0.lock().expect("nobody panics with it").push(request.name().to_owned());
            async { Ok::<_, Error>(Action::done()) }
        });
        built.expect("it can be built")
    }
}

pub(super) fn control() -> RunControl {
    RunControl {
        may_reconcile: CancellationToken::new(),
        stop: CancellationToken::new(),
        abort: CancellationToken::new(),
    }
}

pub(super) async fn cluster(world: &World) -> Cluster {
    let cluster = Cluster::new(&world.scope.spawner(), world.kube.clone()).expect("it can be made");
    cluster.start();
    for name in ["a", "b", "c"] {
        cluster.client().create(&map(name)).await.expect("created");
    }
    cluster
}

pub(super) fn run(world: &World, controller: &Controller, control: &RunControl) -> Ran {
    let (controller, control) = (controller.clone(), control.clone());
    world.scope.spawn("managed", async move { controller.run_managed(control).await })
}

/// A controller whose reconciles never end, and cancel a token when they are cancelled.
fn endless(cluster: &Cluster, cancelled: &CancellationToken) -> Controller {
    let cancelled = cancelled.clone();
    let built = cluster.controller::<ConfigMap>().build(move |context: Context, _: Request| {
        let cancelled = cancelled.clone();
        async move {
            context.cancellation().cancelled().await;
            cancelled.cancel();
            std::future::pending::<Result<Action, Error>>().await
        }
    });
    built.expect("it can be built")
}

/// A running one with a stuck reconcile.
async fn stuck(world: &World, control: &RunControl) -> (Controller, CancellationToken, Ran) {
    let cancelled = CancellationToken::new();
    let controller = endless(&cluster(world).await, &cancelled);
    let ran = run(world, &controller, control);
    control.may_reconcile.cancel();
    world.until("it reconciles", || !controller.reconciling().is_empty()).await;
    (controller, cancelled, ran)
}

#[test]
fn a_controller_that_was_only_just_started_waits_for_its_watches() {
    World::run(9, |world| async move {
        let cluster = cluster(&world).await;
        let controller = Seen::default().by(cluster.controller::<ConfigMap>().owns::<Website>());
        assert_eq!(controller.waiting_for(), []);
        let mut run = std::pin::pin!(controller.run_managed(control()));
        assert!(futures::poll!(run.as_mut()).is_pending());
        let waiting: Vec<_> = controller.waiting_for().iter().map(ToString::to_string).collect();
        assert_eq!(waiting, ["ConfigMap (about to be watched)", "Website (about to be watched)"]);
        let _ = controller.stop_within(Duration::ZERO).await.unwrap();
        assert_eq!(controller.waiting_for(), []);
    });
}

#[test]
fn a_controller_that_may_work_waits_until_it_has_seen_all() {
    World::run(2, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        world.slow_reads(Duration::from_secs(20));
        let controller = seen.by(cluster.controller::<ConfigMap>());
        control.may_reconcile.cancel();
        let _ran = run(&world, &controller, &control);
        world.settle().await;
        controller.trigger(Request::new("default", "a"));
        world.clock.sleep(Duration::from_secs(15)).await;
        assert!(!controller.is_warm() && !controller.is_ready());
        assert_eq!(controller.waiting_for().len(), 1);
        assert!(seen.all().is_empty(), "{:?}", seen.all());
        controller.wait_ready().await.unwrap();
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c"]);
    });
}

#[test]
fn a_missing_kind_is_waited_for_as_long_as_it_takes_and_named() {
    World::run(3, |world| async move {
        let (control, seen) = (control(), Seen::default());
        let cluster = cluster(&world).await;
        let controller = seen.by(cluster.controller::<Website>().owns::<ConfigMap>());
        let strict = cluster.controller::<Website>().named("strict").sync_timeout(Duration::from_mins(3));
        let strict = seen.by(strict);
        control.may_reconcile.cancel();
        let (ran, failed) = (run(&world, &controller, &control), run(&world, &strict, &control));
        world.clock.sleep(Duration::from_hours(24)).await;
        assert!(matches!(failed.await.unwrap(), Err(ControllerError::NotSynced { .. })));
        assert!(controller.is_running() && !controller.is_warm());
        let missing = controller.waiting_for();
        assert_eq!(missing.iter().map(UnsyncedSource::source).collect::<Vec<_>>(), ["Website"]);
        assert!(missing[0].to_string().contains("404"), "{}", missing[0]);

        world.install().await;
        controller.wait_ready().await.unwrap();
        cluster.client().create(&website("blog")).await.unwrap();
        world.until("it is reconciled", || seen.all() == ["blog"]).await;
        control.stop.cancel();
        assert_eq!(ran.await.unwrap(), Ok(StopReport::default()));
    });
}

#[test]
fn a_graceful_stop_is_cut_short() {
    World::run(4, |world| async move {
        let control = control();
        let (controller, cancelled, ran) = stuck(&world, &control).await;
        control.stop.cancel();
        world.clock.sleep(Duration::from_secs(20)).await;
        assert!(cancelled.is_cancelled());
        assert!(controller.is_running(), "it is waited for");
        let before = world.clock.now();
        control.abort.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().duration_since(before), Duration::ZERO);
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert_eq!((stopped.waiting(), stopped.left_behind()), (2, [].as_slice()));
    });
}

#[test]
fn what_runs_is_dropped_at_once_when_it_is_told_so() {
    World::run(5, |world| async move {
        let control = control();
        let (controller, _, ran) = stuck(&world, &control).await;
        let before = world.clock.now();
        control.abort.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().duration_since(before), Duration::ZERO);
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert!(controller.reconciling().is_empty() && stopped.left_behind().is_empty(), "{stopped:?}");
    });
}

#[test]
fn a_stop_waits_for_what_runs_up_to_the_limit_of_the_controller() {
    World::run(6, |world| async move {
        let control = control();
        let (_controller, _, ran) = stuck(&world, &control).await;
        let before = world.clock.now();
        control.stop.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().duration_since(before), Duration::from_secs(30));
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
    });
}

#[test]
fn a_controller_that_never_worked_ends_and_can_run_again() {
    World::run(7, |world| async move {
        let seen = Seen::default();
        let controller = seen.by(cluster(&world).await.controller::<ConfigMap>());
        for end in
            [|control: &RunControl| control.stop.cancel(), |control: &RunControl| control.abort.cancel()]
        {
            let control = control();
            let ran = run(&world, &controller, &control);
            world.until("it is warm", || controller.is_warm()).await;
            let again = controller.run_managed(control.clone()).await.unwrap_err();
            assert_eq!(again, ControllerError::AlreadyRunning { controller: "configmap".to_owned() });
            end(&control);
            assert_eq!(ran.await.unwrap(), Ok(StopReport::default()));
            assert!(seen.all().is_empty());
            assert!(controller.cluster().cache().stats().is_empty(), "its informers end with it");
        }
        let control = control();
        control.may_reconcile.cancel();
        let _ran = run(&world, &controller, &control);
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c"]);
    });
}

#[test]
fn a_controller_that_belongs_to_a_manager_is_started_by_nobody_else() {
    World::run(10, |world| async move {
        let seen = Seen::default();
        let cluster = cluster(&world).await;
        let managed = ControllerError::Managed { controller: "configmap".to_owned() };
        let text = managed.to_string();
        assert!(text.contains("\"configmap\" belongs to a manager, which starts it"), "{text}");
        let controller = seen.by(cluster.controller::<ConfigMap>());
        controller.start().unwrap();
        let running = ControllerError::AlreadyRunning { controller: "configmap".to_owned() };
        assert_eq!(controller.adopt(), Err(running));
        let _ = controller.stop().await.unwrap();
        controller.adopt().unwrap();
        assert_eq!(controller.adopt(), Err(managed.clone()));
        assert_eq!(controller.start(), Err(managed.clone()));

        let control = control();
        let ran = run(&world, &controller, &control);
        world.until("it is warm", || controller.is_warm()).await;
        assert_eq!(controller.adopt(), Err(managed.clone()));
        // A start by hand, which any caller can do.
        assert_eq!(controller.stop().await, Ok(StopReport::default()));
        assert_eq!(ran.await.unwrap(), Ok(StopReport::default()));
        assert_eq!(controller.start(), Err(managed.clone()));
        assert_eq!(controller.run().await, Err(managed.clone()));
        world.settle().await;
        assert!(!controller.is_running() && seen.all().is_empty(), "{:?}", seen.all());

        // It is enough that a manager ran it.
        let other = seen.by(cluster.controller::<ConfigMap>().named("other"));
        let ran = run(&world, &other, &control);
        control.stop.cancel();
        let _ = ran.await.unwrap().unwrap();
        assert!(matches!(other.start(), Err(ControllerError::Managed { .. })));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_block_their_threads_are_all_named_and_the_others_are_not() {
    let clock = Clock::real();
    let server = ApiServer::builder().clock(clock.clone()).build().unwrap();
    let scope = clock.scope("test");
    let cluster = Cluster::new(&scope.spawner(), kube::Client::new(server, "default")).unwrap();
    cluster.start();
    for name in ["blocks", "blocks-later", "waits"] {
        cluster.client().create(&map(name)).await.unwrap();
    }
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let (blocked, inside) = (Arc::new(Mutex::new(blocked)), Seen::default());
    let reconcile = {
        let inside = inside.clone();
        move |_: Context, request: Request| {
            let (blocked, inside) = (blocked.clone(), inside.clone());
            async move {
                if request.name() == "blocks-later" {
                    tokio::task::yield_now().await;
                }
                inside.0.lock().expect("nobody panics with it").push(request.name().to_owned());
                if request.name() == "waits" {
                    std::future::pending::<()>().await;
                }
                // Until the other end is gone: one has it, the other waits for that one.
                let _ = blocked.lock().map(|blocked| blocked.recv());
                Ok::<_, Error>(Action::done())
            }
        }
    };
    let controller = cluster.controller::<ConfigMap>().concurrency(3).build(reconcile).unwrap();
    let control = control();
    control.may_reconcile.cancel();
    let (running, signals) = (controller.clone(), control.clone());
    let ran = scope.spawn("managed", async move { running.run_managed(signals).await });
    // A blocked thread may be the one that drives the timers: keep others awake.
    let until = async |is_so: &dyn Fn() -> bool| {
        let limit = clock.now() + Duration::from_mins(1);
        while !is_so() {
            assert!(clock.now() < limit, "waited for too long");
            scope.spawn("tick", std::future::ready(())).await.unwrap();
        }
    };
    until(&|| inside.all().len() == 3 && controller.reconciling().len() == 2).await;
    control.abort.cancel();
    until(&|| !controller.is_running()).await;
    drop(free);
    let stopped = ran.await.unwrap().unwrap();
    let left = stopped.left_behind();
    assert_eq!(left.len(), 2, "{stopped:?}");
    assert!(left.iter().all(|name| name.contains("/workers/worker ")), "{stopped:?}");
    assert!(stopped.aborted().contains(&Request::new("default", "waits")), "{stopped:?}");
}

#[test]
fn a_controller_that_nobody_waits_for_stops_and_still_does_so_at_once_when_told() {
    World::run(8, |world| async move {
        let cluster = cluster(&world).await;
        let (control, cancelled) = (control(), CancellationToken::new());
        let controller = endless(&cluster, &cancelled);
        control.may_reconcile.cancel();
        let run = controller.run_managed(control.clone());
        world.clock.timeout(Duration::from_secs(1), run).await.unwrap_err();
        world.settle().await;
        assert!(cancelled.is_cancelled());
        assert!(controller.is_running(), "what it reconciles has its time");
        control.abort.cancel();
        world.settle().await;
        assert!(!controller.is_running());
    });
}
