//! Desired objects: an object is read, changed in a copy, compared, and written only if it differs.

mod attempts;
mod comparison;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bowline_cache::{ObjectKey, object_key};
use serde_json::Value;

use crate::ownership::{Owner, OwnershipError, controller_of};
use crate::{BoxError, Client, ClientError, Object, Patch, PatchError};
pub(crate) use attempts::Attempts;
use comparison::Comparison;

/// The writes that an object needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EnsureOutcome {
    /// The object was as desired. Nothing was written.
    Unchanged,
    /// The object did not exist.
    Created,
    /// The object was changed, without its status.
    Updated,
    /// The object and its status were changed.
    UpdatedStatus,
    /// Only the status was changed.
    UpdatedStatusOnly,
}

/// An object that is as desired, and the writes that this needed. It dereferences to the object.
#[derive(Clone, Debug)]
pub struct Ensured<K> {
    object: Arc<K>,
    outcome: EnsureOutcome,
}

impl<K> Ensured<K> {
    /// The writes that were needed.
    #[must_use]
    pub fn outcome(&self) -> EnsureOutcome {
        self.outcome
    }

    /// Whether anything was written.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.outcome != EnsureOutcome::Unchanged
    }

    /// The object as the server has it.
    #[must_use]
    pub fn into_object(self) -> Arc<K> {
        self.object
    }
}

impl<K> Deref for Ensured<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

/// Why an object could not be made as desired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnsureError {
    /// The object exists, and its controller is not the desired owner. Nothing was changed.
    #[error(
        "{kind} {key} exists and is {}, not by {owner}: it is left alone; delete it, or use another name",
        .controller.as_deref().map_or("controlled by nobody".to_owned(), |it| format!("controlled by {it}"))
    )]
    NotControlled {
        /// The object's kind.
        kind: String,
        /// The object's key.
        key: ObjectKey,
        /// The desired controller.
        owner: String,
        /// The present controller.
        controller: Option<String>,
    },
    /// The owner cannot own the object.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// The closure failed.
    #[error("{kind} {key} cannot be brought to its desired state: {}", crate::error::describe(&**.source))]
    Change {
        /// The object's kind.
        kind: String,
        /// The object's key.
        key: ObjectKey,
        /// The closure's error.
        #[source]
        source: BoxError,
    },
    /// The closure changed the name or the namespace.
    #[error("{kind} {key} was changed to be {changed}: a change may not touch the name or the namespace")]
    Identity {
        /// The object's kind.
        kind: String,
        /// The object's key.
        key: ObjectKey,
        /// The key after the closure.
        changed: ObjectKey,
    },
    /// The object cannot be written as JSON, or has no resource version.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// The object could not be read or written. It is a conflict if five attempts met one.
    #[error("{0}")]
    Client(#[from] ClientError),
}

impl EnsureError {
    /// Whether the object exists and has another controller, or none.
    #[must_use]
    pub fn is_not_controlled(&self) -> bool {
        matches!(self, Self::NotControlled { .. } | Self::Ownership(OwnershipError::AlreadyControlled { .. }))
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_retryable() || error.is_conflict())
    }
}

/// The object to create if it does not exist: an object, or the result of [`child`](crate::ownership::OwnerExt::child).
pub trait Desired<K> {
    /// The object.
    ///
    /// # Errors
    /// When the owner cannot own the object.
    fn into_object(self) -> Result<K, OwnershipError>;
}

impl<K: Object> Desired<K> for K {
    fn into_object(self) -> Result<K, OwnershipError> {
        Ok(self)
    }
}

impl<K: Object> Desired<K> for Result<K, OwnershipError> {
    fn into_object(self) -> Result<K, OwnershipError> {
        self
    }
}

/// The result of a closure that changes an object or a status: `()`, or a `Result` with any error. The value in the `Result`
/// is ignored.
pub trait Mutation {
    /// The closure's error.
    ///
    /// # Errors
    /// When the closure failed.
    fn into_result(self) -> Result<(), BoxError>;
}

impl Mutation for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<T, E: Into<BoxError>> Mutation for Result<T, E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map(drop).map_err(Into::into)
    }
}

/// Method of writing an existing object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Update,
    Patch,
}

