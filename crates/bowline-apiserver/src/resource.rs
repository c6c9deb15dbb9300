//! One resource in one version: its names, where it is stored, and what is special about its kind.

use std::borrow::Cow;
use std::sync::MutexGuard;

use bowline_machinery::{FieldError, GroupKind, GroupResource, GroupVersionKind, NameValidator, Status};
use bowline_storage::TableId;
use bytes::Bytes;
use serde_json::Value;

use crate::admission::Admission;
use crate::request::Verb;

/// One resource in one version. Immutable: a change of a custom resource makes a new one.
pub(crate) struct Resource {
    pub(crate) gvk: GroupVersionKind,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) table: TableId,
    pub(crate) verbs: Vec<Verb>,
    pub(crate) subresources: Vec<Subresource>,
    pub(crate) behaviour: Box<dyn Behaviour>,
    /// The schema of a custom resource, as it was written.
    pub(crate) schema_text: Option<String>,
    /// What is put in front of a stored body instead of its opening brace.
    pub(crate) head: Bytes,
}

/// What a resource is called.
#[expect(clippy::struct_field_names, reason = "Kubernetes calls them so")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// What is below an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// Of the objects that are read and written there; that of the resource itself for `status`.
    pub(crate) gvk: GroupVersionKind,
    pub(crate) verbs: Vec<Verb>,
}

/// Where the numbers of a `scale` subresource stand in an object, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    /// A text, or a label selector object.
    pub(crate) selector: Option<String>,
}

/// How `metadata.generation` moves.
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

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
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

/// How unknown and repeated fields of a request are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// What is special about a kind. Everything here is a function of its arguments; what all kinds have in common is
/// done before or after.
pub(crate) trait Behaviour: Send + Sync {
    /// Makes of a value that a client sent one that may be stored: what the kind does not know is removed, and told;
    /// what has the wrong type is an error.
    fn normalise(&self, object: Value, unknown: &mut Vec<String>) -> Result<Value, Status>;

    /// Sets defaults.
    fn default(&self, object: &mut Value);

    /// A stored object in the version of this resource, as this version's schema wants it now.
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

    /// What admission plugins and allocators make of an object that is to be stored, before anything else looks at it.
    /// `old` is what is stored now.
    fn admit(
        &self,
        _admission: &Admission<'_>,
        _part: Part,
        _new: &mut Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// What admission plugins say about an object that is right otherwise.
    fn review(
        &self,
        _admission: &Admission<'_>,
        _part: Part,
        _new: &Value,
        _old: Option<&Value>,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// The group that errors name, if it is not the resource's own.
    fn group_of_errors(&self) -> Option<&str> {
        None
    }

    /// Held while an object of the kind is written, if its objects share something of which each has a part of its
    /// own: what is free is only known as long as nobody else takes it.
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }

    /// Before an object is created: what clients may not set is removed.
    fn prepare_create(&self, _object: &mut Value) {}

    /// Before an object is updated: what this part may not change is as before.
    fn prepare_update(&self, _part: Part, _new: &mut Value, _old: &Value) {}

    fn name_validator(&self) -> NameValidator;

    fn validate(&self, object: &Value) -> Vec<FieldError>;

    fn validate_update(&self, part: Part, new: &Value, old: &Value) -> Vec<FieldError>;

    fn generation(&self) -> Generation;

    /// The fields that a selector may name beside name and namespace, with their values.
    fn fields(&self, object: &Value) -> Vec<(String, String)>;

    /// Their names.
    fn field_names(&self) -> Vec<String>;

    /// The field that a selector means, by the name that [`Behaviour::fields`] gives it. An error is what somebody is
    /// told who selects by what is no such field.
    fn field_named(&self, asked: &str) -> Result<String, String> {
        let is_known = matches!(asked, "metadata.name" | "metadata.namespace")
            || self.field_names().iter().any(|known| known == asked);
        if is_known { Ok(asked.to_owned()) } else { Err(format!("field label not supported: {asked}")) }
    }

    /// What an object is that nothing was ever written into.
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

    /// For how long an object stays when it is deleted with these many seconds asked for. `None`: the kind knows no
    /// grace; objects of one that does are marked before they go, even if that is at once.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Where the numbers of the `scale` subresource stand, if there is one.
    fn scale(&self) -> Option<Scale> {
        None
    }

    /// Whether new objects may be made now.
    fn check_create(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// Whether finalizers without a domain must be those that Kubernetes knows.
    fn wants_qualified_finalizers(&self) -> bool {
        false
    }

    /// Whether a first delete only marks an object, whatever keeps it.
    fn terminates(&self) -> bool {
        false
    }

    /// Whether something that does not stand in the metadata keeps an object that is to go.
    fn is_held(&self, _object: &Value) -> bool {
        false
    }

    /// Whether the kind itself is to go.
    fn is_terminating(&self) -> bool {
        false
    }

    /// Whether the fields that objects are selected by are those that were kept when they were stored.
    fn fields_are_kept(&self) -> bool {
        true
    }

    /// What keeps every object of the kind from going at once.
    fn cleanup_finalizer(&self) -> Option<&'static str> {
        None
    }

    /// Objects that may not be deleted at all.
    fn check_delete(&self, _name: &str) -> Result<(), Status> {
        Ok(())
    }

    /// When an object is marked as to be deleted.
    fn prepare_delete(&self, _object: &mut Value) {}

    /// What a client should be told about an object.
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

    /// A stored object, to be worked on.
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
            // Bytes that were stored by this server can be read by it.
            Err(_) => Cow::Borrowed(&body[1..]),
        }
    }

    /// What stands in front of a body of this kind.
    pub(crate) fn head(kind: &str, api_version: &str) -> Bytes {
        let (kind, api_version) = (Value::from(kind), Value::from(api_version));
        Bytes::from(format!(r#"{{"kind":{kind},"apiVersion":{api_version},"#))
    }
}
