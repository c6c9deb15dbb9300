//! Counters and sync state of an informer.

use std::sync::atomic::Ordering;

use kube::Resource;

use super::{InformerStats, NotSynced, Shared};

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    pub(super) fn not_synced(&self) -> Vec<NotSynced> {
        let listeners = self.lock();
        let missing = self.parts.iter().zip(&listeners.versions).filter(|(_, version)| version.is_none());
        missing
            .map(|(part, _)| NotSynced {
                kind: self.kind.to_string(),
                namespaces: part.namespaces.clone(),
                phase: part.health.phase(),
                error: part.health.error(),
                brief: part.health.brief(),
                is_denied: part.health.is_denied(),
                is_missing: part.health.is_missing(),
            })
            .collect()
    }

    pub(super) fn stats(&self) -> InformerStats {
        let mut stats = InformerStats {
            items: self.indexer.len(),
            events: self.events.load(Ordering::Relaxed),
            ..InformerStats::default()
        };
        for part in &self.parts {
            let counts = part.health.counts();
            stats.lists += counts.lists;
            stats.relists += counts.lists.saturating_sub(1);
            stats.watches += counts.watches;
            stats.failures += counts.failures;
            stats.staleness = stats.staleness.max(part.health.staleness());
        }
        stats.undecodable = self.decoder.undecodable.all().len();
        stats.undecodable_total = self.decoder.undecodable.total();
        let listeners = self.lock();
        let open = || listeners.all.iter().filter(|listener| !listener.is_closed());
        stats.handlers = open().count();
        stats.backlog = open().map(|listener| listener.waiting()).max().unwrap_or(0);
        stats
    }
}
