//! Deleting: at once, or when finalizers and grace periods allow it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_machinery::facts::{self, UnknownFields};
use bowline_machinery::{FieldError, FieldPath, GroupKind, GroupResource, Status};
use bowline_storage::Record;
use serde::Deserialize;
use serde_json::Value;

use crate::object::{self, Meta, finalizers, meta_str, metadata, metadata_mut, set_finalizers};
use crate::query::Query;
use crate::resource::Resource;
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
        let mut options = if body.is_empty() {
            Self {
                grace_period_seconds: query.grace_period_seconds,
                orphan_dependents: query.orphan_dependents,
                propagation_policy: query.propagation_policy.clone(),
                ..Self::default()
            }
        } else {
            Self::read(body)?
        };
        let dry_run = options.dry_run.get_or_insert_default();
        dry_run.extend(query.dry_run.iter().cloned());
        crate::write::check_options(query, dry_run, "DeleteOptions")?;
        options.check()?;
        Ok(options)
    }

    fn read(body: &[u8]) -> Result<Self, Status> {
        let parsed = bowline_machinery::parse_json(body).map_err(|error| {
            Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
        let text = |field: &str| parsed.value.get(field).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if !matches!(kind, "" | "DeleteOptions") {
            let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?}"
            )));
        }
        let kind = facts::type_of("", "v1", "DeleteOptions");
        let value = match kind {
            Some(kind) => {
                kind.normalise(parsed.value, UnknownFields::Ignore)
                    .map_err(|error| Status::bad_request(error.to_string()))?
                    .value
            }
            None => parsed.value,
        };
        serde_json::from_value(value).map_err(|error| Status::bad_request(error.to_string()))
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
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        if errors.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(&GroupKind::new("meta.k8s.io", "DeleteOptions"), "", &errors))
    }

    /// Whether an object with this uid and revision is the one that is to be deleted. Namespaces say it in their own
    /// words.
    pub(crate) fn check_record(
        &self,
        resource: &Resource,
        uid: &str,
        revision: &str,
        name: &str,
    ) -> Result<(), Status> {
        let Some(wanted) = &self.preconditions else { return Ok(()) };
        let conflict = |field: &str, wanted: &str, present: &str, perhaps: &str| {
            if resource.behaviour.terminates() && resource.behaviour.cleanup_finalizer().is_none() {
                let why = format!(
                    "Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {present}"
                );
                return Err(Status::conflict(&resource.group_resource(), name, &why));
            }
            let why = format!(
                "the {field} in the precondition ({wanted}) does not match the {field} in record ({present}). The \
                 object might have been {perhaps}"
            );
            let kind = GroupResource::new(&resource.gvk.group, &resource.gvk.kind);
            Err(Status::conflict(&kind, name, &why))
        };
        match (&wanted.uid, &wanted.resource_version) {
            (Some(wanted), _) if wanted != uid => conflict("UID", wanted, uid, "deleted and then recreated"),
            (_, Some(wanted)) if wanted != revision => {
                conflict("ResourceVersion", wanted, revision, "modified")
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing is to be changed.
    pub(crate) fn dry_run(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }
}

/// How a delete goes on.
enum Grace {
    /// The object is marked, or marked anew, with an end to come.
    Given,
    /// It was marked before, and nothing changes.
    Pending,
    /// There is none.
    None,
}

impl Write<'_> {
    /// Deletes an object, or marks it as to be deleted if something keeps it.
    pub(crate) fn delete(&mut self, name: &str, options: &DeleteOptions) -> Result<Outcome, Status> {
        let resource = self.resource;
        let key = object::key(self.namespace, name);
        for _ in 0..ATTEMPTS {
            let Some(record) = self.store.get(resource.table, &key) else {
                return Err(Status::not_found(&resource.group_resource(), name));
            };
            options.check_record(resource, &record.meta.uid, &record.revision.to_string(), name)?;
            let object = resource.decode(&record.body)?;
            let done = if !resource.behaviour.terminates() {
                self.delete_or_mark(&key, &record, object, options)?
            } else if !is_marked(&object) {
                self.terminate(&key, &record, object, options)?
            } else if resource.behaviour.is_held(&object) {
                Some(Outcome::Stored { record, created: false, changed: false })
            } else {
                self.delete_or_mark(&key, &record, object, options)?
            };
            if let Some(outcome) = done {
                return Ok(outcome);
            }
        }
        Err(Status::conflict(&resource.group_resource(), name, "somebody else keeps changing it"))
    }

    fn delete_or_mark(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        mut object: Value,
        options: &DeleteOptions,
    ) -> Result<Option<Outcome>, Status> {
        let grace = self.give_grace(&mut object, options.grace_period_seconds);
        if matches!(grace, Grace::Pending) {
            return Ok(Some(Outcome::Stored { record: record.clone(), created: false, changed: false }));
        }
        let kept_by = finalizers_after(options, finalizers(&object));
        let is_kept = !kept_by.is_empty();
        set_finalizers(&mut object, kept_by);
        match grace {
            Grace::Given => {
                let seconds = grace_seconds(&object).unwrap_or(0);
                let stored = self.resource.behaviour.to_storage(object);
                match self.commit(key, record, stored)? {
                    // Everybody sees that it is to go before it goes.
                    Some(Outcome::Stored { record, .. }) if !is_kept && seconds == 0 => {
                        Ok(self.remove(key, &record)?.map(|object| self.gone(object)))
                    }
                    done => Ok(done),
                }
            }
            _ if is_kept => {
                self.mark(&mut object);
                self.commit(key, record, self.resource.behaviour.to_storage(object))
            }
            _ => Ok(self.remove(key, record)?.map(|object| self.gone(object))),
        }
    }

    /// Marks an object of a kind that ends in its own time.
    fn terminate(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        mut object: Value,
        options: &DeleteOptions,
    ) -> Result<Option<Outcome>, Status> {
        let behaviour = &self.resource.behaviour;
        let mut kept_by = finalizers(&object);
        match behaviour.cleanup_finalizer() {
            Some(cleanup) if kept_by.iter().any(|kept| kept == cleanup) => {}
            Some(cleanup) => kept_by.push(cleanup.to_owned()),
            None => kept_by = finalizers_after(options, kept_by),
        }
        set_finalizers(&mut object, kept_by);
        let now = object::timestamp(self.clock.wall());
        metadata_mut(&mut object).insert("deletionTimestamp".to_owned(), now.into());
        behaviour.prepare_delete(&mut object);
        self.commit(key, record, behaviour.to_storage(object))
    }

    /// Notes when an object is to go, for kinds that take their time.
    fn give_grace(&self, object: &mut Value, asked: Option<i64>) -> Grace {
        let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let Some(seconds) = self.resource.behaviour.grace_period(object, asked) else { return Grace::None };
        let now = self.clock.wall();
        if !is_marked(object) {
            move_generation(object);
            set_end(object, now + Duration::from_secs(seconds.unsigned_abs()), seconds);
            return Grace::Given;
        }
        match (grace_seconds(object).unwrap_or(0), asked) {
            (0, _) => Grace::None,
            // The grace can only become shorter.
            (present, Some(seconds)) if seconds < present => {
                let shorter = Duration::from_secs(present.abs_diff(seconds));
                let end = object::time(meta_str(object, "deletionTimestamp")).unwrap_or(now);
                let end = end.checked_sub(shorter).unwrap_or(now);
                if end < now {
                    set_end(object, now, seconds.min(1));
                } else {
                    set_end(object, end, seconds);
                }
                Grace::Given
            }
            _ => Grace::Pending,
        }
    }

    /// Marks an object that goes as soon as nothing keeps it.
    fn mark(&self, object: &mut Value) {
        let now = self.clock.wall();
        if !is_marked(object) {
            move_generation(object);
        }
        let end = object::time(meta_str(object, "deletionTimestamp"));
        set_end(object, end.filter(|end| *end <= now).unwrap_or(now), 0);
    }
}

/// That an object is to go changes what it asks for. Kinds without a generation may have one that a client sent.
fn move_generation(object: &mut Value) {
    let metadata = metadata_mut(object);
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

fn is_marked(object: &Value) -> bool {
    metadata(object).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"))
}

fn grace_seconds(object: &Value) -> Option<i64> {
    metadata(object)?.get("deletionGracePeriodSeconds")?.as_i64()
}

fn set_end(object: &mut Value, end: SystemTime, seconds: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), object::timestamp(end).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
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
    if (orphan, foreground) == (had_orphan, had_foreground) {
        return present;
    }
    present.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
    present.extend(
        [(orphan, ORPHAN), (foreground, FOREGROUND)]
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, name)| name.to_owned()),
    );
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
