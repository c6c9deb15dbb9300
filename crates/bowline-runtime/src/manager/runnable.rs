//! One thing that a manager runs.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::stages::Door;
use crate::controller::{Controller, Duty};
use crate::{BoxError, Error};

/// When something runs, in the order in which a manager starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Servers that tell about the process: first up, last down.
    Server,
    /// Webhook servers. Before informers: a list may need a conversion webhook to be answered.
    Webhook,
    /// What others read from. The informers of the manager's clusters are started here.
    Cache,
    /// What runs on every replica.
    Other,
    /// What runs on the leader only; on the only replica there is, if there is no election.
    Elected,
}

impl Stage {
    /// All, in the order in which they start.
    pub(super) const ALL: [Self; 5] = [Self::Server, Self::Webhook, Self::Cache, Self::Other, Self::Elected];
}

/// One thing that a [`Manager`](crate::Manager) runs: a name, when it runs, and a function.
///
/// The function is called once, when its stage starts, with a token that is cancelled when it is to end. It may end by itself
/// whenever it likes; an error or a panic stops the manager.
///
/// What it writes when it needs leadership belongs behind the fence:
/// [`Manager::elected_client`](crate::Manager::elected_client).
///
/// ```
/// use std::time::Duration;
/// use bowline_runtime::{Manager, ManagerError, Runnable};
///
/// fn add_sweeper(manager: &Manager) -> Result<(), ManagerError> {
///     let clock = manager.clock().clone();
///     manager.add(Runnable::new("sweeper", |cancelled| async move {
///         while clock.timeout(Duration::from_secs(3600), cancelled.cancelled()).await.is_err() {
///             // Sweep.
///         }
///         Ok::<_, std::io::Error>(())
///     }))
/// }
/// ```
#[must_use = "a runnable does nothing until it is added to a manager"]
pub struct Runnable {
    name: String,
    stage: Stage,
    work: Work,
    /// Cancelled as soon as it can be asked how it is.
    begun: CancellationToken,
}

enum Work {
    Function(Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Error>> + Send>),
    Controller(Controller),
}

impl Runnable {
    /// A function that runs on the leader: see [`on_every_replica`](Self::on_every_replica).
    pub fn new<F, R, E>(name: impl Into<String>, function: F) -> Self
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let work = move |cancellation| {
            let outcome = function(cancellation);
            async move { outcome.await.map_err(|error| Error::from_box(error.into())) }.boxed()
        };
        let (name, work) = (name.into(), Work::Function(Box::new(work)));
        Self { name, stage: Stage::Elected, work, begun: CancellationToken::new() }
    }

    /// It runs on every replica, whichever leads.
    pub fn on_every_replica(self) -> Self {
        self.in_stage(Stage::Other)
    }

    /// It runs with a stage. By default [`Stage::Elected`]; for a controller, what it
    /// [needs](crate::ControllerBuilder::needs_leadership).
    pub fn in_stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// Its name, by which it is called in errors and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it runs.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) fn controller(&self) -> Option<&Controller> {
        match &self.work {
            Work::Controller(controller) => Some(controller),
            Work::Function(_) => None,
        }
    }

    /// When it begins.
    pub(super) fn door(&self) -> Door {
        match &self.work {
            Work::Controller(controller) if self.stage == Stage::Elected && controller.warms_up() => {
                Door::Warm
            }
            _ => Door::from(self.stage),
        }
    }

    /// Cancelled as soon as it can be asked how it is.
    pub(super) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    /// Runs it until it ends. Gives the names of parts that could not be ended.
    pub(super) async fn run(self, duty: Duty) -> Result<Vec<String>, Error> {
        match self.work {
            Work::Function(function) => {
                self.begun.cancel();
                tokio::select! {
                    biased;
                    () = duty.now.cancelled() => Ok(Vec::new()),
                    outcome = function(duty.stop) => outcome.map(|()| Vec::new()),
                }
            }
            Work::Controller(controller) => {
                let mut run = std::pin::pin!(controller.run_managed(duty));
                let first = futures::poll!(run.as_mut());
                self.begun.cancel();
                let ended = match first {
                    std::task::Poll::Ready(ended) => ended,
                    std::task::Poll::Pending => run.await,
                };
                Ok(ended?.left_behind().to_vec())
            }
        }
    }
}

impl From<Controller> for Runnable {
    fn from(controller: Controller) -> Self {
        let stage = if controller.needs_leadership() { Stage::Elected } else { Stage::Other };
        let (name, work) = (format!("controller {}", controller.name()), Work::Controller(controller));
        Self { name, stage, work, begun: CancellationToken::new() }
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runnable")
            .field("name", &self.name)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Webhook => "webhook",
            Self::Cache => "cache",
            Self::Other => "every replica",
            Self::Elected => "leader",
        })
    }
}
