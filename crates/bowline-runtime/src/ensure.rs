//! Objects that are to be there and to look so: read, changed in a copy, compared, and written only if something is another.

mod comparison;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bowline_cache::{ObjectKey, object_key};
use serde_json::Value;

use crate::ownership::{Owner, OwnershipError, controller_of};
use crate::{BoxError, Client, ClientError, Object, Patch, PatchError};
use comparison::Comparison;

/// How often an object is read and written if others get in the way.
const TRIES: u32 = 5;

/// How long is waited before the second try.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// What was done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EnsureOutcome {
    /// Nothing: it was as it should be, and nothing was written.
    Unchanged,
    /// It was not there.
    Created,
    /// It was changed, but for its status.
    Updated,
    /// It was changed, and its status too.
    UpdatedStatus,
    /// Only its status was changed.
    UpdatedStatusOnly,
}

/// An object that is as it should be, and what was done for that. It is the object, by `Deref`.
#[derive(Clone, Debug)]
pub struct Ensured<K> {
    object: Arc<K>,
    outcome: EnsureOutcome,
}

impl<K> Ensured<K> {
    /// What was done.
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

/// Why an object is not as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnsureError {
    /// It is there, and is not controlled by the owner that it should have. Nothing was changed.
    #[error(
        "{kind} {key} exists and is {}, not by {owner}: it is left alone; delete it, or use another name",
        .controller.as_deref().map_or("controlled by nobody".to_owned(), |it| format!("controlled by {it}"))
    )]
    NotControlled {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
        /// Who should control it.
        owner: String,
        /// Who does.
        controller: Option<String>,
    },
    /// It cannot be owned so.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// The change failed.
    #[error("{kind} {key} cannot be made as it should be: {}", crate::error::describe(&**.source))]
    Change {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// The change gave it another name or namespace.
    #[error("{kind} {key} was changed to be {changed}: a change may not touch the name or the namespace")]
    Identity {
        /// Its kind.
        kind: String,
        /// Its key.
        key: ObjectKey,
        /// What it was changed to.
        changed: ObjectKey,
    },
    /// It cannot be written as JSON, or has no version.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// It could not be read or written; also if others got in the way five times.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl EnsureError {
    /// Whether it is there and belongs to another, or to nobody.
    #[must_use]
    pub fn is_not_controlled(&self) -> bool {
        matches!(self, Self::NotControlled { .. } | Self::Ownership(OwnershipError::AlreadyControlled { .. }))
    }

    /// Whether the very same may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_retryable() || error.is_conflict())
    }
}

/// An object as it is created if it is not there: an object, or what [`child`](crate::ownership::child) returns.
pub trait Desired<K> {
    /// The object.
    ///
    /// # Errors
    /// When it could not be made.
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

/// What a change returns: nothing, or a result.
pub trait Mutation {
    /// Whether it succeeded.
    ///
    /// # Errors
    /// When it did not.
    fn into_result(self) -> Result<(), BoxError>;
}

impl Mutation for () {
    fn into_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> Mutation for Result<(), E> {
    fn into_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

/// How an object that is there is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    Update,
    Patch,
}

impl Client {
    /// Sees to it that an object is there and looks as it should: what most of a reconcile is.
    ///
    /// The object is read (from the cache, if its kind is declared). If it is not there, `desired` is changed by `change` and
    /// created. If it is, a copy of it is changed, and the difference is sent as a patch that the server refuses if the object
    /// was changed meanwhile. **Nothing is sent if there is no difference**: what is compared is what the API server would make
    /// of both, so that `1000m` is `1` in a quantity, and an empty list is no list.
    ///
    /// - `change` gets the object as the server has it, and sets what matters. What it does not touch stays: the defaults of
    ///   the server, and what others wrote. (Who replaces the whole object, or a whole list with defaults in its elements, takes
    ///   the defaults away each time, and writes each time.)
    /// - `change` may be called more than once: the object may be created by another, or changed, in between. It is tried five
    ///   times then, and read from the server.
    /// - `change` may not touch the name and the namespace. What only the server sets (uid, version, times, generation) is put
    ///   back.
    /// - If `desired` has a controller, as a [`child`](crate::ownership::child) has, an object of that name that this
    ///   controller does not control is left alone: [`EnsureError::NotControlled`].
    /// - A status that is changed is written through the status subresource, which the kind must have then.
    ///
    /// ```no_run
    /// # use bowline_runtime::{Client, Result, ownership::child};
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
    /// # async fn reconcile(client: &Client, owner: &ConfigMap) -> Result<()> {
    /// let web = client.ensure(child::<Deployment>(owner, "web"), |deployment| {
    ///     deployment.spec.get_or_insert_default().replicas = Some(3);
    /// });
    /// assert_eq!(web.await?.spec.as_ref().and_then(|spec| spec.replicas), Some(3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the object belongs to another, cannot be read or written, or `change` fails. It may be there for all that: its
    /// status is written after it.
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

    /// As [`ensure`](Self::ensure), but an object that is there is replaced as a whole, and one that nobody controls is
    /// **adopted** by the controller of `desired`, if that has one: what controller-runtime calls `CreateOrUpdate`.
    ///
    /// One that another controls is left alone: [`OwnershipError::AlreadyControlled`]. Nothing else of `desired` is looked at
    /// if the object is there.
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

    /// As [`ensure`](Self::ensure), but an object that nobody controls is adopted, as by
    /// [`create_or_update`](Self::create_or_update): what controller-runtime calls `CreateOrPatch`.
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

/// Runs a change, and makes the object the owner's, whatever the change did to its owners.
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
    let mut tries = 0;
    loop {
        let reader = if tries == 0 { client } else { &live };
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
        // What was read was old, or is by now; or what was just created was changed before its status was written.
        let is_contended = if is_known || done.is_created {
            error.is_conflict() || error.is_not_found()
        } else {
            error.is_already_exists()
        };
        tries += 1;
        if !is_contended || tries >= TRIES {
            return Err(error.into());
        }
        if tries > 1 {
            client.clock().sleep(client.clock().rng().jitter(BETWEEN_TRIES * tries, 1.0)).await;
        }
    }
}

/// What was written so far. A try that came half the way counts.
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
    // A server with a status subresource ignores the status of what is created.
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
    // Most of the time nothing changes, and then nothing more than this is done.
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

/// Makes the status of an object what it should be, if it is still the version that it was.
async fn write_status<K: Object>(client: &Client, object: &K, status: Value) -> Result<K, EnsureError> {
    let old = serde_json::to_value(object).map_err(PatchError::from)?;
    let mut new = old.clone();
    new["status"] = status;
    let patch = Patch::merge_from_locked(&old, &new)?;
    Ok(client.status().patch(&object_key(object), &patch).await?)
}

/// What only the server sets is as it was.
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
