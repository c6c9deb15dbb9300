//! A server to talk to, a namespace of one's own in it, and what the tests do there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_cache::{CacheOptions, ObjectKey, Settings};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_machinery::LabelSelector;
use bowline_runtime::{Client, Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Resource, ResourceExt as _};

/// Where the kubeconfig of a real kube-apiserver is.
const REAL: &str = "BOWLINE_REAL_KUBECONFIG";

/// How long anything may take. Nothing takes as long on either arm unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The arm that is tested, and a fresh namespace.
pub(crate) struct Arm {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) namespace: String,
    scope: Scope,
}

impl Arm {
    /// Runs a test on the arm: in real time against a real server if there is one, and otherwise on simulated time against
    /// the embedded one.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        let Some(kubeconfig) = std::env::var_os(REAL) else {
            Simulation::new(1).run(|clock| async move {
                let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
                test(Self::new(clock, kube::Client::new(server, "default")).await).await;
            });
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
            let kube = kube::Client::try_from(config.expect("the kubeconfig is right")).expect("a client");
            test(Self::new(Clock::real(), kube).await).await;
        });
    }

    async fn new(clock: Clock, kube: kube::Client) -> Self {
        let scope = clock.scope("test");
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("client-".to_owned());
        let client = Client::builder(kube.clone()).clock(clock.clone()).build();
        let namespace = client.create(&namespace).await.expect("created").name_any();
        Self { clock, kube, namespace, scope }
    }

    pub(crate) fn is_real() -> bool {
        std::env::var_os(REAL).is_some()
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// A client that has no cache.
    pub(crate) fn client(&self) -> Client {
        Client::builder(self.kube.clone()).clock(self.clock.clone()).build()
    }

    /// A cluster with options that caches what is in the namespace, started.
    pub(crate) fn cluster(&self, options: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Cluster {
        let here = CacheOptions::new().namespaces([(self.namespace.as_str(), Settings::new())]);
        let builder = Cluster::builder(&self.spawner(), self.kube.clone()).cache(here);
        let cluster = options(builder).build().expect("the options make sense");
        cluster.start();
        cluster
    }

    /// The key of an object in the namespace.
    pub(crate) fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(&self.namespace, name)
    }

    /// A config map in the namespace.
    pub(crate) fn map(&self, name: &str, value: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(self.namespace.clone());
        map.metadata.name = Some(name.to_owned());
        map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
        map
    }

    /// A config map in the namespace with a label.
    pub(crate) fn labelled(&self, name: &str, label: &str) -> ConfigMap {
        let mut map = self.map(name, "1");
        map.metadata.labels = Some(BTreeMap::from([("app".to_owned(), label.to_owned())]));
        map
    }

    /// Waits for something to become true.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut is_so: impl FnMut() -> F) {
        let end = self.clock.now() + PATIENCE;
        while self.clock.now() < end {
            if is_so().await {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}");
    }
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// The names of objects.
pub(crate) fn names<K: Resource>(objects: &[Arc<K>]) -> Vec<String> {
    objects.iter().map(|object| object.meta().name.clone().unwrap_or_default()).collect()
}

pub(crate) fn labels(selector: &str) -> LabelSelector {
    LabelSelector::parse(selector).expect("a selector")
}
