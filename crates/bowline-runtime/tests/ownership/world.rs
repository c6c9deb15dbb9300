//! A server in a simulation, a record of the cluster's writes, and other users who write concurrently.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bowline_apiserver::faults::{Faults, RecordedRequest, Rule};
use bowline_apiserver::{ApiServer, HookFuture, RequestInfo, User, Verb};
use bowline_cache::{ObjectKey, object_key};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::{Client, Cluster};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Resource};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// User of all clients but the cluster.
pub(crate) const OTHERS: &str = "others";

/// Called once, before a write.
type Then = Box<dyn FnOnce() -> HookFuture<'static, ()> + Send>;

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) cluster: Cluster,
    pub(crate) faults: Faults,
    meddling: Mutex<Option<Rule>>,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let faults = Faults::new();
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let server = server.expect("it can be built");
            let scope = clock.scope("test");
            let cluster = Cluster::new(&scope.spawner(), kube::Client::new(server.clone(), "default"));
            let cluster = cluster.expect("it can be built");
            let server = server.map_request(|mut request: http::Request<Body>| {
                request.extensions_mut().insert(User::new(OTHERS, []));
                request
            });
            let kube = kube::Client::new(server, "default");
            cluster.start();
            test(Self { clock, kube, cluster, faults, meddling: Mutex::default(), scope }).await;
        });
    }

    pub(crate) fn client(&self) -> &Client {
        self.cluster.client()
    }

    /// The cluster's writes since the last call.
    pub(crate) fn writes(&self) -> Vec<String> {
        let is_write = |info: &RequestInfo| !matches!(info.verb, Verb::Get | Verb::List | Verb::Watch);
        let writes = self.faults.requests().filter(move |info| is_write(info) && info.user != OTHERS).take();
        let words = writes.iter().map(|RecordedRequest { info, .. }| {
            let subresource = info.subresource.as_deref().map(|it| format!("/{it}")).unwrap_or_default();
            format!("{:?} {}{subresource}", info.verb, info.resource)
        });
        words.collect()
    }

    /// Another user changes a config map before each of the next writes.
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
        self.before_writes(0, meddling);
    }

    /// Watches receive changes from now on an hour later.
    pub(crate) fn delay_watches(&self) {
        self.faults.events().delay(Duration::from_secs(3600));
    }

    /// Runs an action before the next write.
    pub(crate) fn before_next_write<F: Future<Output = ()> + Send + 'static>(
        &self,
        then: impl FnOnce() -> F + Send + 'static,
    ) {
        self.before_write_after(0, then);
    }

    /// Runs an action before the write after `passed` others.
    pub(crate) fn before_write_after<F: Future<Output = ()> + Send + 'static>(
        &self,
        writes: u64,
        then: impl FnOnce() -> F + Send + 'static,
    ) {
        self.before_writes(writes, vec![Box::new(move || Box::pin(then()))]);
    }

    /// Runs one action before each of the next writes, after some have passed.
    fn before_writes(&self, skip: u64, then: Vec<Then>) {
        let then = Mutex::new(VecDeque::from(then));
        let writes = self.faults.writes().filter(|info| info.user != OTHERS).skip(skip);
        let rule = writes.run(move |_| {
            let next = then.lock().expect("nobody panics with it").pop_front();
            async move {
                if let Some(next) = next {
                    next().await;
                }
            }
        });
        if let Some(before) = self.meddling.lock().expect("nobody panics with it").replace(rule) {
            before.remove();
        }
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
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
