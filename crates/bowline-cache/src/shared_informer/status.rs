//! The status of an informer for people: kind, sync state, errors, counters.

use kube::Resource;

use super::{InformerStats, Shared, SharedInformer};
use crate::kind::Representation;
use crate::namespaces::Namespaces;
use crate::reflector::ReflectorPhase;
use crate::undecodable::UndecodableObject;

/// Status of an informer at one moment, for debug pages.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// Kind, for example `deployments.apps/v1`.
    pub kind: String,
    /// Representation of the objects.
    pub form: Representation,
    /// Whether all parts were listed once.
    pub has_synced: bool,
    /// Status of each reflector: an informer has one per source.
    pub parts: Vec<ReflectorStatus>,
    /// Some of the undecodable objects; [`InformerStats::undecodable`] has their number.
    pub undecodable: Vec<UndecodableObject>,
    /// Counters.
    pub stats: InformerStats,
}

/// Status of one reflector at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// Namespaces of its objects.
    pub namespaces: Namespaces,
    /// Current phase.
    pub phase: ReflectorPhase,
    /// Whether it has completed a list.
    pub has_synced: bool,
    /// Last error; `None` after a success.
    pub error: Option<String>,
}

/// Maximum number of undecodable objects in a status.
const NAMED: usize = 16;

impl<K: Resource + Send + Sync + 'static> SharedInformer<K> {
    /// The status of the informer, with up to 16 undecodable objects.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        let mut undecodable = self.undecodable();
        undecodable.truncate(NAMED);
        InformerStatus {
            kind: self.kind().to_string(),
            form: self.kind().form(),
            has_synced: self.has_synced(),
            parts: self.shared.part_statuses(),
            undecodable,
            stats: self.stats(),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    fn part_statuses(&self) -> Vec<ReflectorStatus> {
        let listeners = self.lock();
        let parts = self.parts.iter().zip(&listeners.versions);
        parts
            .map(|(part, version)| ReflectorStatus {
                namespaces: part.namespaces.clone(),
                phase: part.health.phase(),
                has_synced: version.is_some(),
                error: part.health.error(),
            })
            .collect()
    }
}
