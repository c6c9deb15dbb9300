//! The built-in kinds of Kubernetes, from the table of facts.

mod fields;
mod rules;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bowline_machinery::facts::{self, ResourceFacts, TypeRef, UnknownFields};
use bowline_machinery::{
    FieldError, GroupVersionKind, NameValidator, Status, StorageConversion, set_defaults, stored_form,
    validate_builtin, validate_builtin_part, validate_builtin_update,
};
use serde_json::Value;

use crate::admission::Admission;
use crate::object::{into_map, metadata_mut};
use crate::registry::Resources;
use crate::request::Verb;
use crate::resource::{Generation, Names, Resource, ResourceStrategy, Scale, Subresource, WriteTarget};
use crate::server::Store;
use crate::subresource;

use rules::{Rules, StatusMetadata};

/// A kind with a Go type.
struct Builtin {
    gvk: GroupVersionKind,
    go_type: TypeRef,
    rules: Rules,
    /// The empty status as Go encodes it, for kinds with a status subresource.
    empty_status: Option<Value>,
    alone: Mutex<()>,
    /// Version and type of the stored form, if they differ.
    stored: Option<(StorageConversion, TypeRef)>,
}

/// Adds all supported built-in resources.
pub(crate) fn register(store: &Store, resources: &mut Resources) {
    for facts in facts::resources() {
        if let Some(resource) = resource(store, facts) {
            resources.insert(resource);
        }
    }
}

fn resource(store: &Store, facts: &ResourceFacts) -> Option<Resource> {
    let gvk = GroupVersionKind::new(facts.group, facts.version, facts.kind);
    let verbs: Vec<_> = facts.verbs.iter().filter_map(|verb| verb_named(verb)).collect();
    // Reviews and similar kinds are queries, not objects.
    if !verbs.contains(&Verb::Get) || !rules::is_served(&gvk) {
        return None;
    }
    let go_type = facts::type_of(facts.group, facts.version, facts.kind)?;
    let subresources: Vec<_> = facts
        .subresources
        .iter()
        .filter(|below| subresource::is_served(below.name))
        .map(|below| Subresource {
            name: below.name.to_owned(),
            gvk: GroupVersionKind::new(below.group, below.version, below.kind),
            verbs: below.verbs.iter().filter_map(|verb| verb_named(verb)).collect(),
        })
        .collect();
    let has_status = subresources.iter().any(|below| below.name == "status");
    let empty_status = has_status.then(|| {
        let empty = go_type.normalise(serde_json::json!({}), UnknownFields::Ignore);
        empty.ok().and_then(|mut empty| empty.value.get_mut("status").map(Value::take)).unwrap_or_default()
    });
    let rules = Rules::of(&gvk);
    let stored = stored_form(facts.group, facts.version, facts.kind)
        .and_then(|form| Some((form, facts::type_of(form.group, form.version, facts.kind)?)));
    let group = stored.map_or(facts.group, |(form, _)| form.group);
    Some(Resource {
        names: Names {
            plural: facts.resource.to_owned(),
            singular: facts.singular.to_owned(),
            list_kind: format!("{}List", facts.kind),
            short_names: facts.short_names.iter().map(|name| (*name).to_owned()).collect(),
            categories: facts.categories.iter().map(|name| (*name).to_owned()).collect(),
        },
        namespaced: facts.namespaced,
        table: store.create_table(&table(group, facts.resource)),
        verbs,
        subresources,
        schema_text: None,
        head: Resource::head(&gvk.kind, &gvk.group_version().to_string()),
        behaviour: Box::new(Builtin {
            gvk: gvk.clone(),
            go_type,
            rules,
            empty_status,
            alone: Mutex::new(()),
            stored,
        }),
        gvk,
    })
}

fn verb_named(name: &str) -> Option<Verb> {
    let all = [
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ];
    all.into_iter().find(|verb| verb.as_str() == name)
}

