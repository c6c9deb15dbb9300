//! From an object to the owner in its annotations.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{Handler, Requests};
use crate::ownership::annotated_owner as find_owner;
use crate::{Change, HasMetadata, Request};

/// Reconciles the owner in an object's annotations; from [`annotated_owner`].
#[derive(Clone, Debug)]
pub struct AnnotatedOwnerHandler {
    /// `Kind.group`, or `Kind` for the core group.
    kind: String,
}

/// Reconciles the owner in the object's annotations, if that is an `O`: for owners in another namespace, and for cluster-scoped
/// objects whose owner is in a namespace. operator-framework calls this `EnqueueRequestForAnnotation`.
///
/// [`ownership::set_owner_annotations`](crate::ownership::set_owner_annotations) sets the annotations. Owners are matched by
/// group and kind, whatever their version. After an update, the old owner is reconciled as well as the new one. The owner is
/// in the cluster of the object.
///
/// ```no_run
/// use bowline_runtime::{Manager, Result, Watch, handler, source};
/// # use bowline_runtime::{Action, Context};
/// # use std::sync::Arc;
/// use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
///
/// # async fn reconcile(_: Context, _: Arc<ConfigMap>) -> Result<Action> { Ok(Action::done()) }
/// fn operator(manager: &Manager) -> Result<()> {
///     let roles = Watch::new(source::kind::<ClusterRole>(), handler::annotated_owner::<ConfigMap>());
///     manager.controller::<ConfigMap>().watches(roles).register(reconcile)?;
///     Ok(())
/// }
/// ```
#[must_use]
pub fn annotated_owner<O: Resource<DynamicType = ()>>() -> AnnotatedOwnerHandler {
    let (group, kind) = (O::group(&()), O::kind(&()));
    AnnotatedOwnerHandler {
        kind: if group.is_empty() { kind.into_owned() } else { format!("{kind}.{group}") },
    }
}

impl AnnotatedOwnerHandler {
    fn add_owner(&self, meta: &ObjectMeta, requests: &mut Requests<'_>) {
        let annotations = meta.annotations.as_ref();
        if let Some(owner) = annotations.and_then(|annotations| find_owner(annotations, &self.kind)) {
            requests.add(Request::from(owner).in_cluster(requests.cluster().cloned()));
        }
    }
}

impl<K: HasMetadata> Handler<K> for AnnotatedOwnerHandler {
    fn handle(&self, change: &Change<'_, K>, requests: &mut Requests<'_>) {
        for meta in [change.old_meta(), change.new_meta()].into_iter().flatten() {
            self.add_owner(meta, requests);
        }
    }
}
