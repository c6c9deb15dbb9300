//! Running an operator in a test environment.

use bowline_runtime::{Cluster, Controller, ControllerError, Error};

use super::TestEnv;

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
    /// A controller has not seen what there is in time.
    #[error("controller {controller} is not ready after {limit:?}: it waits for {}", waiting.join(", "))]
    NotReady {
        /// Its name.
        controller: String,
        /// How long was waited.
        limit: std::time::Duration,
        /// The sources that it has not seen all of, and why.
        waiting: Vec<String>,
    },
}

impl TestEnv {
    /// Builds an operator on the [cluster](Self::cluster), starts it, and waits until all its controllers reconcile. It ends
    /// with the environment.
    ///
    /// # Errors
    /// [`RunError`] when it cannot be built or started, or has not seen in time what there is.
    pub async fn run<C, E>(&self, operator: impl FnOnce(&Cluster) -> Result<C, E>) -> Result<&Self, RunError>
    where
        C: Controllers,
        E: Into<Error>,
    {
        let controllers =
            operator(self.cluster()).map_err(|error| RunError::Build(error.into().to_string()))?;
        self.start(&controllers).await
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
        for controller in &controllers {
            let Ok(ready) = self.clock().timeout(self.timeout, controller.ready()).await else {
                let waiting = controller.waiting_for();
                return Err(RunError::NotReady {
                    controller: controller.name().to_owned(),
                    limit: self.timeout,
                    waiting: waiting.iter().map(ToString::to_string).collect(),
                });
            };
            ready?;
        }
        Ok(self)
    }
}
