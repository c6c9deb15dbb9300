//! One resource in one version: its names, its place in storage, and the rules of its kind.

use std::borrow::Cow;
use std::sync::MutexGuard;

use bowline_machinery::{FieldError, GroupKind, GroupResource, GroupVersionKind, NameValidator, Status};
use bowline_storage::TableId;
use bytes::Bytes;
use serde_json::Value;

use crate::admission::Admission;
use crate::request::Verb;

/// One resource in one version. Immutable: a change of its CRD creates a new one.
pub(crate) struct Resource {
    pub(crate) gvk: GroupVersionKind,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) table: TableId,
    pub(crate) verbs: Vec<Verb>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) behaviour: Box<dyn ResourceStrategy>,
    /// The schema of a custom resource, as written in its CRD.
    pub(crate) schema_text: Option<String>,
    /// The text that replaces the opening brace of a stored body.
    pub(crate) head: Bytes,
}

/// Names of a resource.
#[expect(clippy::struct_field_names, reason = "Kubernetes calls them so")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// Kind of the objects that are read and written there; for `status`, the resource's own.
    pub(crate) gvk: GroupVersionKind,
    pub(crate) verbs: Vec<Verb>,
}

/// Positions of the numbers of a `scale` subresource in an object, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A string, or a label selector object.
    pub(crate) selector: Option<String>,
}

/// Rule by which `metadata.generation` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// The server sets none.
    None,
    /// It is 1, and stays so.
    Fixed,
    /// There is none at first; it moves with anything but metadata and status.
    Unstarted,
    /// With anything but metadata and status.
    Spec,
    /// With annotations, too.
    SpecAndAnnotations,
    /// With labels, too.
    SpecAndLabels,
    /// With anything but metadata.
    AllButMetadata,
}

/// The part of an object that a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteTarget {
    Main,
    Status,
    /// The conditions of a certificate signing request.
    Approval,
    /// The finalizers of a namespace's spec.
    Finalize,
    /// Of a pod.
    EphemeralContainers,
    /// The node of a pod.
    Binding,
}

/// Treatment of unknown and duplicate fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The rules of a kind. Every method is a function of its arguments; the rules common to all kinds apply before or
/// after.
pub(crate) trait ResourceStrategy: Send + Sync {
    /// Converts a value from a client to one that can be stored. Unknown fields are removed and reported; a wrong type
    /// is an error.
    fn normalise(&self, object: Value, unknown: &mut Vec<String>) -> Result<Value, Status>;

    /// Sets defaults.
    fn default(&self, object: &mut Value);

