//! The first operator to read: it prints what happens to pods, and does nothing else.
//!
//! ```text
//! API server ──▶ informer ──▶ handler ──key──▶ queue ──key──▶ worker ──▶ reconcile ──▶ a line
//!                    │                           ▲               │           ▲
//!                    └── pods, kept here         └── try again ──┘           │
//!                             └──────────────────────────────────────────────┘
//! ```
//!
//! An informer keeps all pods of a namespace and tells a handler what happens to them. The handler only puts the pod's key
//! into a queue. Workers take keys out, look the pod up and act on what they see: not on what happened, but on how things
//! are now. That is why a key is enough, why missed events do no harm, and why a failure can be tried again.

mod demo;

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bowline::cache::{Event, InformerError, Kind, Namespaces, Selectors, SharedInformer, SyncError};
use bowline::clock::{Scope, Spawner};
use bowline::machinery::{ObjectKey, ObjectKeyError};
use bowline::workqueue::WorkQueue;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};

pub use demo::Demo;

/// A key that fails is tried again so many times.
pub const RETRIES: u32 = 5;

/// The cache has to be in sync after so long, or there is no controller.
pub const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// At the end, work that has begun or is in line may take so long.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Where a line goes, and whether it got there.
pub type Print = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Prints what happens to the pods of a namespace.
///
/// A clone is the same controller.
#[derive(Clone)]
pub struct Controller {
    spawner: Spawner,
    informer: SharedInformer<Pod>,
    queue: WorkQueue<String>,
    print: Print,
}

/// Why a key could not be worked on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// It is not the key of an object, and never will be.
    #[error(transparent)]
    Key(#[from] ObjectKeyError),
    /// The line about its pod could not be printed, which may be over soon.
    #[error("cannot print a line: {0}")]
    Print(#[from] io::Error),
}

impl ReconcileError {
    /// Whether it may go better another time.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Key(_) => false,
            Self::Print(_) => true,
        }
    }
}

impl Controller {
    /// A controller of the pods in a namespace, which says what it has to say through `print`, a line at a time. Its tasks
    /// are spawned below `spawner`'s scope.
    ///
    /// # Errors
    /// When the informer cannot be made.
    pub fn new(
        spawner: &Spawner,
        client: Client,
        namespace: &str,
        print: Print,
    ) -> Result<Self, InformerError> {
        let namespaces = Namespaces::One(namespace.to_owned());
        let informer = SharedInformer::builder(spawner, Kind::<Pod>::typed())
            .selected(client, namespaces, Selectors::default())
            .on_error(|error| tracing::warn!(%error, "cannot list or watch pods; will try again"))
            .build()?;
        let queue = WorkQueue::new(spawner.clock().clone());
        let keys = queue.clone();
        informer.add_handler(move |event: &Event<Pod>| keys.add(event.key().to_string()));
        Ok(Self { spawner: spawner.clone(), informer, queue, print })
    }

    /// Tells it of a pod that was there when it last ran. If the pod is gone by now, that is noticed at the start, although
    /// nobody was watching when it went.
    pub fn remember(&self, pod: Pod) {
        self.informer.indexer().add(pod);
    }

    /// The keys that wait for a worker, `namespace/name` each. Whoever has another reason to look at a pod puts its key here.
    #[must_use]
    pub fn queue(&self) -> &WorkQueue<String> {
        &self.queue
    }

    /// Runs until `stop` is over. What is in line then is still worked on; what waits to be tried again is not.
    ///
    /// # Errors
    /// When the cache is not in sync after [`SYNC_LIMIT`], with the reason. Nothing was worked on then.
    pub async fn run(&self, workers: NonZeroUsize, stop: impl Future<Output = ()>) -> Result<(), SyncError> {
        tracing::info!("starting");
        self.informer.start();
        let scope = self.spawner.scope("workers");
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            Err(error) = self.start_workers(workers, &scope) => Err(error),
        };

        // First no more news, then no more keys, then the workers: they end when nothing is in line any more.
        self.informer.stop().await;
        self.queue.shutdown();
        let drained = scope.drain(DRAIN_LIMIT).await;
        if !drained.is_clean() {
            tracing::warn!(left = ?drained.left(), "workers did not end in time");
        }
        tracing::info!("stopped");
        outcome
    }

    async fn start_workers(&self, workers: NonZeroUsize, scope: &Scope) -> Result<(), SyncError> {
        // Who looks for a pod before all of them are here takes it for deleted.
        self.informer.wait_for_sync(SYNC_LIMIT).await?;
        tracing::info!(pods = self.informer.indexer().len(), workers, "in sync");
        for number in 1..=workers.get() {
            scope.spawn(format!("worker-{number}"), self.clone().work());
        }
        Ok(())
    }

    /// What each worker does until the queue is shut down. No two of them ever have the same key.
    async fn work(self) {
        while let Some(item) = self.queue.get().await {
            let key = item.key();
            let retries = self.queue.num_requeues(key);
            match self.reconcile(key) {
                // Its next failure is a first one again.
                Ok(()) => self.queue.forget(key),
                Err(error) if error.is_retryable() && retries < RETRIES => {
                    tracing::info!(key, %error, "failed, will try again");
                    item.requeue_rate_limited();
                }
                Err(error) => {
                    tracing::error!(key, attempts = retries + 1, %error, "dropped out of the queue");
                    self.queue.forget(key);
                }
            }
        }
    }

    /// Looks at one pod and says how it is. An operator would do something about it here.
    fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let key: ObjectKey = key.parse()?;
        let line = match self.informer.indexer().get(&key) {
            Some(pod) => format!("Sync/Add/Update for Pod {}", pod.name_any()),
            None => format!("Pod {key} does not exist anymore"),
        };
        Ok((self.print)(&line)?)
    }
}
