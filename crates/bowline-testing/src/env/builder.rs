//! Options of a test environment, and the steps of its start.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_apiserver::faults::Faults;
use bowline_apiserver::{ApiServer, Hook};
use bowline_cache::CacheOptions;
use bowline_clock::{Clock, Simulation};
use bowline_runtime::{Client, ManagerBuilder, ReconcileHistory};

use super::calls::CallLog;
use super::plane::{Existing, Plane};
use super::run::{Change, RunOptions};
use super::seed::Seed;
use super::{Arm, EnvError, Inner, Outcome, State, TestEnv};

/// Default limit of a wait on the embedded arm.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Default limit of a wait on other arms, where other processes take part.
const TIMEOUT_OUTSIDE: Duration = Duration::from_secs(60);
/// Default namespace.
const NAMESPACE: &str = "test";

/// Options of a [`TestEnv`].
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[must_use = "a builder does nothing until it starts"]
pub struct TestEnvBuilder {
    arm: Arm,
    clock: Option<Clock>,
    seed: Option<u64>,
    timeout: Option<Duration>,
    namespace: String,
    server: bowline_apiserver::ApiServerBuilder,
    has_hook: bool,
    all_namespaces: bool,
    existing: Existing,
    replace_definitions: bool,
    verify_permissions: bool,
    cache: Change<CacheOptions>,
    manager: Change<ManagerBuilder>,
}

impl Default for TestEnvBuilder {
    fn default() -> Self {
        Self {
            arm: Arm::default(),
            clock: None,
            seed: None,
            timeout: None,
            namespace: NAMESPACE.to_owned(),
            server: ApiServer::builder(),
            has_hook: false,
            all_namespaces: false,
            existing: Existing::default(),
            replace_definitions: false,
            verify_permissions: true,
            cache: Box::new(|options| options),
            manager: Box::new(|options| options),
        }
    }
}

impl TestEnvBuilder {
    /// The API server to run on. Default: the embedded one.
    pub fn arm(mut self, arm: Arm) -> Self {
        self.arm = arm;
        self
    }

