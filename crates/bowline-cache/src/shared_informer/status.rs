//! An informer as it is shown to people.

use kube::Resource;

use super::{Shared, SharedInformer, Stats};
use crate::kind::Form;
use crate::namespaces::Namespaces;
use crate::reflector::Phase;
use crate::set_aside::SetAside;

/// An informer at one moment, for people who wonder how it is doing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What it is an informer of: `deployments.apps/v1`.
    pub kind: String,
    /// How much of an object is kept.
    pub form: Form,
    /// Whether everything was listed once.
    pub has_synced: bool,
    /// Its parts, each with a list and a watch of its own.
    pub parts: Vec<PartStatus>,
    /// Some of the objects that cannot be read now, and why; [`Stats::set_aside`] says how many there are.
    pub set_aside: Vec<SetAside>,
    /// What it did and has.
    pub stats: Stats,
}

/// A part of an informer at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartStatus {
    /// Where its objects are.
    pub namespaces: Namespaces,
    /// What it is at.
    pub phase: Phase,
    /// Whether it was listed once.
    pub has_synced: bool,
    /// What failed last, unless it went well since.
    pub error: Option<String>,
}

/// So many of the objects that cannot be read are named.
const NAMED: usize = 16;

impl<K: Resource + Send + Sync + 'static> SharedInformer<K> {
    /// How it is doing, for people. Up to 16 of the objects that cannot be read are named.
    #[must_use]
    pub fn status(&self) -> InformerStatus {
        let mut set_aside = self.set_aside();
        set_aside.truncate(NAMED);
        InformerStatus {
            kind: self.kind().to_string(),
            form: self.kind().form(),
            has_synced: self.has_synced(),
            parts: self.shared.part_statuses(),
            set_aside,
            stats: self.stats(),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> Shared<K> {
    fn part_statuses(&self) -> Vec<PartStatus> {
        let listeners = self.lock();
        let parts = self.parts.iter().zip(&listeners.versions);
        parts
            .map(|(part, version)| PartStatus {
                namespaces: part.namespaces.clone(),
                phase: part.health.phase(),
                has_synced: version.is_some(),
                error: part.health.error(),
            })
            .collect()
    }
}