impl ResourceStrategy for Builtin {
    fn normalise(&self, object: Value, unknown: &mut Vec<String>) -> Result<Value, Status> {
        let normalised = self.go_type.normalise(object, UnknownFields::Report).map_err(|error| {
            let GroupVersionKind { kind, version, .. } = &self.gvk;
            Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {error}"
            ))
        })?;
        unknown.extend(normalised.unknown_fields);
        let mut object = normalised.value;
        // Go encodes metadata even if an object has none; it is not stored.
        metadata_mut(&mut object);
        Ok(object)
    }

    fn default(&self, object: &mut Value) {
        let GroupVersionKind { group, version, kind } = &self.gvk;
        set_defaults(group, version, kind, object);
        (self.rules.default)(object);
    }

    fn from_storage(&self, object: Value) -> Value {
        match self.stored {
            Some((form, _)) => normalised(self.go_type, (form.from)(object)),
            None => object,
        }
    }

    fn reads_as_stored(&self) -> bool {
        self.stored.is_none()
    }

    fn to_storage(&self, object: Value) -> Value {
        match self.stored {
            Some((form, go_type)) => normalised(go_type, (form.to)(object)),
            None => object,
        }
    }

    fn admit(
        &self,
        admission: &Admission<'_>,
        part: WriteTarget,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        (self.rules.admit)(admission, part, new, old)
    }

    fn validate_admission(
        &self,
        admission: &Admission<'_>,
        part: WriteTarget,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        (self.rules.review)(admission, part, new, old)
    }

    fn group_of_errors(&self) -> Option<&str> {
        self.stored.map(|(form, _)| form.group)
    }

    fn write_lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.rules.alone.then(|| self.alone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn prepare_create(&self, object: &mut Value) {
        if let Some(empty) = self.empty_status.as_ref().filter(|_| !self.rules.keeps_sent_status) {
            set_field(object, "status", Some(empty).filter(|status| !status.is_null()));
        }
        (self.rules.prepare_create)(object);
    }

    fn prepare_update(&self, part: WriteTarget, new: &mut Value, old: &Value) {
        match part {
            WriteTarget::Main if self.empty_status.is_some() => set_field(new, "status", old.get("status")),
            WriteTarget::Main | WriteTarget::Binding => {}
            WriteTarget::Status => {
                keep_all_but(new, old, &["status", "metadata"]);
                keep_metadata(new, old, self.rules.status_metadata);
            }
            WriteTarget::Approval => {
                let conditions = new.pointer("/status/conditions").cloned();
                keep_all_but(new, old, &["metadata"]);
                set_field(object_field(new, "status"), "conditions", conditions.as_ref());
            }
            WriteTarget::Finalize => {
                let finalizers = new.pointer("/spec/finalizers").cloned();
                keep_all_but(new, old, &["metadata"]);
                set_field(object_field(new, "spec"), "finalizers", finalizers.as_ref());
            }
            WriteTarget::EphemeralContainers => {
                let containers = new.pointer("/spec/ephemeralContainers").cloned();
                keep_all_but(new, old, &["metadata"]);
                keep_metadata(new, old, StatusMetadata::Kept);
                set_field(object_field(new, "spec"), "ephemeralContainers", containers.as_ref());
            }
        }
        (self.rules.prepare_update)(part, new, old);
    }

    fn name_validator(&self) -> NameValidator {
        self.rules.name_validator
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let GroupVersionKind { group, kind, .. } = &self.gvk;
        let mut errors = validate_builtin(group, kind, object);
        errors.extend((self.rules.validate)(object));
        errors
    }

    fn validate_update(&self, part: WriteTarget, new: &Value, old: &Value) -> Vec<FieldError> {
        let GroupVersionKind { group, kind, .. } = &self.gvk;
        let mut errors = match part {
            WriteTarget::Main => validate_builtin_update(group, kind, new, old),
            WriteTarget::Status => validate_builtin_part(group, kind, "status", new, old),
            WriteTarget::EphemeralContainers => {
                validate_builtin_part(group, kind, "ephemeralcontainers", new, old)
            }
            _ => Vec::new(),
        };
        errors.extend((self.rules.validate_update)(part, new, old));
        errors
    }

    fn generation(&self) -> Generation {
        self.rules.generation
    }

    fn fields(&self, object: &Value) -> Vec<(String, String)> {
        let names = fields::names(&self.gvk);
        names.iter().map(|name| ((*name).to_owned(), fields::value(&self.gvk, name, object))).collect()
    }

    fn field_names(&self) -> Vec<String> {
        fields::names(&self.gvk).iter().map(|name| (*name).to_owned()).collect()
    }

    fn field_named(&self, asked: &str) -> Result<String, String> {
        fields::named(&self.gvk, asked)
    }

    fn blank(&self) -> Value {
        let nothing = Value::Object(serde_json::Map::new());
        self.go_type.normalise(nothing, UnknownFields::Report).map_or(Value::Null, |blank| blank.value)
    }

    fn allows_create_on_update(&self) -> bool {
        self.rules.create_on_update
    }

    fn allows_unconditional_update(&self) -> bool {
        self.rules.unconditional_update
    }

    fn returns_deleted(&self) -> bool {
        self.rules.returns_deleted
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        self.rules.grace_period.map(|grace| grace(object, asked))
    }

    fn prepare_delete(&self, object: &mut Value) {
        (self.rules.prepare_delete)(object);
    }

    fn check_delete(&self, name: &str) -> Result<(), Status> {
        rules::check_delete(&self.gvk, name)
    }

    fn wants_qualified_finalizers(&self) -> bool {
        self.rules.qualified_finalizers
    }

    fn terminates(&self) -> bool {
        self.rules.terminates
    }

    fn is_held(&self, object: &Value) -> bool {
        (self.rules.is_held)(object)
    }

    fn cleanup_finalizer(&self) -> Option<&'static str> {
        self.rules.cleanup_finalizer
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        (self.rules.warnings)(object)
    }

    fn scale(&self) -> Option<Scale> {
        self.rules.scale.then(|| Scale {
            spec_replicas: "/spec/replicas".to_owned(),
            status_replicas: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        })
    }
}