    /// Converts a stored object to the version of this resource, by this version's current schema.
    #[expect(
        clippy::wrong_self_convention,
        reason = "it is the way from there, and `to_storage` the way back"
    )]
    fn from_storage(&self, object: Value) -> Value {
        object
    }

    /// Whether stored bytes can be sent as they are.
    fn reads_as_stored(&self) -> bool {
        true
    }

    /// The other way.
    fn to_storage(&self, object: Value) -> Value {
        object
    }

    /// Whether the items of a list carry their own `apiVersion` and `kind`.
    fn items_have_kind(&self) -> bool {
        false
    }

    /// Mutating admission and allocation of an object, before any other step. `old` is the stored object.
    fn admit(
        &self,
        _admission: &Admission<'_>,
        _part: WriteTarget,
        _new: &mut Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Validating admission of a valid object.
    fn validate_admission(
        &self,
        _admission: &Admission<'_>,
        _part: WriteTarget,
        _new: &Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// The group in error messages, if it is not the resource's own.
    fn group_of_errors(&self) -> Option<&str> {
        None
    }

    /// A lock for writes of the kind, if its objects allocate from a shared range. Default: none.
    fn write_lock(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }

    /// Before an object is created: removes fields that clients may not set.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Before an object is updated: restores fields that this part may not change.
    fn prepare_update(&self, _part: WriteTarget, _new: &mut Value, _old: &Value) {}

    fn name_validator(&self) -> NameValidator;

    fn validate(&self, object: &Value) -> Vec<FieldError>;

    fn validate_update(&self, part: WriteTarget, new: &Value, old: &Value) -> Vec<FieldError>;

    fn generation(&self) -> Generation;

    /// The fields that a selector may use beside name and namespace, with their values.
    fn fields(&self, object: &Value) -> Vec<(String, String)>;

    /// Their names.
    fn field_names(&self) -> Vec<String>;

    /// The selectable field for a name in a selector, by the name that [`ResourceStrategy::fields`] gives it, or the error for
    /// an unknown one.
    fn field_named(&self, asked: &str) -> Result<String, String> {
        let is_known = matches!(asked, "metadata.name" | "metadata.namespace")
            || self.field_names().iter().any(|known| known == asked);
        if is_known { Ok(asked.to_owned()) } else { Err(format!("field label not supported: {asked}")) }
    }

    /// An empty object.
    fn blank(&self) -> Value {
        Value::Object(serde_json::Map::new())
    }

    fn allows_create_on_update(&self) -> bool {
        false
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// Whether a delete answers with the object instead of a `Status`.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Seconds that a deleted object stays, for a requested grace period. `None`: the kind has no grace period. Kinds
    /// that have one mark objects before they delete them, even with zero seconds.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Positions of the numbers of the `scale` subresource, if there is one.
    fn scale(&self) -> Option<Scale> {
        None
    }

    /// Refuses new objects, for example while the kind is being deleted.
    fn check_create(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Whether finalizers without a domain must be Kubernetes' own.
    fn wants_qualified_finalizers(&self) -> bool {
        false
    }

    /// Whether a first delete only marks an object, whether or not anything blocks its deletion.
    fn terminates(&self) -> bool {
        false
    }

    /// Whether something outside the metadata blocks the deletion of an object.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Whether the kind itself is being deleted.
    fn is_terminating(&self) -> bool {
        false
    }

    /// Whether the selectable fields are those that were computed when the object was stored.
    fn fields_are_kept(&self) -> bool {
        true
    }

    /// The finalizer of every object of the kind. Default: none.
    fn cleanup_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Refuses an object that must never be deleted.
    fn check_delete(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Called when an object is marked for deletion.
    fn prepare_delete(&self, _object: &mut Value) {}

    /// Warnings about an object.
    fn warnings(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }
}

impl Resource {
    pub(crate) fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.gvk.group, &self.names.plural)
    }

    pub(crate) fn group_kind(&self) -> GroupKind {
        match self.behaviour.group_of_errors() {
            Some(group) => GroupKind::new(group, &self.gvk.kind),
            None => self.gvk.group_kind(),
        }
    }

    pub(crate) fn api_version(&self) -> String {
        self.gvk.group_version().to_string()
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Decodes a stored object.
    pub(crate) fn decode(&self, body: &[u8]) -> Result<Value, Status> {
        let object = serde_json::from_slice(body).map_err(|error| {
            Status::internal(format!("a stored {} cannot be read: {error}", self.gvk.kind))
        })?;
        Ok(self.behaviour.from_storage(object))
    }

    /// A stored body as bytes in this version, without its opening brace and with neither `apiVersion` nor `kind`.
    pub(crate) fn tail<'a>(&self, body: &'a Bytes) -> Cow<'a, [u8]> {
        if self.behaviour.reads_as_stored() {
            return Cow::Borrowed(&body[1..]);
        }
        match self.decode(body) {
            Ok(mut object) => {
                crate::object::strip_kind(&mut object);
                Cow::Owned(object.to_string().split_off(1).into_bytes())
            }
            // This server wrote the stored bytes, so it can decode them.
            Err(_) => Cow::Borrowed(&body[1..]),
        }
    }

    /// The start of a body of this kind.
    pub(crate) fn head(kind: &str, api_version: &str) -> Bytes {
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        Bytes::from(format!(r#"{{"kind":{kind},"apiVersion":{api_version},"#))
    }
}
