//! The stages of a manager: their order, and the tasks of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Scope, Spawner};
use tokio_util::sync::CancellationToken;

use super::runnable::Stage;

/// The phases of a start: the stages, and the warm-up of leader-only controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StartPhase {
    Server,
    Webhook,
    Cache,
    EveryReplica,
    Warm,
    Elected,
}

impl From<Stage> for StartPhase {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Server => Self::Server,
            Stage::Webhook => Self::Webhook,
            Stage::Cache => Self::Cache,
            Stage::EveryReplica => Self::EveryReplica,
            Stage::Elected => Self::Elected,
        }
    }
}

/// The tasks of each stage.
pub(super) struct RunnableGroups {
    server: RunnableGroup,
    webhook: RunnableGroup,
    cache: RunnableGroup,
    other: RunnableGroup,
    elected: RunnableGroup,
}

/// The tasks of a stage.
pub(super) struct RunnableGroup {
    scope: Scope,
    /// Ends all tasks at once.
    now: CancellationToken,
    running: Arc<Mutex<Names>>,
}

#[derive(Default)]
struct Names {
    next: u64,
    of: BTreeMap<u64, String>,
}

/// The name of a running task, until it is dropped.
struct Named {
    number: u64,
    running: Arc<Mutex<Names>>,
}

impl RunnableGroups {
    pub(super) fn new(spawner: &Spawner) -> Self {
        let group = |stage: Stage| RunnableGroup {
            scope: spawner.scope(stage.to_string()),
            now: CancellationToken::new(),
            running: Arc::default(),
        };
        Self {
            server: group(Stage::Server),
            webhook: group(Stage::Webhook),
            cache: group(Stage::Cache),
            other: group(Stage::EveryReplica),
            elected: group(Stage::Elected),
        }
    }

    pub(super) fn of(&self, stage: Stage) -> &RunnableGroup {
        match stage {
            Stage::Server => &self.server,
            Stage::Webhook => &self.webhook,
            Stage::Cache => &self.cache,
            Stage::EveryReplica => &self.other,
            Stage::Elected => &self.elected,
        }
    }
}

impl RunnableGroup {
    /// Runs a task with a name.
    pub(super) fn run(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) {
        let named = Named::new(name, &self.running);
        self.scope.spawn(name, async move {
            future.await;
            drop(named);
        });
    }

    /// The names of the running tasks.
    pub(super) fn running(&self) -> Vec<String> {
        lock(&self.running).of.values().cloned().collect()
    }

    /// The spawner of the tasks.
    pub(super) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// Cancelled when the tasks should end gracefully.
    pub(super) fn stop(&self) -> CancellationToken {
        self.scope.cancellation()
    }

    /// Cancelled when the tasks must end at once.
    pub(super) fn now(&self) -> &CancellationToken {
        &self.now
    }

    /// Stops all tasks: cancels [`stop`](Self::stop) and waits, then cancels [`now`](Self::now) and waits briefly, then
    /// aborts the rest. Returns the names of the tasks that did not end gracefully.
    pub(super) async fn end(&self, clock: &Clock, limit: Duration, moment: Duration) -> Vec<String> {
        self.stop().cancel();
        if clock.timeout(limit, self.scope.wait_ended()).await.is_ok() {
            self.scope.abort();
            return Vec::new();
        }
        let late = self.running();
        self.now.cancel();
        // Late tasks were named above.
        let _named = self.scope.drain(moment).await;
        late
    }
}

impl Named {
    fn new(name: &str, running: &Arc<Mutex<Names>>) -> Self {
        let mut names = lock(running);
        let number = names.next;
        names.next += 1;
        names.of.insert(number, name.to_owned());
        drop(names);
        Self { number, running: running.clone() }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        lock(&self.running).of.remove(&self.number);
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}
