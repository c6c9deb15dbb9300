//! The first operator to read: it prints the state of pods, and does nothing else.
//!
//! ```text
//! API server ──▶ informer ──▶ handler ──key──▶ queue ──key──▶ worker ──▶ reconcile ──▶ a line
//!                    │                           ▲               │           ▲
//!                    └── pods, kept here         └── try again ──┘           │
//!                             └──────────────────────────────────────────────┘
//! ```
//!
//! An informer keeps all pods of a namespace and notifies a handler of changes. The handler only adds the pod's key to a queue.
//! Workers take keys, look the pod up and act on its present state, not on the event. That is why a key is enough, why missed
//! events do no harm, and why a failure can be retried.

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

/// Maximum retries of a key that fails.
pub const RETRIES: u32 = 5;

/// Time limit for the first sync of the cache.
pub const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// Time limit for running and ready keys at the end.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Prints a line.
pub type Print = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

/// Prints the states of the pods of a namespace.
///
/// A clone is the same controller.
#[derive(Clone)]
pub struct Controller {
    spawner: Spawner,
    informer: SharedInformer<Pod>,
    queue: WorkQueue<String>,
    print: Print,
}

/// Why a key could not be handled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// It is not the key of an object.
    #[error(transparent)]
    Key(#[from] ObjectKeyError),
    /// The line about its pod could not be printed; a retry may help.
    #[error("cannot print a line: {0}")]
    Print(#[from] io::Error),
}

impl ReconcileError {
    /// Whether a retry may help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Key(_) => false,
            Self::Print(_) => true,
        }
    }
}

impl Controller {
    /// A controller of the pods in a namespace, which prints its lines with `print`. Its tasks are spawned below `spawner`'s
    /// scope.
    ///
    /// # Errors
    /// When the informer cannot be built.
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

    /// Adds a pod that existed when the program last ran. If it has been deleted since, this is noticed at the start.
    pub fn remember(&self, pod: Pod) {
        self.informer.indexer().add(pod);
    }

    /// The keys that wait for a worker, `namespace/name` each. Code with another reason to handle a pod adds its key here.
    #[must_use]
    pub fn queue(&self) -> &WorkQueue<String> {
        &self.queue
    }

    /// Runs until `stop` is over. Keys that are ready then are still handled; keys that wait for a retry are dropped.
    ///
    /// # Errors
    /// When the cache is not in sync after [`SYNC_LIMIT`], with the reason. No key was handled then.
    pub async fn run(&self, workers: NonZeroUsize, stop: impl Future<Output = ()>) -> Result<(), SyncError> {
        tracing::info!("starting");
        self.informer.start();
        let scope = self.spawner.scope("workers");
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            Err(error) = self.start_workers(workers, &scope) => Err(error),
        };

        // First no more events, then no more keys, then the workers: they end when no key is ready any more.
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
        // Before the sync, a pod that is not listed yet would be taken for deleted.
        self.informer.wait_for_sync(SYNC_LIMIT).await?;
        tracing::info!(pods = self.informer.indexer().len(), workers, "in sync");
        for number in 1..=workers.get() {
            scope.spawn(format!("worker-{number}"), self.clone().work());
        }
        Ok(())
    }

    /// The loop of each worker until the queue is shut down. No two of them ever have the same key.
    async fn work(self) {
        while let Some(item) = self.queue.get().await {
            let key = item.key();
            let retries = self.queue.num_requeues(key);
            match self.reconcile(key) {
                // The next failure counts as the first.
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

    /// Prints the state of one pod. An operator would act on it here.
    fn reconcile(&self, key: &str) -> Result<(), ReconcileError> {
        let key: ObjectKey = key.parse()?;
        let line = match self.informer.indexer().get(&key) {
            Some(pod) => format!("Sync/Add/Update for Pod {}", pod.name_any()),
            None => format!("Pod {key} does not exist anymore"),
        };
        Ok((self.print)(&line)?)
    }
}
