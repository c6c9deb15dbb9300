//! Owners of objects: owner references, as the garbage collector and the owner handler read them, and owner annotations for
//! owners that a reference cannot name.
//!
//! When an owner is deleted, the garbage collector deletes its children. At most one owner of an object is its controller. The
//! rules of Kubernetes are checked before anything is sent: an owner in a namespace owns only objects of that namespace, and
//! an object has one controller.
//!
//! All functions take the owner first, then the child. [`OwnerExt`] makes new children.
//!
//! Two references are to the same owner if group, kind and name are equal, so that an owner of another version, or one that
//! was deleted and created again, replaces its reference instead of adding one. The questions
//! ([`has_controller_reference`], [`has_owner_reference`]) compare the uid.

mod annotation;
mod child;
mod claim;

use std::fmt;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::core::ObjectMeta;

use crate::{AsObject, ToReference};
pub(crate) use annotation::annotated_owner;
pub use annotation::{
    OWNER_ANNOTATION, OWNER_TYPE_ANNOTATION, has_owner_annotations, remove_owner_annotations,
    set_owner_annotations,
};
pub use child::OwnerExt;
pub use claim::{Claim, ClaimError, ClaimFailure, Claimed};

/// Why an owner cannot own an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnershipError {
    /// The owner was not read from the API server.
    #[error("{owner} cannot be an owner: it has no {missing}; use the object as the API server has it")]
    Incomplete {
        /// The owner.
        owner: String,
        /// The missing field.
        missing: &'static str,
    },
    /// The owner is in another namespace.
    #[error(
        "{owner} cannot own {child}: an owner in a namespace owns only objects of the same namespace; use owner annotations"
    )]
    CrossNamespace {
        /// The owner.
        owner: String,
        /// The object.
        child: String,
    },
    /// The owner is in a namespace, and the object is not.
    #[error(
        "{owner} cannot own {child}, which is in no namespace: set its namespace to that of its owner; an object of the \
         whole cluster cannot be owned by one in a namespace"
    )]
    NoNamespace {
        /// The owner.
        owner: String,
        /// The object.
        child: String,
    },
    /// A namespace was given for an object of a cluster-scoped kind.
    #[error(
        "{child} cannot be in namespace {namespace}: its kind is cluster-scoped; use `child` without a namespace"
    )]
    NotNamespaced {
        /// The object.
        child: String,
        /// The namespace.
        namespace: String,
    },
    /// The object has another controller.
    #[error("{child} is already controlled by {controller}; {owner} cannot control it too")]
    AlreadyControlled {
        /// The object.
        child: String,
        /// Its controller.
        controller: String,
        /// The owner that was requested as its controller.
        owner: String,
    },
    /// The object's annotations name another owner.
    #[error(
        "{child} is annotated with the owner {annotated} already, and cannot have {owner} too: remove its owner annotations"
    )]
    AlreadyAnnotated {
        /// The object.
        child: String,
        /// The owner in its annotations.
        annotated: String,
        /// The requested owner.
        owner: String,
    },
}

/// A reference to an owner, to set on its children.
///
/// ```
/// use bowline_runtime::ownership::Owner;
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
/// # use kube::core::ObjectMeta;
/// # let id = |name: &str| ObjectMeta { name: Some(name.into()), namespace: Some("a".into()), uid: Some("1".into()),
/// #     ..ObjectMeta::default() };
/// # let (config, mut deployment) = (ConfigMap { metadata: id("c"), ..ConfigMap::default() },
/// #     Deployment { metadata: id("d"), ..Deployment::default() });
///
/// Owner::plain(&config)?.block_owner_deletion(true).set_on(&mut deployment)?;
/// # Ok::<(), bowline_runtime::ownership::OwnershipError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an owner is set on an object"]
pub struct Owner {
    reference: OwnerReference,
    namespace: Option<String>,
}

