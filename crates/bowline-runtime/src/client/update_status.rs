//! The status of an object, changed by a closure. Only what the closure changed is written.

use bowline_cache::{Kind, ObjectKey, object_key};
use kube::core::Status;
use kube::core::object::HasStatus;
use kube::core::response::StatusDetails;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{Operation, Verb};
use super::patch::difference;
use super::{Client, ClientError, Object, Patch, PatchError};
use crate::ensure::Attempts;
use crate::{AsObject, BoxError, Mutation};

/// Why a status could not be updated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateStatusError {
    /// The closure failed. Nothing was written.
    #[error("the status of {kind} {key} cannot be changed: {}", crate::error::describe(&**.source))]
    Change {
        /// The object's kind.
        kind: String,
        /// The object's key.
        key: ObjectKey,
        /// The closure's error.
        #[source]
        source: BoxError,
    },
    /// The status cannot be written as JSON, or the object has no resource version although it has no status or a list changes.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The API server refused the write, or could not be reached. It is a conflict if five attempts met one, and "not found"
    /// if the object does not exist, or was deleted and created again.
    #[error("{0}")]
    Client(#[from] ClientError),
}

impl UpdateStatusError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_retryable() || error.is_conflict())
    }
}

impl Client {
    /// Changes the status of an object, and writes only what the closure changed, through the status subresource. Returns the
    /// object as the server has it, or `None` if nothing had to be written.
    ///
    /// The difference of the status before and after the closure is sent as a JSON merge patch. Nothing is sent if there is no
    /// difference. Fields that became `None` are removed. Everything else stays as the server has it, also when it was changed
    /// since the object was read: labels, fields and conditions that other controllers write are neither lost nor a conflict.
    ///
    /// - The first attempt carries the object's resource version. On a conflict, the object is read from the server, and the
    ///   closure runs again on it, at once. A label or a condition that another controller wrote meanwhile therefore costs two
    ///   requests, and is not an error.
    /// - A merge patch replaces lists as a whole, so a patch that changes or removes a list (conditions are one), or removes a
    ///   map, carries the resource version in later attempts too: up to five attempts in all, with pauses of about 20, 30 and
    ///   40 ms before the third and later ones. The same holds for the first status of an object. Other patches carry no
    ///   version after the first conflict, so that a frequent writer cannot hold them up.
    /// - A value that the closure computes from the old one, such as `status.count += 1`, can therefore be lost: if a conflict
    ///   occurs, and another client changes the same field between the read and the next patch, that change is overwritten.
    ///   Compute it from the object instead, or write such a field from one place only.
    /// - The closure must compute the same change each time, and keep list items that belong to others:
    ///   [`set_condition`](crate::conditions::ConditionsExt::set_condition) does. Fields of list items that `K` does not know
    ///   are lost.
    /// - The closure may fail with any error: [`UpdateStatusError::Change`]. Nothing is written then.
    /// - If the kind is cached, the closure starts from the newer one of `object` and the cached object, after the client's own
    ///   writes have arrived in the cache. Two calls in a row with the same old `object` are therefore safe. For other kinds,
    ///   pass the object that the first call returned.
    /// - `K` is a custom kind (kube's `HasStatus`). For built-in kinds, [`ensure`](Self::ensure) writes a changed status.
    /// - An absent status is `K::Status::default()` for the closure. Its fields are written with the first status, so that
    ///   `availableReplicas: 0` is there even if the closure did not change it. A default without fields is like no status.
    /// - After a conflict or an invalid patch, the object is read from the server. If that fails, the error of the patch is
    ///   returned.
    /// - An object that does not exist any more, or was deleted and created again under its name (another uid), is an error
    ///   whose [`is_not_found`](crate::ErrorPredicates::is_not_found) is true. The status of the new object is left alone, with
    ///   one exception: a patch without a version also changes an object that was created again after the read of the same
    ///   attempt. The error says so.
    ///
    /// ```no_run
    /// use bowline_runtime::conditions::{ConditionsExt as _, NewCondition};
    /// # use bowline_runtime::{Context, Result};
    /// # use kube::CustomResource;
    /// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Clone, CustomResource, Debug, Deserialize, Serialize)]
    /// # #[kube(group = "example.com", version = "v1", kind = "Game", status = "GameStatus", schema = "disabled", namespaced)]
    /// # struct GameSpec {}
    /// # #[derive(Clone, Debug, Default, Deserialize, Serialize)]
    /// # struct GameStatus { players: i32, conditions: Vec<Condition> }
    ///
    /// async fn reconcile(ctx: &Context, game: &Game) -> Result<()> {
    ///     let update = ctx.client().update_status(game, |status| {
    ///         status.players = 3;
    ///         status.conditions.set_condition(NewCondition::is_true("Ready", "Up"), ctx)
    ///     });
    ///     update.await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the closure fails, the object does not exist, five attempts met a conflict, or the server refuses the status.
    pub async fn update_status<K, M>(
        &self,
        object: &impl AsObject<K>,
        mut change: impl FnMut(&mut K::Status) -> M,
    ) -> Result<Option<K>, UpdateStatusError>
    where
        K: Object + HasStatus<Status: Default + Clone + Serialize>,
        M: Mutation,
    {
        let given = object.as_object();
        let key = object_key(given);
        let uid = given.meta().uid.as_deref();
        let mut newer = self.find_newer(given, &key).await;
        let mut attempts = Attempts::default();
        loop {
            let current = newer.as_deref().unwrap_or(given);
            if is_another(uid, current) {
                return Err(replaced::<K>(&key, "is not written").into());
            }
            let is_first = attempts.is_first();
            let Some(patch) = status_patch(current, &key, is_first, &mut change)? else { return Ok(None) };
            let error = match self.status().patch::<K>(&key, &patch).await {
                // Servers ignore the uid in a status patch of a custom kind, and later attempts may carry no version.
                Ok(written) if is_another(uid, &written) => {
                    return Err(replaced::<K>(&key, "was changed, which cannot be undone").into());
                }
                Ok(written) => return Ok(Some(written)),
                // A patch for another uid is a conflict, or changes an immutable field.
                Err(error) if error.is_conflict() || error.is_invalid() => error,
                Err(error) => return Err(error.into()),
            };
            let is_conflict = error.is_conflict();
            if is_conflict && !attempts.next(self).await {
                return Err(error.into());
            }
            let fresh = match self.live().get::<K>(&key).await {
                Ok(fresh) => fresh,
                Err(missing) if missing.is_not_found() => return Err(missing.into()),
                // The client may lack the right to read. The error of the write says more.
                Err(_) => return Err(error.into()),
            };
            if !is_conflict && !is_another(uid, &*fresh) {
                return Err(error.into());
            }
            newer = Some(fresh);
        }
    }

