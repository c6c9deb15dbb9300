//! Writing: how an object gets from a request into the store. What becomes of one that is deleted is in `delete`.
//!
//! A write computes what is to be stored without holding any lock, and commits it if nothing has changed in the
//! meantime; otherwise it starts again from what is there now.

use std::sync::Arc;

use bowline_clock::Clock;
use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use bowline_storage::{Record, WriteError};
use serde_json::{Map, Value};

use crate::decode::{self, Decoded};
use crate::object::{self, Meta, meta_str, metadata, metadata_mut, set_meta_str};
use crate::query::Query;
use crate::resource::{FieldValidation, Generation, Part, Resource};
use crate::server::Store;

/// How often a write starts again because somebody else was faster. A writer that names the revision it saw is told
/// at once instead.
const ATTEMPTS: usize = 64;

/// How often a generated name that exists already is generated anew.
const NAMES: usize = 8;

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// One write.
pub(crate) struct Write<'a> {
    pub(crate) store: &'a Store,
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
    /// The object is gone; this was its last state. For dry runs too.
    Deleted { object: Value },
}

/// What an update makes of the present object.
pub(crate) enum Change<'a> {
    /// The object as a client sent it.
    Replace(Decoded),
    /// A function of the present object, in the version of the resource.
    Modify(&'a dyn Fn(Value) -> Result<Decoded, Status>),
}

