//! Claims: the objects that belong to an owner by their labels. Adopts orphans and releases objects that no longer
//! match.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_cache::object_key;
use bowline_machinery::LabelSelector;
use kube::core::ObjectMeta;
use serde_json::json;

use super::{Owner, OwnershipError, controller_of};
use crate::{AsObject, Client, ClientError, Object, Patch, PatchError};

/// Claims objects for an owner, as the controllers of Kubernetes do.
///
/// | controller of the object | labels | then |
/// |---|---|---|
/// | this owner | match | it is kept |
/// | this owner | do not match | it is **released**: the reference is removed |
/// | another | any | it is left alone |
/// | none | match | it is **adopted**, unless it is being deleted |
/// | none | do not match | it is left alone |
///
/// Nothing is adopted or released for an owner that is being deleted. Before the first adoption, the owner is read from
/// the API server, never from the cache: a deleted owner, or one recreated under the same name, must not adopt. The
/// server refuses each write if the object has another uid or version than the one that was read.
///
/// ```no_run
/// # use std::sync::Arc;
/// use bowline_cache::ListQuery;
/// use bowline_machinery::LabelSelector;
/// use bowline_runtime::{Client, ownership::Claim};
/// use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
///
/// async fn pods_of(client: &Client, set: &ReplicaSet) -> bowline_runtime::Result<Vec<Arc<Pod>>> {
///     let pods = client.list::<Pod>(&ListQuery::new().in_namespace("default")).await?;
///     let claimed = Claim::new(set, LabelSelector::parse("app=web")?)?.claim(client, pods).await?;
///     Ok(claimed.objects)
/// }
/// ```
#[must_use = "nothing is claimed until `claim`"]
pub struct Claim<'a, O> {
    object: &'a O,
    owner: Owner,
    selector: LabelSelector,
    may_adopt: bool,
}

/// Objects that belong to an owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claimed<K> {
    /// All objects that belong to it now, in the given order; adopted ones as the server returned them.
    pub objects: Vec<Arc<K>>,
    /// Number of adopted objects.
    pub adopted: usize,
    /// Number of released objects.
    pub released: usize,
}

/// Some objects could not be claimed. The others were, and are listed here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[error("{owner} could not claim {} of {given} objects: {}", .errors.len(), describe(.errors))]
pub struct ClaimError<K> {
    /// The owner.
    pub owner: String,
    /// Number of given objects.
    pub given: usize,
    /// Failures, each with the name of its object.
    pub errors: Vec<(String, ClaimFailure)>,
    /// Objects that belong to the owner all the same.
    pub claimed: Claimed<K>,
}

/// Reason why one object could not be claimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimFailure {
    /// The owner is gone, was recreated under its name, or is being deleted.
    #[error("the owner cannot adopt: {0}")]
    Owner(String),
    /// The request failed, or the server refused it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The object has no version.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// It cannot have this owner.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
}

enum Decision {
    Keep,
    Leave,
    Adopt,
    Release,
}

impl<'a, O: Object> Claim<'a, O> {
    /// Claims the objects that a selector selects, for an owner.
    ///
    /// # Errors
    /// When the owner has no name or uid.
    pub fn new(owner: &'a impl AsObject<O>, selector: LabelSelector) -> Result<Self, OwnershipError> {
        let object = owner.as_object();
        Ok(Self { object, owner: Owner::controller(object)?, selector, may_adopt: true })
    }

    /// Whether to adopt orphans. Default: yes.
    pub fn adopt(mut self, may_adopt: bool) -> Self {
        self.may_adopt = may_adopt;
        self
    }

