//! Identity of an informer within a cache. Owns the checks that need no server.

use std::any::TypeId;

use bowline_machinery::{FieldSelector, LabelSelector};

use super::error::CacheError;
use crate::kind::{Kind, Representation};
use crate::list_watch::Selectors;
use crate::namespaces::Namespaces;

/// Key of an informer within a cache: kind, representation, object type and parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    group: String,
    version: String,
    kind: String,
    plural: String,
    form: Representation,
    object: TypeId,
    pub(super) parts: Vec<Part>,
}

/// The objects that an informer holds in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) namespaces: Namespaces,
    pub(super) selectors: Selectors,
    pub(super) keep_managed_fields: bool,
}

impl Id {
    /// Checks the parts, and sorts them: their order does not matter.
    pub(super) fn new<K: 'static>(kind: &Kind<K>, mut parts: Vec<Part>) -> Result<Self, CacheError> {
        for part in &parts {
            part.check(kind)?;
        }
        parts.sort();
        let resource = kind.resource();
        Ok(Self {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            form: kind.form(),
            object: TypeId::of::<K>(),
            parts,
        })
    }

    /// Whether this is an informer of a kind in its representation, with any parts.
    pub(super) fn is_of<K: 'static>(&self, kind: &Kind<K>) -> bool {
        let resource = kind.resource();
        self.object == TypeId::of::<K>()
            && self.form == kind.form()
            && self.kind == resource.kind
            && self.group == resource.group
            && self.version == resource.version
            && self.plural == resource.plural
    }

    pub(super) fn has(&self, namespace: &str) -> bool {
        self.parts.iter().any(|part| part.namespaces.has(namespace))
    }

    /// Its namespaces, as text.
    pub(super) fn covered(&self) -> String {
        listed(self.parts.iter().map(|part| &part.namespaces))
    }
}

impl Part {
    fn check<K>(&self, kind: &Kind<K>) -> Result<(), CacheError> {
        if !kind.is_namespaced() && self.namespaces != Namespaces::All {
            return Err(CacheError::ClusterScoped {
                kind: kind.to_string(),
                namespaces: self.namespaces.to_string(),
            });
        }
        if self.namespaces == Namespaces::One(String::new()) {
            return Err(CacheError::EmptyNamespace { kind: kind.to_string() });
        }
        let Selectors { labels, fields } = &self.selectors;
        LabelSelector::parse(labels).map_err(|error| self.refuse(kind, "label", labels, &error))?;
        FieldSelector::parse(fields).map_err(|error| self.refuse(kind, "field", fields, &error))?;
        Ok(())
    }

    fn refuse<K>(
        &self,
        kind: &Kind<K>,
        selector_kind: &'static str,
        selector: &str,
        problem: &dyn std::error::Error,
    ) -> CacheError {
        CacheError::Selector {
            kind: kind.to_string(),
            namespaces: self.namespaces.clone(),
            selector_kind,
            selector: selector.to_owned(),
            problem: problem.to_string(),
        }
    }
}

/// Namespaces, separated by commas.
pub(super) fn listed<'a>(namespaces: impl Iterator<Item = &'a Namespaces>) -> String {
    namespaces.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
