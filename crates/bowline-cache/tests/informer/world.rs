//! A server in a simulation, whose answers and frames can be tampered with, and an operator that looks at it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verb, Verdict, WatchFrame};
use bowline_cache::{Event, HandlerOptions, InformerBuilder, Kind, Registration, SharedInformer};
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

    /// What was asked is remembered from now on only.
    pub(crate) fn forget(&self) {
        self.lock().calls.clear();
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
                self.clock.sleep(Duration::from_secs(1)).await;
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
        Self::of(clock, ApiServer::builder())
    }

    pub(crate) fn of(clock: Clock, server: bowline_apiserver::Builder) -> Self {
        let faults = Arc::new(Faults::default());
        let tampering = Tampering { faults: faults.clone(), clock: clock.clone() };
        let server = server.clock(clock.clone()).hook(tampering).build().expect("it can be built");
        let client = Client::new(server.clone(), "default");
        let scope = clock.scope("test");
        Self { clock, server, faults, client, scope }
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// How many tasks of informers there are.
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
    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until(&self.clock, what, is_so).await;
    }

    /// Ends the watches that there are at their next frame and tells who comes back that it is too late, once: everything
    /// has to be listed again. Waits until that is done.
    pub(crate) async fn relist(&self, informer: &SharedInformer<ConfigMap>) {
        let before = informer.stats().lists;
        let mut is_closed = false;
        self.faults
            .on_frame(move |_| (!std::mem::replace(&mut is_closed, true)).then_some(FrameVerdict::Close));
        let mut is_refused = false;
        self.faults.on_call(move |call| {
            let now = call.verb == Verb::Watch && !std::mem::replace(&mut is_refused, true);
            now.then(|| refuse(410, "Expired", "too old resource version"))
        });
        self.until("all is listed again", || informer.stats().lists > before).await;
        self.faults.heal();
    }

    /// From now on watches are closed at their next frame and not opened again.
    pub(crate) async fn gap(&self) {
        self.faults.forget();
        self.faults.on_frame(|_| Some(FrameVerdict::Close));
        self.faults
            .on_call(|call| (call.verb == Verb::Watch).then(|| refuse(500, "InternalError", "not now")));
        let faults = self.faults.clone();
        self.until("the watch is closed", || faults.count(Verb::Watch) > 0).await;
    }

    /// Waits until an informer has what the server has.
    pub(crate) async fn settled(&self, informer: &SharedInformer<ConfigMap>) {
        let truth = self.truth().await;
        self.until("the informer has what the server has", || held(informer) == truth).await;
        self.clock.sleep(Duration::from_millis(20)).await;
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

/// Waits for something to become true, for more than half an hour.
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
    /// What it should never have been told. A handler's own panics are caught.
    wrong: Vec<String>,
}

impl Witness {
    fn lock(&self) -> std::sync::MutexGuard<'_, Witnessed> {
        self.state.lock().expect("nobody panics with it")
    }

    /// What was witnessed, if all of it could be.
    fn sound(&self) -> std::sync::MutexGuard<'_, Witnessed> {
        let state = self.lock();
        let wrong = state.wrong.clone();
        if wrong.is_empty() {
            return state;
        }
        let told: Vec<_> = state.events.iter().map(words).collect();
        drop(state);
        panic!("{wrong:?} in {told:?}");
    }

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
            // Who fell behind may be told of the deletion of what it never knew.
            Event::Delete(_) => before.as_ref().is_none_or(|(uid, _)| *uid == now.0),
        };
        if !is_right {
            state.wrong.push(format!("{event:?} after {before:?}"));
        }
        state.events.push(event.clone());
    }

    /// What there is, according to what was told.
    pub(crate) fn view(&self) -> BTreeMap<String, (String, String)> {
        self.sound().view.clone()
    }

    /// What was told, in words.
    pub(crate) fn told(&self) -> Vec<String> {
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
