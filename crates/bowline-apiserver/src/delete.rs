//! Deleting: at once, or when finalizers and grace periods allow it.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use serde::Deserialize;
use serde_json::Value;

use crate::object::{self, finalizers, meta_str, metadata, metadata_mut, set_finalizers};
use crate::query::Query;
use crate::resource::Generation;
use crate::write::{Outcome, Write};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const ATTEMPTS: usize = 64;

/// How something is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: Option<Vec<String>>,
}

/// What must be so for a delete to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body if there is one, else from the parameters.
    pub(crate) fn of(body: &[u8], query: &Query) -> Result<Self, Status> {
        let mut options: Self = if body.is_empty() {
            Self {
                grace_period_seconds: query.grace_period_seconds,
                orphan_dependents: query.orphan_dependents,
                propagation_policy: query.propagation_policy.clone(),
                ..Self::default()
            }
        } else {
            serde_json::from_slice(body)
                .map_err(|error| Status::bad_request(format!("the DeleteOptions cannot be read: {error}")))?
        };
        let dry_run = options.dry_run.get_or_insert_default();
        dry_run.extend(query.dry_run.iter().cloned());
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), Status> {
        let path = FieldPath::new("propagationPolicy");
        let mut errors = Vec::new();
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            errors.push(FieldError::invalid(
                &path,
                self.propagation_policy.clone(),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            errors.push(FieldError::not_supported(
                &path,
                policy.as_str(),
                &["Background", "Foreground", "Orphan"],
            ));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Status> {
        crate::write::dry_run(self.dry_run.as_deref().unwrap_or_default(), "DeleteOptions")
    }
}

impl Write<'_> {
    /// Deletes an object, or marks it as to be deleted if something keeps it.
    pub(crate) fn delete(&mut self, name: &str, options: &DeleteOptions) -> Result<Outcome, Status> {
        let resource = self.resource;
        let group_resource = resource.group_resource();
        let key = object::key(self.namespace, name);
        for _ in 0..ATTEMPTS {
            let Some(record) = self.store.get(resource.table, &key) else {
                return Err(Status::not_found(&group_resource, name));
            };
            if let Some(preconditions) = &options.preconditions {
                check(preconditions, &record.meta.uid, &record.revision.to_string())
                    .map_err(|why| Status::conflict(&group_resource, name, &why))?;
            }
            let mut object = resource.decode(&record.body)?;
            let mut kept_by = finalizers_after(options, finalizers(&object));
            let marked = metadata(&object).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
            let cleanup = resource.behaviour.cleanup_finalizer().filter(|_| !marked);
            if let Some(cleanup) = cleanup.filter(|cleanup| !kept_by.iter().any(|kept| kept == cleanup)) {
                kept_by.push(cleanup.to_owned());
            }
            let changed = kept_by != finalizers(&object);
            set_finalizers(&mut object, kept_by.clone());
            let grace = resource.behaviour.grace_period(&object, options.grace_period_seconds);
            let waits_for_itself = object
                .pointer("/spec/finalizers")
                .and_then(Value::as_array)
                .is_some_and(|own| !own.is_empty());
            let done = if kept_by.is_empty() && grace.unwrap_or(0) == 0 && !waits_for_itself {
                self.remove(&key, &record, resource.behaviour.to_storage(object))?
            } else {
                let marked = self.mark(&mut object, grace.unwrap_or(0));
                if !marked && !changed {
                    return Ok(Outcome::Stored { record, created: false, changed: false });
                }
                resource.behaviour.prepare_delete(&mut object);
                self.commit(&key, &record, resource.behaviour.to_storage(object))?
            };
            if let Some(outcome) = done {
                return Ok(outcome);
            }
        }
        Err(Status::conflict(&group_resource, name, "somebody else keeps changing it"))
    }

    /// Notes when an object is to go. Whether that changed anything: the earliest time counts.
    fn mark(&self, object: &mut Value, grace: i64) -> bool {
        let grace = grace.max(0);
        let now = self.clock.wall();
        let marked = metadata(object).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"));
        if marked {
            let present = metadata(object)
                .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
                .and_then(Value::as_i64)
                .unwrap_or(0);
            if grace >= present {
                return false;
            }
        }
        let seconds = std::time::Duration::from_secs(grace.unsigned_abs());
        let at = object::timestamp(now + seconds);
        let behaviour = &self.resource.behaviour;
        let moves = behaviour.generation() != Generation::None && behaviour.cleanup_finalizer().is_none();
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), at.into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if !marked
            && moves
            && let Some(generation) = metadata.get("generation").and_then(Value::as_i64)
            && generation > 0
        {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
        true
    }
}

fn check(preconditions: &Preconditions, uid: &str, revision: &str) -> Result<(), String> {
    if let Some(wanted) = &preconditions.uid
        && wanted != uid
    {
        return Err(format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"));
    }
    if let Some(wanted) = &preconditions.resource_version
        && wanted != revision
    {
        return Err(format!(
            "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {revision}"
        ));
    }
    Ok(())
}

/// Which finalizers an object has once it is known what is to become of its dependents.
fn finalizers_after(options: &DeleteOptions, mut present: Vec<String>) -> Vec<String> {
    let policy = options.propagation_policy.as_deref();
    let had_orphan = present.iter().any(|finalizer| finalizer == ORPHAN);
    let had_foreground = present.iter().any(|finalizer| finalizer == FOREGROUND);
    let (orphan, foreground) = match (policy, options.orphan_dependents) {
        (Some("Orphan"), _) | (None, Some(true)) => (true, false),
        (Some("Foreground"), _) => (false, true),
        (Some(_), _) => (false, false),
        (None, Some(false)) => (false, had_foreground),
        (None, None) => (had_orphan, had_foreground),
    };
    let mut want = |name: &str, wanted: bool| {
        let there = present.iter().any(|finalizer| finalizer == name);
        if wanted && !there {
            present.push(name.to_owned());
        } else if !wanted && there {
            present.retain(|finalizer| finalizer != name);
        }
    };
    want(ORPHAN, orphan);
    want(FOREGROUND, foreground);
    present
}

/// What is told of an object that was deleted, where the object itself is not.
pub(crate) fn deleted_status(resource: &crate::resource::Resource, object: &Value) -> Status {
    let group_resource = resource.group_resource();
    Status::success(bowline_machinery::StatusDetails {
        name: meta_str(object, "name").to_owned(),
        group: group_resource.group,
        kind: group_resource.resource,
        uid: meta_str(object, "uid").to_owned(),
        ..bowline_machinery::StatusDetails::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(policy: Option<&str>, orphan: Option<bool>, present: &[&str]) -> Vec<String> {
        let options = DeleteOptions {
            propagation_policy: policy.map(str::to_owned),
            orphan_dependents: orphan,
            ..DeleteOptions::default()
        };
        finalizers_after(&options, present.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn the_propagation_policy_is_recorded_in_the_finalizers() {
        assert_eq!(after(None, None, &[]), Vec::<String>::new());
        assert_eq!(after(Some("Background"), None, &["a", FOREGROUND]), ["a"]);
        assert_eq!(after(Some("Foreground"), None, &["a", ORPHAN]), ["a", FOREGROUND]);
        assert_eq!(after(Some("Orphan"), None, &[]), [ORPHAN]);
        assert_eq!(after(None, Some(true), &[]), [ORPHAN]);
        assert_eq!(after(None, None, &[ORPHAN]), [ORPHAN]);
    }

    #[test]
    fn a_policy_and_its_old_form_together_are_refused() {
        let body = br#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#;
        let error = DeleteOptions::of(body, &Query::default()).expect_err("they contradict each other");
        assert_eq!(error.code, 422);
        let error = DeleteOptions::of(br#"{"propagationPolicy":"Sideways"}"#, &Query::default());
        assert_eq!(error.map_err(|error| error.code), Err(422));
    }
}
