//! Observability of a controller: metrics under their usual names, the history of reconciles, the span.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_runtime::{Action, Cause, ClusterName, Context, Error, ReconcileOutcome, Request, terminal};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{World, line, noting};

/// Names and labels as in controller-runtime and client-go.
const NAMES: [&str; 18] = [
    "controller_runtime_reconcile_total{controller=\"configmap\",result=\"success\"} ",
    "controller_runtime_reconcile_total{controller=\"configmap\",result=\"error\"} ",
    "controller_runtime_reconcile_total{controller=\"configmap\",result=\"requeue\"} ",
    "controller_runtime_reconcile_total{controller=\"configmap\",result=\"requeue_after\"} ",
    "controller_runtime_reconcile_errors_total{controller=\"configmap\"} ",
    "controller_runtime_terminal_reconcile_errors_total{controller=\"configmap\"} ",
    "controller_runtime_reconcile_panics_total{controller=\"configmap\"} ",
    "controller_runtime_reconcile_timeouts_total{controller=\"configmap\"} ",
    "controller_runtime_reconcile_time_seconds_bucket{le=\"0.005\",controller=\"configmap\"} ",
    "controller_runtime_max_concurrent_reconciles{controller=\"configmap\"} ",
    "controller_runtime_active_workers{controller=\"configmap\"} ",
    "workqueue_depth{name=\"configmap\",controller=\"configmap\",priority=\"0\"} ",
    "workqueue_adds_total{name=\"configmap\",controller=\"configmap\"} ",
    "workqueue_retries_total{name=\"configmap\",controller=\"configmap\"} ",
    "workqueue_queue_duration_seconds_count{name=\"configmap\",controller=\"configmap\"} ",
    "workqueue_work_duration_seconds_sum{name=\"configmap\",controller=\"configmap\"} ",
    "workqueue_unfinished_work_seconds{name=\"configmap\",controller=\"configmap\"} ",
    "workqueue_longest_running_processor_seconds{name=\"configmap\",controller=\"configmap\"} ",
];