impl Owner {
    /// The controller of the object. A foreground deletion of the owner waits until the object is gone.
    ///
    /// # Errors
    /// When the owner has no kind, name or uid.
    pub fn controller<O: ToReference>(owner: &impl AsObject<O>) -> Result<Self, OwnershipError> {
        Self::from_reference(owner.as_object().to_reference())
    }

    /// An owner that is not the controller. The object is deleted after all its owners are.
    ///
    /// # Errors
    /// When the owner has no kind, name or uid.
    pub fn plain<O: ToReference>(owner: &impl AsObject<O>) -> Result<Self, OwnershipError> {
        let mut owner = Self::controller(owner)?;
        owner.reference.controller = None;
        owner.reference.block_owner_deletion = None;
        Ok(owner)
    }

    /// A controller.
    fn from_reference(owner: ObjectReference) -> Result<Self, OwnershipError> {
        let ObjectReference { api_version, kind, name, namespace, uid, .. } = owner;
        let shown = show(kind.as_deref(), namespace.as_deref(), name.as_deref());
        let wanted = |value: Option<String>, missing| {
            let value = value.filter(|value| !value.is_empty());
            value.ok_or_else(|| OwnershipError::Incomplete { owner: shown.clone(), missing })
        };
        let reference = OwnerReference {
            api_version: wanted(api_version, "apiVersion")?,
            kind: wanted(kind, "kind")?,
            name: wanted(name, "name")?,
            uid: wanted(uid, "uid")?,
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        Ok(Self { reference, namespace: namespace.filter(|it| !it.is_empty()) })
    }

    /// Whether a foreground deletion of the owner waits until the object is gone. Default: `true` for a controller, unset for
    /// other owners.
    pub fn block_owner_deletion(mut self, blocks: bool) -> Self {
        self.reference.block_owner_deletion = Some(blocks);
        self
    }

    /// The reference to write.
    #[must_use]
    pub fn reference(&self) -> &OwnerReference {
        &self.reference
    }

    /// Sets the reference on an object. It replaces one to the same owner. Returns whether the object changed.
    ///
    /// # Errors
    /// When the owner cannot own this object. Nothing is changed then.
    pub fn set_on(&self, child: &mut impl Resource) -> Result<bool, OwnershipError> {
        let shown = show(None, child.meta().namespace.as_deref(), child.meta().name.as_deref());
        self.check(child.meta(), &shown)?;
        let references = child.meta_mut().owner_references.get_or_insert_default();
        if let Some(known) = references.iter_mut().find(|it| is_same_owner(it, &self.reference)) {
            let is_changed = *known != self.reference;
            known.clone_from(&self.reference);
            return Ok(is_changed);
        }
        references.push(self.reference.clone());
        Ok(true)
    }

    /// The controller of an object.
    pub(crate) fn controller_of<K: Resource>(child: &K) -> Option<Self> {
        let reference = controller_of(child)?.clone();
        Some(Self { reference, namespace: None })
    }

    fn check(&self, child: &ObjectMeta, shown: &str) -> Result<(), OwnershipError> {
        let (owner, child_shown) = (|| self.to_string(), || shown.to_owned());
        if let Some(namespace) = &self.namespace {
            match child.namespace.as_deref().filter(|it| !it.is_empty()) {
                None => {
                    return Err(OwnershipError::NoNamespace { owner: owner(), child: child_shown() });
                }
                Some(other) if other != namespace => {
                    return Err(OwnershipError::CrossNamespace { owner: owner(), child: child_shown() });
                }
                Some(_) => {}
            }
        }
        let controller = controller_in(child).filter(|_| self.reference.controller == Some(true));
        match controller {
            Some(controller) if !is_same_owner(controller, &self.reference) => {
                Err(OwnershipError::AlreadyControlled {
                    child: child_shown(),
                    controller: format!("{} {}", controller.kind, controller.name),
                    owner: owner(),
                })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(Some(&self.reference.kind), self.namespace.as_deref(), Some(&self.reference.name)))
    }
}

/// Makes `owner` the controller of `child`: short for [`Owner::controller`] and [`Owner::set_on`]. Returns whether the child
/// changed.
///
/// # Errors
/// When the owner cannot own the child, or the child has another controller.
pub fn set_controller_reference<O: ToReference>(
    owner: &impl AsObject<O>,
    child: &mut impl Resource,
) -> Result<bool, OwnershipError> {
    Owner::controller(owner)?.set_on(child)
}

/// Makes `owner` one of the owners of `child`: short for [`Owner::plain`] and [`Owner::set_on`]. Returns whether the child
/// changed.
///
/// # Errors
/// When the owner cannot own the child.
pub fn set_owner_reference<O: ToReference>(
    owner: &impl AsObject<O>,
    child: &mut impl Resource,
) -> Result<bool, OwnershipError> {
    Owner::plain(owner)?.set_on(child)
}

/// Removes the references of `child` to `owner`, whether or not it is the controller. Returns whether there was one.
pub fn remove_owner_reference<O: ToReference>(owner: &impl AsObject<O>, child: &mut impl Resource) -> bool {
    let owner = owner.as_object().to_reference();
    remove(child, |reference| refers_to(reference, &owner))
}

/// Removes the reference of `child` to `owner` if that is its controller. Returns whether it was.
pub fn remove_controller_reference<O: ToReference>(
    owner: &impl AsObject<O>,
    child: &mut impl Resource,
) -> bool {
    let owner = owner.as_object().to_reference();
    remove(child, |reference| reference.controller == Some(true) && refers_to(reference, &owner))
}

/// Whether `owner` is one of the owners of `child`. The uid counts: an owner that was created again is another owner.
#[must_use]
pub fn has_owner_reference<O: ToReference, K: Resource>(
    owner: &impl AsObject<O>,
    child: &impl AsObject<K>,
) -> bool {
    let uid = owner.as_object().to_reference().uid;
    let references = child.as_object().meta().owner_references.iter().flatten();
    uid.is_some_and(|uid| references.into_iter().any(|reference| reference.uid == uid))
}

/// Whether `owner` is the controller of `child`. The uid counts: an owner that was created again is another owner.
#[must_use]
pub fn has_controller_reference<O: ToReference, K: Resource>(
    owner: &impl AsObject<O>,
    child: &impl AsObject<K>,
) -> bool {
    let uid = owner.as_object().to_reference().uid;
    controller_of(child).is_some_and(|controller| Some(&controller.uid) == uid.as_ref())
}

/// The reference to the controller of an object, if it has one.
#[must_use]
pub fn controller_of<'a, K: Resource + 'a>(child: &'a impl AsObject<K>) -> Option<&'a OwnerReference> {
    controller_in(child.as_object().meta())
}

fn controller_in(child: &ObjectMeta) -> Option<&OwnerReference> {
    child.owner_references.iter().flatten().find(|reference| reference.controller == Some(true))
}

fn remove(child: &mut impl Resource, is_gone: impl Fn(&OwnerReference) -> bool) -> bool {
    let meta = child.meta_mut();
    let Some(references) = &mut meta.owner_references else { return false };
    let before = references.len();
    references.retain(|reference| !is_gone(reference));
    let is_changed = references.len() != before;
    if references.is_empty() {
        meta.owner_references = None;
    }
    is_changed
}

fn refers_to(reference: &OwnerReference, owner: &ObjectReference) -> bool {
    group(&reference.api_version) == group(owner.api_version.as_deref().unwrap_or_default())
        && Some(&reference.kind) == owner.kind.as_ref()
        && Some(&reference.name) == owner.name.as_ref()
}

fn is_same_owner(one: &OwnerReference, other: &OwnerReference) -> bool {
    group(&one.api_version) == group(&other.api_version) && one.kind == other.kind && one.name == other.name
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// `Kind namespace/name`, without the parts that are unknown.
fn show(kind: Option<&str>, namespace: Option<&str>, name: Option<&str>) -> String {
    let (kind, name) = (kind.unwrap_or("object"), name.unwrap_or("without a name"));
    match namespace.filter(|it| !it.is_empty()) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests;
