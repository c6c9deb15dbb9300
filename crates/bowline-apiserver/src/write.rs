//! Writes: the steps from a request to the store. Deletion is in `delete`.
//!
//! A write computes the new object without a lock, and commits it if the stored object is unchanged; otherwise it
//! starts again from the stored one.

mod metadata;
mod options;
mod preconditions;

use std::fmt::Write as _;
use std::sync::Arc;

use bowline_clock::Clock;
use bowline_machinery::{FieldError, FieldPath, Status};
use bowline_storage::{Record, WriteError};
use serde_json::Value;

use crate::admission::Admission;
use crate::authentication::User;
use crate::decode::{self, Decoded};
use crate::object::{self, Meta, meta_str, metadata, metadata_mut, set_meta_str};
use crate::query::Query;
use crate::registry::Registry;
use crate::resource::{FieldValidation, Generation, Resource, WriteTarget};
use crate::server::{Inner, Store};

pub(crate) use options::check_options;
use preconditions::MODIFIED;
pub(crate) use preconditions::check_name;

/// Maximum retries of a write after a conflict. A request with a resourceVersion gets 409 at once instead.
pub(crate) const MAX_CONFLICT_RETRIES: usize = 64;

/// Maximum attempts to generate an unused name.
const MAX_NAME_ATTEMPTS: usize = 8;

/// One write.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a Store,
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a User,
    pub(crate) clock: &'a Clock,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) query: &'a Query,
    pub(crate) dry_run: bool,
    /// Warnings for the response.
    pub(crate) warnings: Vec<String>,
}

/// Result of a write.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The object stored now.
    Stored { record: Arc<Record<Meta>>, created: bool, changed: bool },
    /// The object that would be stored, without the dry run.
    DryRun { object: Value, created: bool },
    /// The object was deleted; this was its last state.
    Deleted { object: Value },
    /// The object would be deleted, without the dry run.
    DryDeleted { object: Value },
}

/// The new object of an update.
pub(crate) enum Change<'a> {
    /// The object as a client sent it.
    Replace(Decoded),
    /// A function of the present object, in the version of the resource.
    Modify(&'a dyn Fn(Value) -> Result<Decoded, Status>),
}

impl<'a> Write<'a> {
    /// A write of the server itself, of a cluster-scoped object.
    pub(crate) fn by_server(inner: &'a Inner, resource: &'a Arc<Resource>, query: &'a Query) -> Self {
        Self {
            store: &inner.store,
            registry: &inner.registry,
            user: &inner.admin,
            clock: &inner.clock,
            resource,
            namespace: None,
            query,
            dry_run: false,
            warnings: Vec::new(),
        }
    }
}