    /// The cached object if it is newer than the given one.
    async fn find_newer<K: Object>(&self, given: &K, key: &ObjectKey) -> Option<std::sync::Arc<K>> {
        if !self.is_cached(self.typed::<K>().kind()) {
            return None;
        }
        // The given object will do if the cache cannot answer, or has no such object.
        let cached = self.find::<K>(key).await.ok()??;
        let is_older = match (version(&*cached), version(given)) {
            (Some(cached), Some(given)) => cached <= given,
            // Versions that are not numbers cannot be compared. The cache has seen the client's own writes.
            _ => cached.meta().resource_version == given.meta().resource_version,
        };
        (!is_older).then_some(cached)
    }
}

fn version(object: &impl Object) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// Whether an object has the name, but was created another time.
fn is_another(uid: Option<&str>, object: &impl Object) -> bool {
    uid.is_some_and(|uid| object.meta().uid.as_deref().is_some_and(|other| other != uid))
}

/// Runs the closure. None if it changes nothing.
///
/// The first attempt carries the version, because the object may have been created again since it was read. Later attempts are
/// for an object that was just read.
fn status_patch<K, M>(
    object: &K,
    key: &ObjectKey,
    is_first: bool,
    change: &mut impl FnMut(&mut K::Status) -> M,
) -> Result<Option<Patch>, UpdateStatusError>
where
    K: Object + HasStatus<Status: Default + Clone + Serialize>,
    M: Mutation,
{
    let mut status = object.status().cloned().unwrap_or_default();
    change(&mut status).into_result().map_err(|source| UpdateStatusError::Change {
        kind: K::kind(&()).into_owned(),
        key: key.clone(),
        source,
    })?;
    let value = |status: &K::Status| serde_json::to_value(status).map_err(PatchError::from);
    let after = value(&status)?;
    let before = match object.status() {
        Some(status) => value(status)?,
        None => Value::Object(Map::new()),
    };
    let Some(changes) = difference(before.clone(), after) else { return Ok(None) };
    let meta = object.meta();
    let mut metadata = Map::new();
    if let Some(uid) = &meta.uid {
        metadata.insert("uid".to_owned(), uid.as_str().into());
    }
    // The first status contains every field of the default, and would replace one that another client stored meanwhile.
    let needs_version = object.status().is_none() || replaces_collection(&before, &changes);
    match &meta.resource_version {
        Some(version) if needs_version || is_first => {
            metadata.insert("resourceVersion".to_owned(), version.as_str().into());
        }
        None if needs_version => return Err(PatchError::NoVersion.into()),
        _ => {}
    }
    Ok(Some(Patch::merge(&json!({"metadata": metadata, "status": changes}))?))
}

