//! A server in a simulation, what it was asked to write, and others who write at the worst moment.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verb, Verdict, WatchFrame};
use bowline_cache::{ObjectKey, object_key};
use bowline_clock::{Clock, Scope, Simulation};
use bowline_runtime::{Client, Cluster};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::{Value, json};

type Then = Box<dyn FnOnce() -> HookFuture<'static, ()> + Send>;

/// Sees every write, and does something before the next one.
#[derive(Clone)]
struct Gate {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    writes: Vec<String>,
    /// Done before the writes that come, the last first.
    meddling: Vec<Then>,
    is_meddling: bool,
    /// Whether watches tell nothing for an hour.
    are_watches_late: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Hook for Gate {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        Box::pin(async move {
            if matches!(call.verb, Verb::Get | Verb::List | Verb::Watch) || self.lock().is_meddling {
                return Verdict::Proceed;
            }
            let then = {
                let mut state = self.lock();
                let subresource = call.subresource.as_deref().map(|it| format!("/{it}")).unwrap_or_default();
                state.writes.push(format!("{:?} {}{subresource}", call.verb, call.resource));
                state.meddling.pop()
            };
            if let Some(then) = then {
                self.lock().is_meddling = true;
                then().await;
                self.lock().is_meddling = false;
            }
            Verdict::Proceed
        })
    }

    fn frame<'a>(&'a self, _call: &'a Call, _frame: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        Box::pin(async move {
            let is_late = self.lock().are_watches_late;
            if is_late {
                self.clock.sleep(Duration::from_secs(3600)).await;
            }
            FrameVerdict::Send
        })
    }
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) cluster: Cluster,
    gate: Gate,
    _scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let gate = Gate { clock: clock.clone(), state: Arc::default() };
            let server = ApiServer::builder().clock(clock.clone()).hook(gate.clone()).build();
            let kube = kube::Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            let cluster = Cluster::new(&scope.spawner(), kube.clone()).expect("it can be built");
            cluster.start();
            test(Self { clock, kube, cluster, gate, _scope: scope }).await;
        });
    }

    pub(crate) fn client(&self) -> &Client {
        self.cluster.client()
    }

    /// The writes that the server was asked for since this was asked last.
    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.gate.lock().writes)
    }

    /// Somebody changes a config map before each of the next writes.
    pub(crate) fn meddle(&self, name: &str, patches: impl IntoIterator<Item = Value>) {
        let mut meddling: Vec<Then> = Vec::new();
        for patch in patches {
            let (maps, name) = (self.maps(), name.to_owned());
            meddling.push(Box::new(move || {
                Box::pin(async move {
                    maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
                })
            }));
        }
        meddling.reverse();
        self.gate.lock().meddling = meddling;
    }

    /// What changes from now on is told to watches an hour later.
    pub(crate) fn delay_watches(&self) {
        self.gate.lock().are_watches_late = true;
    }

    /// Something happens before the next write.
    pub(crate) fn before_next_write<F: Future<Output = ()> + Send + 'static>(
        &self,
        then: impl FnOnce() -> F + Send + 'static,
    ) {
        self.before_write_after(0, then);
    }

    /// Something happens after so many writes, before the next.
    pub(crate) fn before_write_after<F: Future<Output = ()> + Send + 'static>(
        &self,
        writes: usize,
        then: impl FnOnce() -> F + Send + 'static,
    ) {
        let mut meddling: Vec<Then> = vec![Box::new(move || Box::pin(then()))];
        meddling
            .extend((0..writes).map(|_| Box::new(|| Box::pin(async {}) as HookFuture<'static, ()>) as Then));
        self.gate.lock().meddling = meddling;
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.kube.clone(), "default")
    }

    /// Creates a config map with labels and finalizers.
    pub(crate) async fn map(&self, name: &str, metadata: Value) -> ConfigMap {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = name.into();
        let map: ConfigMap = serde_json::from_value(object).expect("a config map");
        let map = self.maps().create(&PostParams::default(), &map).await.expect("created");
        self.writes();
        map
    }
}

pub(crate) fn key(object: &impl Resource) -> ObjectKey {
    object_key(object)
}
