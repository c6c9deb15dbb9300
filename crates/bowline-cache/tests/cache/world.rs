//! A server in a simulation whose lists and watches can be delayed or refused. Records requests and events.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::{Faults, RequestFilter, Requests};
use bowline_apiserver::{ApiServer, FrameVerdict, Hook, HookFuture, RequestInfo, Verb, WatchFrame};
use bowline_cache::{CacheOptions, InformerCache};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_machinery::Status;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::traffic::Traffic;

/// Records the events that watches send, which the fault kit does not.
#[derive(Clone, Default)]
struct SentEvents(Arc<Mutex<Vec<String>>>);

impl Hook for SentEvents {
    fn before_frame<'a>(
        &'a self,
        call: &'a RequestInfo,
        frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        let event = format!("{} {} {}", frame.event, call.resource, frame.name);
        self.0.lock().expect("nobody panics with it").push(event);
        Box::pin(std::future::ready(FrameVerdict::Send))
    }
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) traffic: Traffic,
    pub(crate) faults: Faults,
    sent: SentEvents,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let (faults, sent) = (Faults::new(), SentEvents::default());
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).hook(sent.clone()).build();
            let traffic = Traffic::default();
            let client = traffic.client(server.expect("it can be built"));
            let scope = clock.scope("test");
            test(Self { clock, client, traffic, faults, sent, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn cache(&self, options: CacheOptions) -> InformerCache {
        InformerCache::new(&self.spawner(), self.client.clone(), options)
    }

    /// Begins a rule about lists and watches.
    pub(crate) fn reads(&self) -> RequestFilter<Requests> {
        self.faults.on([Verb::List, Verb::Watch])
    }

    /// Removes all faults.
    pub(crate) fn heal(&self) {
        self.faults.remove_all();
    }

    /// Number of watch requests for a resource.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.faults.requests().verb(Verb::Watch).resource(resource).count()
    }

    /// The events that the server sent, without bookmarks.
    pub(crate) fn frames(&self) -> Vec<String> {
        let frames = self.sent.0.lock().expect("nobody panics with it");
        frames.iter().filter(|frame| !frame.starts_with("BOOKMARK")).cloned().collect()
    }

    pub(crate) async fn create_namespace(&self, name: &str) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        let namespaces = Api::<Namespace>::all(self.client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.expect("created");
    }

    pub(crate) async fn create_in(&self, namespace: &str, name: &str) {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        maps.create(&PostParams::default(), &map).await.expect("created");
    }

    pub(crate) async fn create(&self, name: &str) {
        self.create_in("default", name).await;
    }

    pub(crate) async fn create_secret(&self, name: &str) {
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        let secrets = Api::<Secret>::namespaced(self.client.clone(), "default");
        secrets.create(&PostParams::default(), &secret).await.expect("created");
    }

    /// Waits for a condition.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}");
    }
}

pub(crate) fn forbidden() -> Status {
    Status::failure(403, "Forbidden", "configmaps is forbidden: you may not")
}

/// The names of objects.
pub(crate) fn names<K: kube::Resource>(objects: &[Arc<K>]) -> Vec<String> {
    objects.iter().map(|object| object.meta().name.clone().unwrap_or_default()).collect()
}
