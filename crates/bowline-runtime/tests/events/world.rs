//! A server in a simulation that can be unavailable or reject requests. Records requests about events.

use std::time::Duration;

use bowline_apiserver::faults::{Faults, RequestFilter, Requests};
use bowline_apiserver::{ApiServer, Verb};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::{Cluster, ClusterBuilder, EventCounts};
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    faults: Faults,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let faults = Faults::new();
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let client = Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            test(Self { clock, client, faults, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn builder(&self) -> ClusterBuilder {
        Cluster::builder(&self.spawner(), self.client.clone())
    }

    /// A started cluster with default options.
    pub(crate) fn cluster(&self) -> Cluster {
        let cluster = self.builder().build().expect("it can be built");
        cluster.start();
        cluster
    }

    /// Begins a rule about writes of events.
    pub(crate) fn writes(&self) -> RequestFilter<Requests> {
        self.faults.writes().resource("events")
    }

    /// Makes the server unavailable: no request about events gets a response.
    pub(crate) fn leave(&self) {
        self.writes().lose_request();
    }

    /// Makes the server available again.
    pub(crate) fn heal(&self) {
        self.faults.remove_all();
    }

    /// Verbs of the writes of events that the server received.
    pub(crate) fn calls(&self) -> Vec<Verb> {
        let requests = self.faults.requests().resource("events").list();
        let verbs = requests.iter().map(|request| request.info.verb);
        verbs.filter(|verb| !matches!(verb, Verb::List | Verb::Get)).collect()
    }

    /// Lets all pending work complete in almost no time.
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

    /// All events in the core group's v1.
    pub(crate) async fn core_events(&self) -> Vec<CoreEvent> {
        let api: Api<CoreEvent> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.expect("listed").items
    }

    /// An object for events.
    pub(crate) async fn map(&self, name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        maps.create(&PostParams::default(), &map).await.expect("created")
    }
}

/// Counters of the events for the API server.
pub(crate) fn counts(cluster: &Cluster) -> EventCounts {
    let all = cluster.events().counts();
    all.into_iter().find(|(sink, _)| sink == "api").expect("there is such a sink").1
}