    /// Kubeconfig for [`Arm::Existing`]. Default: `KUBECONFIG`, then `~/.kube/config`.
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.existing.kubeconfig = Some(path.into());
        self
    }

    /// Context of the kubeconfig for [`Arm::Existing`]. Default: `BOWLINE_TEST_CONTEXT`; without it, an error.
    pub fn context(mut self, name: impl Into<String>) -> Self {
        self.existing.context = Some(name.into());
        self
    }

    /// On [`Arm::Existing`], replaces also CRDs that no test created. Default: an error.
    pub fn replace_definitions(mut self) -> Self {
        self.replace_definitions = true;
        self
    }

    /// Whether [`finish`](TestEnv::finish) fails if the operator sent a request [without a
    /// permission](TestEnv::missing_permissions). Default: yes.
    pub fn verify_permissions(mut self, verify: bool) -> Self {
        self.verify_permissions = verify;
        self
    }

    /// The clock of the test, the operator and the embedded server. A simulated one needs the embedded arm and
    /// [`start`](Self::start), inside of its simulation. Default: the system's; in [`test`](Self::test) on the embedded arm, a
    /// simulated one.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Seed of the simulation in [`test`](Self::test). Default: `BOWLINE_TEST_SEED`; without it, 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Limit of a wait, on the test's clock. Default: 10 s on the embedded arm, 60 s on the others.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// A hook that sees every request to the embedded server. Default: none. For faults, use [`TestEnv::faults`].
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.server = self.server.hook(hook);
        self.has_hook = true;
        self
    }

    /// Name of the test's namespace; on a shared server, its first part. Default: `test`.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = name.into();
        self
    }

    /// Caches the objects of all namespaces. Default: those of the test's namespace, and cluster-scoped objects.
    pub fn all_namespaces(mut self) -> Self {
        self.all_namespaces = true;
        self
    }

    /// Changes the options of the cache; called for each run of the operator. Default: the options of a cluster, in the test's
    /// namespace.
    pub fn cache(mut self, change: impl Fn(CacheOptions) -> CacheOptions + Send + Sync + 'static) -> Self {
        self.cache = Box::new(change);
        self
    }

    /// Changes the options of the manager, for example servers and leader election; called for each run of the operator.
    /// Default: no servers, no leader election, no signals.
    ///
    /// On [`Arm::Existing`], [`install_crds`](ManagerBuilder::install_crds) works only with
    /// [`replace_definitions`](Self::replace_definitions): a manager replaces all definitions that differ.
    pub fn manager(
        mut self,
        change: impl Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync + 'static,
    ) -> Self {
        self.manager = Box::new(change);
        self
    }

    /// Starts the server if the arm has none, creates the namespace and the operator's user, and builds the manager of the
    /// first run.
    ///
    /// # Errors
    /// [`EnvError`] if the server cannot be used or refuses the namespace, or the options contradict each other.
    pub async fn start(self) -> Result<TestEnv, EnvError> {
        let clock = self.clock.unwrap_or_else(Clock::real);
        let faults = Faults::new();
        let plane = match self.arm {
            Arm::Embedded => Plane::Embedded(self.server.clock(clock.clone()).faults(&faults).build()?),
            arm if self.has_hook => return Err(EnvError::Hook { arm: arm.name() }),
            arm if clock.is_simulated() => return Err(EnvError::Simulated { arm: arm.name() }),
            arm => Plane::find(arm, self.existing, &clock).await?,
        };
        let namespace = plane.make_namespace(&self.namespace, &clock).await?;
        // From here on, an error deletes the namespace.
        let plane = Abandoned { plane: Some(plane), namespace: namespace.clone() };
        let kube = plane.get().client(&namespace)?;
        let may_replace_definitions = self.arm != Arm::Existing || self.replace_definitions;
        let runs = RunOptions {
            server: plane.get().operator(&namespace, &clock).await?,
            namespace: namespace.clone(),
            all_namespaces: self.all_namespaces,
            cache: self.cache,
            manager: self.manager,
            may_replace_definitions,
            history: ReconcileHistory::default(),
            calls: CallLog::default(),
        };
        let scope = clock.scope("test");
        let run = runs.begin(1, &scope.spawner())?;
        let timeout = match self.arm {
            Arm::Embedded => TIMEOUT,
            Arm::Real | Arm::Existing => TIMEOUT_OUTSIDE,
        };
        let client = Client::builder(kube.clone()).clock(clock.clone()).build();
        let state = State {
            is_finished: false,
            plane: Some(plane.keep()),
            run,
            operators: Vec::new(),
            permissions: BTreeSet::new(),
        };
        Ok(TestEnv {
            inner: Arc::new(Inner {
                client: client.namespaced(&namespace).live(),
                kube,
                clock,
                namespace,
                arm: self.arm,
                faults: (self.arm == Arm::Embedded).then_some(faults),
                may_replace_definitions,
                verify_permissions: self.verify_permissions,
                runs,
                state: Mutex::new(state),
                scope,
            }),
            timeout: self.timeout.unwrap_or(timeout),
        })
    }

    /// Runs a whole test: starts the environment, calls the test with it, and finishes it. On the embedded arm the test runs
    /// on simulated time: an hour's wait takes no time, and a seed repeats the run. On other arms it runs in real time, on
    /// several threads.
    ///
    /// Declared permissions that a passed test did [not use](TestEnv::unused_permissions) are printed to the standard error, which
    /// `cargo test` shows with `--nocapture`.
    ///
    /// Returns the value of the test. If a test on simulated time fails, the seed is printed to standard error, in the form
    /// that repeats it.
    ///
    /// # Panics
    /// If the environment cannot be started or finished, if the test panics, with a simulated [clock](Self::clock), and on a
    /// thread that already runs a tokio runtime.
    pub fn test<T: Outcome>(self, test: impl AsyncFnOnce(TestEnv) -> T) -> T {
        assert!(
            !self.clock.as_ref().is_some_and(Clock::is_simulated),
            "no test environment: `test` makes its own simulation, and cannot run on the clock of another one; leave out `clock` \
             and use `seed`, or call `start` inside of the simulation"
        );
        let whole = async |builder: Self| {
            let env = match builder.start().await {
                Ok(env) => env,
                Err(error) => panic!("no test environment: {error}"),
            };
            let _end = AbandonOnDrop(env.clone());
            let outcome = test(env.clone()).await;
            match env.finish().await {
                Err(error) if outcome.is_failure() => {
                    // The test's own failure is the one to report.
                    eprintln!("the environment did not end well either: {error}");
                }
                Err(error) => panic!("the test is over, but its environment did not end well: {error}"),
                // What a failed test did not reach says nothing about permissions.
                Ok(()) if outcome.is_failure() => {}
                Ok(()) => env.report_unused_permissions(),
            }
            outcome
        };
        if self.arm == Arm::Embedded && self.clock.is_none() {
            let seed = match Seed::resolve(self.seed) {
                Ok(seed) => seed,
                Err(error) => panic!("no test environment: {error}"),
            };
            let simulation = Simulation::new(seed.number).failure_hint(seed.hint());
            let outcome = simulation.run(|clock| whole(self.clock(clock)));
            if outcome.is_failure() {
                eprintln!("{}", seed.hint());
            }
            return outcome;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(whole(self))
    }
}

/// Ends an environment whose test panics, also if its operator holds the environment.
struct AbandonOnDrop(TestEnv);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.inner.abandon();
    }
}

/// A server whose clean-up runs if the start of the environment fails.
struct Abandoned {
    plane: Option<Plane>,
    namespace: String,
}

impl Abandoned {
    fn get(&self) -> &Plane {
        self.plane.as_ref().expect("it is kept last")
    }

    fn keep(mut self) -> Plane {
        self.plane.take().expect("it is kept once")
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(plane) = self.plane.take() {
            plane.abandon(std::mem::take(&mut self.namespace));
        }
    }
}

impl fmt::Debug for TestEnvBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnvBuilder").field("arm", &self.arm).finish_non_exhaustive()
    }
}