impl Client {
    /// Creates an object, or updates its differing fields: the main step of most reconciles.
    ///
    /// The object is read (from the cache, if its kind is cached). If it does not exist, `desired` is changed by `change` and
    /// created. If it exists, a copy of it is changed, and the difference is sent as a patch that the server refuses if the
    /// object was changed meanwhile. **Nothing is sent if there is no difference**: both sides are compared as the API server
    /// would store them, so that `1000m` is `1` in a quantity, and an empty list is no list.
    ///
    /// - `change` gets the object as the server has it, and sets the fields that matter. All other fields stay: the defaults of
    ///   the server, and those that others wrote. (A closure that replaces the whole object, or a list with defaults in its
    ///   items, removes the defaults each time, and so writes each time.)
    /// - `change` may be called more than once: another client may create or change the object meanwhile. There are five
    ///   attempts; all but the first read the object from the server.
    /// - `change` must not touch the name and the namespace. Fields that only the server sets (uid, version, times, generation)
    ///   are restored.
    /// - If `desired` has a controller, as a [`child`](crate::ownership::OwnerExt::child) has, an existing object that this
    ///   controller does not control is left alone: [`EnsureError::NotControlled`].
    /// - A changed status is written through the status subresource, which the kind must have.
    ///
    /// ```no_run
    /// # use bowline_runtime::{Client, Result, ownership::OwnerExt as _};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// # async fn reconcile(client: &Client, config: &ConfigMap) -> Result<()> {
    /// let web = client.ensure(config.child::<Deployment>("web"), |deployment| {
    ///     deployment.spec.get_or_insert_default().replicas = Some(3);
    /// });
    /// assert_eq!(web.await?.spec.as_ref().and_then(|spec| spec.replicas), Some(3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the object has another controller, cannot be read or written, or `change` fails. The object may exist after an
    /// error, because its status is written after it.
    pub async fn ensure<K: Object, M: Mutation>(
        &self,
        desired: impl Desired<K>,
        mut change: impl FnMut(&mut K) -> M,
    ) -> Result<Ensured<K>, EnsureError> {
        let desired = desired.into_object()?;
        let owner = controller_of(&desired).cloned();
        ensure(self, Write::Patch, &desired, |object, exists| {
            let controller = controller_of(object);
            if let Some(owner) = owner.as_ref().filter(|_| exists)
                && controller.is_none_or(|controller| controller.uid != owner.uid)
            {
                return Err(EnsureError::NotControlled {
                    kind: K::kind(&()).into_owned(),
                    key: object_key(object),
                    owner: format!("{} {}", owner.kind, owner.name),
                    controller: controller.map(|it| format!("{} {}", it.kind, it.name)),
                });
            }
            run(object, &mut change)
        })
        .await
    }

    /// As [`ensure`](Self::ensure), but an existing object is replaced as a whole, and an object without a controller is
    /// **adopted** by the controller of `desired`, if that has one: controller-runtime's `CreateOrUpdate`.
    ///
    /// An object with another controller is left alone: [`OwnershipError::AlreadyControlled`]. Nothing else of `desired` is
    /// used if the object exists.
    ///
    /// Fields that this program's type does not know are lost by a replacement.
    ///
    /// # Errors
    /// As [`ensure`](Self::ensure).
    pub async fn create_or_update<K: Object, M: Mutation>(
        &self,
        desired: impl Desired<K>,
        mut change: impl FnMut(&mut K) -> M,
    ) -> Result<Ensured<K>, EnsureError> {
        let desired = desired.into_object()?;
        let owner = Owner::controller_of(&desired);
        ensure(self, Write::Update, &desired, |object, _| run_for(owner.as_ref(), object, &mut change)).await
    }

    /// As [`ensure`](Self::ensure), but an object without a controller is adopted, as by
    /// [`create_or_update`](Self::create_or_update): controller-runtime's `CreateOrPatch`.
    ///
    /// # Errors
    /// As [`ensure`](Self::ensure).
    pub async fn create_or_patch<K: Object, M: Mutation>(
        &self,
        desired: impl Desired<K>,
        mut change: impl FnMut(&mut K) -> M,
    ) -> Result<Ensured<K>, EnsureError> {
        let desired = desired.into_object()?;
        let owner = Owner::controller_of(&desired);
        ensure(self, Write::Patch, &desired, |object, _| run_for(owner.as_ref(), object, &mut change)).await
    }
}

fn run<K: Object, M: Mutation>(
    object: &mut K,
    change: &mut impl FnMut(&mut K) -> M,
) -> Result<(), EnsureError> {
    let key = object_key(object);
    let kind = || K::kind(&()).into_owned();
    if let Err(source) = change(object).into_result() {
        return Err(EnsureError::Change { kind: kind(), key, source });
    }
    let changed = object_key(object);
    if changed == key { Ok(()) } else { Err(EnsureError::Identity { kind: kind(), key, changed }) }
}

/// Runs a change, then sets the controller, also if the change removed it.
fn run_for<K: Object, M: Mutation>(
    owner: Option<&Owner>,
    object: &mut K,
    change: &mut impl FnMut(&mut K) -> M,
) -> Result<(), EnsureError> {
    run(object, change)?;
    if let Some(owner) = owner {
        owner.set_on(object)?;
    }
    Ok(())
}

