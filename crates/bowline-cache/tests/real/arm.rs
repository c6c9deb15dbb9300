//! A server, a namespace of the test, and helpers.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_cache::{
    CacheOptions, Event, HandlerOptions, InformerCache, Kind, Namespaces, Registration, SelectionSettings,
    Selectors, SharedInformer, object_key,
};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::ConfigExt as _;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::traffic::Traffic;

/// Environment variable with the kubeconfig of a real kube-apiserver.
const REAL: &str = "BOWLINE_REAL_KUBECONFIG";

/// Limit for any wait. No wait takes as long on either arm unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The tested arm, with a fresh namespace.
pub(crate) struct Arm {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) traffic: Traffic,
    pub(crate) namespace: String,
    scope: Scope,
}

impl Arm {
    /// Runs a test on the arm: in real time on a real server if there is one, otherwise on simulated time on the
    /// embedded one.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        let Some(kubeconfig) = std::env::var_os(REAL) else {
            Simulation::new(1).run(|clock| async move {
                let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
                let traffic = Traffic::default();
                let client = traffic.client(server);
                test(Self::new(clock, client, traffic).await).await;
            });
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
            let traffic = Traffic::default();
            let client = real_client(kubeconfig, &traffic).await;
            test(Self::new(Clock::real(), client, traffic).await).await;
        });
    }

    async fn new(clock: Clock, client: Client, traffic: Traffic) -> Self {
        let scope = clock.scope("test");
        let namespace = make_namespace(&client).await;
        Self { clock, client, traffic, namespace, scope }
    }

    pub(crate) fn is_real() -> bool {
        std::env::var_os(REAL).is_some()
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// Creates a further namespace.
    pub(crate) async fn another_namespace(&self) -> String {
        make_namespace(&self.client).await
    }

    /// A cache with options, not started.
    pub(crate) fn cache_with(&self, options: CacheOptions) -> InformerCache {
        InformerCache::new(&self.spawner(), self.client.clone(), options)
    }

    /// A cache of the namespace, not started.
    pub(crate) fn cache(&self) -> InformerCache {
        self.cache_with(self.options())
    }

    /// Options with only this namespace.
    pub(crate) fn options(&self) -> CacheOptions {
        CacheOptions::new().namespaces([(self.namespace.as_str(), SelectionSettings::new())])
    }

    /// The namespace, for a source of an informer.
    pub(crate) fn here(&self) -> Namespaces {
        Namespaces::One(self.namespace.clone())
    }

    /// An informer of the namespace's config maps, not started.
    pub(crate) fn informer(&self) -> SharedInformer<ConfigMap> {
        SharedInformer::builder(&self.spawner(), Kind::typed())
            .selected(self.client.clone(), self.here(), Selectors::default())
            .build()
            .expect("one source")
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        self.maps_in(&self.namespace)
    }

    pub(crate) fn maps_in(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates a config map.
    pub(crate) async fn create(&self, name: &str, value: &str) -> ConfigMap {
        self.create_in(&self.namespace, name, value).await
    }

    pub(crate) async fn create_in(&self, namespace: &str, name: &str, value: &str) -> ConfigMap {
        self.maps_in(namespace).create(&PostParams::default(), &map(name, value)).await.expect("created")
    }

    /// Creates a config map with labels.
    pub(crate) async fn create_labelled(&self, namespace: &str, name: &str, labels: &[(&str, &str)]) {
        let mut object = map(name, "1");
        object.metadata.labels =
            Some(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        self.maps_in(namespace).create(&PostParams::default(), &object).await.expect("created");
    }

    /// Sets the value of a config map.
    pub(crate) async fn update(&self, name: &str, value: &str) -> ConfigMap {
        self.merge(name, json!({"data": {"value": value}})).await
    }

    /// Patches a config map.
    pub(crate) async fn merge(&self, name: &str, patch: Value) -> ConfigMap {
        self.maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched")
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.maps().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    pub(crate) async fn create_secret(&self, name: &str) {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        let secrets = Api::<Secret>::namespaced(self.client.clone(), &self.namespace);
        secrets.create(&PostParams::default(), &secret).await.expect("created");
    }

    /// Waits for a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until(&self.clock, what, is_so).await;
    }

    /// The config maps in the namespace on the server, by key: uid and version.
    pub(crate) async fn truth(&self) -> BTreeMap<String, (String, String)> {
        let all = self.maps().list(&ListParams::default()).await.expect("a list");
        all.items.iter().map(|object| (key(object), version(object))).collect()
    }
}

pub(crate) async fn until(clock: &Clock, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = clock.now() + PATIENCE;
    while clock.now() < end {
        if is_so() {
            return;
        }
        clock.sleep(Duration::from_millis(20)).await;
    }
    panic!("waited for too long until {what}");
}

async fn make_namespace(client: &Client) -> String {
    let mut namespace = Namespace::default();
    namespace.metadata.generate_name = Some("cache-".to_owned());
    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.expect("created").name_any()
}

async fn real_client(kubeconfig: Kubeconfig, traffic: &Traffic) -> Client {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the kubeconfig is right");
    let connector = config.rustls_https_connector().expect("the certificates are right");
    let executor = hyper_util::rt::TokioExecutor::new();
    // Without kube's retries, which would hide errors of the server.
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().expect("the credentials are right"))
        .map_err(Into::<Box<dyn Error + Send + Sync>>::into)
        .service(hyper_util::client::legacy::Client::builder(executor).build(connector));
    traffic.client(service)
}

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}

