//! Finalizers: work that has to be done before an object may be deleted.
//!
//! An object with finalizers is not deleted but marked with a deletion timestamp. It is deleted when its last finalizer is
//! removed. A controller adds and removes its own finalizers only.
//!
//! - [`with_cleanup`] is the usual form: a reconcile function and a cleanup function side by side, with one finalizer.
//! - [`Finalizers`] runs several finalizers in order, from inside a reconcile.
//! - [`attach`] and [`detach`] write a finalizer. [`add`], [`remove`] and [`contains`] work on an object in memory.

mod registry;
mod with_cleanup;

use std::sync::Arc;

use bowline_cache::object_key;
use kube::Resource;
use serde_json::json;

use crate::ensure::Attempts;
use crate::{AsObject, BoxError, Client, ClientError, Object, Patch, PatchError};
pub use registry::{Finalized, Finalizer, FinalizerFuture, Finalizers, InvalidFinalizer};
pub use with_cleanup::{Cleanup, CleanupReconciler, with_cleanup};

/// Why a finalizer failed, or could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// The cleanup failed. Its finalizer stays, and so do those after it.
    #[error("finalizer {key} of {object} failed: {}", crate::error::describe(&**.source))]
    Failed {
        /// The finalizer.
        key: String,
        /// The object.
        object: String,
        /// The error of the cleanup.
        #[source]
        source: BoxError,
    },
    /// The finalizers of the object could not be written.
    #[error("finalizer {key}: {source}")]
    Client {
        /// The finalizer, or those to add.
        key: String,
        /// The error of the client.
        #[source]
        source: ClientError,
    },
    /// The object was not read from the API server.
    #[error("finalizer {key} of {object}: {source}")]
    Patch {
        /// The finalizer.
        key: String,
        /// The object.
        object: String,
        /// The missing field.
        #[source]
        source: PatchError,
    },
}

/// Adds a finalizer to an object in memory. Returns whether it was missing.
pub fn add(object: &mut impl Resource, finalizer: &str) -> bool {
    if contains(object, finalizer) {
        return false;
    }
    object.meta_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    true
}

/// Removes a finalizer from an object in memory. Returns whether it was there. Other finalizers stay.
pub fn remove(object: &mut impl Resource, finalizer: &str) -> bool {
    let meta = object.meta_mut();
    let Some(finalizers) = &mut meta.finalizers else { return false };
    let before = finalizers.len();
    finalizers.retain(|it| it != finalizer);
    let is_changed = finalizers.len() != before;
    if finalizers.is_empty() {
        meta.finalizers = None;
    }
    is_changed
}

/// Whether an object has a finalizer.
#[must_use]
pub fn contains<K: Resource>(object: &impl AsObject<K>, finalizer: &str) -> bool {
    object.as_object().meta().finalizers.iter().flatten().any(|it| it == finalizer)
}

/// Adds a finalizer to an object in the API server, and returns the object as the server has it. If the finalizer is there
/// already, nothing is sent, and the same object is returned.
///
/// The server refuses the write with a conflict if the object was changed since it was read, so that finalizers that others
/// added are not lost. The object is then read again, up to five attempts in all.
///
/// # Errors
/// When it cannot be written. An object that is gone, was created again, or is being deleted (no finalizer can be added to it)
/// is an error of the client.
pub async fn attach<K: Object>(
    client: &Client,
    object: &Arc<K>,
    finalizer: &str,
) -> Result<Arc<K>, FinalizerError> {
    let changed = write(client, object, finalizer, |object| add(object, finalizer)).await?;
    Ok(changed.unwrap_or_else(|| Arc::clone(object)))
}

/// Removes a finalizer from an object in the API server, and returns the object as the server has it; `None` if it is gone:
/// this was the last finalizer, or it was gone before. If the finalizer is not there, nothing is sent, and the same object is
/// returned.
///
/// Conflicts are handled as by [`attach`].
///
/// # Errors
/// When it cannot be written.
pub async fn detach<K: Object>(
    client: &Client,
    object: &Arc<K>,
    finalizer: &str,
) -> Result<Option<Arc<K>>, FinalizerError> {
    match write(client, object, finalizer, |object| remove(object, finalizer)).await {
        Ok(changed) => {
            let object = changed.unwrap_or_else(|| Arc::clone(object));
            let is_gone = object.meta().deletion_timestamp.is_some()
                && object.meta().finalizers.iter().flatten().next().is_none();
            Ok((!is_gone).then_some(object))
        }
        Err(FinalizerError::Client { source, .. }) if source.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the finalizers of an object after a change. `None` if nothing had to be written, and the object is the given one.
async fn write<K: Object>(
    client: &Client,
    object: &Arc<K>,
    key: &str,
    change: impl Fn(&mut K) -> bool,
) -> Result<Option<Arc<K>>, FinalizerError> {
    let mut object = Arc::clone(object);
    let failed = |source| FinalizerError::Client { key: key.to_owned(), source };
    let mut attempts = Attempts::default();
    loop {
        let mut changed = (*object).clone();
        if !change(&mut changed) {
            return Ok((!attempts.is_first()).then_some(object));
        }
        let patch = patch(&*object, &changed).map_err(|source| {
            let object = object_key(&*object).to_string();
            FinalizerError::Patch { key: key.to_owned(), object, source }
        })?;
        let conflict = match client.patch::<K>(&object_key(&*object), &patch).await {
            Ok(object) => return Ok(Some(Arc::new(object))),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(failed(error)),
        };
        if !attempts.next(client).await {
            return Err(failed(conflict));
        }
        let fresh = client.live().get::<K>(&object_key(&*object)).await.map_err(failed)?;
        if fresh.meta().uid != object.meta().uid {
            // Another object has this name. The conflict reports that the given one is gone.
            return Err(failed(conflict));
        }
        object = fresh;
    }
}

/// A patch of the finalizers only, for the uid and version that were read.
fn patch<K: Resource>(old: &K, new: &K) -> Result<Patch, PatchError> {
    let meta = old.meta();
    if meta.resource_version.is_none() {
        return Err(PatchError::NoVersion);
    }
    Patch::merge(&json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": new.meta().finalizers,
    }}))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_finalizer_is_added_once_and_no_other_is_removed() {
        let mut map = ConfigMap::default();
        assert!(add(&mut map, "example.com/a") && !add(&mut map, "example.com/a"));
        assert!(add(&mut map, "example.com/b"));
        assert!(contains(&map, "example.com/a") && !contains(&map, "example.com/c"));
        assert!(remove(&mut map, "example.com/a") && !remove(&mut map, "example.com/a"));
        assert_eq!(map.metadata.finalizers.as_deref(), Some(["example.com/b".to_owned()].as_slice()));
        assert!(remove(&mut map, "example.com/b"));
        assert_eq!(map.metadata.finalizers, None);
    }
}
