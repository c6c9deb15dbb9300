//! What only a manager sees of a controller: how it is told to work and to end, and its way to the server. On the embedded
//! server, with simulated time.

mod fenced;
mod managed;
mod warm;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verb, Verdict, WatchFrame};
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

/// What the server was asked to write, and how long it takes.
#[derive(Clone)]
struct Record {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    writes: Vec<String>,
    /// The resources of all watches.
    watches: Vec<String>,
    /// Lists and watches take as long to begin.
    reads_take: Duration,
    /// Each event of a watch takes as long.
    frames_take: Duration,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }
}

impl Hook for Record {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut state = self.lock();
        let mut delay = Duration::ZERO;
        if call.verb == Verb::Watch {
            state.watches.push(call.resource.clone());
        }
        match call.verb {
            Verb::List | Verb::Watch => delay = state.reads_take,
            Verb::Get => {}
            _ => state.writes.push(format!("{:?} {}", call.verb, call.resource)),
        }
        drop(state);
        Box::pin(async move {
            self.clock.sleep(delay).await;
            Verdict::Proceed
        })
    }

    fn frame<'a>(&'a self, _: &'a Call, _: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        let delay = self.lock().frames_take;
        Box::pin(async move {
            self.clock.sleep(delay).await;
            FrameVerdict::Send
        })
    }
}

/// A server in a simulation.
struct World {
    clock: Clock,
    kube: kube::Client,
    record: Record,
    scope: Scope,
}

impl World {
    fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let record = Record { clock: clock.clone(), state: Arc::default() };
            let server = ApiServer::builder().clock(clock.clone()).hook(record.clone()).build();
            let kube = kube::Client::new(server.expect("it can be built"), "default");
            let scope = clock.scope("test");
            test(Self { clock, kube, record, scope }).await;
        });
    }

    /// What was written since this was asked last.
    fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.record.lock().writes)
    }

    /// The resources of all watches so far.
    fn watches(&self) -> Vec<String> {
        self.record.lock().watches.clone()
    }

    /// Makes the server know websites.
    async fn install(&self) {
        let definitions = Api::<CustomResourceDefinition>::all(self.kube.clone());
        definitions.create(&PostParams::default(), &Website::crd()).await.expect("it is a good one");
    }

    /// Lets everything happen that is about to.
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