fn key(object: &ConfigMap) -> String {
    object_key(object).to_string()
}

fn version(object: &ConfigMap) -> (String, String) {
    (object.uid().unwrap_or_default(), object.resource_version().unwrap_or_default())
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// The objects of an informer, by key: uid and version.
pub(crate) fn held(informer: &SharedInformer<ConfigMap>) -> BTreeMap<String, (String, String)> {
    informer.indexer().list().iter().map(|object| (key(object), version(object))).collect()
}

/// The names of objects.
pub(crate) fn names<K: kube::Resource>(objects: &[Arc<K>]) -> Vec<String> {
    objects.iter().map(|object| object.meta().name.clone().unwrap_or_default()).collect()
}

/// A handler that records its events and the state that follows from them.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    state: Arc<Mutex<Witnessed>>,
}

#[derive(Default)]
struct Witnessed {
    lines: Vec<String>,
    view: BTreeMap<String, (String, String)>,
}

impl Witness {
    pub(crate) fn of(informer: &SharedInformer<ConfigMap>) -> (Self, Registration) {
        Self::with(informer, HandlerOptions::default())
    }

    pub(crate) fn with(
        informer: &SharedInformer<ConfigMap>,
        options: HandlerOptions,
    ) -> (Self, Registration) {
        let witness = Self::default();
        let recorder = witness.clone();
        let see = move |event: &Event<ConfigMap>| recorder.see(event);
        (witness, informer.add_handler_with(see, options))
    }

    fn see(&self, event: &Event<ConfigMap>) {
        let mut state = self.state.lock().expect("the lock is not poisoned");
        let name = key(event.object());
        match event {
            Event::Add { object, .. } => {
                let before = state.view.insert(name, version(object));
                assert_eq!(before, None, "{event:?}, which was there already");
            }
            Event::Update { old, new } => {
                let before = state.view.insert(name, version(new));
                assert_eq!(before, Some(version(old)), "`old` of {event:?} is the state delivered last");
            }
            Event::Delete(_) => {
                state.view.remove(&name);
            }
        }
        state.lines.push(words(event));
    }

    /// The state that follows from the events.
    pub(crate) fn view(&self) -> BTreeMap<String, (String, String)> {
        self.state.lock().expect("the lock is not poisoned").view.clone()
    }

    /// The events as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.state.lock().expect("the lock is not poisoned").lines.clone()
    }

    /// The events after the first ones, sorted, without `?`: a server may answer with an older state, and deliver the
    /// rest as events.
    pub(crate) fn lines_after(&self, events: usize) -> Vec<String> {
        let mut lines: Vec<_> = self.lines().drain(events..).map(|event| event.replace('?', "")).collect();
        lines.sort();
        lines
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().expect("the lock is not poisoned").lines.len()
    }
}

/// `+a=1`, `a=1>2`, `-a=2`, with `*` for the initial list and `?` for an unknown final state.
fn words(event: &Event<ConfigMap>) -> String {
    let name = event.object().name_any();
    match event {
        Event::Add { object, in_initial_list } => {
            format!("+{name}={}{}", value(object), if *in_initial_list { "*" } else { "" })
        }
        Event::Update { old, new } => format!("{name}={}>{}", value(old), value(new)),
        Event::Delete(deleted) => {
            let mark = if deleted.final_state_unknown { "?" } else { "" };
            format!("-{name}={}{mark}", value(&deleted.object))
        }
    }
}
