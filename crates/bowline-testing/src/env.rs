//! A test environment: an API server, a namespace in it that nobody else uses, and the cluster that an operator is built on.

mod arm;
mod builder;
mod error;
mod install;
mod operator;
mod plane;
mod report;
mod wait;

use std::fmt;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::{Clock, Scope, Spawner, Task};
use bowline_runtime::{Client, Cluster, Controller, Manager, ManagerError};

pub use arm::Arm;
pub use builder::TestEnvBuilder;
pub use error::{EnvError, FinishError};
pub use install::InstallError;
pub use operator::{Assembled, Controllers, FunctionOf, Operator, RunError};
pub use wait::WaitError;

use plane::Plane;

/// How long tasks may take to end at the end of a test.
const DRAIN: Duration = Duration::from_secs(10);

/// An API server for one test, a namespace there that nobody else uses, and a [`Manager`] with its [`Cluster`] to build an
/// operator on.
///
/// The manager has no servers, no election, and listens to no signals, unless it is
/// [told to](TestEnvBuilder::manager). The cluster's cache has what is in that namespace, and what is in none, so that tests that share a server do not see
/// each other. Everything runs on one [clock](Self::clock), which may be a simulated one.
///
/// [`finish`](Self::finish) ends the operator and takes away what the test left on a server that it shares. Dropped instead,
/// by a test that fails for example, the same happens as well as it can: tasks are aborted, a namespace on a shared server is
/// deleted, a control plane of one's own is killed. Definitions of custom kinds stay on a shared server, for other tests may
/// use them.
///
/// A clone is the same environment; the last one takes it away.
#[derive(Clone)]
pub struct TestEnv {
    inner: Arc<Inner>,
    timeout: Duration,
}

struct Inner {
    /// Before the scope, which ends what runs in it.
    manager: Manager,
    client: Client,
    scope: Scope,
    namespace: String,
    arm: Arm,
    state: Mutex<State>,
}

struct State {
    /// None when the environment is finished.
    plane: Option<Plane>,
    /// Those that were started without the manager.
    controllers: Vec<Controller>,
    /// What the manager came to, if it was started.
    manager: Option<Task<Result<(), ManagerError>>>,
}

impl TestEnv {
    /// On an embedded server of its own, in real time.
    ///
    /// # Errors
    /// [`EnvError`] when there is no server.
    pub async fn embedded() -> Result<Self, EnvError> {
        Self::builder().start().await
    }

    /// On an embedded server of its own, on the time of a [`Simulation`](bowline_clock::Simulation).
    ///
    /// # Errors
    /// [`EnvError`] when there is no server.
    pub async fn simulated(clock: Clock) -> Result<Self, EnvError> {
        Self::builder().clock(clock).start().await
    }

    /// On the arm that `BOWLINE_TEST_ARM` names, in real time: `embedded`, which is the default, `real` or `existing`. See
    /// [`Arm`].
    ///
    /// # Errors
    /// [`EnvError`] when there is no such arm, or no server.
    pub async fn from_env() -> Result<Self, EnvError> {
        Self::builder().arm(Arm::from_env()?).start().await
    }

    /// Runs a whole test on the arm that `BOWLINE_TEST_ARM` names: on simulated time where it is the embedded one. As
    /// [`TestEnvBuilder::test`].
    ///
    /// # Panics
    /// As [`TestEnvBuilder::test`], and when there is no such arm.
    pub fn test<T>(test: impl AsyncFnOnce(Self) -> T) -> T {
        match Arm::from_env() {
            Ok(arm) => Self::builder().arm(arm).test(test),
            Err(error) => panic!("no test environment: {error}"),
        }
    }

    /// With options.
    pub fn builder() -> TestEnvBuilder {
        TestEnvBuilder::default()
    }

    /// What operators are built on.
    #[must_use]
    pub fn manager(&self) -> &Manager {
        &self.inner.manager
    }

    /// The manager's cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.inner.manager.cluster()
    }

    /// A client for what the test itself does. What names no namespace is in that of the test, and reads ask the server: a
    /// test wants to know what is, not what the operator knows so far. The operator's client is that of the
    /// [cluster](Self::cluster).
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The client that everything else stands on. Its default namespace is that of the test.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        self.cluster().kube()
    }

    /// The namespace that nobody else uses: by default `test` on a server of its own, `test-…` on one that is shared.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// The clock of everything here.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.cluster().clock()
    }

    /// Where a test spawns tasks of its own, which end with the environment.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        self.inner.scope.spawner()
    }

    /// The arm that it is on.
    #[must_use]
    pub fn arm(&self) -> Arm {
        self.inner.arm
    }

    /// The embedded server, on that arm and until the environment is finished.
    #[must_use]
    pub fn server(&self) -> Option<ApiServer> {
        match &self.inner.lock().plane {
            Some(Plane::Embedded(server)) => Some(server.clone()),
            _ => None,
        }
    }

    /// The same environment, in which a wait takes at most so long.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { inner: self.inner.clone(), timeout }
    }

    /// Ends the operator and all else that runs here, and takes away what the test left on a server that it shares, or the
    /// server if it is the test's own. Once that is done, doing it again does nothing.
    ///
    /// # Errors
    /// [`FinishError`] when something is left. It is not tried again.
    pub async fn finish(&self) -> Result<(), FinishError> {
        let (plane, controllers, manager) = {
            let mut state = self.inner.lock();
            (state.plane.take(), std::mem::take(&mut state.controllers), state.manager.take())
        };
        // All of it, whatever goes wrong; what went wrong first is what is told.
        let mut outcome = Ok(());
        for controller in controllers {
            let stopped = controller.stop().await;
            outcome = outcome.and(stopped.map(drop).map_err(FinishError::Controller));
        }
        self.manager().stop();
        if let Some(manager) = manager
            && let Ok(ended) = manager.await
        {
            outcome = outcome.and(ended.map_err(FinishError::Manager));
        }
        self.cluster().stop().await;
        let drained = self.inner.scope.drain(DRAIN).await;
        if !drained.is_clean() {
            outcome = outcome.and(Err(FinishError::Tasks { tasks: drained.left().to_vec() }));
        }
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
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.scope.abort();
        let plane = self.lock().plane.take();
        if let Some(plane) = plane {
            plane.abandon(self.namespace.clone());
        }
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