async fn ensure<K: Object>(
    client: &Client,
    write: Write,
    desired: &K,
    mut change: impl FnMut(&mut K, bool) -> Result<(), EnsureError>,
) -> Result<Ensured<K>, EnsureError> {
    let key = object_key(desired);
    let live = client.live();
    let mut done = Done::default();
    let mut attempts = Attempts::default();
    loop {
        let reader = if attempts.is_first() { client } else { &live };
        let known = reader.find::<K>(&key).await?;
        let is_known = known.is_some();
        let outcome = if let Some(known) = known {
            let mut changed = (*known).clone();
            change(&mut changed, true)?;
            put_back(&mut changed, &*known);
            bring_about(client, write, known, changed, &mut done).await
        } else {
            let mut created = desired.clone();
            change(&mut created, false)?;
            create(client, &created, &mut done).await
        };
        let error = match outcome {
            Ok(object) => return Ok(Ensured { object, outcome: done.outcome() }),
            Err(EnsureError::Client(error)) => error,
            Err(error) => return Err(error),
        };
        // The object that was read is old by now, or the created object was changed before its status was written.
        let is_contended = if is_known || done.is_created {
            error.is_conflict() || error.is_not_found()
        } else {
            error.is_already_exists()
        };
        if !is_contended || !attempts.next(client).await {
            return Err(error.into());
        }
    }
}

/// The writes so far, also those of attempts that failed later.
#[derive(Default)]
struct Done {
    is_created: bool,
    is_updated: bool,
    is_status_updated: bool,
}

impl Done {
    fn outcome(&self) -> EnsureOutcome {
        match (self.is_updated, self.is_status_updated) {
            _ if self.is_created => EnsureOutcome::Created,
            (false, false) => EnsureOutcome::Unchanged,
            (true, false) => EnsureOutcome::Updated,
            (true, true) => EnsureOutcome::UpdatedStatus,
            (false, true) => EnsureOutcome::UpdatedStatusOnly,
        }
    }
}

async fn create<K: Object>(client: &Client, object: &K, done: &mut Done) -> Result<Arc<K>, EnsureError> {
    let mut created = client.create(object).await?;
    done.is_created = true;
    // A server with a status subresource ignores the status of an object that is created.
    let wanted = Comparison::new(object)?;
    if wanted.has_status() && Comparison::new(&created)?.status() != wanted.status() {
        created = write_status(client, &created, wanted.status().clone()).await?;
    }
    Ok(Arc::new(created))
}

async fn bring_about<K: Object>(
    client: &Client,
    write: Write,
    known: Arc<K>,
    changed: K,
    done: &mut Done,
) -> Result<Arc<K>, EnsureError> {
    // Most of the time nothing changes. This comparison is the cheapest.
    if serde_json::to_vec(&*known).map_err(PatchError::from)?
        == serde_json::to_vec(&changed).map_err(PatchError::from)?
    {
        return Ok(known);
    }
    let (old, new) = (Comparison::new(&*known)?, Comparison::new(&changed)?);
    let mut object = known;
    if !old.is_same_but_status(&new) {
        object = Arc::new(match write {
            Write::Update => client.update(&changed).await?,
            Write::Patch => {
                let patch = Patch::merge_from_locked(old.without_status(), new.without_status())?;
                client.patch(&object_key(&*object), &patch).await?
            }
        });
        done.is_updated = true;
    }
    if !old.is_same_status(&new) {
        object = Arc::new(write_status(client, &*object, new.status().clone()).await?);
        done.is_status_updated = true;
    }
    Ok(object)
}

/// Writes the status of an object. It is a conflict if the object has another version by now.
async fn write_status<K: Object>(client: &Client, object: &K, status: Value) -> Result<K, EnsureError> {
    let old = serde_json::to_value(object).map_err(PatchError::from)?;
    let mut new = old.clone();
    new["status"] = status;
    let patch = Patch::merge_from_locked(&old, &new)?;
    Ok(client.status().patch(&object_key(object), &patch).await?)
}

/// Restores the fields that only the server sets.
fn put_back<K: Object>(changed: &mut K, known: &K) {
    let (meta, known) = (changed.meta_mut(), known.meta());
    meta.uid.clone_from(&known.uid);
    meta.resource_version.clone_from(&known.resource_version);
    meta.creation_timestamp.clone_from(&known.creation_timestamp);
    meta.deletion_timestamp.clone_from(&known.deletion_timestamp);
    meta.deletion_grace_period_seconds.clone_from(&known.deletion_grace_period_seconds);
    meta.generation.clone_from(&known.generation);
    meta.generate_name.clone_from(&known.generate_name);
    meta.managed_fields.clone_from(&known.managed_fields);
    meta.self_link.clone_from(&known.self_link);
}

impl fmt::Display for EnsureOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Created => "created",
            Self::Updated => "updated",
            Self::UpdatedStatus => "updated, with its status",
            Self::UpdatedStatusOnly => "updated in its status",
        })
    }
}
