//! A test environment: an API server, a namespace for one test, and an operator that can be stopped, crashed and started
//! again.

mod arm;
mod builder;
mod calls;
mod connection;
mod error;
mod failures;
mod faults;
mod identity;
mod install;
mod operator;
mod outcome;
mod permissions;
mod plane;
mod report;
mod run;
mod seed;
mod wait;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_apiserver::faults::Faults;
use bowline_clock::{Clock, Scope, Spawner};
use bowline_runtime::{Client, Cluster, Manager, Permission, ReconcileHistory};

pub use arm::Arm;
pub use builder::TestEnvBuilder;
pub use calls::Calls;
pub use error::{EnvError, FinishError};
pub use install::InstallError;
pub use operator::{Assembled, Controllers, FunctionOf, Operator, RunError};
pub use outcome::Outcome;
pub use permissions::{MissingPermission, MissingPermissions};
pub use wait::WaitError;

use operator::OperatorFunction;
use plane::Plane;
use run::{Run, RunOptions, RunState, drain};

/// An API server for one test, a namespace there that no other test uses, and an operator.
///
/// [`start`](Self::start) runs an operator on a [`Manager`] that has no servers and no leader election, and handles no
/// signals, unless the [options](TestEnvBuilder::manager) say otherwise. Its cache holds the objects of the test's namespace
/// and cluster-scoped objects, so that tests on a shared server do not see each other. Everything runs on one
/// [clock](Self::clock), which may be a simulated one.
///
/// # Runs
/// [`stop`](Self::stop) and [`crash`](Self::crash) end the run of the operator, [`restart`](Self::restart) begins the next one
/// on the same server and clock. Each run has its own manager, cluster, cache, client and metrics, as a new process would.
/// [`history`](Self::history) and [`calls`](Self::calls) have the reconciles and requests of all runs.
///
/// # Users
/// The test and the operator are different users, each with its own client:
///
/// | arm | user of the operator |
/// |---|---|
/// | embedded | `system:serviceaccount:NAMESPACE:operator`, which has no object |
/// | real | the service account `operator` in the test's namespace, bound to `cluster-admin` |
/// | existing | the test's user, with the user agent `bowline-testing-operator` |
///
/// # The end
/// [`finish`](Self::finish) stops the operator and deletes the test's namespace from a shared server. If the environment is
/// dropped instead, for example by a test that fails, tasks are aborted, the namespace is deleted, and a control plane that
/// the environment started is killed. CRDs stay on a shared server, because other tests may use them.
///
/// A clone is the same environment. The last clone that is dropped ends it. An operator's function that holds a clone keeps
/// the environment until `finish`, or until the test fails in [`TestEnv::test`] or [`TestEnvBuilder::test`].
#[derive(Clone)]
pub struct TestEnv {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    client: Client,
    kube: kube::Client,
    clock: Clock,
    namespace: String,
    arm: Arm,
    /// Of the embedded server.
    faults: Option<Faults>,
    /// Whether CRDs that no test created may be replaced.
    may_replace_definitions: bool,
    /// Whether a request without a permission is an error of `finish`.
    verify_permissions: bool,
    runs: RunOptions,
    state: Mutex<State>,
    /// After the managers: its end is the end of all tasks.
    scope: Scope,
}

struct State {
    /// Whether the end of the environment has begun.
    is_finished: bool,
    /// None when it was left or abandoned.
    plane: Option<Plane>,
    /// The current run, or the last one.
    run: Run,
    /// The operators of this run, in the order of their start.
    operators: Vec<OperatorFunction>,
    /// Permissions of earlier runs.
    permissions: BTreeSet<Permission>,
}

impl TestEnv {
    /// Starts an environment on an embedded server, in real time.
    ///
    /// # Errors
    /// [`EnvError`] if the server cannot be built.
    pub async fn embedded() -> Result<Self, EnvError> {
        Self::builder().start().await
    }

    /// Starts an environment on an embedded server, on the clock of a [`Simulation`](bowline_clock::Simulation).
    ///
    /// # Errors
    /// [`EnvError`] if the server cannot be built.
    pub async fn simulated(clock: Clock) -> Result<Self, EnvError> {
        Self::builder().clock(clock).start().await
    }

    /// Starts an environment on the [`Arm`] that `BOWLINE_TEST_ARM` names, in real time. Default: `embedded`.
    ///
    /// # Errors
    /// [`EnvError`] if the variable names no arm, or the server cannot be used.
    pub async fn from_env() -> Result<Self, EnvError> {
        Self::builder().arm(Arm::from_env()?).start().await
    }

