//! Preconditions of a write: UID and resourceVersion of the object.

use bowline_machinery::{FieldError, FieldPath, GroupKind, Status};
use bowline_storage::Record;
use serde_json::Value;

use super::Write;
use crate::object::{self, Meta, meta_str};
use crate::resource::Resource;

/// The message of a conflict.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl Write<'_> {
    /// A uid in the request must be the object's.
    pub(crate) fn check_uid(&self, new: &Value, present: &str, name: &str) -> Result<(), Status> {
        self.check_same("UID", meta_str(new, "uid"), present, name)
    }

    /// Checks that UID and resourceVersion in a binding are those of the pod.
    pub(crate) fn check_bound(&self, binding: &Value, pod: &Value, name: &str) -> Result<(), Status> {
        self.check_uid(binding, meta_str(pod, "uid"), name)?;
        let [wanted, present] = [binding, pod].map(|object| meta_str(object, "resourceVersion"));
        self.check_same("ResourceVersion", wanted, present, name)
    }

    fn check_same(&self, field: &str, wanted: &str, present: &str, name: &str) -> Result<(), Status> {
        if wanted.is_empty() || wanted == present {
            return Ok(());
        }
        // kube-apiserver's storage path, which a dry run knows only in part.
        let registry = if self.dry_run { "" } else { "/registry" };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {registry}/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {present}",
            registry_path(self.resource),
            object::key(self.namespace, name)
        );
        Err(Status::conflict(&self.resource.group_resource(), name, &why))
    }

    /// A revision in the request must be the object's. Returns whether there was one.
    pub(super) fn check_revision(
        &self,
        new: &Value,
        record: &Record<Meta>,
        name: &str,
    ) -> Result<bool, Status> {
        let resource = self.resource;
        let revision = match meta_str(new, "resourceVersion") {
            "" => 0,
            text => text.parse::<u64>().map_err(|error| {
                let why = match error.kind() {
                    std::num::IntErrorKind::PosOverflow => "value out of range",
                    _ => "invalid syntax",
                };
                Status::failure(500, "", format!("strconv.ParseUint: parsing {text:?}: {why}"))
            })?,
        };
        if revision == 0 && !resource.behaviour.allows_unconditional_update() {
            let path = FieldPath::new("metadata").child("resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            let kind = GroupKind::new(&resource.gvk.group, &resource.names.plural);
            return Err(Status::invalid(&kind, name, &[error]));
        }
        if revision != 0 && revision != record.revision.get() {
            return Err(Status::conflict(&resource.group_resource(), name, MODIFIED));
        }
        Ok(revision != 0)
    }
}

/// Checks that the names of request and object agree.
pub(crate) fn check_name(object: &Value, name: &str) -> Result<(), Status> {
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

/// The etcd path of a resource in kube-apiserver, which appears in error messages.
fn registry_path(resource: &Resource) -> String {
    let plural = resource.names.plural.as_str();
    match (resource.gvk.group.as_str(), plural) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{}/{plural}", resource.gvk.group),
        (group, _) if resource.behaviour.items_have_kind() => format!("{group}/{plural}"),
        _ => plural.to_owned(),
    }
}
