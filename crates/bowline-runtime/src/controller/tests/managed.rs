//! A managed controller works when it may, and ends as it is told.

use std::io::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_clock::Task;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio_util::sync::CancellationToken;

use super::{Website, World, map, website};
use crate::controller::Duty;
use crate::{
    Action, Cluster, Context, Controller, ControllerBuilder, ControllerError, Object, Request, Stopped,
    WaitingFor,
};

type Ran = Task<Result<Stopped, ControllerError>>;

/// What a controller reconciled, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn all(&self) -> Vec<String> {
        let mut seen = self.0.lock().expect("nobody panics with it").clone();
        seen.sort();
        seen
    }

    /// A controller that is done at once.
    fn by<K: Object>(&self, builder: ControllerBuilder<K>) -> Controller {
        let seen = self.clone();
        let built = builder.build(move |_: Context, request: Request| {
            seen.0.lock().expect("nobody panics with it").push(request.name().to_owned());
            async { Ok::<_, Error>(Action::done()) }
        });
        built.expect("it can be built")
    }
}

fn duty() -> Duty {
    Duty { go: CancellationToken::new(), stop: CancellationToken::new(), now: CancellationToken::new() }
}

async fn cluster(world: &World) -> Cluster {
    let cluster = Cluster::new(&world.scope.spawner(), world.kube.clone()).expect("it can be made");
    cluster.start();
    for name in ["a", "b", "c"] {
        cluster.client().create(&map(name)).await.expect("created");
    }
    cluster
}

fn run(world: &World, controller: &Controller, duty: &Duty) -> Ran {
    let (controller, duty) = (controller.clone(), duty.clone());
    world.scope.spawn("managed", async move { controller.run_managed(duty).await })
}

/// A controller whose reconciles never end, and cancel this when they are told to.
fn endless(cluster: &Cluster, told: &CancellationToken) -> Controller {
    let told = told.clone();
    let built = cluster.controller::<ConfigMap>().build(move |context: Context, _: Request| {
        let told = told.clone();
        async move {
            context.cancellation().cancelled().await;
            told.cancel();
            std::future::pending::<Result<Action, Error>>().await
        }
    });
    built.expect("it can be built")
}

/// One that works.
async fn stuck(world: &World, duty: &Duty) -> (Controller, CancellationToken, Ran) {
    let told = CancellationToken::new();
    let controller = endless(&cluster(world).await, &told);
    let ran = run(world, &controller, duty);
    duty.go.cancel();
    world.until("it reconciles", || !controller.reconciling().is_empty()).await;
    (controller, told, ran)
}

#[test]
fn a_controller_that_waits_to_work_fills_its_queue_and_reconciles_nothing() {
    World::run(1, |world| async move {
        let (duty, seen) = (duty(), Seen::default());
        let controller = seen.by(cluster(&world).await.controller::<ConfigMap>());
        assert!(controller.needs_leadership() && controller.warms_up());
        let ran = run(&world, &controller, &duty);
        world.until("it is warm", || controller.is_warm()).await;
        controller.trigger(Request::new("default", "d"));
        world.clock.sleep(Duration::from_hours(1)).await;
        assert!(controller.is_running() && !controller.is_ready());
        assert_eq!((controller.waiting_for(), seen.all()), (vec![], vec![]));
        assert_eq!(controller.queue_stats().ready, 4, "those that there are, and the one by hand");
        duty.go.cancel();
        controller.ready().await.unwrap();
        assert!(controller.is_warm());
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c", "d"]);
        duty.stop.cancel();
        assert_eq!(ran.await.unwrap(), Ok(Stopped::default()));
        assert!(!controller.is_warm());
    });
}

#[test]
fn a_controller_that_was_only_just_started_waits_for_its_watches() {
    World::run(9, |world| async move {
        let cluster = cluster(&world).await;
        let controller = Seen::default().by(cluster.controller::<ConfigMap>().owns::<Website>());
        assert_eq!(controller.waiting_for(), []);
        let mut run = std::pin::pin!(controller.run_managed(duty()));
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
        let (duty, seen) = (duty(), Seen::default());
        let cluster = cluster(&world).await;
        world.record.lock().reads_take = Duration::from_secs(20);
        let controller = seen.by(cluster.controller::<ConfigMap>());
        duty.go.cancel();
        let _ran = run(&world, &controller, &duty);
        world.settle().await;
        controller.trigger(Request::new("default", "a"));
        world.clock.sleep(Duration::from_secs(15)).await;
        assert!(!controller.is_warm() && !controller.is_ready());
        assert_eq!(controller.waiting_for().len(), 1);
        assert!(seen.all().is_empty(), "{:?}", seen.all());
        controller.ready().await.unwrap();
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c"]);
    });
}

