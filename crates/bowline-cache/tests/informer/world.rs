//! A server in a simulation, whose answers and frames can be tampered with, and an operator that looks at it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verb, Verdict, WatchFrame};
use bowline_cache::{Event, HandlerOptions, Kind, Registration, SharedInformer};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_machinery::Status;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt as _};

/// Decides about calls. Given who calls what, says what becomes of it.
type OnCall = Box<dyn FnMut(&Call) -> Option<Verdict> + Send>;
/// Decides about frames.
type OnFrame = Box<dyn FnMut(&WatchFrame<'_>) -> Option<FrameVerdict> + Send>;

/// What tampers with a server, and what it saw.
#[derive(Default)]
pub(crate) struct Faults {
    state: Mutex<FaultState>,
}

#[derive(Default)]
struct FaultState {
    on_call: Option<OnCall>,
    on_frame: Option<OnFrame>,
    stalled: bool,
    calls: Vec<Call>,
}

impl Faults {
    fn lock(&self) -> std::sync::MutexGuard<'_, FaultState> {
        self.state.lock().expect("nobody panics with it")
    }

    pub(crate) fn on_call(&self, decide: impl FnMut(&Call) -> Option<Verdict> + Send + 'static) {
        self.lock().on_call = Some(Box::new(decide));
    }

    pub(crate) fn on_frame(
        &self,
        decide: impl FnMut(&WatchFrame<'_>) -> Option<FrameVerdict> + Send + 'static,
    ) {
        self.lock().on_frame = Some(Box::new(decide));
    }

    /// Nothing goes wrong any more.
    pub(crate) fn heal(&self) {
        let mut state = self.lock();
        state.on_call = None;
        state.on_frame = None;
        state.stalled = false;
    }

    /// Watches send nothing, and do not end either: connections whose other end is gone.
    pub(crate) fn stall(&self) {
        self.lock().stalled = true;
    }

    /// How often something was asked.
    pub(crate) fn count(&self, verb: Verb) -> usize {
        self.lock().calls.iter().filter(|call| call.verb == verb).count()
    }
}

struct Tampering {
    faults: Arc<Faults>,
    clock: Clock,
}

impl Hook for Tampering {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut state = self.faults.lock();
        state.calls.push(call.clone());
        let verdict = state.on_call.as_mut().and_then(|decide| decide(call));
        Box::pin(std::future::ready(verdict.unwrap_or_default()))
    }

    fn frame<'a>(&'a self, _: &'a Call, frame: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        Box::pin(async move {
            while self.faults.lock().stalled {
                self.clock.sleep(Duration::from_millis(100)).await;
            }
            self.faults.lock().on_frame.as_mut().and_then(|decide| decide(&frame)).unwrap_or_default()
        })
    }
}

/// A server and what is needed to look at it.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) server: ApiServer,
    pub(crate) faults: Arc<Faults>,
    pub(crate) client: Client,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
        Simulation::new(seed).run(|clock| test(Self::new(clock)));
    }

    pub(crate) fn new(clock: Clock) -> Self {
        let faults = Arc::new(Faults::default());
        let tampering = Tampering { faults: faults.clone(), clock: clock.clone() };
        let server =
            ApiServer::builder().clock(clock.clone()).hook(tampering).build().expect("it can be built");
        let client = Client::new(server.clone(), "default");
        let scope = clock.scope("test");
        Self { clock, server, faults, client, scope }
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// An informer of all config maps, not started.
    pub(crate) fn informer(&self) -> SharedInformer<ConfigMap> {
        SharedInformer::builder(&self.spawner(), Kind::typed())
            .client(self.client.clone())
            .build()
            .expect("one source")
    }

    /// One that is started and in sync.
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

    /// Updates a config map, whatever it was.
    pub(crate) async fn update(&self, name: &str, value: &str) -> ConfigMap {
        self.maps().replace(name, &PostParams::default(), &map(name, value)).await.expect("updated")
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.maps().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Waits for something to become true.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..100_000 {
            if is_so() {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}");
    }

    /// What the server has, by key: uid and version.
    pub(crate) async fn truth(&self) -> BTreeMap<String, (String, String)> {
        let all = Api::<ConfigMap>::all(self.client.clone())
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list");
        all.items.iter().map(|object| (key(object), version(object))).collect()
    }
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

/// What an informer holds, by key: uid and version.
pub(crate) fn held(informer: &SharedInformer<ConfigMap>) -> BTreeMap<String, (String, String)> {
    informer.indexer().list().iter().map(|object| (key(object), version(object))).collect()
}

/// A handler that remembers what it was told, and what it follows that there is.
#[derive(Clone, Default)]
pub(crate) struct Witness {
    state: Arc<Mutex<Witnessed>>,
}

#[derive(Default)]
struct Witnessed {
    events: Vec<Event<ConfigMap>>,
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
        let told = witness.clone();
        let registration =
            informer.add_handler_with(options, move |event: &Event<ConfigMap>| told.see(event));
        (witness, registration)
    }

    pub(crate) fn see(&self, event: &Event<ConfigMap>) {
        let mut state = self.state.lock().expect("nobody panics with it");
        let name = key(event.object());
        match event {
            Event::Add { object, .. } => {
                let before = state.view.insert(name, version(object));
                assert_eq!(before, None, "{event:?}, which was there already");
            }
            Event::Update { old, new } => {
                let before = state.view.insert(name, version(new));
                assert_eq!(before, Some(version(old)), "the old of {event:?} is what was told before");
            }
            Event::Delete(_) => {
                state.view.remove(&name);
            }
        }
        state.events.push(event.clone());
    }

    /// What there is, according to what was told.
    pub(crate) fn view(&self) -> BTreeMap<String, (String, String)> {
        self.state.lock().expect("nobody panics with it").view.clone()
    }

    /// What was told, in words.
    pub(crate) fn told(&self) -> Vec<String> {
        self.state.lock().expect("nobody panics with it").events.iter().map(words).collect()
    }

    pub(crate) fn forget(&self) {
        self.state.lock().expect("nobody panics with it").events.clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.state.lock().expect("nobody panics with it").events.len()
    }
}

/// `+a=1`, `a=1>2`, `-a=2`, with `*` for the initial list and `?` for what is not known for sure.
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

pub(crate) fn refuse(code: u16, reason: &str, message: &str) -> Verdict {
    Verdict::Fail(Status::failure(code, reason, message))
}
