//! The stages of a manager: the order in which they begin, and what runs in each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_clock::{Clock, Scope, Spawner};
use tokio_util::sync::CancellationToken;

use super::runnable::Stage;

/// When something begins: as the stages, but controllers of the leader may warm up before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Door {
    Server,
    Webhook,
    Cache,
    Other,
    Warm,
    Elected,
}

impl From<Stage> for Door {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Server => Self::Server,
            Stage::Webhook => Self::Webhook,
            Stage::Cache => Self::Cache,
            Stage::Other => Self::Other,
            Stage::Elected => Self::Elected,
        }
    }
}

/// The tasks of each stage.
pub(super) struct Groups {
    server: Group,
    webhook: Group,
    cache: Group,
    other: Group,
    elected: Group,
}

/// What runs in a stage.
pub(super) struct Group {
    scope: Scope,
    /// Ends all of it at once.
    now: CancellationToken,
    running: Arc<Mutex<Names>>,
}

#[derive(Default)]
struct Names {
    next: u64,
    of: BTreeMap<u64, String>,
}

/// The name of something that runs, as long as it does.
struct Named {
    number: u64,
    running: Arc<Mutex<Names>>,
}

impl Groups {
    pub(super) fn new(spawner: &Spawner) -> Self {
        let group = |stage: Stage| Group {
            scope: spawner.scope(stage.to_string()),
            now: CancellationToken::new(),
            running: Arc::default(),
        };
        Self {
            server: group(Stage::Server),
            webhook: group(Stage::Webhook),
            cache: group(Stage::Cache),
            other: group(Stage::Other),
            elected: group(Stage::Elected),
        }
    }

    pub(super) fn of(&self, stage: Stage) -> &Group {
        match stage {
            Stage::Server => &self.server,
            Stage::Webhook => &self.webhook,
            Stage::Cache => &self.cache,
            Stage::Other => &self.other,
            Stage::Elected => &self.elected,
        }
    }
}

impl Group {
    /// Runs something here, under a name.
    pub(super) fn run(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) {
        let named = Named::new(name, &self.running);
        self.scope.spawn(name, async move {
            future.await;
            drop(named);
        });
    }

    /// The names of what runs here.
    pub(super) fn running(&self) -> Vec<String> {
        lock(&self.running).of.values().cloned().collect()
    }

    /// Where tasks of what runs here are spawned.
    pub(super) fn spawner(&self) -> Spawner {
        self.scope.spawner()
    }

    /// Cancelled when what is in here is to end.
    pub(super) fn stop(&self) -> CancellationToken {
        self.scope.cancellation()
    }

    /// Cancelled when what is in here is to end at once.
    pub(super) fn now(&self) -> &CancellationToken {
        &self.now
    }

    /// Ends everything: tells it to and waits; then tells it to end at once and waits for a moment; then aborts what is left.
    /// Gives the names of what did not end when it was told for the first time.
    pub(super) async fn end(&self, clock: &Clock, limit: Duration, moment: Duration) -> Vec<String> {
        self.stop().cancel();
        if clock.timeout(limit, self.scope.ended()).await.is_ok() {
            self.scope.abort();
            return Vec::new();
        }
        let late = self.running();
        self.now.cancel();
        // Who is late was named above.
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
