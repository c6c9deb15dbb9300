//! Owners in annotations: for owners in another namespace, or in a namespace while the child is cluster-scoped.

use std::collections::BTreeMap;

use bowline_machinery::ObjectKey;
use kube::Resource;

use super::{OwnershipError, group, show};
use crate::{AsObject, ToReference};

/// Annotation with the key of an object's owner: `namespace/name`, or `/name` for a cluster-scoped owner. It is the annotation
/// of operator-framework's `EnqueueRequestForAnnotation`.
pub const OWNER_ANNOTATION: &str = "operator-sdk/primary-resource";

/// Annotation with the kind of an object's owner: `Kind.group`, or `Kind` for the core group.
pub const OWNER_TYPE_ANNOTATION: &str = "operator-sdk/primary-resource-type";

/// Makes `owner` the owner of `child` by annotation, where an owner reference is not possible: the owner is in another
/// namespace, or the owner is in a namespace and the child is cluster-scoped. Returns whether the child changed.
///
/// [`handler::annotated_owner`](crate::handler::annotated_owner) reconciles the owner when the child changes. **The garbage
/// collector does not know annotations**: the owner needs a finalizer that deletes the child
/// ([`finalizer::with_cleanup`](crate::finalizer::with_cleanup)).
///
/// ```
/// use bowline_runtime::ownership::set_owner_annotations;
/// use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::ClusterRole};
/// # let mut config = ConfigMap::default();
/// # config.metadata.name = Some("site".into());
/// # config.metadata.namespace = Some("web".into());
///
/// let mut role = ClusterRole::default();
/// assert!(set_owner_annotations(&config, &mut role)?);
/// assert_eq!(role.metadata.annotations.unwrap()["operator-sdk/primary-resource"], "web/site");
/// # Ok::<(), bowline_runtime::ownership::OwnershipError>(())
/// ```
///
/// # Errors
/// When the owner has no kind or name, or the child is annotated with another owner, with both annotations or one of them.
/// Nothing is changed then.
pub fn set_owner_annotations<O: ToReference>(
    owner: &impl AsObject<O>,
    child: &mut impl Resource,
) -> Result<bool, OwnershipError> {
    let [key, kind] = values(owner.as_object())?;
    let meta = child.meta_mut();
    let annotations = meta.annotations.get_or_insert_default();
    let [known_key, known_kind] = [OWNER_ANNOTATION, OWNER_TYPE_ANNOTATION].map(|name| annotations.get(name));
    let has_other_key = known_key.is_some_and(|known| !is_same_key(known, &key));
    let has_other_kind = known_kind.is_some_and(|known| *known != kind);
    if has_other_key || has_other_kind {
        // One annotation alone was written by another client too, and is not replaced.
        let text = |known: Option<&String>, missing| {
            known.map_or(missing, |known| known.trim_start_matches('/')).to_owned()
        };
        return Err(OwnershipError::AlreadyAnnotated {
            child: show(None, meta.namespace.as_deref(), meta.name.as_deref()),
            annotated: format!("{} {}", text(known_kind, "(no kind)"), text(known_key, "(no name)")),
            owner: format!("{kind} {}", key.trim_start_matches('/')),
        });
    }
    if known_key.is_some() && known_kind.is_some() {
        return Ok(false);
    }
    annotations.entry(OWNER_ANNOTATION.to_owned()).or_insert(key);
    annotations.entry(OWNER_TYPE_ANNOTATION.to_owned()).or_insert(kind);
    Ok(true)
}

/// Whether `owner` is the owner of `child` by annotation. Annotations have no uid: an owner that was created again under its
/// name is the same owner.
#[must_use]
pub fn has_owner_annotations<O: ToReference, K: Resource>(
    owner: &impl AsObject<O>,
    child: &impl AsObject<K>,
) -> bool {
    let Ok([key, kind]) = values(owner.as_object()) else { return false };
    let annotations = child.as_object().meta().annotations.as_ref();
    annotations.is_some_and(|annotations| {
        annotations.get(OWNER_ANNOTATION).is_some_and(|known| is_same_key(known, &key))
            && annotations.get(OWNER_TYPE_ANNOTATION) == Some(&kind)
    })
}

/// Removes the owner annotations of `child` if they name `owner`. Returns whether they did.
pub fn remove_owner_annotations<O: ToReference, K: Resource>(
    owner: &impl AsObject<O>,
    child: &mut K,
) -> bool {
    if !has_owner_annotations(owner, child) {
        return false;
    }
    let meta = child.meta_mut();
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(OWNER_ANNOTATION);
        annotations.remove(OWNER_TYPE_ANNOTATION);
    }
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    true
}

/// The owner in annotations, if it is of this kind: `Kind.group`, or `Kind` for the core group.
pub(crate) fn annotated_owner(annotations: &BTreeMap<String, String>, kind: &str) -> Option<ObjectKey> {
    if annotations.get(OWNER_TYPE_ANNOTATION)? != kind {
        return None;
    }
    let key = annotations.get(OWNER_ANNOTATION)?.trim();
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    (!name.is_empty()).then(|| ObjectKey::new(namespace, name))
}

