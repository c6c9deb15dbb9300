//! Lists of a server that concurrent readers share.
//!
//! A reader shares only a list that begins after the reader came: an earlier list may be older than the reader's own
//! write. Therefore each namespace has one list in progress and at most one that waits for its end.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bowline_cache::Indexer;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};

use super::error::ClientError;

/// Objects of a list, as the cache would have them.
pub(super) type Listed<K> = Result<Arc<Indexer<K>>, Arc<ClientError>>;

type Flying<K> = BoxFuture<'static, Listed<K>>;

/// Late lists of a kind, by namespace; `None` is all namespaces.
pub(super) struct Flights<K>(Mutex<BTreeMap<Option<String>, Flight<K>>>);

/// The last list that was requested.
struct Flight<K> {
    /// Dropped when no reader waits for it.
    list: WeakShared<Flying<K>>,
    has_begun: Arc<AtomicBool>,
}

impl<K> Flights<K>
where
    K: Send + Sync + 'static,
{
    /// The list of a namespace, or of all (`None`). Readers that come before it begins share it.
    pub(super) fn join<F>(
        &self,
        namespace: Option<&str>,
        list: impl FnOnce() -> F + Send + 'static,
    ) -> Shared<Flying<K>>
    where
        F: Future<Output = Listed<K>> + Send + 'static,
    {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|_, flight| flight.list.upgrade().is_some());
        let namespace = namespace.map(str::to_owned);
        let before = flights.get(&namespace);
        let shared = before.and_then(|flight| flight.list.upgrade());
        if let Some((flight, shared)) = before.zip(shared.clone())
            && !flight.has_begun.load(Ordering::Acquire)
        {
            return shared;
        }
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = has_begun.clone();
        let flying = async move {
            if let Some(before) = shared {
                // A list that fails or that all readers left is over as well.
                let _ = before.await;
            }
            begun.store(true, Ordering::Release);
            list().await
        };
        let flying = flying.boxed().shared();
        if let Some(list) = flying.downgrade() {
            flights.insert(namespace, Flight { list, has_begun });
        }
        flying
    }
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// An error for each reader that shares it.
pub(super) fn unshare(error: Arc<ClientError>) -> ClientError {
    match Arc::try_unwrap(error) {
        Ok(error) => error,
        Err(error) => match &*error {
            ClientError::Status { operation, status } => {
                ClientError::Status { operation: operation.clone(), status: status.clone() }
            }
            ClientError::Answer { operation, problem } => {
                ClientError::Answer { operation: operation.clone(), problem: problem.clone() }
            }
            ClientError::Transport { operation, .. } => {
                ClientError::Transport { operation: operation.clone(), source: Box::new(SharedSource(error)) }
            }
            _ => unreachable!("a list fails on its way, by its status or by its answer"),
        },
    }
}

/// The source of an error that several readers share.
#[derive(Debug)]
struct SharedSource(Arc<ClientError>);

impl SharedSource {
    fn source(&self) -> &(dyn StdError + 'static) {
        match &*self.0 {
            ClientError::Transport { source, .. } => &**source,
            other => other,
        }
    }
}

impl fmt::Display for SharedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(SharedSource::source(self), f)
    }
}

impl StdError for SharedSource {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(SharedSource::source(self))
    }
}
