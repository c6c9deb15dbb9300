//! Starting, stopping, crashing and restarting an operator.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::{BoxError, Cluster, Controller, ControllerError, Error, Manager, ManagerError};

use super::run::RunState;
use super::{EnvError, FinishError, InstallError, TestEnv};

/// An operator: a function that assembles it, called for each run. The compiler finds `Form`:
/// - a function of a [`Manager`] adds controllers and runnables to it: `fn operator(manager: &Manager) -> Result<()>`;
/// - a function of a [`Cluster`] returns its [`Controllers`], which run without a manager.
///
/// A closure states the type of its argument: `|manager: &Manager| …`. It owns what it captures, and is called again by
/// [`TestEnv::restart`]. The environment keeps it until [`TestEnv::finish`].
pub trait Operator<Form>: Send + Sync + 'static {
    /// Assembles the operator.
    ///
    /// # Errors
    /// Those of the function.
    fn assemble(&self, manager: &Manager) -> Result<Assembled, Error>;
}

/// An operator of any form, to be assembled in each run.
pub(super) type OperatorFunction = Arc<dyn Fn(&Manager) -> Result<Assembled, Error> + Send + Sync>;

/// An [`Operator`] that was assembled.
#[derive(Debug)]
#[non_exhaustive]
pub enum Assembled {
    /// The manager runs it.
    Managed,
    /// These controllers are started.
    Controllers(Vec<Controller>),
}

/// The form of an [`Operator`] that is a function of a `T`.
pub struct FunctionOf<T: ?Sized>(PhantomData<fn(&T)>);

impl<T: ?Sized> fmt::Debug for FunctionOf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FunctionOf")
    }
}

impl<F, R, E> Operator<FunctionOf<(Manager, R, E)>> for F
where
    F: Fn(&Manager) -> Result<R, E> + Send + Sync + 'static,
    E: Into<Error>,
{
    fn assemble(&self, manager: &Manager) -> Result<Assembled, Error> {
        self(manager).map_err(Into::into)?;
        Ok(Assembled::Managed)
    }
}

impl<F, C, E> Operator<FunctionOf<(Cluster, C, E)>> for F
where
    F: Fn(&Cluster) -> Result<C, E> + Send + Sync + 'static,
    C: Controllers,
    E: Into<Error>,
{
    fn assemble(&self, manager: &Manager) -> Result<Assembled, Error> {
        let controllers = self(manager.cluster()).map_err(Into::into)?;
        Ok(Assembled::Controllers(controllers.controllers()))
    }
}

/// The return value of an operator's function of a cluster: one controller, several, or none.
pub trait Controllers {
    /// The controllers, in the order of their start.
    fn controllers(&self) -> Vec<Controller>;
}

impl Controllers for () {
    fn controllers(&self) -> Vec<Controller> {
        Vec::new()
    }
}

impl Controllers for Controller {
    fn controllers(&self) -> Vec<Controller> {
        vec![self.clone()]
    }
}

impl<const N: usize> Controllers for [Controller; N] {
    fn controllers(&self) -> Vec<Controller> {
        self.to_vec()
    }
}

impl Controllers for Vec<Controller> {
    fn controllers(&self) -> Vec<Controller> {
        self.clone()
    }
}

