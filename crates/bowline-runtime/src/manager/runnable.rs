//! A part of an operator that a manager runs.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::stages::StartPhase;
use crate::controller::{Controller, RunControl};
use crate::{BoxError, Error};

/// The stage in which a runnable starts, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Servers for metrics and health: started first, stopped last.
    Server,
    /// Webhook servers. They start before informers, since a list may need a conversion webhook. With a runnable in
    /// this stage, the process is [ready](crate::Manager::readiness) when all of them [serve](Runnable::serving_when),
    /// and does not wait for sync.
    Webhook,
    /// Caches. The informers of the manager's clusters start here.
    Cache,
    /// Work on every replica.
    EveryReplica,
    /// Leader-only work. Without an election it runs in every process.
    Elected,
}

impl Stage {
    /// All stages, in start order.
    pub(super) const ALL: [Self; 5] =
        [Self::Server, Self::Webhook, Self::Cache, Self::EveryReplica, Self::Elected];
}

/// A part of an operator that a [`Manager`](crate::Manager) runs: a name, a stage, and a function.
///
/// The function is called once, when its stage starts, with a token that is cancelled when it should end. It may end by
/// itself at any time; an error or a panic stops the manager.
///
/// Leader-only work writes through the fence: [`Manager::elected_client`](crate::Manager::elected_client).
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
    service: Service,
}

/// The state of a runnable, shared with status reports.
#[derive(Clone, Default)]
pub(super) struct Service {
    /// Cancelled when its function has been called.
    begun: CancellationToken,
    /// Cancelled when it has ended.
    ended: CancellationToken,
    /// Its own report, if it has one.
    is_serving: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Service {
    pub(super) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    /// Whether others need not wait for it: it serves, or has ended.
    pub(super) fn is_serving(&self) -> bool {
        self.ended.is_cancelled()
            || (self.begun.is_cancelled() && self.is_serving.as_ref().is_none_or(|is_serving| is_serving()))
    }
}

enum Work {
    Function(Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), Error>> + Send>),
    Controller(Controller),
}

impl Runnable {
    /// A function that runs on the leader. For all replicas see [`on_every_replica`](Self::on_every_replica).
    pub fn new<F, R, E>(name: impl Into<String>, function: F) -> Self
    where
        F: FnOnce(CancellationToken) -> R + Send + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let work = move |cancellation| {
            let outcome = function(cancellation);
            async move { outcome.await.map_err(|error| Error::from_boxed(error.into())) }.boxed()
        };
        let (name, work) = (name.into(), Work::Function(Box::new(work)));
        Self { name, stage: Stage::Elected, work, service: Service::default() }
    }

    /// Runs on every replica, leader or not.
    pub fn on_every_replica(self) -> Self {
        self.in_stage(Stage::EveryReplica)
    }

    /// Sets the stage. Default: [`Stage::Elected`]; for a controller, the one that
    /// [`needs_leadership`](crate::ControllerBuilder::needs_leadership) implies.
    pub fn in_stage(mut self, stage: Stage) -> Self {
        self.stage = stage;
        self
    }

    /// Reports whether the runnable serves requests. With runnables in [`Stage::Webhook`], the process is
    /// [ready](crate::Manager::readiness) when all of them serve. Default: true once the function was called, which is
    /// right for a server with an already bound port. A runnable that has ended does not count.
    ///
    /// Each probe calls it; it must not block its thread.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use bowline_runtime::{Manager, ManagerError, Runnable, Stage};
    /// use tokio::net::TcpListener;
    ///
    /// fn add_webhooks(manager: &Manager) -> Result<(), ManagerError> {
    ///     let is_bound = Arc::new(AtomicBool::new(false));
    ///     let bound = is_bound.clone();
    ///     let webhooks = Runnable::new("webhooks", |cancelled| async move {
    ///         let listener = TcpListener::bind("[::]:9443").await?;
    ///         bound.store(true, Ordering::Relaxed);
    ///         // Serve.
    ///         cancelled.cancelled().await;
    ///         drop(listener);
    ///         Ok::<_, std::io::Error>(())
    ///     });
    ///     manager.add(webhooks.in_stage(Stage::Webhook).serving_when(move || is_bound.load(Ordering::Relaxed)))
    /// }
    /// ```
    pub fn serving_when(mut self, is_serving: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.service.is_serving = Some(Arc::new(is_serving));
        self
    }

    /// Its name in errors and logs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its stage.
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

    /// The phase in which it starts.
    pub(super) fn phase(&self) -> StartPhase {
        match &self.work {
            Work::Controller(controller) if self.stage == Stage::Elected && controller.warms_up() => {
                StartPhase::Warm
            }
            _ => StartPhase::from(self.stage),
        }
    }

    /// Its state, also while it runs.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Runs it until it ends. Returns the names of parts that could not be ended.
    pub(super) async fn run(self, duty: RunControl) -> Result<Vec<String>, Error> {
        let _ended = self.service.ended.clone().drop_guard();
        match self.work {
            Work::Function(function) => {
                self.service.begun.cancel();
                tokio::select! {
                    biased;
                    () = duty.abort.cancelled() => Ok(Vec::new()),
                    outcome = function(duty.stop) => outcome.map(|()| Vec::new()),
                }
            }
            Work::Controller(controller) => {
                let mut run = std::pin::pin!(controller.run_managed(duty));
                let first = futures::poll!(run.as_mut());
                self.service.begun.cancel();
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
        let stage = if controller.needs_leadership() { Stage::Elected } else { Stage::EveryReplica };
        let (name, work) = (format!("controller {}", controller.name()), Work::Controller(controller));
        Self { name, stage, work, service: Service::default() }
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
            Self::EveryReplica => "every replica",
            Self::Elected => "leader",
        })
    }
}