#[test]
fn a_missing_kind_is_waited_for_as_long_as_it_takes_and_named() {
    World::run(3, |world| async move {
        let (duty, seen) = (duty(), Seen::default());
        let cluster = cluster(&world).await;
        let controller = seen.by(cluster.controller::<Website>().owns::<ConfigMap>());
        let strict = cluster.controller::<Website>().named("strict").sync_timeout(Duration::from_mins(3));
        let strict = seen.by(strict);
        duty.go.cancel();
        let (ran, failed) = (run(&world, &controller, &duty), run(&world, &strict, &duty));
        world.clock.sleep(Duration::from_hours(24)).await;
        assert!(matches!(failed.await.unwrap(), Err(ControllerError::NotSynced { .. })));
        assert!(controller.is_running() && !controller.is_warm());
        let missing = controller.waiting_for();
        assert_eq!(missing.iter().map(WaitingFor::source).collect::<Vec<_>>(), ["Website"]);
        assert!(missing[0].to_string().contains("404"), "{}", missing[0]);

        world.install().await;
        controller.ready().await.unwrap();
        cluster.client().create(&website("blog")).await.unwrap();
        world.until("it is reconciled", || seen.all() == ["blog"]).await;
        duty.stop.cancel();
        assert_eq!(ran.await.unwrap(), Ok(Stopped::default()));
    });
}

#[test]
fn a_graceful_stop_is_cut_short() {
    World::run(4, |world| async move {
        let duty = duty();
        let (controller, told, ran) = stuck(&world, &duty).await;
        duty.stop.cancel();
        world.clock.sleep(Duration::from_secs(20)).await;
        assert!(told.is_cancelled());
        assert!(controller.is_running(), "it is waited for");
        let before = world.clock.now();
        duty.now.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().since(before), Duration::ZERO);
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert_eq!((stopped.waiting(), stopped.left_behind()), (2, [].as_slice()));
    });
}

#[test]
fn what_runs_is_dropped_at_once_when_it_is_told_so() {
    World::run(5, |world| async move {
        let duty = duty();
        let (controller, _, ran) = stuck(&world, &duty).await;
        let before = world.clock.now();
        duty.now.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().since(before), Duration::ZERO);
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
        assert!(controller.reconciling().is_empty() && stopped.left_behind().is_empty(), "{stopped:?}");
    });
}

#[test]
fn a_stop_waits_for_what_runs_up_to_the_limit_of_the_controller() {
    World::run(6, |world| async move {
        let duty = duty();
        let (_controller, _, ran) = stuck(&world, &duty).await;
        let before = world.clock.now();
        duty.stop.cancel();
        let stopped = ran.await.unwrap().unwrap();
        assert_eq!(world.clock.now().since(before), Duration::from_secs(30));
        assert_eq!(stopped.aborted(), [Request::new("default", "a")]);
    });
}

#[test]
fn a_controller_that_never_worked_ends_and_can_run_again() {
    World::run(7, |world| async move {
        let seen = Seen::default();
        let controller = seen.by(cluster(&world).await.controller::<ConfigMap>());
        for end in [|duty: &Duty| duty.stop.cancel(), |duty: &Duty| duty.now.cancel()] {
            let duty = duty();
            let ran = run(&world, &controller, &duty);
            world.until("it is warm", || controller.is_warm()).await;
            let again = controller.run_managed(duty.clone()).await.unwrap_err();
            assert_eq!(again, ControllerError::AlreadyRunning { controller: "configmap".to_owned() });
            end(&duty);
            let stopped = ran.await.unwrap().unwrap();
            assert_eq!(
                (stopped.waiting(), stopped.aborted(), stopped.left_behind()),
                (3, [].as_slice(), [].as_slice())
            );
            assert!(seen.all().is_empty());
        }
        controller.start().unwrap();
        controller.ready().await.unwrap();
        world.settle().await;
        assert_eq!(seen.all(), ["a", "b", "c"]);
    });
}

#[test]
fn a_controller_that_nobody_waits_for_stops_and_still_does_so_at_once_when_told() {
    World::run(8, |world| async move {
        let cluster = cluster(&world).await;
        let (duty, told) = (duty(), CancellationToken::new());
        let controller = endless(&cluster, &told);
        duty.go.cancel();
        let run = controller.run_managed(duty.clone());
        world.clock.timeout(Duration::from_secs(1), run).await.unwrap_err();
        world.settle().await;
        assert!(told.is_cancelled());
        assert!(controller.is_running(), "what it reconciles has its time");
        duty.now.cancel();
        world.settle().await;
        assert!(!controller.is_running());
    });
}