/// Whether a merge patch may remove what others wrote since the object was read: it writes a list, or removes a list or a map.
fn replaces_collection(before: &Value, patch: &Value) -> bool {
    match (before, patch) {
        (Value::Object(before), Value::Object(patch)) => patch
            .iter()
            .any(|(key, patch)| replaces_collection(before.get(key).unwrap_or(&Value::Null), patch)),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_)) => true,
        (_, Value::Object(patch)) => patch.values().any(|patch| replaces_collection(&Value::Null, patch)),
        _ => false,
    }
}

/// The object is gone, although its name is not. `outcome` is about the status of the new object.
fn replaced<K: Object>(key: &ObjectKey, outcome: &str) -> ClientError {
    let kind = Kind::<K>::typed();
    let resource = kind.resource();
    let message = format!(
        "{} {key} was deleted and created again since it was read: the status of the new object {outcome}",
        resource.kind
    );
    let details = StatusDetails {
        name: key.name().to_owned(),
        group: resource.group.clone(),
        kind: resource.plural.clone(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    };
    let operation = Operation {
        verb: Verb::Patch,
        kind: kind.to_string(),
        key: Some(key.clone()),
        subresource: Some("status".to_owned()),
    };
    let status = Status::failure(&message, "NotFound").with_code(404).with_details(details);
    ClientError::Status { operation: Box::new(operation), status: Box::new(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs_version(before: &Value, after: &Value) -> Option<bool> {
        difference(before.clone(), after.clone()).map(|changes| replaces_collection(before, &changes))
    }

    #[test]
    fn a_patch_that_may_remove_values_of_others_always_carries_the_version() {
        let locked = [
            (json!({"list": [1]}), json!({"list": [1, 2]})),
            (json!({}), json!({"list": []})),
            (json!({"list": [1]}), json!({})),
            (json!({"a": {"list": [1]}}), json!({"a": {"list": null}})),
            (json!({}), json!({"a": {"list": [1]}})),
            (json!({"map": {"a": 1}}), json!({})),
            (json!({"any": {"a": 1}}), json!({"any": "text"})),
        ];
        for (before, after) in locked {
            assert_eq!(needs_version(&before, &after), Some(true), "{before} to {after}");
        }
    }

    #[test]
    fn a_patch_of_scalars_and_map_entries_need_not_carry_the_version() {
        let free = [
            (json!({"a": 1}), json!({"a": 2})),
            (json!({"a": 1}), json!({})),
            (json!({"map": {"a": 1}}), json!({"map": {"b": 1}})),
            (json!({}), json!({"map": {"a": {"b": 1}}})),
            (json!({"a": 1, "list": [1]}), json!({"a": "text", "list": [1]})),
        ];
        for (before, after) in free {
            assert_eq!(needs_version(&before, &after), Some(false), "{before} to {after}");
        }
        assert_eq!(needs_version(&json!({"list": [1]}), &json!({"list": [1]})), None);
    }
}
