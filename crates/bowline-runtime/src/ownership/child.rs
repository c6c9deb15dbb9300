//! New objects that an owner controls.

use std::any::TypeId;

use kube::Resource;
use kube::core::NamespaceResourceScope;

use super::{Owner, OwnershipError, show};
use crate::ToReference;

/// Makes children: new objects whose controller is this object. Every object that knows its kind has these methods, also in an
/// `Arc`.
///
/// A child does not exist in the API server yet. [`Client::ensure`](crate::Client::ensure) takes the result of these methods as
/// it is, and creates or changes the object:
///
/// ```no_run
/// # use std::sync::Arc;
/// use bowline_runtime::{Client, Result, ownership::OwnerExt as _};
/// use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
///
/// async fn reconcile(client: &Client, config: Arc<ConfigMap>, tenant: Arc<Namespace>) -> Result<()> {
///     client.ensure(config.child::<Secret>("token"), |secret| secret.immutable = Some(true)).await?;
///     // A namespace is cluster-scoped, so the child needs a namespace of its own.
///     client.ensure(tenant.child_in::<Secret>("tenants", "token"), |_| {}).await?;
///     Ok(())
/// }
/// ```
pub trait OwnerExt: ToReference {
    /// A new object of this name, in the owner's namespace if its kind is namespaced.
    ///
    /// If the owner is cluster-scoped and the child's kind is namespaced, the namespace is empty: use
    /// [`child_in`](Self::child_in).
    ///
    /// # Errors
    /// When the owner has no kind, name or uid, or the owner is in a namespace and the child's kind is cluster-scoped.
    fn child<D>(&self, name: impl Into<String>) -> Result<D, OwnershipError>
    where
        D: Resource<DynamicType = (), Scope: 'static> + Default,
    {
        child(self, None, name.into())
    }

    /// A new object of this name in a namespace, for owners that are cluster-scoped.
    ///
    /// # Errors
    /// When the owner has no kind, name or uid, the owner is in another namespace, or the child's kind is cluster-scoped.
    fn child_in<D>(&self, namespace: impl Into<String>, name: impl Into<String>) -> Result<D, OwnershipError>
    where
        D: Resource<DynamicType = (), Scope: 'static> + Default,
    {
        child(self, Some(namespace.into()), name.into())
    }

    /// As [`child`](Self::child), named after the owner: `blog-web` for the owner `blog` and the suffix `web`.
    ///
    /// # Errors
    /// As [`child`](Self::child).
    fn child_with_suffix<D>(&self, suffix: &str) -> Result<D, OwnershipError>
    where
        D: Resource<DynamicType = (), Scope: 'static> + Default,
    {
        child(self, None, format!("{}-{suffix}", self.meta().name.as_deref().unwrap_or_default()))
    }
}

impl<O: ToReference> OwnerExt for O {}

fn child<O, D>(owner: &O, namespace: Option<String>, name: String) -> Result<D, OwnershipError>
where
    O: ToReference + ?Sized,
    D: Resource<DynamicType = (), Scope: 'static> + Default,
{
    let owner = Owner::from_reference(owner.to_reference())?;
    let is_namespaced = TypeId::of::<D::Scope>() == TypeId::of::<NamespaceResourceScope>();
    let mut child = D::default();
    let meta = child.meta_mut();
    meta.name = Some(name);
    let shown = |namespace: Option<&str>, name: Option<&str>| show(Some(&D::kind(&())), namespace, name);
    meta.namespace = match namespace {
        Some(namespace) if !is_namespaced => {
            return Err(OwnershipError::NotNamespaced {
                child: shown(None, meta.name.as_deref()),
                namespace,
            });
        }
        Some(namespace) => Some(namespace),
        None if is_namespaced => owner.namespace.clone(),
        None => None,
    };
    owner.check(meta, &shown(meta.namespace.as_deref(), meta.name.as_deref()))?;
    meta.owner_references = Some(vec![owner.reference]);
    Ok(child)
}
