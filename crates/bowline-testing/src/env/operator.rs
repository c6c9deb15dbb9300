//! Running an operator in a test environment.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bowline_runtime::{Cluster, Controller, ControllerError, Error, Manager, ManagerError};

use super::TestEnv;

/// An operator, as a function that puts it together. `Form` is found out by the compiler:
/// - a function of a [`Manager`] adds to it whatever is to run: `fn operator(manager: &Manager) -> Result<()>`;
/// - a function of a [`Cluster`] returns its [`Controllers`], which run without a manager.
///
/// A closure says the type of its argument: `|manager: &Manager| …`.
pub trait Operator<Form> {
    /// Puts it together.
    ///
    /// # Errors
    /// The function's.
    fn assemble(self, manager: &Manager) -> Result<Assembled, Error>;
}

/// An [`Operator`] that was put together.
#[derive(Debug)]
#[non_exhaustive]
pub enum Assembled {
    /// The manager runs it.
    Managed,
    /// These controllers are to be started.
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
    F: FnOnce(&Manager) -> Result<R, E>,
    E: Into<Error>,
{
    fn assemble(self, manager: &Manager) -> Result<Assembled, Error> {
        self(manager).map_err(Into::into)?;
        Ok(Assembled::Managed)
    }
}

impl<F, C, E> Operator<FunctionOf<(Cluster, C, E)>> for F
where
    F: FnOnce(&Cluster) -> Result<C, E>,
    C: Controllers,
    E: Into<Error>,
{
    fn assemble(self, manager: &Manager) -> Result<Assembled, Error> {
        let controllers = self(manager.cluster()).map_err(Into::into)?;
        Ok(Assembled::Controllers(controllers.controllers()))
    }
}

/// What an operator consists of, as a function that builds it on a cluster returns it: one controller, several, or none.
pub trait Controllers {
    /// They, in the order in which they are to be started.
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
    /// It could not be built.
    #[error("cannot build the operator: {0}")]
    Build(String),
    /// A controller did not start.
    #[error(transparent)]
    Start(#[from] ControllerError),
    /// The manager ended.
    #[error(transparent)]
    Manager(#[from] ManagerError),
    /// The manager has not come as far in time as to start its controllers.
    #[error("the manager has not started its controllers after {limit:?}: {reason}")]
    NotStarted {
        /// How long was waited.
        limit: Duration,
        /// What it is at: the text of its check of readiness.
        reason: String,
    },
    /// A controller has not seen what there is in time.
    #[error("controller {controller} is not ready after {limit:?}: {}", described(waiting))]
    NotReady {
        /// Its name.
        controller: String,
        /// How long was waited.
        limit: Duration,
        /// The sources that it has not seen all of, and why.
        waiting: Vec<String>,
    },
    /// Controllers have seen what there is, but another replica leads, or nobody can.
    #[error("the manager does not lead after {limit:?}: {}", held(leader.as_deref()))]
    NotLeading {
        /// How long was waited.
        limit: Duration,
        /// Who leads, as far as is known.
        leader: Option<String>,
    },
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
    /// Puts an operator together on the [manager](Self::manager) or on its [cluster](Self::cluster), starts it, and waits
    /// until all its controllers reconcile. It ends with the environment.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be built or started, or has not seen in time what there is.
    pub async fn run<F>(&self, operator: impl Operator<F>) -> Result<&Self, RunError> {
        let assembled = operator.assemble(self.manager());
        match assembled.map_err(|error| RunError::Build(error.to_string()))? {
            Assembled::Controllers(controllers) => self.start(&controllers).await,
            Assembled::Managed => self.start_manager().await,
        }
    }

    /// Starts controllers that are built on the [cluster](Self::cluster) already, and waits until all of them reconcile. They
    /// end with the environment.
    ///
    /// # Errors
    /// [`RunError`] when one cannot be started, or has not seen in time what there is.
    pub async fn start(&self, controllers: &impl Controllers) -> Result<&Self, RunError> {
        let controllers = controllers.controllers();
        self.cluster().start();
        for controller in &controllers {
            controller.start()?;
            self.inner.lock().controllers.push(controller.clone());
        }
        self.wait_for_controllers(&controllers).await
    }

    /// Starts the [manager](Self::manager), unless it runs already, and waits until all its controllers reconcile. It ends
    /// with the environment.
    ///
    /// # Errors
    /// [`RunError`] when it has ended, or a controller has not seen in time what there is.
    pub async fn start_manager(&self) -> Result<&Self, RunError> {
        {
            let mut state = self.inner.lock();
            if state.manager.is_none() {
                let manager = self.manager().clone();
                let run = async move { manager.start().await };
                state.manager = Some(self.inner.scope.spawn("manager", run));
            }
        }
        match self.clock().timeout(self.timeout, self.manager().ready()).await {
            Ok(ready) => ready?,
            Err(_) => self.see_who_is_late(&self.manager().controllers(), true).await?,
        }
        Ok(self)
    }

    async fn wait_for_controllers(&self, controllers: &[Controller]) -> Result<&Self, RunError> {
        let all = async {
            for controller in controllers {
                controller.ready().await?;
            }
            Ok::<_, ControllerError>(())
        };
        // One limit for all of them, however many there are.
        match self.clock().timeout(self.timeout, all).await {
            Ok(ready) => ready?,
            Err(_) => self.see_who_is_late(controllers, false).await?,
        }
        Ok(self)
    }

    /// Time is over. Everybody waits for who comes first here, and that one knows best for what.
    async fn see_who_is_late(&self, controllers: &[Controller], is_managed: bool) -> Result<(), RunError> {
        let (manager, limit) = (self.manager(), self.timeout);
        let not_ready = |controller: &Controller| RunError::NotReady {
            controller: controller.name().to_owned(),
            limit,
            waiting: controller.waiting_for().iter().map(ToString::to_string).collect(),
        };
        if is_managed {
            let failing = manager.readiness().failing(self.clock()).await;
            if let Some((_, reason)) = failing.into_iter().find(|(check, _)| check == "manager") {
                return Err(RunError::NotStarted { limit, reason: reason.to_string() });
            }
        }
        if let Some(controller) = controllers.iter().find(|it| !it.waiting_for().is_empty()) {
            return Err(not_ready(controller));
        }
        if is_managed
            && let Some(elector) = manager.elector()
            && !elector.fence().is_open()
        {
            return Err(RunError::NotLeading { limit, leader: elector.leader() });
        }
        match controllers.iter().find(|controller| !controller.is_ready()) {
            Some(controller) => Err(not_ready(controller)),
            // The last one came just now.
            None => Ok(()),
        }
    }
}
