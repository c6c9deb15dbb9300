//! Options of a test environment, and the order of the steps in which it is made.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::{ApiServer, Hook};
use bowline_cache::{CacheOptions, Settings};
use bowline_clock::{Clock, Simulation};
use bowline_runtime::{Manager, ManagerBuilder};

use super::plane::Plane;
use super::{Arm, EnvError, Inner, State, TestEnv};

/// How long a wait takes at most, where nothing but this process is waited for.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The same where other processes have their say: nothing takes as long unless it hangs.
const TIMEOUT_OUTSIDE: Duration = Duration::from_secs(60);
/// The name of a namespace that nobody gave one.
const NAMESPACE: &str = "test";
/// The seed of a simulation that nobody gave one.
const SEED: u64 = 1;

/// Options of a [`TestEnv`].
#[must_use = "a builder does nothing until it starts"]
pub struct TestEnvBuilder {
    arm: Arm,
    clock: Option<Clock>,
    seed: u64,
    timeout: Option<Duration>,
    namespace: String,
    server: bowline_apiserver::Builder,
    has_hook: bool,
    all_namespaces: bool,
    cache: Box<dyn FnOnce(CacheOptions) -> CacheOptions>,
    manager: Box<dyn FnOnce(ManagerBuilder) -> ManagerBuilder>,
}

impl Default for TestEnvBuilder {
    fn default() -> Self {
        Self {
            arm: Arm::default(),
            clock: None,
            seed: SEED,
            timeout: None,
            namespace: NAMESPACE.to_owned(),
            server: ApiServer::builder(),
            has_hook: false,
            all_namespaces: false,
            cache: Box::new(|options| options),
            manager: Box::new(|options| options),
        }
    }
}

impl TestEnvBuilder {
    /// Which API server to run on. Default: the embedded one.
    pub fn arm(mut self, arm: Arm) -> Self {
        self.arm = arm;
        self
    }

    /// The clock of everything: of the server, if it is embedded, of the operator and of the waiting. A simulated one needs
    /// the embedded arm. Default: the system's, and in [`test`](Self::test) a simulated one on the embedded arm.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The seed of the simulation in [`test`](Self::test). Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How long a wait takes at most, in time of the test's clock. Default: 10 s on the embedded arm, 60 s on the others.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Who looks at every request to the embedded server, and may delay it or make it fail. Default: nobody.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.server = self.server.hook(hook);
        self.has_hook = true;
        self
    }

    /// The name of the test's namespace; on a server that is shared it is only the beginning of one. Default: `test`.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = name.into();
        self
    }

    /// The cluster's cache has the objects of all namespaces. Default: those of the test's namespace, and those that are in
    /// no namespace.
    pub fn all_namespaces(mut self) -> Self {
        self.all_namespaces = true;
        self
    }

    /// Changes the options of the cluster's cache. Default: those of a cluster, in the test's namespace.
    pub fn cache(mut self, change: impl FnOnce(CacheOptions) -> CacheOptions + 'static) -> Self {
        self.cache = Box::new(change);
        self
    }

    /// Changes the options of the manager: servers, leader election. Default: it has neither, and listens to no signals.
    pub fn manager(mut self, change: impl FnOnce(ManagerBuilder) -> ManagerBuilder + 'static) -> Self {
        self.manager = Box::new(change);
        self
    }

    /// Makes the environment: a server, unless one is there, and a fresh namespace.
    ///
    /// # Errors
    /// [`EnvError`] when there is no server to be had, or it gives no namespace.
    pub async fn start(self) -> Result<TestEnv, EnvError> {
        let clock = self.clock.unwrap_or_else(Clock::real);
        let plane = match self.arm {
            Arm::Embedded => Plane::Embedded(self.server.clock(clock.clone()).build()?),
            arm if self.has_hook => return Err(EnvError::Hook { arm: arm.name() }),
            arm if clock.is_simulated() => return Err(EnvError::Simulated { arm: arm.name() }),
            arm => Plane::find(arm, &clock).await?,
        };
        let namespace = plane.make_namespace(&self.namespace, &clock).await?;
        let kube = plane.client(&namespace)?;
        let scope = clock.scope("test");
        let mut cache = CacheOptions::new();
        if !self.all_namespaces {
            cache = cache.namespaces([(namespace.as_str(), Settings::new())]);
        }
        let cache = (self.cache)(cache);
        let manager = Manager::builder(&scope.spawner(), kube).cluster(|cluster| cluster.cache(cache));
        let manager = (self.manager)(manager).build()?;
        let timeout = match self.arm {
            Arm::Embedded => TIMEOUT,
            Arm::Real | Arm::Existing => TIMEOUT_OUTSIDE,
        };
        Ok(TestEnv {
            inner: Arc::new(Inner {
                client: manager.client().namespaced(&namespace).live(),
                manager,
                scope,
                namespace,
                arm: self.arm,
                state: Mutex::new(State { plane: Some(plane), controllers: Vec::new(), manager: None }),
            }),
            timeout: self.timeout.unwrap_or(timeout),
        })
    }

    /// Runs a whole test: makes the environment, calls the test with it, and takes it away. On the embedded arm the test
    /// runs on simulated time, so that an hour's wait costs nothing and a seed repeats the run; on the others it runs in
    /// real time, on several threads.
    ///
    /// Returns what the test returns.
    ///
    /// # Panics
    /// When the environment cannot be made or taken away, when the test panics, and on a thread that already runs a tokio
    /// runtime.
    pub fn test<T>(self, test: impl AsyncFnOnce(TestEnv) -> T) -> T {
        let whole = async |builder: Self| {
            let env = match builder.start().await {
                Ok(env) => env,
                Err(error) => panic!("no test environment: {error}"),
            };
            let outcome = test(env.clone()).await;
            if let Err(error) = env.finish().await {
                panic!("the test is over, but not its environment: {error}");
            }
            outcome
        };
        if self.arm == Arm::Embedded && self.clock.is_none() {
            return Simulation::new(self.seed).run(|clock| whole(self.clock(clock)));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(whole(self))
    }
}

impl fmt::Debug for TestEnvBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnvBuilder").field("arm", &self.arm).finish_non_exhaustive()
    }
}
