//! The strategy of custom kinds, derived from their schema.

use std::sync::{Arc, LazyLock};

use bowline_machinery::facts::{self, TypeRef, UnknownFields};
use bowline_machinery::{
    FieldError, FieldPath, GroupResource, GroupVersionKind, NameValidator, Schema, Status,
    name_is_dns_subdomain,
};
use serde_json::Value;

use crate::object::into_map;
use crate::resource::{Generation, ResourceStrategy, Scale, WriteTarget};

/// One version of a custom kind.
pub(crate) struct Custom {
    pub(crate) gvk: GroupVersionKind,
    pub(crate) group_resource: GroupResource,
    pub(crate) schema: Arc<Schema>,
    pub(crate) has_status: bool,
    pub(crate) scale: Option<Scale>,
    /// Selectable fields, as JSON pointers.
    pub(crate) selectable: Vec<(String, String)>,
    /// Whether all stored objects were written with this very schema.
    pub(crate) reads_as_stored: bool,
    /// Whether the definition is being deleted: then no objects are created.
    pub(crate) is_terminating: bool,
    /// Deprecation warning of this version.
    pub(crate) deprecation: Option<String>,
}

/// The type of every object's metadata.
static OBJECT_META: LazyLock<Option<TypeRef>> =
    LazyLock::new(|| facts::type_of("", "v1", "ConfigMap")?.field("metadata")?.structure());

impl Custom {
    fn cannot_be_handled(&self, why: &dyn std::fmt::Display) -> Status {
        let GroupVersionKind { kind, version, .. } = &self.gvk;
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    }
}

impl ResourceStrategy for Custom {
    fn normalise(&self, mut object: Value, unknown: &mut Vec<String>) -> Result<Value, Status> {
        let metadata = into_map(&mut object).remove("metadata").unwrap_or_default();
        if let Some(object_meta) = *OBJECT_META {
            let normalised = object_meta
                .normalise(metadata, UnknownFields::Report)
                .map_err(|error| self.cannot_be_handled(&error))?;
            let fields = normalised.unknown_fields.iter();
            unknown.extend(
                fields.map(|field| field.replacen("unknown field \"", "unknown field \"metadata.", 1)),
            );
            into_map(&mut object).insert("metadata".to_owned(), normalised.value);
        }
        let fields = self.schema.unknown_fields(&object);
        unknown.extend(fields.into_iter().map(|field| format!("unknown field {field:?}")));
        self.schema.prune(&mut object);
        self.schema.coerce(&mut object).map_err(|error| self.cannot_be_handled(&error))?;
        Ok(object)
    }

    fn default(&self, object: &mut Value) {
        self.schema.default(object);
    }

    fn from_storage(&self, mut object: Value) -> Value {
        if !self.reads_as_stored {
            self.schema.prune(&mut object);
            self.schema.default(&mut object);
        }
        object
    }

    fn reads_as_stored(&self) -> bool {
        self.reads_as_stored
    }

    fn items_have_kind(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status {
            into_map(object).remove("status");
        }
    }

    fn prepare_update(&self, part: WriteTarget, new: &mut Value, old: &Value) {
        match part {
            // The status only.
            WriteTarget::Status => {
                let sent = std::mem::replace(new, old.clone());
                keep(new, &sent, "status");
            }
            _ if self.has_status => keep(new, old, "status"),
            _ => {}
        }
    }

    fn name_validator(&self) -> NameValidator {
        name_is_dns_subdomain
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        self.schema.validate(object, &FieldPath::root())
    }

    fn validate_update(&self, part: WriteTarget, new: &Value, old: &Value) -> Vec<FieldError> {
        match part {
            WriteTarget::Status => self.schema.validate_status_update(new, old),
            _ => self.schema.validate_update(new, old),
        }
    }

    fn generation(&self) -> Generation {
        if self.has_status { Generation::Spec } else { Generation::AllButMetadata }
    }

    fn fields(&self, object: &Value) -> Vec<(String, String)> {
        let text = |pointer: &str| match object.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(value)) => value.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        self.selectable.iter().map(|(name, pointer)| (name.clone(), text(pointer))).collect()
    }

    fn field_names(&self) -> Vec<String> {
        self.selectable.iter().map(|(name, _)| name.clone()).collect()
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn scale(&self) -> Option<Scale> {
        self.scale.clone()
    }

    fn is_terminating(&self) -> bool {
        self.is_terminating
    }

    fn fields_are_kept(&self) -> bool {
        self.reads_as_stored
    }

    fn check_create(&self, name: &str) -> Result<(), Status> {
        if !self.is_terminating {
            return Ok(());
        }
        let why = "create not allowed while custom resource definition is terminating";
        Err(Status::forbidden(&self.group_resource, name, why))
    }

    fn warnings(&self, _object: &Value) -> Vec<String> {
        self.deprecation.iter().cloned().collect()
    }
}

/// Copies a field from another object.
fn keep(new: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => into_map(new).insert(field.to_owned(), value.clone()),
        None => into_map(new).remove(field),
    };
}
