//! Writing: how an object gets from a request into the store. What becomes of one that is deleted is in `delete`.
//!
//! A write computes what is to be stored without holding any lock, and commits it if nothing has changed in the
//! meantime; otherwise it starts again from what is there now.

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
use crate::resource::{FieldValidation, Generation, Part, Resource};
use crate::server::{Inner, Store};

pub(crate) use options::check_options;
use preconditions::MODIFIED;
pub(crate) use preconditions::check_name;

/// How often a write starts again because somebody else was faster. A writer that names the revision it saw is told
/// at once instead.
pub(crate) const ATTEMPTS: usize = 64;

/// How often a generated name that exists already is generated anew.
const NAMES: usize = 8;

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
    /// What the client should be told beside the answer.
    pub(crate) warnings: Vec<String>,
}

/// What a write left.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// This is stored now.
    Stored { record: Arc<Record<Meta>>, created: bool, changed: bool },
    /// This would be stored, were it not a dry run.
    Dry { object: Value, created: bool },
    /// The object is gone; this was its last state.
    Deleted { object: Value },
    /// The object would be gone, were it not a dry run.
    DryDeleted { object: Value },
}

/// What an update makes of the present object.
pub(crate) enum Change<'a> {
    /// The object as a client sent it.
    Replace(Decoded),
    /// A function of the present object, in the version of the resource.
    Modify(&'a dyn Fn(Value) -> Result<Decoded, Status>),
}

impl<'a> Write<'a> {
    /// A write of the server's own, of objects without a namespace.
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
        let _alone = self.resource.behaviour.alone();
        self.create_alone(decoded)
    }

    fn create_alone(&mut self, decoded: Decoded) -> Result<Outcome, Status> {
        let resource = self.resource;
        let mut object = self.settle(decoded)?;
        self.check_namespace(&mut object)?;
        resource.behaviour.admit(&self.admission(), Part::Main, &mut object, None)?;
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
            resource.behaviour.review(&self.admission(), Part::Main, &object, None)?;
            if revision.parse().is_ok_and(|revision: u64| revision != 0) {
                let why = "resourceVersion should not be set on objects to be created";
                return Err(Status::failure(500, "", why));
            }
            let key = object::key(self.namespace, &name);
            self.warnings.extend(resource.behaviour.warnings(&object));
            if self.dry_run {
                return match self.store.get(resource.table, &key) {
                    Some(_) => Err(self.already_exists(generates, &name)),
                    None => Ok(Outcome::Dry { object, created: true }),
                };
            }
            let stored = resource.behaviour.to_storage(object);
            let (template, make) = object::contents(resource, &stored);
            template.check_size()?;
            match self.store.put(resource.table, &key, None, |revision| make(&template, revision)) {
                Ok(record) => return Ok(Outcome::Stored { record, created: true, changed: true }),
                Err(WriteError::Mismatch { .. }) if generated && attempt < NAMES => {}
                Err(WriteError::Mismatch { .. }) => {
                    return Err(self.already_exists(generates, &name));
                }
                Err(_) => return Err(Status::no_such_path()),
            }
        }
        Err(Status::internal("names ran out"))
    }

    /// What is told about a name that is taken; whoever may generate another is asked to try again.
    fn already_exists(&self, generates: bool, name: &str) -> Status {
        let mut status = Status::already_exists(&self.resource.group_resource(), name);
        if generates {
            status.message.push_str(", the server was not able to generate a unique name for the object");
            status.details.get_or_insert_default().retry_after_seconds = 1;
        }
        status
    }

    /// Changes an object, or makes it where the kind allows that.
    pub(crate) fn update(&mut self, name: &str, part: Part, change: Change<'_>) -> Result<Outcome, Status> {
        let resource = self.resource;
        let _alone = resource.behaviour.alone();
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
        for _ in 0..ATTEMPTS {
            let Some(record) = self.store.get(resource.table, &key) else {
                return match sent {
                    Some(object) if part == Part::Main && resource.behaviour.allows_create_on_update() => {
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
            resource.behaviour.review(&self.admission(), part, &new, Some(&old))?;
            self.warnings.extend(resource.behaviour.warnings(&new));
            let done = if self.is_released(&new, &old) {
                // The client gets what it sent, though the last state of the object is the one before.
                self.remove(&key, &record)?.map(|_| self.gone(new))
            } else {
                self.commit(&key, &record, resource.behaviour.to_storage(new))?
            };
            match done {
                Some(outcome) => return Ok(outcome),
                // What the client saw is no longer there.
                None if asked && replaces => break,
                None => {}
            }
        }
        Err(Status::conflict(&resource.group_resource(), name, MODIFIED))
    }

    /// Stores a new state of an object; `None` if somebody else was faster.
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
            return Ok(Some(Outcome::Dry { object, created: false }));
        }
        template.check_size()?;
        match self.store.put(resource.table, key, Some(record.revision), |revision| make(&template, revision))
        {
            Ok(record) => Ok(Some(Outcome::Stored { record, created: false, changed: true })),
            Err(WriteError::Mismatch { .. }) => Ok(None),
            Err(_) => Err(Status::no_such_path()),
        }
    }

    /// Deletes an object for good, and gives its last state with the revision at which it went; `None` if somebody
    /// else was faster.
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
            Err(_) => Err(Status::no_such_path()),
        }
    }

    /// An object that is gone, or would be.
    pub(crate) fn gone(&self, object: Value) -> Outcome {
        if self.dry_run { Outcome::DryDeleted { object } } else { Outcome::Deleted { object } }
    }

    /// Whether an update takes away the last that kept an object which is to go.
    fn is_released(&self, new: &Value, old: &Value) -> bool {
        let Some(before) = metadata(old) else { return false };
        before.contains_key("deletionTimestamp")
            && before.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
            && object::finalizers(new).is_empty()
            && !self.resource.behaviour.is_held(new)
    }

    /// An update of what is not there, of a kind that may be made so.
    fn create_by_update(&mut self, name: &str, object: Value) -> Result<Outcome, Status> {
        self.check_uid(&object, "", name)?;
        let mut object = object;
        set_meta_str(&mut object, "resourceVersion", "");
        self.create_alone(Decoded { object, complaints: Vec::new() })
    }

    /// Defaults, and what is to be said about fields that were not understood.
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

    /// The namespace of the request is that of the object.
    pub(crate) fn check_namespace(&self, object: &mut Value) -> Result<(), Status> {
        let sent = meta_str(object, "namespace");
        match self.namespace {
            Some(namespace) if sent.is_empty() || sent == namespace => {
                set_meta_str(object, "namespace", namespace);
                Ok(())
            }
            // What lives in no namespace may be sent with any.
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

    /// Gives a new object what the server gives it.
    fn begin(&self, object: &mut Value) {
        let now = object::timestamp(self.clock.wall());
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
        // What was reset just now has defaults, too.
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

    /// What is wrong with an update. The metadata is checked once for all kinds and once by the kind, as clients can
    /// see from the causes.
    fn update_errors(&self, part: Part, new: &Value, old: &Value) -> Vec<FieldError> {
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
