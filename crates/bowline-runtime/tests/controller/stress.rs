//! Controllers on many threads in real time: watches that are added, removed, stopped and started at the same time, and threads
//! that do not give way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::{Clock, Scope};
use bowline_runtime::handler::Requests;
use bowline_runtime::{
    Action, Change, Cluster, Context, Controller, ControllerError, Error, Request, Watch, handler, source,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// Longer than all of this takes.
const LIMIT: Duration = Duration::from_secs(60);

struct Place {
    clock: Clock,
    client: Client,
    scope: Scope,
    cluster: Cluster,
}

impl Place {
    fn new() -> Self {
        let clock = Clock::real();
        let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
        let client = Client::new(server, "default");
        let scope = clock.scope("test");
        let cluster = Cluster::new(&scope.spawner(), client.clone()).expect("it can be made");
        cluster.start();
        Self { clock, client, scope, cluster }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    async fn create(&self, name: &str) {
        let map = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map");
        self.maps().create(&PostParams::default(), &map).await.expect("created");
    }

    async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let wait = async {
            while !is_so() {
                self.clock.sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(self.clock.timeout(LIMIT, wait).await.is_ok(), "waited for too long until {what}");
    }
}

/// Notes what runs, so that two runs of one object at the same time are seen.
#[derive(Clone, Default)]
struct Running {
    now: Arc<Mutex<BTreeSet<String>>>,
    clashes: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
}

impl Running {
    /// One run; every third fails, and every other waits.
    async fn run(self, name: String) -> Result<Action, Error> {
        struct Leave(Running, String);

        impl Drop for Leave {
            fn drop(&mut self) {
                self.0.now.lock().expect("nobody panics with it").remove(&self.1);
            }
        }

        if !self.now.lock().expect("nobody panics with it").insert(name.clone()) {
            self.clashes.fetch_add(1, Ordering::Relaxed);
        }
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let _leave = Leave(self, name);
        if number.is_multiple_of(2) {
            tokio::task::yield_now().await;
        }
        match number % 3 {
            0 => Err(Error::message("for now")),
            1 => Ok(Action::requeue_after(Duration::from_millis(5))),
            _ => Ok(Action::done()),
        }
    }
}

fn build(place: &Place, running: &Running) -> Controller {
    let running = running.clone();
    let builder = place.cluster.controller::<ConfigMap>().concurrency(4);
    let reconcile = move |_: Context, map: Arc<ConfigMap>| {
        running.clone().run(map.metadata.name.clone().unwrap_or_default())
    };
    builder.build(reconcile).expect("it can be built")
}

/// Adds watches of all sorts and removes them again, but for a few.
async fn watch_and_remove(controller: Controller, clock: Clock, turns: usize) {
    for turn in 0..turns {
        let (sender, channel) = source::channel::<ConfigMap>("channel");
        let function = source::function("function", |mut sink: source::Sink<ConfigMap>| async move {
            loop {
                sink.request(Request::new("default", "map-1"));
                tokio::task::yield_now().await;
            }
        });
        let secrets = controller.watch(Watch::new(source::kind::<Secret>(), handler::object()));
        let channel = controller.watch(Watch::new(channel, handler::object()));
        let function = controller.watch(Watch::new(function, handler::object()));
        let _ = sender.try_send(ConfigMap::default());
        if turn.is_multiple_of(3) {
            clock.sleep(Duration::from_millis(1)).await;
        }
        for watch in [secrets, channel, function] {
            let watch = watch.expect("it can be watched");
            if !turn.is_multiple_of(10) {
                watch.unregister().await;
            }
        }
    }
}

/// Stops and starts, concurrently with others.
async fn stop_and_start(controller: Controller, clock: Clock, turns: usize) {
    for turn in 0..turns {
        let _ = controller.stop().await.expect("it does not end by itself");
        match controller.start() {
            Ok(()) | Err(ControllerError::AlreadyRunning { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        match turn % 3 {
            0 => {}
            1 => clock.sleep(Duration::from_millis(1)).await,
            _ => match controller.wait_ready().await {
                Ok(()) | Err(ControllerError::NotRunning { .. }) => {}
                Err(error) => panic!("{error}"),
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watching_removing_stopping_and_starting_at_the_same_time_leaves_nothing_behind() {
    let place = Place::new();
    for number in 0..10 {
        place.create(&format!("map-{number}")).await;
    }
    let before = place.scope.running();
    let running = Running::default();
    let controller = build(&place, &running);
    controller.start().unwrap();
    controller.wait_ready().await.unwrap();
    let load = place.clock.scope("load");
    let mut tasks = Vec::new();
    for number in 0..2 {
        let (one, clock) = (controller.clone(), place.clock.clone());
        tasks.push(load.spawn(format!("watches {number}"), watch_and_remove(one, clock, 40)));
        let (one, clock) = (controller.clone(), place.clock.clone());
        tasks.push(load.spawn(format!("stops {number}"), stop_and_start(one, clock, 40)));
    }
    let (maps, one) = (place.maps(), controller.clone());
    tasks.push(load.spawn("changes", async move {
        for number in 0..300_usize {
            let patch = Patch::Merge(json!({"data": {"value": number.to_string()}}));
            let name = format!("map-{}", number % 10);
            maps.patch(&name, &PatchParams::default(), &patch).await.expect("patched");
            one.trigger(Request::new("default", &name));
        }
    }));
    for task in tasks {
        place.clock.timeout(LIMIT, task).await.expect("it is done in time").expect("it does not panic");
    }
    // It still works.
    if !controller.is_running() {
        controller.start().unwrap();
    }
    controller.wait_ready().await.unwrap();
    let runs = running.runs.load(Ordering::Relaxed);
    controller.trigger(Request::new("default", "map-3"));
    place.until("it reconciles", || running.runs.load(Ordering::Relaxed) > runs).await;

    let stopped = controller.stop().await.unwrap();
    assert!(stopped.aborted().is_empty() && stopped.left_behind().is_empty(), "{stopped:?}");
    assert!(running.now.lock().unwrap().is_empty());
    assert_eq!(running.clashes.load(Ordering::Relaxed), 0, "no object runs twice at the same time");
    let left = || place.cluster.cache().stats();
    place.until("no informer and no handler is left", || left().is_empty()).await;
    place.until("no task is left", || place.scope.running() <= before).await;
    drop(controller);
    assert!(!place.cluster.metrics().encode().contains("configmap"), "its name is free");
    build(&place, &running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stop_does_not_wait_for_ever_for_a_handler_or_a_reconciler_that_blocks_and_names_them() {
    let place = Place::new();
    let (release, blocked) = mpsc::channel::<()>();
    let (blocked, entered) = (Arc::new(Mutex::new(Some(blocked))), Arc::new(AtomicUsize::new(0)));
    let block = {
        let entered = entered.clone();
        move || {
            let blocked = blocked.lock().expect("nobody panics with it").take();
            entered.fetch_add(1, Ordering::Relaxed);
            if let Some(blocked) = blocked {
                let _ = blocked.recv();
            }
        }
    };
    let handle = {
        let block = block.clone();
        move |_: &Change<'_, ConfigMap>, _: &mut Requests<'_>| block()
    };
    let done = Arc::new(AtomicBool::new(false));
    let (seen, (free, stuck)) = (done.clone(), mpsc::channel::<()>());
    let stuck = Arc::new(Mutex::new(Some(stuck)));
    let controller = Controller::builder(&place.cluster)
        .named("blocking")
        .stop_timeout(Duration::from_millis(100))
        .watches(Watch::new(source::kind::<ConfigMap>(), handle))
        .build(move |_: Context, _: Request| {
            let (stuck, seen) = (stuck.lock().expect("nobody panics with it").take(), seen.clone());
            async move {
                if let Some(stuck) = stuck {
                    seen.store(true, Ordering::Relaxed);
                    let _ = stuck.recv();
                }
                Ok::<_, Error>(Action::done())
            }
        })
        .unwrap();
    controller.start().unwrap();
    controller.wait_ready().await.unwrap();
    controller.trigger(Request::new("default", "a"));
    place.create("a").await;
    place.until("both block", || entered.load(Ordering::Relaxed) > 0 && done.load(Ordering::Relaxed)).await;
    let stopped = place.clock.timeout(LIMIT, controller.stop()).await;
    drop((release, free));
    let stopped = stopped.expect("it ends").unwrap();
    assert_eq!(stopped.left_behind().len(), 2, "{stopped:?}");
    assert_eq!(stopped.left_behind()[0], "ConfigMap");
    assert!(stopped.left_behind()[1].ends_with("/workers/worker 0"), "{stopped:?}");
}
