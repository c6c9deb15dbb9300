//! A simulated server whose watches can be late, a cluster on it, and a record of its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_apiserver::faults::{Faults, Gate, Rule};
use bowline_apiserver::{ApiServer, Verb};
use bowline_cache::ObjectKey;
use bowline_clock::{Clock, Instant, Scope, Simulation, Spawner};
use bowline_runtime::{Client, Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::client::Body;
use tower::ServiceExt as _;

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) server: ApiServer,
    pub(crate) faults: Faults,
    addresses: Arc<Mutex<Vec<String>>>,
    slow: Mutex<Option<Rule>>,
    held: Mutex<Option<Gate>>,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Self::run_with(1, test);
    }

    /// Runs a test in a simulation with this seed.
    pub(crate) fn run_with<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let (faults, addresses) = (Faults::new(), Arc::<Mutex<Vec<String>>>::default());
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let state = addresses.clone();
            let server = server.expect("it can be built");
            let traced = server.clone().map_request(move |request: http::Request<Body>| {
                let address = request.uri().to_string();
                state.lock().expect("nobody panics with it").push(address);
                request
            });
            let kube = kube::Client::new(traced, "default");
            let scope = clock.scope("test");
            let (slow, held) = (Mutex::default(), Mutex::default());
            test(Self { clock, kube, server, faults, addresses, slow, held, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// A started cluster with options.
    pub(crate) fn cluster(&self, options: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Cluster {
        let builder = Cluster::builder(&self.spawner(), self.kube.clone());
        let cluster = options(builder).build().expect("the options make sense");
        cluster.start();
        cluster
    }

    /// A cluster whose config maps are cached and in sync.
    pub(crate) async fn cached(&self, options: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Cluster {
        let cluster = self.cluster(|builder| options(builder.cached::<ConfigMap>()));
        cluster.client().find::<ConfigMap>(&key("nobody")).await.expect("it is in sync");
        cluster
    }

    /// Delays each watch event by this time from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        let rule = self.faults.events().delay(delay);
        if let Some(before) = self.slow.lock().unwrap_or_else(PoisonError::into_inner).replace(rule) {
            before.remove();
        }
    }

    /// Delays each write by this time before it is stored, and again before its response.
    pub(crate) fn pause(&self, pause: Duration) {
        self.faults.writes().delay(pause);
        self.faults.writes().before_response().delay(pause);
    }

    /// The URLs of the requests since the last call.
    pub(crate) fn addresses(&self) -> Vec<String> {
        std::mem::take(&mut self.addresses.lock().expect("nobody panics with it"))
    }

    /// Holds all watch events from now on.
    pub(crate) fn hold(&self) {
        let gate = self.faults.events().hold();
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    }

    /// The next events cut their connections instead of being sent.
    pub(crate) fn cut(&self, events: u64) {
        self.faults.events().times(events).cut();
    }

    /// Another client, unknown to the cluster under test.
    pub(crate) fn other(&self) -> Client {
        Client::builder(self.kube.clone()).clock(self.clock.clone()).build()
    }

    /// Releases held events.
    pub(crate) fn release(&self) {
        if let Some(gate) = self.held.lock().unwrap_or_else(PoisonError::into_inner).take() {
            gate.release();
        }
    }

    /// The requests since the last call, such as `get configmaps a`. Creates have no name.
    pub(crate) fn asked(&self) -> Vec<String> {
        let words = self.faults.requests().take().into_iter().map(|request| {
            let info = request.info;
            let verb = format!("{:?}", info.verb).to_lowercase();
            let name = info.name.as_ref().filter(|_| info.verb != Verb::Create || info.subresource.is_some());
            let parts = [Some(&verb), Some(&info.resource), name, info.subresource.as_ref()];
            parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
        });
        words.collect()
    }

    /// Elapsed seconds.
    pub(crate) fn since(&self, start: Instant) -> f64 {
        self.clock.now().duration_since(start).as_secs_f64()
    }
}

/// The key of an object in the namespace `default`.
pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}

pub(crate) fn labelled(name: &str, label: &str) -> ConfigMap {
    let mut map = map(name, "1");
    map.metadata.labels = Some(BTreeMap::from([("app".to_owned(), label.to_owned())]));
    map
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}
