//! Watches that are added while a controller starts begin once, whichever is faster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_cache::CacheError;
use bowline_clock::Clock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;

use super::World;
use crate::source::{ChangePipeline, RunningSource, SourceContext, StartSource, SyncBlocker, SyncProgress};
use crate::{Action, Cluster, Context, Controller, Request, Result, Watch, handler};

/// Rounds of the race.
const ROUNDS: usize = 40;

/// Threads that add watches, and how many each adds.
const THREADS: usize = 4;
const WATCHES: usize = 8;

/// A source that counts how often it began.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl StartSource<ConfigMap> for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn begin(
        &self,
        _: ChangePipeline<ConfigMap>,
        _: &SourceContext<'_>,
    ) -> Result<Arc<dyn RunningSource>, CacheError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(Idle))
    }
}

struct Idle;

impl SyncProgress for Idle {
    fn synced(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn waiting_for(&self) -> Vec<SyncBlocker> {
        Vec::new()
    }
}

impl RunningSource for Idle {
    fn stop(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

async fn nothing(_: Context, _: Request) -> Result<Action> {
    Ok(Action::done())
}

fn counting() -> (Counting, Watch<ConfigMap>) {
    let source = Counting::default();
    (source.clone(), Watch::new(source, handler::object()))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the race is one of threads")]
fn a_watch_that_is_added_while_the_controller_starts_begins_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let clock = Clock::real();
        let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
        let scope = clock.scope("test");
        let kube = kube::Client::new(server, "default");
        let cluster = Cluster::new(&scope.spawner(), kube).expect("it can be made");
        for round in 0..ROUNDS {
            let builder = Controller::builder(&cluster).named(format!("c{round}")).watches(counting().1);
            let controller = builder.build(nothing).expect("it can be built");
            let barrier = Barrier::new(THREADS + 1);
            let sources: Vec<_> = std::thread::scope(|threads| {
                let adding = || {
                    barrier.wait();
                    let added = (0..WATCHES).map(|_| {
                        let (source, watch) = counting();
                        controller.watch(watch).expect("it can begin");
                        source
                    });
                    added.collect::<Vec<_>>()
                };
                let adding: Vec<_> = (0..THREADS).map(|_| threads.spawn(adding)).collect();
                barrier.wait();
                controller.start().expect("it does not run");
                adding.into_iter().flat_map(|thread| thread.join().expect("it did not panic")).collect()
            });
            controller.wait_ready().await.expect("it can begin");
            let begun: Vec<_> = sources.iter().map(|source| source.0.load(Ordering::SeqCst)).collect();
            assert_eq!(begun, [1; THREADS * WATCHES], "round {round}");
            let _ = controller.stop().await.expect("it runs");
        }
    });
}

#[test]
fn a_watch_that_is_added_after_the_run_was_aborted_begins_with_the_next() {
    World::run(1, |world| async move {
        let crashed = world.scope.scope("crashed");
        let cluster = Cluster::new(&crashed.spawner(), world.kube.clone()).expect("it can be made");
        let builder = Controller::builder(&cluster).named("c").watches(counting().1);
        let controller = builder.build(nothing).expect("it can be built");
        controller.start().expect("it does not run");
        controller.wait_ready().await.expect("it can begin");
        crashed.abort();
        world.clock.sleep(Duration::from_secs(1)).await;
        assert!(!controller.is_running());
        let (source, watch) = counting();
        let watch = controller.watch(watch).expect("it waits for a start");
        assert_eq!(source.0.load(Ordering::SeqCst), 0, "nothing runs that it could join");
        watch.unregister().await;
    });
}
