//! A server in a simulation with a fault kit, and an informer of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_cache::{Event, HandlerOptions, InformerBuilder, Kind, Registration, SharedInformer};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_machinery::Status;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt as _};

/// A server, and helpers for its clients.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) server: ApiServer,
    pub(crate) faults: Faults,
    pub(crate) client: Client,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
        Simulation::new(seed).run(|clock| test(Self::new(clock)));
    }

    pub(crate) fn new(clock: Clock) -> Self {
        Self::of(clock, ApiServer::builder())
    }

    pub(crate) fn of(clock: Clock, server: bowline_apiserver::ApiServerBuilder) -> Self {
        let faults = Faults::new();
        let server = server.clock(clock.clone()).faults(&faults).build().expect("it can be built");
        let client = Client::new(server.clone(), "default");
        let scope = clock.scope("test");
        Self { clock, server, faults, client, scope }
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// Number of running informer tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.scope.running()
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// An informer of all config maps, not started.
    pub(crate) fn informer(&self) -> SharedInformer<ConfigMap> {
        self.informer_with(|builder| builder)
    }

    /// An informer of all config maps, not started, with options.
    pub(crate) fn informer_with(
        &self,
        options: impl FnOnce(InformerBuilder<ConfigMap>) -> InformerBuilder<ConfigMap>,
    ) -> SharedInformer<ConfigMap> {
        let builder = SharedInformer::builder(&self.spawner(), Kind::typed()).client(self.client.clone());
        options(builder).build().expect("one source")
    }

    /// An informer that is started and has synced.
    pub(crate) async fn synced(&self) -> SharedInformer<ConfigMap> {
        let informer = self.informer();
        informer.start();
        informer.wait_for_sync(Duration::from_secs(60)).await.expect("in sync");
        informer
    }

    /// Creates a config map.
    pub(crate) async fn create(&self, name: &str, value: &str) -> ConfigMap {
        self.maps().create(&PostParams::default(), &map(name, value)).await.expect("created")
    }

    /// Updates a config map, without a precondition.
    pub(crate) async fn update(&self, name: &str, value: &str) -> ConfigMap {
        self.maps().replace(name, &PostParams::default(), &map(name, value)).await.expect("updated")
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.maps().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Waits for a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until(&self.clock, what, is_so).await;
    }

    /// Closes an open watch and answers the next one with 410, so that a relist is needed. Waits for that, and removes all
    /// faults.
    pub(crate) async fn relist(&self, informer: &SharedInformer<ConfigMap>) {
        let before = informer.stats().lists;
        self.faults.on(Verb::Watch).times(1).fail(refuse(410, "Expired", "too old resource version"));
        let _may_be_none = self.faults.watches().times(1).close();
        self.until("the relist is complete", || informer.stats().lists > before).await;
        self.faults.remove_all();
    }

    /// Closes all watches. From now on, new ones fail.
    pub(crate) async fn gap(&self) {
        self.forget();
        self.faults.on(Verb::Watch).fail(refuse(500, "InternalError", "not now"));
        let _may_be_none = self.faults.watches().close();
        self.until("the watch is closed", || self.asked(Verb::Watch) > 0).await;
    }

    /// The record of requests begins now.
    pub(crate) fn forget(&self) {
        let _forgotten = self.faults.requests().take();
    }

    /// Number of requests with this verb.
    pub(crate) fn asked(&self, verb: Verb) -> usize {
        self.faults.requests().verb(verb).count()
    }

    /// Waits until an informer has the server's state.
    pub(crate) async fn settled(&self, informer: &SharedInformer<ConfigMap>) {
        let truth = self.truth().await;
        self.until("the informer has the server's state", || held(informer) == truth).await;
        self.clock.sleep(Duration::from_millis(20)).await;
    }

    /// The server's state, by key: uid and version.
    pub(crate) async fn truth(&self) -> BTreeMap<String, (String, String)> {
        let all = Api::<ConfigMap>::all(self.client.clone())
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list");
        all.items.iter().map(|object| (key(object), version(object))).collect()
    }
}

