//! A server in a simulation that can be made slow or forbidding, a cluster on it, and a reconciler that writes down its runs.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Verb};
use bowline_cache::CacheOptions;
use bowline_clock::{Clock, Instant, Scope, Simulation};
use bowline_machinery::Status;
use bowline_runtime::{Action, Cluster, Context, Controller, ReconcileRecord, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// A server and a cluster on it, in a simulation.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) cluster: Cluster,
    pub(crate) server: ApiServer,
    pub(crate) faults: Faults,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation. The cluster is started.
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Self::run_with(seed, CacheOptions::new(), test);
    }

    /// The same, with options of the cluster's cache.
    pub(crate) fn run_with<F: Future<Output = ()>>(
        seed: u64,
        cache: CacheOptions,
        test: impl FnOnce(Self) -> F,
    ) {
        Simulation::new(seed).run(|clock| async move {
            let faults = Faults::new();
            let server = ApiServer::builder().clock(clock.clone()).faults(&faults).build();
            let server = server.expect("it can be built");
            let client = Client::new(server.clone(), "default");
            let scope = clock.scope("test");
            let cluster = Cluster::builder(&scope.spawner(), client.clone()).cache(cache).build();
            let cluster = cluster.expect("it can be made");
            cluster.start();
            test(Self { clock, client, cluster, server, faults, scope }).await;
        });
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Each event of a watch takes so long from now on.
    pub(crate) fn slow_down(&self, delay: Duration) {
        self.faults.events().delay(delay);
    }

    /// Nothing stands in the way any more.
    pub(crate) fn heal(&self) {
        self.faults.remove_all();
    }

    /// Lists and watches of a resource are forbidden.
    pub(crate) fn forbid(&self, resource: &str) {
        let status = Status::failure(403, "Forbidden", format!("{resource} is forbidden: you may not"));
        self.faults.on([Verb::List, Verb::Watch]).resource(resource).fail(status);
    }

    /// How many watches of a resource the server was asked for.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.faults.requests().verb(Verb::Watch).resource(resource).count()
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create(&self, name: &str) -> ConfigMap {
        self.create_map(&json!({"metadata": {"name": name}})).await
    }

    pub(crate) async fn create_map(&self, map: &Value) -> ConfigMap {
        let map = serde_json::from_value(map.clone()).expect("a config map");
        self.maps().create(&PostParams::default(), &map).await.expect("created")
    }

    /// Changes the data of a config map.
    pub(crate) async fn touch(&self, name: &str, value: &str) {
        self.patch(name, &json!({"data": {"value": value}})).await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: &Value) {
        let maps = self.maps();
        maps.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("patched");
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.maps().delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Waits for something to become true.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            self.clock.sleep(Duration::from_millis(20)).await;
        }
        panic!("waited for too long until {what}; last runs: {:#?}", self.history());
    }

    /// Lets everything happen that is about to.
    pub(crate) async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(500)).await;
    }

    /// The runs so far, each in one line, without how long they took.
    pub(crate) fn history(&self) -> Vec<String> {
        self.cluster.history().runs().iter().map(line).collect()
    }

    /// The value of a metric with its labels, from what a scrape would show; without its fraction.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.cluster.metrics().encode();
        let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = found.unwrap_or_else(|| panic!("there is no {name} in\n{text}"));
        value.split('.').next().unwrap_or(value).parse().expect("a number")
    }
}

/// `default/a: done (ConfigMap created)`
pub(crate) fn line(run: &ReconcileRecord) -> String {
    format!("{}: {} ({})", run.request, run.outcome, run.triggers)
}

/// Runs of a reconciler, written down.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Note>>>);

#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) at: Instant,
    pub(crate) request: Request,
    pub(crate) attempt: u32,
    pub(crate) triggers: String,
}

impl Notes {
    pub(crate) fn write(&self, context: &Context, request: &Request) {
        let note = Note {
            at: context.clock().now(),
            request: request.clone(),
            attempt: context.attempt(),
            triggers: context.triggers().to_string(),
        };
        self.lock().push(note);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(crate) fn all(&self) -> Vec<Note> {
        self.lock().clone()
    }

    pub(crate) fn triggers(&self) -> Vec<String> {
        self.lock().iter().map(|note| note.triggers.clone()).collect()
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.lock().iter().map(|note| note.request.to_string()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Note>> {
        self.0.lock().expect("nobody panics with it")
    }
}

/// A controller of config maps that writes its runs down, and is ready.
pub(crate) async fn noting(world: &World) -> (Controller, Notes) {
    let notes = Notes::default();
    let written = notes.clone();
    let controller = world
        .cluster
        .controller::<ConfigMap>()
        .build(move |context: Context, request: Request| {
            written.write(&context, &request);
            async { Ok::<_, std::io::Error>(Action::done()) }
        })
        .expect("it can be built");
    controller.start().expect("it can be started");
    controller.wait_ready().await.expect("it sees all that there is");
    (controller, notes)
}

/// Does nothing, without an error.
pub(crate) async fn nothing(_: Context, _: Request) -> bowline_runtime::Result<Action> {
    Ok(Action::done())
}
