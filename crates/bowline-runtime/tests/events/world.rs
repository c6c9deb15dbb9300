//! A server in a simulation that can be away or say no, and what it was asked about events.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, Hook, HookFuture, Verb, Verdict};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::{Cluster, ClusterBuilder, EventCounts};
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

type Decide = Box<dyn FnMut(&Call) -> Verdict + Send>;

/// Sees every request about events.
#[derive(Clone, Default)]
struct Gate {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    calls: Vec<Verb>,
    before: Option<Decide>,
    committed: Option<Decide>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Hook for Gate {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut verdict = Verdict::Proceed;
        if call.resource == "events" && !matches!(call.verb, Verb::List | Verb::Get) {
            let mut state = self.lock();
            state.calls.push(call.verb);
            verdict = state.before.as_mut().map_or(Verdict::Proceed, |decide| decide(call));
        }
        Box::pin(std::future::ready(verdict))
    }

    fn committed<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut verdict = Verdict::Proceed;
        if call.resource == "events" {
            verdict = self.lock().committed.as_mut().map_or(Verdict::Proceed, |decide| decide(call));
        }
        Box::pin(std::future::ready(verdict))
    }
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    gate: Gate,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let gate = Gate::default();
            let server = ApiServer::builder().clock(clock.clone()).hook(gate.clone()).build();
            let client = Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            test(Self { clock, client, gate, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn builder(&self) -> ClusterBuilder {
        Cluster::builder(&self.spawner(), self.client.clone())
    }

    /// A cluster with default options that has been started.
    pub(crate) fn cluster(&self) -> Cluster {
        let cluster = self.builder().build().expect("it can be built");
        cluster.start();
        cluster
    }

    /// From now on this decides about writes of events before they are looked at.
    pub(crate) fn before(&self, decide: impl FnMut(&Call) -> Verdict + Send + 'static) {
        self.gate.lock().before = Some(Box::new(decide));
    }

    /// From now on this decides about writes of events after they are done.
    pub(crate) fn committed(&self, decide: impl FnMut(&Call) -> Verdict + Send + 'static) {
        self.gate.lock().committed = Some(Box::new(decide));
    }

    /// The server is away: no request about events is answered.
    pub(crate) fn leave(&self) {
        self.before(|_| Verdict::Disconnect);
    }

    /// The server is there again.
    pub(crate) fn heal(&self) {
        let mut state = self.gate.lock();
        state.before = None;
        state.committed = None;
    }

    /// The writes of events that the server was asked for.
    pub(crate) fn calls(&self) -> Vec<Verb> {
        self.gate.lock().calls.clone()
    }

    /// Lets all that can happen happen, without time passing to speak of.
    pub(crate) async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// All events, by name.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let api: Api<Event> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.expect("listed").items
    }

    /// All events, as the core group has them.
    pub(crate) async fn core_events(&self) -> Vec<CoreEvent> {
        let api: Api<CoreEvent> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.expect("listed").items
    }

    /// An object to talk about.
    pub(crate) async fn map(&self, name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        maps.create(&PostParams::default(), &map).await.expect("created")
    }
}

/// What became of the events that the API server was to get.
pub(crate) fn counts(cluster: &Cluster) -> EventCounts {
    let all = cluster.events().counts();
    all.into_iter().find(|(sink, _)| sink == "api").expect("there is such a sink").1
}
