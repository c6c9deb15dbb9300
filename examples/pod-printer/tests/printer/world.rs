//! A simulated server, a controller on it, and its output.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline::cache::SyncError;
use bowline::clock::{Clock, Instant, Scope, Simulation, Spawner, Task};
use bowline_apiserver::faults::{Faults, Gate, RequestFilter, Requests};
use bowline_apiserver::{ApiServer, Verb};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pod_printer::{Controller, Print};
use serde_json::json;
use tokio::sync::watch;

/// Maximum duration of a test, in simulated time.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);

/// Decides whether a line can be printed.
type Decide = Box<dyn FnMut(&str) -> bool + Send>;

/// State that tests read or change.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) controller: Controller,
    pub(crate) paper: Paper,
    faults: Faults,
    log: Log,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
        let log = Log::default();
        let (written, level) = (log.clone(), tracing::Level::INFO);
        let lines = tracing_subscriber::fmt().without_time().with_target(false).with_max_level(level);
        let subscriber = lines.with_writer(move || written.clone()).finish();
        // A simulation is one thread.
        tracing::subscriber::with_default(subscriber, || {
            Simulation::new(1).run(|clock| async move {
                // A wait without end fails the test.
                let ended = clock.timeout(PATIENCE, test(Self::new(clock.clone(), log))).await;
                ended.expect("the test ends");
            });
        });
    }

    fn new(clock: Clock, log: Log) -> Self {
        let faults = Faults::new();
        let server =
            ApiServer::builder().clock(clock.clone()).faults(&faults).build().expect("it can be built");
        let client = Client::new(server, "default");
        let scope = clock.scope("test");
        let paper = Paper::new(clock.clone());
        let controller = Controller::new(&scope.spawner(), client.clone(), "default", paper.printer())
            .expect("one source");
        Self { clock, client, controller, paper, faults, log, scope }
    }

    fn reads(&self) -> RequestFilter<Requests> {
        self.faults.on([Verb::List, Verb::Watch])
    }

    /// Lists and watches wait until the gate is released.
    pub(crate) fn hold_reads(&self) -> Gate {
        self.reads().hold()
    }

    /// Lists and watches are forbidden until [`answer_reads`](Self::answer_reads).
    pub(crate) fn refuse_reads(&self) {
        let message = "pods is forbidden: this is a test";
        self.reads().fail(bowline_machinery::Status::failure(403, "Forbidden", message));
    }

    /// Lists and watches succeed again.
    pub(crate) fn answer_reads(&self) {
        self.faults.remove_all();
    }

    /// Starts the controller. It runs until the sender sends or is dropped.
    pub(crate) fn start(&self) -> (watch::Sender<bool>, Task<Result<(), SyncError>>) {
        let (stop, mut stopped) = watch::channel(false);
        let stopped = async move {
            let _ = stopped.wait_for(|is_over| *is_over).await;
        };
        (stop, self.start_until(1, stopped))
    }

    pub(crate) fn start_until(
        &self,
        workers: usize,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Task<Result<(), SyncError>> {
        let controller = self.controller.clone();
        let workers = NonZeroUsize::new(workers).expect("some");
        self.scope.spawn("controller", async move { controller.run(workers, stop).await })
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create(&self, name: &str) {
        self.pods().create(&PostParams::default(), &pod(name)).await.expect("the server likes it");
    }

    pub(crate) async fn change(&self, name: &str) {
        let version = self.clock.rng().next_u64().to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"version": version}}}));
        self.pods().patch(name, &PatchParams::default(), &patch).await.expect("the server likes it");
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods()
            .delete(name, &DeleteParams::default().grace_period(0))
            .await
            .expect("the server likes it");
    }

    /// Runs until no timer is due soon.
    pub(crate) async fn settle(&self) {
        self.clock.sleep(Duration::from_secs(1)).await;
    }

    /// The log since the last call.
    pub(crate) fn logged(&self) -> String {
        self.log.take()
    }
}

pub(crate) fn pod(name: &str) -> Pod {
    let spec = json!({"containers": [{"name": "main", "image": "image"}]});
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
        .expect("a pod")
}

/// Printed lines of the controller, and its attempts.
#[derive(Clone)]
pub(crate) struct Paper {
    clock: Clock,
    state: Arc<Mutex<PaperState>>,
}

#[derive(Default)]
struct PaperState {
    printed: Vec<String>,
    attempts: Vec<(String, Instant)>,
    decide: Option<Decide>,
}

impl Paper {
    fn new(clock: Clock) -> Self {
        Self { clock, state: Arc::default() }
    }

    pub(crate) fn printer(&self) -> Print {
        let paper = self.clone();
        Arc::new(move |line| paper.print(line))
    }

    fn lock(&self) -> MutexGuard<'_, PaperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn print(&self, line: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.attempts.push((line.to_owned(), self.clock.now()));
        if state.decide.as_mut().is_some_and(|decide| !decide(line)) {
            return Err(io::Error::other("no ink"));
        }
        state.printed.push(line.to_owned());
        Ok(())
    }

    /// Sets the function that decides whether a line can be printed.
    pub(crate) fn prints_if(&self, decide: impl FnMut(&str) -> bool + Send + 'static) {
        self.lock().decide = Some(Box::new(decide));
    }

    /// The lines since the last call.
    pub(crate) fn printed(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().printed)
    }

    /// The times between attempts to print a line, in milliseconds, since the last call.
    pub(crate) fn delays(&self, line: &str) -> Vec<u128> {
        let attempts = std::mem::take(&mut self.lock().attempts);
        let times: Vec<_> = attempts.iter().filter(|(of, _)| of == line).map(|(_, at)| *at).collect();
        times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_millis()).collect()
    }
}

/// The log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).expect("logs are text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
