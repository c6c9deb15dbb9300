//! From an object to its owners.

use bowline_cache::Kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::core::{ApiResource, NamespaceResourceScope};

use super::{Handler, Requests};
use crate::{Change, HasMetadata, Request};

/// Reconciles the owners of an object that are of one kind; from [`owner`].
#[derive(Clone, Debug)]
pub struct OwnerHandler {
    group: String,
    kind: String,
    is_namespaced: bool,
    any: bool,
}

/// Reconciles the object's controller, if that is an `O`: the owner whose reference has `controller: true`.
///
/// Owners are matched by group and kind, and in any version. After an update the previous owners are reconciled as well as the
/// present ones, so that an owner that lost an object notices.
#[must_use]
pub fn owner<O: Resource<DynamicType = (), Scope: 'static>>() -> OwnerHandler {
    let is_namespaced =
        std::any::TypeId::of::<O::Scope>() == std::any::TypeId::of::<NamespaceResourceScope>();
    OwnerHandler::new(&ApiResource::erase::<O>(&()), is_namespaced)
}

/// As [`owner`], for a kind that may be known only at run time.
#[must_use]
pub fn owner_of<O>(kind: &Kind<O>) -> OwnerHandler {
    OwnerHandler::new(kind.resource(), kind.is_namespaced())
}

impl OwnerHandler {
    fn new(resource: &ApiResource, is_namespaced: bool) -> Self {
        let (group, kind) = (resource.group.clone(), resource.kind.clone());
        Self { group, kind, is_namespaced, any: false }
    }

    /// Reconciles all owners of that kind. Default: only the controller.
    #[must_use]
    pub fn any(mut self) -> Self {
        self.any = true;
        self
    }

    fn owns(&self, reference: &OwnerReference) -> bool {
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        (self.any || reference.controller == Some(true)) && reference.kind == self.kind && group == self.group
    }

    fn add_owners(&self, meta: &ObjectMeta, requests: &mut Requests<'_>) {
        let namespace = if self.is_namespaced { meta.namespace.as_deref() } else { None };
        for reference in meta.owner_references.iter().flatten().filter(|reference| self.owns(reference)) {
            let owner = Request::new(namespace.unwrap_or_default(), &reference.name);
            // Owner references do not leave their cluster.
            requests.add(owner.in_cluster(requests.cluster().cloned()));
        }
    }
}

impl<K: HasMetadata> Handler<K> for OwnerHandler {
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        for meta in [change.old_meta(), change.new_meta()].into_iter().flatten() {
            self.add_owners(meta, requests);
        }
    }
}