    /// Runs a whole test on the [`Arm`] that `BOWLINE_TEST_ARM` names, as [`TestEnvBuilder::test`] does: on simulated time on
    /// the embedded arm. Default: `embedded`.
    ///
    /// # Panics
    /// As [`TestEnvBuilder::test`], and if `BOWLINE_TEST_ARM` names no arm.
    pub fn test<T: Outcome>(test: impl AsyncFnOnce(Self) -> T) -> T {
        match Arm::from_env() {
            Ok(arm) => Self::builder().arm(arm).test(test),
            Err(error) => panic!("no test environment: {error}"),
        }
    }

    /// Options of an environment.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }

    /// The manager of the current run. After [`stop`](Self::stop) and [`crash`](Self::crash), that of the run that ended.
    #[must_use]
    pub fn manager(&self) -> Manager {
        self.inner.lock().run.manager.clone()
    }

    /// The cluster of that [manager](Self::manager), for controllers that a test builds by hand. Its client is the operator's.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        self.inner.lock().run.manager.cluster().clone()
    }

    /// The test's client. Requests without a namespace are in the test's. It reads from the server, never from the operator's
    /// cache.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The `kube` client of the test's user. Its default namespace is the test's.
    #[must_use]
    pub fn kube_client(&self) -> &kube::Client {
        &self.inner.kube
    }

    /// The reconciles of all runs, on all clusters of their managers. [Records](bowline_runtime::ReconcileRecord::run) have the
    /// number of their run, from 1. The history keeps the last 256 reconciles of all runs together, and separately the last 64
    /// [failures](ReconcileHistory::failures); to see more, [subscribe](ReconcileHistory::subscribe) before the first run.
    #[must_use]
    pub fn history(&self) -> &ReconcileHistory {
        &self.inner.runs.history
    }

    /// The requests that the operator sent in all runs, as RBAC sees them. Requests that failed count too; requests of the
    /// test's own [clients](Self::client) do not.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.inner.runs.calls.all()
    }

    /// The test's namespace. Default: `test` on a server of its own, `test-RANDOM` on a shared one.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The clock of the test, the operator and the embedded server.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// Spawns tasks of the test. They end with the environment, not with the operator.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        self.inner.scope.spawner()
    }

    /// The arm of this environment.
    #[must_use]
    pub fn arm(&self) -> Arm {
        self.inner.arm
    }

    /// The embedded server. None on other arms and when the environment is finished.
    #[must_use]
    pub fn server(&self) -> Option<ApiServer> {
        match &self.inner.lock().plane {
            Some(Plane::Embedded(server)) => Some(server.clone()),
            _ => None,
        }
    }

    /// The same environment with another limit for waits.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { inner: self.inner.clone(), timeout }
    }

    /// Removes all rules of the [fault kit](Self::faults), stops the operator and all other tasks, and deletes the test's
    /// namespace from a shared server, or stops the server if it is the environment's own. A second call does nothing. If a
    /// call is dropped before its end, the next one does the rest.
    ///
    /// It compares the operator's requests with its permissions: a request [without one](Self::missing_permissions) is an error.
    ///
    /// # Errors
    /// [`FinishError`] with the first failure. The other steps are done all the same, and nothing is tried again.
    pub async fn finish(&self) -> Result<(), FinishError> {
        if let Some(faults) = &self.inner.faults {
            // A held request would keep the operator from stopping.
            faults.remove_all();
        }
        let (operators, ending, was_finished) = {
            let mut state = self.inner.lock();
            let was_finished = std::mem::replace(&mut state.is_finished, true);
            // An operator's function may hold this environment.
            (std::mem::take(&mut state.operators), state.run.close(RunState::Stopped), was_finished)
        };
        drop(operators);
        let mut outcome = ending.stop().await;
        if self.inner.verify_permissions && !was_finished {
            let missing = self.missing_permissions();
            if !missing.is_empty() {
                outcome = outcome.and(Err(FinishError::Permissions(missing)));
            }
        }
        let drained = drain(&self.inner.scope).await;
        outcome = outcome.and(drained);
        let plane = self.inner.lock().plane.take();
        if let Some(plane) = plane {
            outcome = outcome.and(plane.leave(&self.inner.namespace).await);
        }
        outcome
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the environment without waiting for its tasks. Does nothing after [`TestEnv::finish`].
    fn abandon(&self) {
        let (operators, plane) = {
            let mut state = self.lock();
            state.is_finished = true;
            (std::mem::take(&mut state.operators), state.plane.take())
        };
        self.scope.abort();
        drop(operators);
        if let Some(plane) = plane {
            plane.abandon(self.namespace.clone());
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for TestEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEnv")
            .field("arm", &self.inner.arm)
            .field("namespace", &self.inner.namespace)
            .finish_non_exhaustive()
    }
}