/// Storage table of a resource.
fn table(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// An object in Go's encoding, after its conversion to another type.
fn normalised(go_type: TypeRef, mut object: Value) -> Value {
    crate::object::strip_kind(&mut object);
    match go_type.normalise(object.clone(), UnknownFields::Ignore) {
        Ok(normalised) => normalised.value,
        // The conversion produces values of the right types.
        Err(_) => object,
    }
}

/// A field as an object; another value is replaced by an empty one.
fn object_field<'a>(object: &'a mut Value, name: &str) -> &'a mut Value {
    into_map(object).entry(name).or_insert_with(|| serde_json::json!({}))
}

/// Sets a field, or removes it.
fn set_field(object: &mut Value, name: &str, value: Option<&Value>) {
    let fields = into_map(object);
    match value {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

/// Restores all fields except some.
fn keep_all_but(new: &mut Value, old: &Value, free: &[&str]) {
    let is_free = |name: &String| free.contains(&name.as_str());
    let fields = into_map(new);
    fields.retain(|name, _| is_free(name));
    for (name, value) in old.as_object().into_iter().flatten() {
        if !is_free(name) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Restores metadata that an update of a part may not change.
fn keep_metadata(new: &mut Value, old: &Value, rule: StatusMetadata) {
    let kept: &[&str] = match rule {
        StatusMetadata::Free => &[],
        StatusMetadata::KeepsLabels => &["labels"],
        StatusMetadata::KeepsOwners => &["ownerReferences"],
        StatusMetadata::Kept => {
            &["annotations", "deletionTimestamp", "finalizers", "generation", "labels", "ownerReferences"]
        }
    };
    let metadata = object_field(new, "metadata");
    for field in kept {
        set_field(metadata, field, old.get("metadata").and_then(|metadata| metadata.get(field)));
    }
}
