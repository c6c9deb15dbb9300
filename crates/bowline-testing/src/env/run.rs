//! One run of an operator: from a fresh manager to its stop or crash.

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{CacheOptions, SelectionSettings};
use bowline_clock::{Scope, Spawner, Task, TaskError};
use bowline_runtime::{Controller, Manager, ManagerBuilder, ManagerError, ReconcileHistory};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::calls::CallLog;
use super::connection::OperatorServer;
use super::{EnvError, FinishError};

/// Time for tasks to end after a stop or a crash.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Changes options; called for each run.
pub(super) type Change<T> = Box<dyn Fn(T) -> T + Send + Sync>;

/// Options of every run's manager.
pub(super) struct RunOptions {
    pub(super) server: OperatorServer,
    pub(super) namespace: String,
    pub(super) all_namespaces: bool,
    pub(super) cache: Change<CacheOptions>,
    pub(super) manager: Change<ManagerBuilder>,
    /// Whether a CRD that no test created may be replaced.
    pub(super) may_replace_definitions: bool,
    pub(super) history: ReconcileHistory,
    pub(super) calls: CallLog,
}

/// A manager, and what runs of it. Each run has its own cluster, cache, client, metrics and tasks.
pub(super) struct Run {
    /// From 1.
    pub(super) number: u32,
    pub(super) manager: Manager,
    pub(super) state: RunState,
    /// Controllers that were started without the manager.
    pub(super) controllers: Vec<Controller>,
    /// The result of the manager, if it was started.
    pub(super) task: Option<Task<Result<(), ManagerError>>>,
    /// None while the run is open.
    ending: Option<Ending>,
    /// Cancelled when nothing more is sent for this run.
    cut: CancellationToken,
    history: ReconcileHistory,
    scope: Arc<Scope>,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunState {
    /// It goes on, started or not.
    Open,
    /// It was stopped, or is being stopped.
    Stopped,
    /// It was crashed, or is being crashed.
    Crashed,
}

/// The end of a run. Clones are the same end, for several callers.
#[derive(Clone)]
pub(super) struct Ending {
    /// Locked by the caller that stops the run. If that caller is dropped, the next one continues.
    shutdown: Arc<Mutex<Shutdown>>,
    cut: CancellationToken,
    history: ReconcileHistory,
    /// Cancelled when the run has ended.
    ended: CancellationToken,
    scope: Arc<Scope>,
}

/// The graceful part of a stop. Each step may be done again.
struct Shutdown {
    manager: Manager,
    controllers: Vec<Controller>,
    /// None when its result is known.
    task: Option<Task<Result<(), ManagerError>>>,
    first_error: Option<FinishError>,
}

impl RunOptions {
    /// A fresh manager that is not started.
    pub(super) fn begin(&self, number: u32, spawner: &Spawner) -> Result<Run, EnvError> {
        let cut = CancellationToken::new();
        let kube = self.server.client(&self.namespace, self.calls.clone(), cut.clone())?;
        let scope = spawner.scope("operator");
        let mut cache = CacheOptions::new();
        if !self.all_namespaces {
            cache = cache.namespaces([(self.namespace.as_str(), SelectionSettings::new())]);
        }
        let cache = (self.cache)(cache);
        let history = self.history.for_run(number);
        let manager = Manager::builder(&scope.spawner(), kube)
            .history(history.clone())
            .cluster(|cluster| cluster.cache(cache));
        let mut manager = (self.manager)(manager);
        if !self.may_replace_definitions {
            // The manager would replace definitions of others. The environment installs the declared ones itself.
            manager = manager.install_crds(false);
        }
        Ok(Run {
            number,
            manager: manager.build()?,
            state: RunState::Open,
            controllers: Vec::new(),
            task: None,
            ending: None,
            cut,
            history,
            scope: Arc::new(scope),
        })
    }
}

impl Run {
    pub(super) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// The end of the run. None while the run is open.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.ending.clone()
    }

    /// Whether nothing of the run is left, apart from tasks that could not be aborted.
    pub(super) fn has_ended(&self) -> bool {
        self.ending.as_ref().is_some_and(Ending::is_over)
    }

    /// Marks the run as stopped or crashed, and returns its end. A run that is being stopped may still be crashed.
    pub(super) fn close(&mut self, state: RunState) -> Ending {
        if self.state == RunState::Open || (state == RunState::Crashed && !self.has_ended()) {
            self.state = state;
        }
        let ending = self.ending.get_or_insert_with(|| Ending {
            shutdown: Arc::new(Mutex::new(Shutdown {
                manager: self.manager.clone(),
                controllers: std::mem::take(&mut self.controllers),
                task: self.task.take(),
                first_error: None,
            })),
            cut: self.cut.clone(),
            history: self.history.clone(),
            ended: CancellationToken::new(),
            scope: self.scope.clone(),
        });
        ending.clone()
    }
}

impl Ending {
    fn is_over(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Stops gracefully, and waits until the run has ended. Everything is ended, and the first error is returned, to one
    /// caller. A crash meanwhile ends the rest at once.
    pub(super) async fn stop(&self) -> Result<(), FinishError> {
        let mut shutdown = tokio::select! {
            biased;
            () = self.ended.cancelled() => return Ok(()),
            shutdown = self.shutdown.lock() => shutdown,
        };
        tokio::select! {
            biased;
            () = self.cut.cancelled() => {}
            () = shutdown.run() => {}
        }
        let drained = drain(&self.scope).await;
        self.cut.cancel();
        self.ended.cancel();
        shutdown.first_error.take().map_or(drained, Err)
    }

    /// Aborts everything that has not ended: when this returns, nothing of the run acts any more.
    pub(super) async fn crash(&self) -> Result<(), FinishError> {
        if self.is_over() {
            return Ok(());
        }
        // In this order: a reconcile that another thread is polling right now sees its requests fail, which is no failure of
        // the operator.
        self.history.stop_recording();
        self.scope.abort();
        self.cut.cancel();
        let drained = drain(&self.scope).await;
        self.ended.cancel();
        drained
    }
}

impl Shutdown {
    async fn run(&mut self) {
        for controller in &self.controllers {
            if let Err(error) = controller.stop().await {
                self.first_error.get_or_insert(FinishError::Controller(error));
            }
        }
        self.manager.request_stop();
        if let Some(task) = &mut self.task {
            let error = match task.await {
                Ok(ended) => ended.err().map(FinishError::Manager),
                Err(error @ TaskError::Panicked { .. }) => Some(FinishError::Panicked(error)),
                // Only a crash aborts it.
                Err(_) => None,
            };
            self.task = None;
            self.first_error = self.first_error.take().or(error);
        }
        self.manager.cluster().stop().await;
    }
}

/// Waits until no task of a scope is left.
pub(super) async fn drain(scope: &Scope) -> Result<(), FinishError> {
    let drained = scope.drain(DRAIN_TIMEOUT).await;
    if drained.is_clean() {
        return Ok(());
    }
    Err(FinishError::Tasks { tasks: drained.left().to_vec() })
}