impl Write<'_> {
    pub(crate) fn field_validation(&self) -> Result<FieldValidation, Status> {
        decode::field_validation(&self.query.field_validation)
    }

    /// Stores a new object.
    pub(crate) fn create(&mut self, decoded: Decoded) -> Result<Outcome, Status> {
        let resource = self.resource;
        let mut object = self.settle(decoded)?;
        self.check_namespace(&mut object)?;
        if !meta_str(&object, "resourceVersion").is_empty() {
            return Err(Status::failure(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let generated = meta_str(&object, "name").is_empty() && !meta_str(&object, "generateName").is_empty();
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
            let key = object::key(self.namespace, &name);
            self.warnings.extend(resource.behaviour.warnings(&object));
            if self.dry_run {
                return match self.store.get(resource.table, &key) {
                    Some(_) => Err(Status::already_exists(&resource.group_resource(), &name)),
                    None => Ok(Outcome::Dry { object, created: true }),
                };
            }
            let stored = resource.behaviour.to_storage(object);
            let (template, make) = object::contents(resource, &stored);
            match self.store.put(resource.table, &key, None, |revision| make(&template, revision)) {
                Ok(record) => return Ok(Outcome::Stored { record, created: true, changed: true }),
                Err(WriteError::Mismatch { .. }) if generated && attempt < NAMES => {}
                Err(WriteError::Mismatch { .. }) => {
                    return Err(Status::already_exists(&resource.group_resource(), &name));
                }
                Err(_) => return Err(Status::no_such_path()),
            }
        }
        Err(Status::internal("names ran out"))
    }

    /// Changes an object, or makes it where the kind allows that.
    pub(crate) fn update(&mut self, name: &str, part: Part, change: Change<'_>) -> Result<Outcome, Status> {
        let resource = self.resource;
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
        for attempt in 1..=ATTEMPTS {
            let Some(record) = self.store.get(resource.table, &key) else {
                return match sent {
                    Some(object) if part == Part::Main && resource.behaviour.allows_create_on_update() => {
                        self.create_by_update(name, object)
                    }
                    _ => Err(Status::not_found(&resource.group_resource(), name)),
                };
            };
            let old = resource.decode(&record.body)?;
            let mut new = sent.clone().unwrap_or_default();
            if let Some(modify) = modify {
                let mut shown = old.clone();
                decode::put_kind(&mut shown, resource);
                self.warnings.clear();
                new = self.settle(modify(shown)?)?;
                self.check_namespace(&mut new)?;
            }
            let asked = meta_str(&new, "resourceVersion").to_owned();
            self.check_preconditions(&new, &record, name, replaces)?;
            self.carry_over(part, &mut new, &old);
            let errors = self.update_errors(part, &new, &old);
            if !errors.is_empty() {
                return Err(Status::invalid(&resource.group_kind(), name, &errors));
            }
            self.warnings.extend(resource.behaviour.warnings(&new));
            let stored = resource.behaviour.to_storage(new);
            match self.commit(&key, &record, stored)? {
                Some(outcome) => return Ok(outcome),
                // What the client saw is no longer there.
                None if !asked.is_empty() && (replaces || attempt == ATTEMPTS) => {
                    return Err(Status::conflict(&resource.group_resource(), name, MODIFIED));
                }
                None => {}
            }
        }
        Err(Status::conflict(&resource.group_resource(), name, MODIFIED))
    }

    /// Stores a new state of an object; `None` if somebody else was faster. An object that nothing keeps any more
    /// is deleted instead.
    pub(crate) fn commit(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        stored: Value,
    ) -> Result<Option<Outcome>, Status> {
        let resource = self.resource;
        if is_released(&stored) {
            return self.remove(key, record, stored);
        }
        let (template, make) = object::contents(resource, &stored);
        if template.same_as(record) {
            return Ok(Some(Outcome::Stored { record: record.clone(), created: false, changed: false }));
        }
        if self.dry_run {
            let object = resource.behaviour.from_storage(stored);
            return Ok(Some(Outcome::Dry { object, created: false }));
        }
        match self.store.put(resource.table, key, Some(record.revision), |revision| make(&template, revision))
        {
            Ok(record) => Ok(Some(Outcome::Stored { record, created: false, changed: true })),
            Err(WriteError::Mismatch { .. }) => Ok(None),
            Err(_) => Err(Status::no_such_path()),
        }
    }

    /// Deletes an object for good; `None` if somebody else was faster.
    pub(crate) fn remove(
        &self,
        key: &str,
        record: &Arc<Record<Meta>>,
        last: Value,
    ) -> Result<Option<Outcome>, Status> {
        let resource = self.resource;
        if self.dry_run {
            return Ok(Some(Outcome::Deleted { object: resource.behaviour.from_storage(last) }));
        }
        let (template, make) = object::contents(resource, &last);
        match self.store.delete(resource.table, key, record.revision, |revision| make(&template, revision)) {
            Ok(record) => Ok(Some(Outcome::Deleted { object: resource.decode(&record.body)? })),
            Err(WriteError::Mismatch { .. }) => Ok(None),
            Err(_) => Err(Status::no_such_path()),
        }
    }

    /// An update of what is not there, of a kind that may be made so.
    fn create_by_update(&mut self, name: &str, object: Value) -> Result<Outcome, Status> {
        if !meta_str(&object, "resourceVersion").is_empty() {
            return Err(Status::not_found(&self.resource.group_resource(), name));
        }
        if !meta_str(&object, "uid").is_empty() {
            let why = format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: ",
                meta_str(&object, "uid")
            );
            return Err(Status::conflict(&self.resource.group_resource(), name, &why));
        }
        self.create(Decoded { object, complaints: Vec::new() })
    }

    /// Defaults, and what is to be said about fields that were not understood.
    fn settle(&mut self, decoded: Decoded) -> Result<Value, Status> {
        let Decoded { mut object, complaints } = decoded;
        match self.field_validation()? {
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
    fn check_namespace(&self, object: &mut Value) -> Result<(), Status> {
        let sent = meta_str(object, "namespace");
        match self.namespace {
            Some(namespace) if sent.is_empty() || sent == namespace => {
                set_meta_str(object, "namespace", namespace);
                Ok(())
            }
            None if sent.is_empty() => Ok(()),
            _ => Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            )),
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
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation"]
        {
            metadata.remove(field);
        }
        metadata.insert("creationTimestamp".to_owned(), now.into());
        metadata.insert("uid".to_owned(), uid.into());
        if self.resource.behaviour.generation() != Generation::None {
            metadata.insert("generation".to_owned(), 1.into());
        }
        self.resource.behaviour.prepare_create(object);
    }

    fn errors(&self, object: &Value) -> Vec<FieldError> {
        let behaviour = &self.resource.behaviour;
        let path = FieldPath::new("metadata");
        let empty = Value::Null;
        let metadata = object.get("metadata").unwrap_or(&empty);
        let namespaced = self.resource.namespaced;
        let mut errors =
            bowline_machinery::validate_object_meta(metadata, namespaced, behaviour.name_validator(), &path);
        errors.extend(behaviour.validate(object));
        errors
    }

    fn update_errors(&self, part: Part, new: &Value, old: &Value) -> Vec<FieldError> {
        let path = FieldPath::new("metadata");
        let empty = Value::Null;
        let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or_else(|| empty.clone());
        let mut errors =
            bowline_machinery::validate_object_meta_update(&metadata(new), &metadata(old), &path);
        errors.extend(self.resource.behaviour.validate_update(part, new, old));
        errors
    }

    fn check_preconditions(
        &self,
        new: &Value,
        record: &Record<Meta>,
        name: &str,
        replaces: bool,
    ) -> Result<(), Status> {
        let resource = self.resource;
        let uid = meta_str(new, "uid");
        if !uid.is_empty() && *uid != *record.meta.uid {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                resource.names.plural, record.key, record.meta.uid
            );
            return Err(Status::conflict(&resource.group_resource(), name, &why));
        }
        match meta_str(new, "resourceVersion") {
            "" | "0" if replaces && !resource.behaviour.allows_unconditional_update() => {
                let path = FieldPath::new("metadata.resourceVersion");
                let error = FieldError::invalid(&path, 0, "must be specified for an update");
                let kind = GroupKind::new(&resource.gvk.group, &resource.names.plural);
                Err(Status::invalid(&kind, name, &[error]))
            }
            "" | "0" => Ok(()),
            version if version == record.revision.to_string() => Ok(()),
            version if version.parse::<u64>().is_err() => {
                let path = FieldPath::new("metadata.resourceVersion");
                let detail = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                let error = FieldError::invalid(&path, version, detail);
                Err(Status::invalid(&resource.group_kind(), name, &[error]))
            }
            _ => Err(Status::conflict(&resource.group_resource(), name, MODIFIED)),
        }
    }

    /// What an update cannot change is as before; generation moves if it has to.
    fn carry_over(&self, part: Part, new: &mut Value, old: &Value) {
        let old_metadata = metadata(old).cloned().unwrap_or_default();
        let new_metadata = metadata_mut(new);
        new_metadata.remove("managedFields");
        new_metadata.remove("selfLink");
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
            copy(field, new_metadata, &old_metadata);
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            copy(field, new_metadata, &old_metadata);
        }
        if let Some(generate_name) = old_metadata.get("generateName") {
            new_metadata.entry("generateName").or_insert_with(|| generate_name.clone());
        }
        self.resource.behaviour.prepare_update(part, new, old);
        if part == Part::Main && moves_generation(self.resource.behaviour.generation(), new, old) {
            let generation = old_metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
            metadata_mut(new).insert("generation".to_owned(), (generation + 1).into());
        }
    }
}

