//! Tests of a controller's functions for the manager: permission to reconcile, stop, and the connection. On the
//! embedded server, with simulated time.

mod fenced;
mod joining;
mod managed;
mod unused;
mod warm;

use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_clock::{Clock, Scope, Simulation};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
struct WebsiteSpec {}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
struct WebsiteStatus {
    visits: u32,
}

/// A server in a simulation.
struct World {
    clock: Clock,
    kube: kube::Client,
    faults: Faults,
    scope: Scope,
}

impl World {
    fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let faults = Faults::new();
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let kube = kube::Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            test(Self { clock, kube, faults, scope }).await;
        });
    }

    /// Writes since the last call.
    fn writes(&self) -> Vec<String> {
        let reads = [Verb::Get, Verb::List, Verb::Watch];
        let requests = self.faults.requests().filter(move |info| !reads.contains(&info.verb)).take();
        requests.iter().map(|request| format!("{:?} {}", request.info.verb, request.info.resource)).collect()
    }

    /// The resources of all watches so far.
    fn watches(&self) -> Vec<String> {
        let watches = self.faults.requests().verb(Verb::Watch).list();
        watches.into_iter().map(|watch| watch.info.resource).collect()
    }

    /// Delays lists and watches by this time from now on.
    fn slow_reads(&self, delay: Duration) {
        self.faults.on([Verb::List, Verb::Watch]).delay(delay);
    }

    /// Adds the kind Website to the server.
    async fn install(&self) {
        let definitions = Api::<CustomResourceDefinition>::all(self.kube.clone());
        definitions.create(&PostParams::default(), &Website::crd()).await.expect("it is a good one");
    }

    /// Runs until nothing is left to do.
    async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(500)).await;
    }

    async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}");
    }
}

fn map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name, "namespace": "default"}}))
}

fn website(name: &str) -> Website {
    let mut website = Website::new(name, WebsiteSpec {});
    website.metadata.namespace = Some("default".to_owned());
    website
}

fn from<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("such an object")
}
