//! A server in a simulation, which can be made slow or forbidding, and what it was asked and sent.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Call, FrameVerdict, Hook, HookFuture, Verb, Verdict, WatchFrame};
use bowline_cache::{CacheOptions, InformerCache};
use bowline_clock::{Clock, Scope, Simulation, Spawner};
use bowline_machinery::Status;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::traffic::Traffic;

/// Decides about lists and watches: how long they take, and what becomes of them.
type OnRead = Box<dyn FnMut(&Call) -> (Duration, Verdict) + Send>;

/// What stands between a server and those who look at it.
#[derive(Default)]
struct Obstacles {
    on_read: Option<OnRead>,
    watches: Vec<Call>,
    frames: Vec<String>,
}

#[derive(Clone)]
struct Standing {
    clock: Clock,
    obstacles: Arc<Mutex<Obstacles>>,
}

impl Standing {
    fn lock(&self) -> MutexGuard<'_, Obstacles> {
        self.obstacles.lock().expect("nobody panics with it")
    }
}

impl Hook for Standing {
    fn before<'a>(&'a self, call: &'a Call) -> HookFuture<'a, Verdict> {
        let mut obstacles = self.lock();
        if call.verb == Verb::Watch {
            obstacles.watches.push(call.clone());
        }
        let is_read = matches!(call.verb, Verb::Watch | Verb::List);
        let decided = obstacles.on_read.as_mut().filter(|_| is_read).map(|decide| decide(call));
        drop(obstacles);
        let (delay, verdict) = decided.unwrap_or_default();
        Box::pin(async move {
            if !delay.is_zero() {
                self.clock.sleep(delay).await;
            }
            verdict
        })
    }

    fn frame<'a>(&'a self, call: &'a Call, frame: WatchFrame<'a>) -> HookFuture<'a, FrameVerdict> {
        self.lock().frames.push(format!("{} {} {}", frame.event, call.resource, frame.name));
        Box::pin(std::future::ready(FrameVerdict::Send))
    }
}

pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    pub(crate) traffic: Traffic,
    standing: Standing,
    scope: Scope,
}

impl World {
    /// Runs a test in a simulation.
    pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(Self) -> F) {
        Simulation::new(seed).run(|clock| async move {
            let standing = Standing { clock: clock.clone(), obstacles: Arc::default() };
            let server = ApiServer::builder().clock(clock.clone()).hook(standing.clone()).build();
            let traffic = Traffic::default();
            let client = traffic.client(server.expect("it can be built"));
            let scope = clock.scope("test");
            test(Self { clock, client, traffic, standing, scope }).await;
        });
    }

    pub(crate) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    pub(crate) fn cache(&self, options: CacheOptions) -> InformerCache {
        InformerCache::new(&self.spawner(), self.client.clone(), options)
    }

    /// From now on this decides about lists and watches.
    pub(crate) fn on_read(&self, decide: impl FnMut(&Call) -> (Duration, Verdict) + Send + 'static) {
        self.standing.lock().on_read = Some(Box::new(decide));
    }

    /// Nothing stands in the way any more.
    pub(crate) fn heal(&self) {
        self.standing.lock().on_read = None;
    }

    /// How many watches of a resource the server was asked for.
    pub(crate) fn watches(&self, resource: &str) -> usize {
        self.standing.lock().watches.iter().filter(|call| call.resource == resource).count()
    }

    /// The events that the server sent, without bookmarks.
    pub(crate) fn frames(&self) -> Vec<String> {
        let frames = &self.standing.lock().frames;
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

    /// Waits for something to become true.
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

pub(crate) fn forbidden() -> Verdict {
    Verdict::Fail(Status::failure(403, "Forbidden", "configmaps is forbidden: you may not"))
}

/// The names of objects.
pub(crate) fn names<K: kube::Resource>(objects: &[Arc<K>]) -> Vec<String> {
    objects.iter().map(|object| object.meta().name.clone().unwrap_or_default()).collect()
}