#[test]
fn metrics_have_the_names_that_dashboards_for_controller_runtime_know() {
    World::run(1, |world| async move {
        let (_controller, _) = noting(&world).await;
        let text = world.cluster.metrics().encode();
        for name in NAMES {
            assert!(text.lines().any(|line| line.starts_with(name)), "there is no {name}in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    });
}

#[test]
fn metrics_count_what_happens() {
    World::run(2, |world| async move {
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(|context: Context, request: Request| async move {
                let is_new = context.attempt() == 1
                    && context.triggers().iter().all(|trigger| trigger.cause() != Cause::Requeued);
                match (request.name(), is_new) {
                    ("fails", true) => return Err(Error::message("not yet")),
                    ("waits", true) => return Ok(Action::requeue_after(Duration::from_secs(1))),
                    ("backs-off", true) => return Ok(Action::back_off()),
                    ("slow", _) => context.clock().sleep(Duration::from_secs(1000)).await,
                    _ => {}
                }
                Ok(Action::done())
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        for name in ["fails", "waits", "backs-off"] {
            world.create(name).await;
        }
        world.clock.sleep(Duration::from_secs(5)).await;
        let results = |result| {
            world.metric(&format!(
                "controller_runtime_reconcile_total{{controller=\"configmap\",result=\"{result}\"}}"
            ))
        };
        let all = ["success", "error", "requeue", "requeue_after"].map(results);
        assert_eq!(all, [3, 1, 1, 1]);
        let queue = |name: &str| {
            world.metric(&format!("workqueue_{name}{{name=\"configmap\",controller=\"configmap\"}}"))
        };
        assert_eq!((queue("adds_total"), queue("retries_total")), (6, 3));
        assert_eq!(queue("work_duration_seconds_count"), 6);
        // A stuck worker is visible while it is stuck.
        world.create("slow").await;
        world.clock.sleep(Duration::from_secs(100)).await;
        let active = "controller_runtime_active_workers{controller=\"configmap\"}";
        assert_eq!(world.metric(active), 1);
        let longest = queue("longest_running_processor_seconds");
        assert!((99..=100).contains(&longest), "{longest}");
    });
}

#[test]
fn the_history_delivers_each_run_as_it_ends() {
    World::run(3, |world| async move {
        let mut runs = world.cluster.history().subscribe();
        let (_controller, _) = noting(&world).await;
        world.create("a").await;
        let run = runs.next().await.unwrap();
        assert_eq!(line(&run), "default/a: done (ConfigMap created)");
        assert_eq!((&*run.controller, run.attempt, &run.outcome), ("configmap", 1, &ReconcileOutcome::Done));
        let text = run.to_string();
        assert_eq!(text, format!("configmap default/a (ConfigMap created), {:.1?}: done", run.took));
        assert!(run.started <= world.clock.system_time());
        assert_eq!(runs.missed(), 0);
    });
}

/// The captured log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines that contain a word.
    fn lines(&self, word: &str) -> Vec<String> {
        let bytes = self.0.lock().expect("nobody panics with it").clone();
        let text = String::from_utf8(bytes).expect("logs are text");
        text.lines().filter(|line| line.contains(word)).map(str::to_owned).collect()
    }
}

impl Log {
    /// A log, and its subscriber.
    fn new() -> (Self, impl tracing::Subscriber + Send + Sync) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, subscriber)
    }
}

#[test]
fn what_a_controller_waits_for_is_logged_again_and_a_stop_that_left_only_what_waits_is_no_warning() {
    let (log, subscriber) = Log::new();
    let _another = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let _guard = tracing::subscriber::set_default(subscriber);
    World::run(5, |world| async move {
        world.forbid("configmaps");
        let later = |_: Context, _: Request| async {
            Ok::<_, Error>(Action::requeue_after(Duration::from_secs(3600)))
        };
        let controller = world.cluster.controller::<ConfigMap>().sync_timeout(Duration::from_mins(5));
        let controller = controller.build(later).unwrap();
        controller.start().unwrap();
        let waits = || log.lines("still waiting for cache sync");
        for (seconds, lines) in [(9, 0), (2, 1), (58, 1), (2, 2), (60, 3)] {
            world.clock.sleep(Duration::from_secs(seconds)).await;
            assert_eq!(waits().len(), lines, "{:?}", waits());
        }
        assert!(waits()[2].contains("configmaps is forbidden"), "{:?}", waits());
        world.heal();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        assert_eq!(controller.stop().await.unwrap().waiting(), 1);
        let stopped = log.lines("stopped controller=");
        assert!(stopped.len() == 1 && stopped[0].contains(" INFO "), "{stopped:?}");
    });
}

#[test]
fn what_a_reconciler_logs_and_its_errors_have_the_keys_of_controller_runtime_and_the_triggers() {
    let (log, subscriber) = Log::new();
    // With only one subscriber, a test on another thread without one could disable a span for all.
    let _another = tracing::Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let _guard = tracing::subscriber::set_default(subscriber);
    World::run(4, |world| async move {
        let ids = Arc::new(Mutex::new(Vec::new()));
        let seen = ids.clone();
        let controller = world
            .cluster
            .controller::<ConfigMap>()
            .build(move |context: Context, _: Request| {
                seen.lock().unwrap().push(context.id().to_string());
                async move {
                    // Lines after an await are in the same span.
                    context.clock().sleep(Duration::from_millis(1)).await;
                    tracing::info!("hello");
                    match context.attempt() {
                        1 => Err(Error::message("for now")),
                        _ => Err(terminal("for good")),
                    }
                }
            })
            .unwrap();
        controller.start().unwrap();
        controller.wait_ready().await.unwrap();
        world.create("a").await;
        world.settle().await;
        let keys = |id: &str, attempt: &str| {
            format!(
                "reconcile{{controllerKind=ConfigMap controllerGroup= controller=configmap namespace=default name=a \
                 reconcileID={id} triggers=ConfigMap created{attempt}}}"
            )
        };
        let ids = ids.lock().unwrap().clone();
        let (hello, failed) = (log.lines("hello"), log.lines("reconcile failed"));
        assert_eq!((ids.len(), hello.len(), failed.len()), (2, 2, 2));
        for (number, (id, attempt)) in ids.iter().zip(["", " attempt=2"]).enumerate() {
            assert!(hello[number].contains(&keys(id, attempt)), "{}", hello[number]);
            assert!(failed[number].contains(&keys(id, attempt)), "{}", failed[number]);
        }
        assert!(failed[0].contains(" WARN ") && failed[0].contains("for now"), "{}", failed[0]);
        assert!(failed[1].contains(" ERROR ") && failed[1].contains("for good"), "{}", failed[1]);
        assert_eq!(log.lines("for now").len(), 1, "an error is logged once");
        controller.trigger(Request::new("default", "b").in_cluster(ClusterName::new("hub")));
        world.settle().await;
        let lines = log.lines("hello");
        assert!(lines[2].contains("name=b cluster=hub reconcileID="), "{}", lines[2]);
    });
}
