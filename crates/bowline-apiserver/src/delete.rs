//! Deletes: at once, or when finalizers and grace periods allow it.

#[cfg(test)]
mod lost;
mod options;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bowline_machinery::Status;
use bowline_storage::Record;
use serde_json::Value;

use crate::object::{self, Meta, finalizers, meta_str, metadata, metadata_mut, set_finalizers};
use crate::resource::Resource;
use crate::write::{MAX_CONFLICT_RETRIES, Outcome, Write};

pub(crate) use options::DeleteOptions;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Grace period of a delete.
enum Grace {
    /// The object is marked for deletion, or its mark has changed.
    Given,
    /// It was marked before, and nothing changes.
    Pending,
    /// There is no grace period.
    None,
}

impl Write<'_> {
    /// Deletes an object, or marks it for deletion if a finalizer or a grace period keeps it.
    pub(crate) fn delete(&mut self, name: &str, options: &DeleteOptions) -> Result<Outcome, Status> {
        self.delete_noting(name, options, &Cell::new(false))
    }

    /// Deletes like [`delete`](Self::delete), and sets `committed` once anything is written: between mark and deletion another
    /// client may change or delete the object.
    pub(crate) fn delete_noting(
        &mut self,
        name: &str,
        options: &DeleteOptions,
        committed: &Cell<bool>,
    ) -> Result<Outcome, Status> {
        let resource = self.resource;
        let key = object::key(self.namespace, name);
        for _ in 0..MAX_CONFLICT_RETRIES {
            let Some(record) = self.store.get(resource.table, &key) else {
                return Err(Status::not_found(&resource.group_resource(), name));
            };
            options.check_record(resource, &record.meta.uid, &record.revision.to_string(), name)?;
            let object = resource.decode(&record.body)?;
            let done = if !resource.behaviour.terminates() {
                self.delete_or_mark(&key, &record, object, options, committed)?
            } else if !is_marked(&object) {
                self.terminate(&key, &record, object, options)?
            } else if resource.behaviour.is_held(&object) {
                Some(Outcome::Stored { record, created: false, changed: false })
            } else {
                self.delete_or_mark(&key, &record, object, options, committed)?
            };
            if let Some(outcome) = done {
                outcome.note(committed);
                return Ok(outcome);
            }
        }
        Err(Status::conflict(&resource.group_resource(), name, "other clients keep changing it"))
    }

    fn delete_or_mark(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        mut object: Value,
        options: &DeleteOptions,
        committed: &Cell<bool>,
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
                let marked = self.commit(key, record, stored)?;
                if let Some(marked) = &marked {
                    marked.note(committed);
                }
                match marked {
                    // Watches see the mark before the deletion.
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

    /// Marks an object of a kind with a grace period.
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
        let now = object::timestamp(self.clock.system_time());
        metadata_mut(&mut object).insert("deletionTimestamp".to_owned(), now.into());
        behaviour.prepare_delete(&mut object);
        self.commit(key, record, behaviour.to_storage(object))
    }

    /// Sets the end of the grace period, for kinds that have one.
    fn give_grace(&self, object: &mut Value, asked: Option<i64>) -> Grace {
        let asked = asked.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let Some(seconds) = self.resource.behaviour.grace_period(object, asked) else { return Grace::None };
        let now = self.clock.system_time();
        if !is_marked(object) {
            move_generation(object);
            set_end(object, later(now, seconds), seconds);
            return Grace::Given;
        }
        match (grace_seconds(object).unwrap_or(0), asked) {
            (0, _) => Grace::None,
            // A grace period can only become shorter.
            (present, Some(seconds)) if seconds < present => {
                let end = object::time(meta_str(object, "deletionTimestamp")).unwrap_or(now);
                let end = later(later(end, present.wrapping_neg()), seconds);
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

    /// Marks an object that is deleted as soon as its finalizers are gone.
    fn mark(&self, object: &mut Value) {
        let now = self.clock.system_time();
        if !is_marked(object) {
            move_generation(object);
        }
        let end = object::time(meta_str(object, "deletionTimestamp"));
        set_end(object, end.filter(|end| *end <= now).unwrap_or(now), 0);
    }
}

/// A mark counts as a change of the spec. Kinds without a generation may have one that a client sent.
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

/// Adds seconds to a time. Clients can ask for any number of them: as on kube-apiserver, which counts nanoseconds in 64
/// bits, more than 292 years wrap around, and the end may lie in the past.
fn later(time: SystemTime, seconds: i64) -> SystemTime {
    let nanoseconds = seconds.wrapping_mul(1_000_000_000);
    let by = Duration::from_nanos(nanoseconds.unsigned_abs());
    let end = if nanoseconds < 0 { time.checked_sub(by) } else { time.checked_add(by) };
    end.unwrap_or(time)
}

fn set_end(object: &mut Value, end: SystemTime, seconds: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), object::timestamp(end).into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

/// Finalizers of an object with the requested propagation to its dependents.
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

/// The `Status` for a deleted object, when the answer is not the object itself.
pub(crate) fn deleted_status(resource: &Resource, object: &Value) -> Status {
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

    #[test]
    fn more_seconds_than_can_be_counted_wrap_around() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_746_730);
        for (seconds, end) in [
            (30, "2026-11-15T12:46:00Z"),
            (9_223_372_036, "2319-02-25T12:32:46Z"),
            (9_223_372_037, "1734-08-06T12:58:13Z"),
            (10_000_000_000, "1759-03-17T06:57:36Z"),
            (i64::MAX, "2026-11-15T12:45:29Z"),
        ] {
            assert_eq!(object::timestamp(later(now, seconds)), end, "{seconds}");
        }
    }

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
}
