//! The world of the client's tests on an arm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheOptions, ObjectKey, SelectionSettings};
use bowline_clock::Clock;
use bowline_machinery::LabelSelector;
use bowline_runtime::{Client, Cluster, ClusterBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;

use crate::arm::{Arm, PATIENCE};

/// An arm, and the test's own clients on it.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) kube: kube::Client,
    pub(crate) namespace: String,
    arm: Arm,
}

impl World {
    /// Runs a test on the arm.
    pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(Self) -> F) {
        Arm::run(|arm| {
            let (clock, kube, namespace) = (arm.clock.clone(), arm.kube.clone(), arm.namespace.clone());
            test(Self { clock, kube, namespace, arm })
        });
    }

    pub(crate) fn is_real() -> bool {
        std::env::var_os("BOWLINE_REAL_KUBECONFIG").is_some()
    }

    /// A client without a cache.
    pub(crate) fn client(&self) -> Client {
        Client::builder(self.kube.clone()).clock(self.clock.clone()).build()
    }

    /// A started cluster with options that caches the namespace.
    pub(crate) fn cluster(&self, options: impl FnOnce(ClusterBuilder) -> ClusterBuilder) -> Cluster {
        let here = CacheOptions::new().namespaces([(self.namespace.as_str(), SelectionSettings::new())]);
        let builder = Cluster::builder(&self.arm.spawner(), self.kube.clone()).cache(here);
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

    /// Waits until a condition holds.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, mut is_so: impl FnMut() -> F) {
        let end = self.clock.now() + PATIENCE;
        while self.clock.now() < end {
            if is_so().await {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited too long until {what}");
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
