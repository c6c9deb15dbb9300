//! Adds handlers with their initial events, and delivers resyncs.

use std::sync::Arc;

use kube::Resource;

use super::{HandlerOptions, Listeners, Resync, Shared};
use crate::event::Event;
use crate::listener::Listener;
use crate::listener::backlog::Batch;

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    /// Delivers every object again to the handlers with a due resync.
    pub(super) fn resync(&self, listeners: &Listeners<K>) {
        let now = self.clock.now();
        let due: Vec<_> = listeners.all.iter().filter(|listener| listener.is_resync_due(now)).collect();
        if due.is_empty() {
            return;
        }
        let all = self.indexer.list().into_iter();
        let batch: Batch<K> = all.map(|object| Event::Update { old: object.clone(), new: object }).collect();
        for listener in due {
            listener.push(&batch);
        }
    }

    pub(super) fn listen(&self, options: HandlerOptions) -> Arc<Listener<K>> {
        let resync = match options.resync {
            Some(Resync::Never) => None,
            Some(Resync::Every(period)) => Some(period),
            None => self.resync,
        };
        let mut listeners = self.lock();
        listeners.all.retain(|listener| !listener.is_closed());
        listeners.named += 1;
        let name = options.name.unwrap_or_else(|| listeners.named.to_string());
        let listener = Arc::new(Listener::new(name, resync, self.clock.now()));
        let all = self.indexer.list().into_iter();
        listener.push(&all.map(|object| Event::Add { object, in_initial_list: true }).collect());
        if self.synced.is_cancelled() {
            listener.push_initial_end();
        }
        listeners.all.push(listener.clone());
        drop(listeners);
        self.resyncs.notify_one();
        listener
    }
}