fn copy(field: &str, to: &mut Map<String, Value>, from: &Map<String, Value>) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

fn moves_generation(generation: Generation, new: &Value, old: &Value) -> bool {
    let annotations =
        |object: &Value| metadata(object).and_then(|metadata| metadata.get("annotations")).cloned();
    match generation {
        Generation::None => false,
        Generation::Spec => spec_differs(new, old),
        Generation::AllButMetadata => spec_differs(new, old) || new.get("status") != old.get("status"),
        Generation::SpecAndAnnotations => spec_differs(new, old) || annotations(new) != annotations(old),
    }
}

/// Whether anything differs but metadata and status.
fn spec_differs(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let fields = object.as_object().cloned().unwrap_or_default();
        fields
            .into_iter()
            .filter(|(name, _)| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
            .collect::<Map<_, _>>()
    };
    rest(new) != rest(old)
}

/// Whether an object is being deleted, and nothing keeps it any more.
fn is_released(object: &Value) -> bool {
    let Some(metadata) = metadata(object) else { return false };
    metadata.contains_key("deletionTimestamp")
        && metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
        && object::finalizers(object).is_empty()
        // A namespace is kept by finalizers of its own.
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
}

fn check_name(object: &Value, name: &str) -> Result<(), Status> {
    match meta_str(object, "name") {
        "" => Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        sent if sent == name => Ok(()),
        sent => Err(Status::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({name})"
        ))),
    }
}

/// A version 4 UUID.
pub(crate) fn uid(clock: &Clock) -> String {
    let mut bytes = [0; 16];
    clock.rng().fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |range: std::ops::Range<usize>| {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}

/// Dry runs: `All`, or nothing at all.
pub(crate) fn dry_run(values: &[String], options: &str) -> Result<bool, Status> {
    if values.iter().all(String::is_empty) {
        return Ok(false);
    }
    if values.iter().all(|value| value == "All") {
        return Ok(true);
    }
    let path = FieldPath::new("dryRun");
    let error = FieldError::not_supported(&path, values.to_vec(), &["All"]);
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", options), "", &[error]))
}
