//! A server in a simulation with a fault kit, managers on it, and a record of what happened in which order.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_clock::{Clock, Scope, Simulation, Task};
use bowline_machinery::Status;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{Action, Context, Manager, ManagerBuilder, ManagerError, Request, Runnable};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Status {
    Status::failure(code, reason, message)
}

/// A server in a simulation.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) record: Record,
    pub(crate) scope: Scope,
}

impl World {
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| test(Self::new(clock)));
    }

    /// The same in real time, for tests with sockets.
    pub(crate) fn run_in_real_time<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async { test(Self::new(Clock::real())).await });
    }

    fn new(clock: Clock) -> Self {
        let faults = Faults::new();
        let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
        let client = Client::new(server.expect("it can be built"), "default");
        let scope = clock.scope("test");
        Self { clock, client, faults, record: Record::default(), scope }
    }

    /// Number of watches of a resource that the server was asked for.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.faults.requests().verb(Verb::Watch).resource(resource).count()
    }

    pub(crate) fn builder(&self) -> ManagerBuilder {
        Manager::builder(&self.scope.spawner(), self.client.clone())
    }

    pub(crate) fn manager(&self) -> Manager {
        self.builder().build().expect("defaults are valid")
    }

    /// One of several replicas.
    pub(crate) fn replica(&self, identity: &str) -> Manager {
        let election = LeaderElectionConfig::new("default", "operator").identity(identity);
        self.builder().leader_election(election).build().expect("defaults are valid")
    }

    /// Runs a manager in the background.
    pub(crate) fn start(&self, manager: &Manager) -> Task<Result<(), ManagerError>> {
        let manager = manager.clone();
        self.scope.spawn("start", async move { manager.run().await })
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create(&self, name: &str) {
        let map = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a config map");
        self.maps().create(&PostParams::default(), &map).await.expect("created");
    }

    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}; so far: {:?}", self.record.lines());
    }

    pub(crate) async fn settle(&self) {
        self.clock.sleep(SECOND / 2).await;
    }

    /// A runnable that records its start and end.
    pub(crate) fn noting(&self, name: &'static str) -> Runnable {
        let record = self.record.clone();
        Runnable::new(name, move |cancelled| async move {
            record.add(format!("{name} begins"));
            cancelled.cancelled().await;
            record.add(format!("{name} ends"));
            Ok::<_, std::io::Error>(())
        })
    }

    /// A leader-only runnable that ends slowly, and records whether its manager leads then.
    pub(crate) fn slow(&self, manager: &Manager, takes: Duration) -> Runnable {
        let (clock, record) = (self.clock.clone(), self.record.clone());
        let fence = manager.elector().expect("there is an election").fence().clone();
        Runnable::new("slow", move |cancelled| async move {
            cancelled.cancelled().await;
            clock.sleep(takes).await;
            record.add(format!("leads at its end: {}", fence.is_open()));
            Ok::<_, std::io::Error>(())
        })
    }

    /// A reconciler that records its objects.
    pub(crate) fn reconciler(
        &self,
        name: &'static str,
    ) -> impl Fn(Context, Request) -> std::future::Ready<bowline_runtime::Result<Action>> + Clone + use<>
    {
        let record = self.record.clone();
        move |_, request| {
            record.add(format!("{name} reconciles {}", request.name()));
            std::future::ready(Ok(Action::done()))
        }
    }
}

/// Events in order.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    pub(crate) fn add(&self, line: impl Into<String>) {
        self.lock().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    pub(crate) fn has(&self, line: &str) -> bool {
        self.lock().iter().any(|is| is == line)
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("nobody panics with it")
    }
}
