//! A server in a simulation whose watches can be late, a cluster that looks at it, and what the server was asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verdict, WatchFrame};
use bowline_cache::ObjectKey;
use bowline_clock::{Clock, Instant, Scope, Simulation, Spawner};
use bowline_runtime::{Client, Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::watch;

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    standing: Standing,
    scope: Scope,
}

/// What stands between the server and those who watch it.
#[derive(Clone)]
struct Standing {
    clock: Clock,
    state: Arc<Mutex<State>>,
    held: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    delay: Duration,
    /// So many events cut the connection instead of coming.
    cuts: usize,
    asked: Vec<Call>,
    before: Option<Decide>,
    committed: Option<Decide>,
}

/// What becomes of a call.
type Decide = Box<dyn FnMut(&Call) -> Verdict + Send>;

impl Standing {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Hook for Standing {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut state = self.lock();
        state.asked.push(call.clone());
        let verdict = state.before.as_mut().map_or(Verdict::Proceed, |decide| decide(call));
        Box::pin(std::future::ready(verdict))
    }

    fn committed<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let verdict = self.lock().committed.as_mut().map_or(Verdict::Proceed, |decide| decide(call));
        Box::pin(std::future::ready(verdict))
    }

    fn frame<'a>(&'a self, _: &'a Call, _: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        let mut state = self.lock();
        let delay = state.delay;
        let is_cut = state.cuts > 0;
        state.cuts = state.cuts.saturating_sub(1);
        drop(state);
        let mut held = self.held.subscribe();
        Box::pin(async move {
            if !delay.is_zero() {
                self.clock.sleep(delay).await;
            }
            held.wait_for(|held| !held).await.expect("it is there");
            if is_cut { FrameVerdict::Disconnect } else { FrameVerdict::Send }
        })
    }
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Self::run_with(1, test);
    }

    /// Runs a test in a simulation with this seed.
    pub(crate) fn run_with<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let standing =
                Standing { clock: clock.clone(), state: Arc::default(), held: watch::Sender::new(false) };
            let server = ApiServer::builder().clock(clock.clone()).hook(standing.clone()).build();
            let kube = kube::Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            test(Self { clock, kube, standing, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// A cluster with options, started.
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

    /// Each event of a watch takes so long from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.standing.lock().delay = delay;
    }

    /// No event of a watch comes from now on.
    pub(crate) fn hold(&self) {
        self.standing.held.send_replace(true);
    }

    /// The next events cut their connections instead of coming.
    pub(crate) fn cut(&self, events: usize) {
        self.standing.lock().cuts = events;
    }

    /// Decides from now on what becomes of calls.
    pub(crate) fn before(&self, decide: impl FnMut(&Call) -> Verdict + Send + 'static) {
        self.standing.lock().before = Some(Box::new(decide));
    }

    /// Decides from now on what becomes of the answers to writes.
    pub(crate) fn committed(&self, decide: impl FnMut(&Call) -> Verdict + Send + 'static) {
        self.standing.lock().committed = Some(Box::new(decide));
    }

    /// Another client, whose writes nobody here knows of.
    pub(crate) fn other(&self) -> Client {
        Client::builder(self.kube.clone()).clock(self.clock.clone()).build()
    }

    /// Events that were held come now.
    pub(crate) fn release(&self) {
        self.standing.held.send_replace(false);
    }

    /// What the server was asked since this was asked last: `get configmaps a`.
    pub(crate) fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut self.standing.lock().asked);
        let words = asked.iter().map(|call| {
            let verb = format!("{:?}", call.verb).to_lowercase();
            let parts = [Some(&verb), Some(&call.resource), call.name.as_ref(), call.subresource.as_ref()];
            parts.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ")
        });
        words.collect()
    }

    /// How long it is since then, in seconds.
    pub(crate) fn since(&self, start: Instant) -> f64 {
        self.clock.now().since(start).as_secs_f64()
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
