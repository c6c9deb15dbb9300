//! Finalizers: what has to be done before an object may go.
//!
//! An object with finalizers is not deleted but marked: it goes when the last one is taken off. Who puts one on takes it off,
//! and nobody else's. [`add`], [`remove`] and [`contains`] change an object in memory; [`attach`] and [`detach`] write, and
//! [`Finalizers`] is all of it for a controller.

mod registry;

use std::sync::Arc;
use std::time::Duration;

use bowline_cache::object_key;
use kube::Resource;
use serde_json::json;

use crate::{AsObject, BoxError, Client, ClientError, Object, Patch, PatchError};
pub use registry::{Finalized, Finalizer, FinalizerFuture, Finalizers, InvalidFinalizer};

/// How often a write is tried that others get in the way of.
const TRIES: u32 = 5;

/// How long is waited before the second try.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Why an object could not be finalized, or its finalizers not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinalizerError {
    /// What had to be done failed. The finalizer stays, and so do those that come after it.
    #[error("finalizer {key} of {object} failed: {}", crate::error::describe(&**.source))]
    Failed {
        /// The finalizer.
        key: String,
        /// The object.
        object: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// The finalizers of the object could not be written.
    #[error("finalizer {key}: {source}")]
    Client {
        /// The finalizer, or those that were to be put on.
        key: String,
        /// What went wrong.
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
        /// What it has not.
        #[source]
        source: PatchError,
    },
}

/// Puts a finalizer on an object in memory. Whether it was not there.
pub fn add(object: &mut impl Resource, finalizer: &str) -> bool {
    if contains(object, finalizer) {
        return false;
    }
    object.meta_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    true
}

/// Takes a finalizer off an object in memory. Whether it was there. Others stay.
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

/// Puts a finalizer on an object in the API server, and returns it as the server has it; the same object, without a request, if
/// it was there already.
///
/// The server refuses it with a conflict if the object was changed since it was read, so that nothing is lost that others put
/// on it: it is read again then, up to five times.
///
/// # Errors
/// When it cannot be written. One that is gone, was made again, or is being deleted (to which no finalizer can be added) is an
/// error of the client.
pub async fn attach<K: Object>(
    client: &Client,
    object: &Arc<K>,
    finalizer: &str,
) -> Result<Arc<K>, FinalizerError> {
    let changed = write(client, object, finalizer, |object| add(object, finalizer)).await?;
    Ok(changed.unwrap_or_else(|| Arc::clone(object)))
}

/// Takes a finalizer off an object in the API server, and returns it as the server has it; `None` if it is gone: this was the
/// last one, or it was gone before. The same object, without a request, if the finalizer was not there.
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

/// Writes the finalizers of an object after a change; `None` if there was nothing to change.
async fn write<K: Object>(
    client: &Client,
    object: &Arc<K>,
    key: &str,
    change: impl Fn(&mut K) -> bool,
) -> Result<Option<Arc<K>>, FinalizerError> {
    let mut object = Arc::clone(object);
    let failed = |source| FinalizerError::Client { key: key.to_owned(), source };
    let mut tries = 0;
    loop {
        let mut changed = (*object).clone();
        if !change(&mut changed) {
            return Ok((tries > 0).then_some(object));
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
        tries += 1;
        if tries >= TRIES {
            return Err(failed(conflict));
        }
        client.clock().sleep(client.clock().rng().jitter(BETWEEN_TRIES * tries, 1.0)).await;
        let fresh = client.live().get::<K>(&object_key(&*object)).await.map_err(failed)?;
        if fresh.meta().uid != object.meta().uid {
            // Another object has its name: this one is gone, whatever the conflict says.
            return Err(failed(conflict));
        }
        object = fresh;
    }
}

/// Only the finalizers, for the very object and version that was read.
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
    fn a_finalizer_is_put_on_once_and_only_that_one_taken_off() {
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