impl Write<'_> {
    /// Stores a new object.
    pub(crate) fn create(&mut self, decoded: Decoded) -> Result<Outcome, Status> {
        let _alone = self.resource.behaviour.write_lock();
        self.create_alone(decoded)
    }

    fn create_alone(&mut self, decoded: Decoded) -> Result<Outcome, Status> {
        let resource = self.resource;
        let mut object = self.settle(decoded)?;
        self.check_namespace(&mut object)?;
        resource.behaviour.admit(&self.admission(), WriteTarget::Main, &mut object, None)?;
        let revision = meta_str(&object, "resourceVersion").to_owned();
        let generates = !meta_str(&object, "generateName").is_empty();
        let generated = generates && meta_str(&object, "name").is_empty();
        for attempt in 1.. {
            let mut object = object.clone();
            if generated {
                let name = self.generate_name(meta_str(&object, "generateName"));
                set_meta_str(&mut object, "name", &name);
            }
            self.begin(&mut object);
            let errors = self.errors(&object);
            let name = meta_str(&object, "name").to_owned();
            if !errors.is_empty() {
                return Err(Status::invalid(&resource.group_kind(), &name, &errors));
            }
            resource.behaviour.validate_admission(&self.admission(), WriteTarget::Main, &object, None)?;
            if revision.parse().is_ok_and(|revision: u64| revision != 0) {
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::failure(500, "", why));
            }
            let key = object::key(self.namespace, &name);
            self.warnings.extend(resource.behaviour.warnings(&object));
            if self.dry_run {
                return match self.store.get(resource.table, &key) {
                    Some(_) => Err(self.already_exists(generates, &name)),
                    None => Ok(Outcome::DryRun { object, created: true }),
                };
            }
            let stored = resource.behaviour.to_storage(object);
            let (template, make) = object::contents(resource, &stored);
            template.check_size()?;
            match self.store.put(resource.table, &key, None, |revision| make(&template, revision)) {
                Ok(record) => return Ok(Outcome::Stored { record, created: true, changed: true }),
                Err(WriteError::Mismatch { .. }) if generated && attempt < MAX_NAME_ATTEMPTS => {}
                Err(WriteError::Mismatch { .. }) => {
                    return Err(self.already_exists(generates, &name));
                }
                Err(error) => return Err(not_stored(&error)),
            }
        }
        Err(Status::internal("names ran out"))
    }

    /// The error for a name that exists. A request with a generated name is asked to retry.
    fn already_exists(&self, generates: bool, name: &str) -> Status {
        let mut status = Status::already_exists(&self.resource.group_resource(), name);
        if generates {
            status.message.push_str(", the server was not able to generate a unique name for the object");
            status.details.get_or_insert_default().retry_after_seconds = 1;
        }
        status
    }

    /// Updates an object, or creates it where the kind allows that.
    pub(crate) fn update(
        &mut self,
        name: &str,
        part: WriteTarget,
        change: Change<'_>,
    ) -> Result<Outcome, Status> {
        let resource = self.resource;
        let _alone = resource.behaviour.write_lock();
        let key = object::key(self.namespace, name);
        let (sent, modify) = match change {
            Change::Replace(decoded) => {
                let mut object = self.settle(decoded)?;
                self.check_namespace(&mut object)?;
                check_name(&object, name)?;
                (Some(object), None)
            }
            Change::Modify(modify) => (None, Some(modify)),
        };
        let replaces = sent.is_some();
        let warned = self.warnings.len();
        for _ in 0..MAX_CONFLICT_RETRIES {
            let Some(record) = self.store.get(resource.table, &key) else {
                return match sent {
                    Some(object)
                        if part == WriteTarget::Main && resource.behaviour.allows_create_on_update() =>
                    {
                        self.create_by_update(name, object)
                    }
                    _ => Err(Status::not_found(&resource.group_resource(), name)),
                };
            };
            let old = resource.decode(&record.body)?;
            self.warnings.truncate(warned);
            let mut new = sent.clone().unwrap_or_default();
            if let Some(modify) = modify {
                let mut shown = old.clone();
                decode::put_kind(&mut shown, resource);
                new = self.settle(modify(shown)?)?;
                self.check_namespace(&mut new)?;
                check_name(&new, name)?;
            }
            if replaces {
                self.check_uid(&new, &record.meta.uid, name)?;
            }
            let asked = self.check_revision(&new, &record, name)?;
            resource.behaviour.admit(&self.admission(), part, &mut new, Some(&old))?;
            self.carry_over(part, &mut new, &old);
            let errors = self.update_errors(part, &new, &old);
            if !errors.is_empty() {
                return Err(Status::invalid(&resource.group_kind(), name, &errors));
            }
            resource.behaviour.validate_admission(&self.admission(), part, &new, Some(&old))?;
            self.warnings.extend(resource.behaviour.warnings(&new));
            let done = if self.is_released(&new, &old) {
                // The client gets its own object, although the last state is the one before.
                self.remove(&key, &record)?.map(|_| self.gone(new))
            } else {
                self.commit(&key, &record, resource.behaviour.to_storage(new))?
            };
            match done {
                Some(outcome) => return Ok(outcome),
                // The object that the client read is gone.
                None if asked && replaces => break,
                None => {}
            }
        }
        Err(Status::conflict(&resource.group_resource(), name, MODIFIED))
    }

    /// Stores a new state of an object; `None` after a conflict.
    pub(crate) fn commit(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        stored: Value,
    ) -> Result<Option<Outcome>, Status> {
        let resource = self.resource;
        let (template, make) = object::contents(resource, &stored);
        if template.same_as(record) {
            return Ok(Some(Outcome::Stored { record: record.clone(), created: false, changed: false }));
        }
        if self.dry_run {
            let object = resource.behaviour.from_storage(stored);
            return Ok(Some(Outcome::DryRun { object, created: false }));
        }
        template.check_size()?;
        match self.store.put(resource.table, key, Some(record.revision), |revision| make(&template, revision))
        {
            Ok(record) => Ok(Some(Outcome::Stored { record, created: false, changed: true })),
            Err(WriteError::Mismatch { .. }) => Ok(None),
            Err(error) => Err(not_stored(&error)),
        }
    }

    /// Deletes an object for good, and returns its last state with the revision of the deletion; `None` after a conflict.
    pub(crate) fn remove(&self, key: &str, record: &Record<Meta>) -> Result<Option<Value>, Status> {
        let resource = self.resource;
        if self.dry_run {
            return resource.decode(&record.body).map(Some);
        }
        let last: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
        let (template, make) = object::contents(resource, &last);
        match self.store.delete(resource.table, key, record.revision, |revision| make(&template, revision)) {
            Ok(record) => resource.decode(&record.body).map(Some),
            Err(WriteError::Mismatch { .. }) => Ok(None),
            Err(error) => Err(not_stored(&error)),
        }
    }

    /// An object that is deleted, or would be without the dry run.
    pub(crate) fn gone(&self, object: Value) -> Outcome {
        if self.dry_run { Outcome::DryDeleted { object } } else { Outcome::Deleted { object } }
    }

    /// Whether an update removes the last obstacle to the deletion of an object.
    fn is_released(&self, new: &Value, old: &Value) -> bool {
        let Some(before) = metadata(old) else { return false };
        before.contains_key("deletionTimestamp")
            && before.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
            && object::finalizers(new).is_empty()
            && !self.resource.behaviour.is_held(new)
    }

    /// An update of a missing object, of a kind that updates may create.
    fn create_by_update(&mut self, name: &str, object: Value) -> Result<Outcome, Status> {
        self.check_uid(&object, "", name)?;
        let mut object = object;
        set_meta_str(&mut object, "resourceVersion", "");
        self.create_alone(Decoded { object, complaints: Vec::new() })
    }

    /// Defaults, and messages about unknown fields.
    fn settle(&mut self, decoded: Decoded) -> Result<Value, Status> {
        let Decoded { mut object, complaints } = decoded;
        match decode::field_validation(&self.query.field_validation) {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => self.warnings.extend(complaints),
            FieldValidation::Strict if complaints.is_empty() => {}
            FieldValidation::Strict => {
                return Err(decode::strict_error(self.resource, &complaints));
            }
        }
        self.resource.behaviour.default(&mut object);
        Ok(object)
    }

    /// Checks that the namespaces of request and object agree.
    pub(crate) fn check_namespace(&self, object: &mut Value) -> Result<(), Status> {
        let sent = meta_str(object, "namespace");
        match self.namespace {
            Some(namespace) if sent.is_empty() || sent == namespace => {
                set_meta_str(object, "namespace", namespace);
                Ok(())
            }
            // A cluster-scoped object may be sent with any namespace.
            None => {
                set_meta_str(object, "namespace", "");
                Ok(())
            }
            Some(_) => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
        }
    }

    fn admission(&self) -> Admission<'_> {
        Admission {
            store: self.store,
            registry: self.registry,
            clock: self.clock,
            user: self.user,
            resource: self.resource,
        }
    }

    fn generate_name(&self, base: &str) -> String {
        let draw = |_| u32::try_from(self.clock.rng().range(0..u64::from(u32::MAX))).unwrap_or_default();
        bowline_machinery::generate_name(base, std::array::from_fn(draw))
    }

    /// Sets the server's fields of a new object.
    fn begin(&self, object: &mut Value) {
        let now = object::timestamp(self.clock.system_time());
        let uid = uid(self.clock);
        let metadata = metadata_mut(object);
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
            "resourceVersion",
        ] {
            metadata.remove(field);
        }
        metadata.insert("creationTimestamp".to_owned(), now.into());
        metadata.insert("uid".to_owned(), uid.into());
        if !matches!(self.resource.behaviour.generation(), Generation::None | Generation::Unstarted) {
            metadata.insert("generation".to_owned(), 1.into());
        }
        self.resource.behaviour.prepare_create(object);
        // Fields that were just reset have defaults, too.
        self.resource.behaviour.default(object);
    }

    fn errors(&self, object: &Value) -> Vec<FieldError> {
        let behaviour = &self.resource.behaviour;
        let path = FieldPath::new("metadata");
        let empty = Value::Null;
        let metadata = object.get("metadata").unwrap_or(&empty);
        let namespaced = self.resource.namespaced;
        let mut errors =
            bowline_machinery::validate_object_meta(metadata, namespaced, behaviour.name_validator(), &path);
        if behaviour.wants_qualified_finalizers() {
            errors.extend(bowline_machinery::validate_qualified_finalizers(metadata, &path));
        }
        errors.extend(behaviour.validate(object));
        errors
    }

    /// Validation errors of an update. Kubernetes checks the metadata once for all kinds and once by kind, and the causes show both.
    fn update_errors(&self, part: WriteTarget, new: &Value, old: &Value) -> Vec<FieldError> {
        let behaviour = &self.resource.behaviour;
        let path = FieldPath::new("metadata");
        let empty = Value::Null;
        let new_metadata = new.get("metadata").unwrap_or(&empty);
        let old_metadata = old.get("metadata").unwrap_or(&empty);
        let mut errors = bowline_machinery::validate_object_meta(
            new_metadata,
            self.resource.namespaced,
            bowline_machinery::name_is_path_segment,
            &path,
        );
        let changed = bowline_machinery::validate_object_meta_update(new_metadata, old_metadata, &path);
        errors.extend(changed.clone());
        errors.extend(changed);
        if behaviour.wants_qualified_finalizers() {
            errors.extend(bowline_machinery::validate_qualified_finalizers(new_metadata, &path));
        }
        errors.extend(behaviour.validate_update(part, new, old));
        errors
    }
}

/// A version 4 UUID.
pub(crate) fn uid(clock: &Clock) -> String {
    let mut bytes = [0; 16];
    clock.rng().fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |range: std::ops::Range<usize>| {
        bytes[range].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}

/// The error for a write that the store refused for another reason than a conflict. A full store is a 507, because clients retry a
/// 429 or a 503 by themselves.
fn not_stored(error: &WriteError<Meta>) -> Status {
    match error {
        WriteError::Full { .. } => Status::failure(507, "InsufficientStorage", error.to_string()),
        _ => Status::no_such_path(),
    }
}