/// The values of both annotations.
fn values(owner: &impl ToReference) -> Result<[String; 2], OwnershipError> {
    let owner = owner.to_reference();
    let shown = show(owner.kind.as_deref(), owner.namespace.as_deref(), owner.name.as_deref());
    let wanted = |value: Option<String>, missing| {
        let value = value.filter(|value| !value.is_empty());
        value.ok_or_else(|| OwnershipError::Incomplete { owner: shown.clone(), missing })
    };
    let kind = wanted(owner.kind, "kind")?;
    let name = wanted(owner.name, "name")?;
    let group = group(owner.api_version.as_deref().unwrap_or_default());
    let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    Ok([format!("{}/{name}", owner.namespace.unwrap_or_default()), kind])
}

/// `name` and `/name` are the same key.
fn is_same_key(one: &str, other: &str) -> bool {
    one.trim_start_matches('/') == other.trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;

    fn deployment(namespace: &str, name: &str) -> Deployment {
        let mut owner = Deployment::default();
        owner.metadata.namespace = Some(namespace.to_owned());
        owner.metadata.name = Some(name.to_owned());
        owner
    }

    fn annotations(child: &ConfigMap) -> Vec<(&str, &str)> {
        let annotations = child.metadata.annotations.iter().flatten();
        annotations.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn an_owner_is_annotated_as_go_does_it() {
        let (owner, mut child) = (deployment("a", "web"), ConfigMap::default());
        assert!(set_owner_annotations(&owner, &mut child).unwrap());
        assert_eq!(
            annotations(&child),
            [(OWNER_ANNOTATION, "a/web"), (OWNER_TYPE_ANNOTATION, "Deployment.apps")]
        );
        assert!(!set_owner_annotations(&owner, &mut child).unwrap());
        assert!(has_owner_annotations(&owner, &child));

        let mut owner = Namespace::default();
        owner.metadata.name = Some("tenant".to_owned());
        let mut child = ConfigMap::default();
        set_owner_annotations(&owner, &mut child).unwrap();
        assert_eq!(
            annotations(&child),
            [(OWNER_ANNOTATION, "/tenant"), (OWNER_TYPE_ANNOTATION, "Namespace")]
        );
        let key = annotated_owner(child.metadata.annotations.as_ref().unwrap(), "Namespace").unwrap();
        assert_eq!(key, ObjectKey::cluster_scoped("tenant"));
        child
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(OWNER_ANNOTATION.to_owned(), "tenant".into());
        assert!(has_owner_annotations(&owner, &child), "without the slash, as people write it");
        let key = annotated_owner(child.metadata.annotations.as_ref().unwrap(), "Namespace").unwrap();
        assert_eq!(key, ObjectKey::cluster_scoped("tenant"));
    }

    #[test]
    fn one_annotation_of_another_owner_is_enough_to_refuse_and_one_of_the_same_owner_is_completed() {
        let owner = deployment("a", "web");
        for (name, value, shown) in [
            (OWNER_ANNOTATION, "b/web", "(no kind) b/web"),
            (OWNER_TYPE_ANNOTATION, "StatefulSet.apps", "StatefulSet.apps (no name)"),
        ] {
            let mut child = ConfigMap::default();
            child.metadata.annotations = Some([(name.to_owned(), value.to_owned())].into());
            let error = set_owner_annotations(&owner, &mut child).unwrap_err();
            assert!(error.to_string().contains(shown), "{error}");
            assert_eq!(annotations(&child), [(name, value)]);
        }
        for (name, value) in [(OWNER_ANNOTATION, "a/web"), (OWNER_TYPE_ANNOTATION, "Deployment.apps")] {
            let mut child = ConfigMap::default();
            child.metadata.annotations = Some([(name.to_owned(), value.to_owned())].into());
            assert!(set_owner_annotations(&owner, &mut child).unwrap());
            assert!(has_owner_annotations(&owner, &child));
        }
    }

    #[test]
    fn another_owner_is_neither_replaced_nor_removed() {
        let (owner, other, mut child) =
            (deployment("a", "web"), deployment("b", "web"), ConfigMap::default());
        set_owner_annotations(&owner, &mut child).unwrap();
        let error = set_owner_annotations(&other, &mut child).unwrap_err();
        assert!(error.to_string().contains("owner Deployment.apps a/web already"), "{error}");
        assert!(!remove_owner_annotations(&other, &mut child) && has_owner_annotations(&owner, &child));
        assert!(remove_owner_annotations(&owner, &mut child));
        assert_eq!(child.metadata.annotations, None);
        assert!(set_owner_annotations(&Deployment::default(), &mut child).is_err(), "an owner has a name");
        assert_eq!(annotations(&child), []);
    }
}