/// Why an operator does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its function failed.
    #[error("cannot build the operator: {message}")]
    Build {
        /// Text of its error and the sources.
        message: String,
        /// Its error.
        source: BoxError,
    },
    /// A declared CRD is not served.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A controller did not start.
    #[error(transparent)]
    Start(#[from] ControllerError),
    /// The manager ended.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// The manager has not started its controllers in time.
    #[error("the manager has not started its controllers after {limit:?}: {reason}")]
    NotStarted {
        /// Time waited.
        limit: Duration,
        /// Text of its readiness check.
        reason: String,
    },
    /// A controller has not synced in time.
    #[error("controller {controller} is not ready after {limit:?}: {}", described(waiting))]
    NotReady {
        /// Its name.
        controller: String,
        /// Time waited.
        limit: Duration,
        /// Sources that have not synced, and why.
        waiting: Vec<String>,
    },
    /// The controllers have synced, but this manager does not lead.
    #[error("the manager does not lead after {limit:?}: {}", held(leader.as_deref()))]
    NotLeading {
        /// Time waited.
        limit: Duration,
        /// Identity of the last known leader.
        leader: Option<String>,
    },
    /// The run was stopped or crashed.
    #[error("run {run} of the operator has {end}; call `restart`, or `start` with an operator")]
    Ended {
        /// Number of the run.
        run: u32,
        /// `stopped` or `crashed`.
        end: &'static str,
    },
    /// The operator did not stop well before its restart.
    #[error("cannot restart the operator, because its stop failed: {0}")]
    Stop(#[from] FinishError),
    /// The next run has no manager.
    #[error("cannot begin another run of the operator: {0}")]
    Begin(#[source] Box<EnvError>),
    /// The environment is finished.
    #[error("the environment is finished; start the operator before `finish`")]
    Finished,
}

/// Why a manager does not lead.
fn held(leader: Option<&str>) -> String {
    match leader {
        Some(leader) => format!("it waits for leadership, which {leader} has"),
        None => "it waits for leadership, and has seen no leader".to_owned(),
    }
}

/// Why a controller is not ready.
fn described(waiting: &[String]) -> String {
    if waiting.is_empty() {
        return "it has not begun to reconcile".to_owned();
    }
    format!("it waits for {}", waiting.join(", "))
}

impl TestEnv {
    /// Assembles an operator on the [manager](Self::manager) or its [cluster](Self::cluster), installs the CRDs that it
    /// [declares](Manager::crd), starts it, and waits until all its controllers reconcile.
    ///
    /// A second operator joins the first one in the same manager. After [`stop`](Self::stop) or [`crash`](Self::crash), a new
    /// run begins, with this operator in place of the earlier ones: an upgrade, for example.
    ///
    /// # Errors
    /// [`RunError`] if it cannot be assembled or started, or its controllers do not reconcile in time.
    pub async fn start<F>(&self, operator: impl Operator<F>) -> Result<&Self, RunError> {
        let ending = self.inner.lock().run.ending();
        if let Some(ending) = ending {
            ending.stop().await?;
            // If another caller has begun the next run meanwhile, the operator joins it.
            self.begin_run(Vec::clear)?;
        }
        let function: OperatorFunction = Arc::new(move |manager| operator.assemble(manager));
        let keep = || self.inner.lock().operators.push(function.clone());
        self.launch(std::slice::from_ref(&function), keep).await
    }

    /// Stops the operator gracefully, as a signal would: running reconciles end, the lease is released, waiting events are
    /// written. The server and the test go on. Does nothing if the operator has ended already, and waits for its end if
    /// another caller ends it. If a call is dropped before its end, the operator is still being stopped: the next `stop`,
    /// [`start`](Self::start), [`restart`](Self::restart) or [`finish`](Self::finish) does the rest, or a `crash` ends it.
    ///
    /// # Errors
    /// [`FinishError`] if the operator did not end well. It has ended all the same. Of several callers, one gets the error.
    pub async fn stop(&self) -> Result<&Self, FinishError> {
        let ending = self.inner.lock().run.close(RunState::Stopped);
        ending.stop().await?;
        Ok(self)
    }

    /// Kills the operator, as `SIGKILL` would: its requests fail from now on, its connections are cut, its tasks are aborted
    /// wherever they wait. Nothing stops gracefully, and no lease is released. Then the world can be inspected while the
    /// operator is down; [`restart`](Self::restart) starts it again.
    ///
    /// When this returns, nothing of the run acts any more: its tasks are gone, and blocking work has ended. A request that
    /// the server had received may still be carried out, as on every server. Tasks and waits of the test go on.
    ///
    /// An operator that is being stopped is killed too. Does nothing if it has ended already.
    ///
    /// # Errors
    /// [`FinishError::Tasks`] if blocking work did not end within 10 seconds.
    pub async fn crash(&self) -> Result<&Self, FinishError> {
        let ending = self.inner.lock().run.close(RunState::Crashed);
        ending.crash().await?;
        Ok(self)
    }

    /// Begins the next run of the operator: stops it gracefully if it runs, calls the functions of all operators that were
    /// [started](Self::start) again, with a fresh manager on the same server and clock, and waits until their controllers
    /// reconcile. Controllers that the test built by hand are not built again.
    ///
    /// After a crash of a leader, the lease must expire first: use [`within`](Self::within) with a limit that is longer.
    ///
    /// # Errors
    /// [`RunError`] as [`start`](Self::start), and if the stop failed.
    pub async fn restart(&self) -> Result<&Self, RunError> {
        let operators = loop {
            self.stop().await?;
            // Unless another caller has begun the next run meanwhile.
            if let Some(operators) = self.begin_run(|operators| operators.clone())? {
                break operators;
            }
        };
        if operators.is_empty() {
            return Ok(self);
        }
        self.launch(&operators, || ()).await
    }

    /// Starts controllers that were built on the [cluster](Self::cluster), and waits until all of them reconcile. They end with
    /// the run.
    ///
    /// # Errors
    /// [`RunError`] if one cannot be started, or does not reconcile in time.
    pub async fn start_controllers(&self, controllers: &impl Controllers) -> Result<&Self, RunError> {
        let controllers = controllers.controllers();
        let cluster = {
            let state = self.inner.lock();
            check_open(state.run.number, state.run.state)?;
            state.run.manager.cluster().clone()
        };
        cluster.start();
        for controller in &controllers {
            controller.start()?;
            self.inner.lock().run.controllers.push(controller.clone());
        }
        self.wait_for_controllers(&controllers).await
    }

    /// Starts the [manager](Self::manager) unless it runs already, and waits until all its controllers reconcile. It ends with
    /// the run.
    ///
    /// # Errors
    /// [`RunError`] if it has ended, or a controller does not reconcile in time.
    pub async fn start_manager(&self) -> Result<&Self, RunError> {
        let manager = {
            let mut state = self.inner.lock();
            let run = &mut state.run;
            check_open(run.number, run.state)?;
            let manager = run.manager.clone();
            if run.task.is_none() {
                let running = manager.clone();
                run.task = Some(run.spawner().spawn("manager", async move { running.run().await }));
            }
            manager
        };
        match self.clock().timeout(self.timeout, manager.wait_ready()).await {
            Ok(ready) => ready?,
            Err(_) => self.explain_delay(&manager.controllers(), Some(&manager)).await?,
        }
        Ok(self)
    }

    /// A fresh run in place of one that has ended, and the result of the function of the operators so far. None if the
    /// current run has not ended.
    fn begin_run<T>(
        &self,
        operators: impl FnOnce(&mut Vec<OperatorFunction>) -> T,
    ) -> Result<Option<T>, RunError> {
        let mut state = self.inner.lock();
        if state.is_finished {
            return Err(RunError::Finished);
        }
        if !state.run.has_ended() {
            return Ok(None);
        }
        let next = self.inner.runs.begin(state.run.number + 1, &self.inner.scope.spawner());
        let next = next.map_err(|error| RunError::Begin(Box::new(error)))?;
        let last = std::mem::replace(&mut state.run, next);
        state.permissions.extend(last.manager.cluster().permissions());
        let result = operators(&mut state.operators);
        drop(state);
        drop(last);
        Ok(Some(result))
    }

    /// Assembles operators in the current run, and starts them.
    async fn launch(
        &self,
        operators: &[OperatorFunction],
        on_assembled: impl FnOnce(),
    ) -> Result<&Self, RunError> {
        let manager = self.manager();
        let (mut is_managed, mut controllers) = (false, None);
        for operator in operators {
            let assembled = operator(&manager)
                .map_err(|error| RunError::Build { message: error.to_string(), source: error.into() })?;
            match assembled {
                Assembled::Managed => is_managed = true,
                Assembled::Controllers(more) => controllers.get_or_insert_with(Vec::new).extend(more),
            }
        }
        on_assembled();
        for definition in manager.crds()? {
            self.install_definition(&definition).await?;
        }
        if let Some(controllers) = controllers {
            self.start_controllers(&controllers).await?;
        }
        if is_managed {
            self.start_manager().await?;
        }
        Ok(self)
    }

    async fn wait_for_controllers(&self, controllers: &[Controller]) -> Result<&Self, RunError> {
        let all = async {
            for controller in controllers {
                controller.wait_ready().await?;
            }
            Ok::<_, ControllerError>(())
        };
        // All controllers share one limit.
        match self.clock().timeout(self.timeout, all).await {
            Ok(ready) => ready?,
            Err(_) => self.explain_delay(controllers, None).await?,
        }
        Ok(self)
    }

    /// The error after the limit: the first cause in the order of the start, because later stages wait for it.
    async fn explain_delay(
        &self,
        controllers: &[Controller],
        manager: Option<&Manager>,
    ) -> Result<(), RunError> {
        let limit = self.timeout;
        let not_ready = |controller: &Controller| RunError::NotReady {
            controller: controller.name().to_owned(),
            limit,
            waiting: controller.waiting_for().iter().map(ToString::to_string).collect(),
        };
        if let Some(manager) = manager {
            let failing = manager.readiness().failing(self.clock()).await;
            if let Some((_, reason)) = failing.into_iter().find(|(check, _)| check == "manager") {
                return Err(RunError::NotStarted { limit, reason: reason.to_string() });
            }
        }
        if let Some(controller) = controllers.iter().find(|it| !it.waiting_for().is_empty()) {
            return Err(not_ready(controller));
        }
        if let Some(elector) = manager.and_then(Manager::elector)
            && !elector.fence().is_open()
        {
            return Err(RunError::NotLeading { limit, leader: elector.leader() });
        }
        match controllers.iter().find(|controller| !controller.is_ready()) {
            Some(controller) => Err(not_ready(controller)),
            // The last one became ready just now.
            None => Ok(()),
        }
    }
}

impl TestEnv {
    /// End of the current run, if it has ended.
    pub(super) fn ended_run(&self) -> Option<String> {
        let state = self.inner.lock();
        let RunError::Ended { run, end } = check_open(state.run.number, state.run.state).err()? else {
            return None;
        };
        Some(format!("run {run} has {end}"))
    }
}

/// An error if a run has ended.
fn check_open(run: u32, state: RunState) -> Result<(), RunError> {
    match state {
        RunState::Open => Ok(()),
        RunState::Stopped => Err(RunError::Ended { run, end: "stopped" }),
        RunState::Crashed => Err(RunError::Ended { run, end: "crashed" }),
    }
}