/// Waits for a condition, for more than half an hour.
pub(crate) async fn until(clock: &Clock, what: &str, mut is_so: impl FnMut() -> bool) {
    for turn in 0..20_000 {
        if is_so() {
            return;
        }
        clock.sleep(Duration::from_millis(if turn < 500 { 20 } else { 200 })).await;
    }
    panic!("waited for too long until {what}");
}

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.data = Some(BTreeMap::from([("value".to_owned(), value.to_owned())]));
    map
}

pub(crate) fn key(object: &ConfigMap) -> String {
    bowline_cache::object_key(object).to_string()
}

pub(crate) fn version(object: &ConfigMap) -> (String, String) {
    (object.uid().unwrap_or_default(), object.resource_version().unwrap_or_default())
}

pub(crate) fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// The objects of an informer, by key: uid and version.
pub(crate) fn held(informer: &SharedInformer<ConfigMap>) -> BTreeMap<String, (String, String)> {
    informer.indexer().list().iter().map(|object| (key(object), version(object))).collect()
}

/// A handler that records its events and the state that follows from them.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    state: Arc<Mutex<Witnessed>>,
}

#[derive(Default)]
struct Witnessed {
    events: Vec<Event<ConfigMap>>,
    view: BTreeMap<String, (String, String)>,
    /// Inconsistent events. They are collected here, since panics of handlers are caught.
    wrong: Vec<String>,
}

impl Witness {
    fn lock(&self) -> std::sync::MutexGuard<'_, Witnessed> {
        self.state.lock().expect("the lock is not poisoned")
    }

    /// The recorded state; panics if an event was inconsistent.
    fn sound(&self) -> std::sync::MutexGuard<'_, Witnessed> {
        let state = self.lock();
        let wrong = state.wrong.clone();
        if wrong.is_empty() {
            return state;
        }
        let lines: Vec<_> = state.events.iter().map(words).collect();
        drop(state);
        panic!("{wrong:?} in {lines:?}");
    }

    pub(crate) fn of(informer: &SharedInformer<ConfigMap>) -> (Self, Registration) {
        Self::with(informer, HandlerOptions::default())
    }

    pub(crate) fn with(
        informer: &SharedInformer<ConfigMap>,
        options: HandlerOptions,
    ) -> (Self, Registration) {
        let witness = Self::default();
        let recorder = witness.clone();
        let registration =
            informer.add_handler_with(move |event: &Event<ConfigMap>| recorder.see(event), options);
        (witness, registration)
    }

    pub(crate) fn see(&self, event: &Event<ConfigMap>) {
        let mut state = self.lock();
        let name = key(event.object());
        let now = version(event.object());
        let before = match event {
            Event::Add { .. } | Event::Update { .. } => state.view.insert(name, now.clone()),
            Event::Delete(_) => state.view.remove(&name),
        };
        let is_right = match event {
            Event::Add { .. } => before.is_none(),
            Event::Update { old, .. } => before.as_ref() == Some(&version(old)),
            // A handler that fell behind may get the deletion of an object that it never knew.
            Event::Delete(_) => before.as_ref().is_none_or(|(uid, _)| *uid == now.0),
        };
        if !is_right {
            state.wrong.push(format!("{event:?} after {before:?}"));
        }
        state.events.push(event.clone());
    }

    /// The state that follows from the events.
    pub(crate) fn view(&self) -> BTreeMap<String, (String, String)> {
        self.sound().view.clone()
    }

    /// The events as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.sound().events.iter().map(words).collect()
    }

    pub(crate) fn events(&self) -> Vec<Event<ConfigMap>> {
        self.sound().events.clone()
    }

    pub(crate) fn forget(&self) {
        self.lock().events.clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().events.len()
    }
}

/// `+a=1`, `a=1>2`, `-a=2`, with `*` for the initial list and `?` for an unknown final state.
pub(crate) fn words(event: &Event<ConfigMap>) -> String {
    let name = event.object().name_any();
    match event {
        Event::Add { object, in_initial_list } => {
            format!("+{name}={}{}", value(object), if *in_initial_list { "*" } else { "" })
        }
        Event::Update { old, new } => format!("{name}={}>{}", value(old), value(new)),
        Event::Delete(deleted) => {
            format!(
                "-{name}={}{}",
                value(&deleted.object),
                if deleted.final_state_unknown { "?" } else { "" }
            )
        }
    }
}

pub(crate) fn refuse(code: u16, reason: &str, message: &str) -> Status {
    Status::failure(code, reason, message)
}
