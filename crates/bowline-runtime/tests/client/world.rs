//! A server in a simulation, and a cluster that looks at it.

use std::collections::BTreeMap;

use bowline_apiserver::ApiServer;
use bowline_cache::ObjectKey;
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_runtime::{Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::ConfigMap;

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Simulation::new(1).run(|clock| async move {
            let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
            let kube = kube::Client::new(server, "default");
            let scope = clock.scope("test");
            test(Self { clock, kube, scope }).await;
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

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}
