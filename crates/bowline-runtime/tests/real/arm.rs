//! A server, a cluster on it, and a namespace of one's own.

use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::transport::{self, TransportOptions};
use bowline_runtime::{Client, Cluster};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::PostParams;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// Where the kubeconfig of a real kube-apiserver is.
const REAL: &str = "BOWLINE_REAL_KUBECONFIG";

/// How long anything may take. Nothing takes as long on either arm unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The arm that is tested, with a cluster that has been started, and a fresh namespace.
pub(crate) struct Arm {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) cluster: Cluster,
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
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("a configuration");
            // Not kube's own client, which repeats every request after a 429 and hides it.
            let clock = Clock::real();
            let kube = transport::client(&config, &TransportOptions::new(&clock)).expect("a client");
            test(Self::new(clock, kube).await).await;
        });
    }

    async fn new(clock: Clock, kube: kube::Client) -> Self {
        let scope = clock.scope("test");
        let cluster = Cluster::new(&scope.spawner(), kube.clone()).expect("it can be built");
        cluster.start();
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("test-".to_owned());
        let namespaces: Api<Namespace> = Api::all(kube.clone());
        let namespace = namespaces.create(&PostParams::default(), &namespace).await.expect("created");
        let namespace = namespace.metadata.name.expect("it has a name");
        Self { clock, kube, cluster, namespace, scope }
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn client(&self) -> &Client {
        self.cluster.client()
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.kube.clone(), &self.namespace)
    }

    /// Creates a config map.
    pub(crate) async fn map(&self, name: &str, metadata: Value) -> ConfigMap {
        let mut object = json!({"metadata": metadata});
        object["metadata"]["name"] = name.into();
        let map: ConfigMap = serde_json::from_value(object).expect("a config map");
        self.maps().create(&PostParams::default(), &map).await.expect("created")
    }

    /// Waits until something is there.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let found = self.clock.timeout(PATIENCE, async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                self.clock.sleep(Duration::from_millis(20)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("{what} did not happen"))
    }
}