    /// Claims from these objects: all of the kind in the owner's namespace, not only the matching ones.
    ///
    /// An object that was deleted meanwhile is not an error.
    ///
    /// # Errors
    /// Some objects could not be adopted or released. The error lists the others, which were.
    pub async fn claim<K: Object>(
        &self,
        client: &Client,
        objects: impl IntoIterator<Item = Arc<K>>,
    ) -> Result<Claimed<K>, ClaimError<K>> {
        let mut claimed = Claimed { objects: Vec::new(), adopted: 0, released: 0 };
        let (mut errors, mut given) = (Vec::new(), 0);
        let mut owner_check: Option<Result<(), String>> = None;
        for object in objects {
            given += 1;
            let outcome = match self.decide(object.meta(), controller_of(&object).map(|it| it.uid.as_str())) {
                Decision::Leave => continue,
                Decision::Keep => {
                    claimed.objects.push(object);
                    continue;
                }
                Decision::Release => self.release(client, &*object).await.map(|is_done| {
                    claimed.released += usize::from(is_done);
                }),
                Decision::Adopt => {
                    if owner_check.is_none() {
                        owner_check = Some(self.check_owner(client).await);
                    }
                    match owner_check.clone() {
                        Some(Err(problem)) => Err(ClaimFailure::Owner(problem)),
                        _ => self.adopt_one(client, &*object).await.map(|adopted| {
                            claimed.adopted += usize::from(adopted.is_some());
                            claimed.objects.extend(adopted.map(Arc::new));
                        }),
                    }
                }
            };
            if let Err(error) = outcome {
                errors.push((object_key(&*object).to_string(), error));
            }
        }
        if errors.is_empty() {
            return Ok(claimed);
        }
        Err(ClaimError { owner: self.owner.to_string(), given, errors, claimed })
    }

    fn decide(&self, child: &ObjectMeta, controller: Option<&str>) -> Decision {
        let is_match = self.selector.matches(child.labels.as_ref().unwrap_or(&BTreeMap::new()));
        let is_going = self.object.meta().deletion_timestamp.is_some();
        match controller {
            Some(uid) if uid != self.owner.reference.uid => Decision::Leave,
            Some(_) if is_match => Decision::Keep,
            Some(_) if is_going => Decision::Leave,
            Some(_) => Decision::Release,
            None if is_going || !is_match || !self.may_adopt => Decision::Leave,
            None if child.deletion_timestamp.is_some() => Decision::Leave,
            None if self.owner.namespace.is_some() && self.owner.namespace != child.namespace => {
                Decision::Leave
            }
            None => Decision::Adopt,
        }
    }

    async fn check_owner(&self, client: &Client) -> Result<(), String> {
        let fresh = client.live().find::<O>(&object_key(self.object)).await;
        match fresh.map_err(|error| error.to_string())? {
            None => Err(format!("{} is gone", self.owner)),
            Some(fresh) if fresh.meta().uid.as_deref() != Some(&*self.owner.reference.uid) => {
                Err(format!("{} was deleted and made again", self.owner))
            }
            Some(fresh) if fresh.meta().deletion_timestamp.is_some() => {
                Err(format!("{} is being deleted", self.owner))
            }
            Some(_) => Ok(()),
        }
    }

    async fn adopt_one<K: Object>(&self, client: &Client, object: &K) -> Result<Option<K>, ClaimFailure> {
        let mut adopted = object.clone();
        self.owner.set_on(&mut adopted)?;
        self.write(client, object, &adopted).await
    }

    async fn release<K: Object>(&self, client: &Client, object: &K) -> Result<bool, ClaimFailure> {
        let mut released = object.clone();
        let uid = &self.owner.reference.uid;
        super::remove(&mut released, |reference| reference.uid == *uid);
        Ok(self.write(client, object, &released).await?.is_some())
    }

    /// Writes the owners of an object if it is still the one that was read; `None` if it is gone.
    async fn write<K: Object>(&self, client: &Client, old: &K, new: &K) -> Result<Option<K>, ClaimFailure> {
        let key = object_key(old);
        let (old, new) = (old.meta(), new.meta());
        if old.resource_version.is_none() {
            return Err(PatchError::NoVersion.into());
        }
        let patch = Patch::merge(&json!({"metadata": {
            "uid": old.uid,
            "resourceVersion": old.resource_version,
            "ownerReferences": new.owner_references,
        }}))?;
        match client.patch::<K>(&key, &patch).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn describe(errors: &[(String, ClaimFailure)]) -> String {
    let errors = errors.iter().map(|(object, error)| format!("{object}: {error}"));
    errors.collect::<Vec<_>>().join("; ")
}
