//! What is special about single built-in kinds, as a row for each.

use bowline_machinery::{
    FieldError, GroupResource, GroupVersionKind, NameValidator, Status, default_crd, name_is_dns_label,
    name_is_dns_subdomain, name_is_dns1035_label, name_is_path_segment, validate_crd, validate_crd_update,
};
use serde_json::{Value, json};

use crate::custom;
use crate::object::{child_mut, into_map};
use crate::resource::{Generation, Part};

/// A row. Most kinds differ from the [default](Rules::plain) in a few places only.
pub(super) struct Rules {
    pub(super) default: fn(&mut Value),
    pub(super) prepare_create: fn(&mut Value),
    pub(super) prepare_update: fn(Part, &mut Value, &Value),
    pub(super) prepare_delete: fn(&mut Value),
    pub(super) validate: fn(&Value) -> Vec<FieldError>,
    pub(super) validate_update: fn(Part, &Value, &Value) -> Vec<FieldError>,
    pub(super) name_validator: NameValidator,
    pub(super) generation: Generation,
    pub(super) create_on_update: bool,
    pub(super) unconditional_update: bool,
    pub(super) returns_deleted: bool,
    pub(super) scale: bool,
    pub(super) cleanup_finalizer: Option<&'static str>,
    pub(super) warnings: fn(&Value) -> Vec<String>,
    pub(super) grace_period: Option<fn(&Value, Option<i64>) -> Option<i64>>,
    pub(super) from_storage: Option<fn(Value) -> Value>,
    pub(super) to_storage: Option<fn(Value) -> Value>,
    /// The table, if it is not the resource's own: two resources may be the same objects.
    table: Option<&'static str>,
}

impl Rules {
    const fn plain() -> Self {
        Self {
            default: |_| {},
            prepare_create: |_| {},
            prepare_update: |_, _, _| {},
            prepare_delete: |_| {},
            validate: |_| Vec::new(),
            validate_update: |_, _, _| Vec::new(),
            name_validator: name_is_dns_subdomain,
            generation: Generation::None,
            create_on_update: false,
            unconditional_update: true,
            returns_deleted: false,
            scale: false,
            cleanup_finalizer: None,
            warnings: |_| Vec::new(),
            grace_period: None,
            from_storage: None,
            to_storage: None,
            table: None,
        }
    }

    pub(super) fn of(gvk: &GroupVersionKind) -> Self {
        let plain = Self::plain();
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Namespace") => Self {
                name_validator: name_is_dns_label,
                prepare_create: |namespace| {
                    let spec = child_mut(namespace, "spec");
                    spec.insert("finalizers".to_owned(), json!(["kubernetes"]));
                    into_map(namespace).insert("status".to_owned(), json!({"phase": "Active"}));
                },
                prepare_update: |part, new, old| {
                    if part == Part::Main {
                        let finalizers = old.pointer("/spec/finalizers").cloned();
                        let spec = child_mut(new, "spec");
                        match finalizers {
                            Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
                            None => spec.remove("finalizers"),
                        };
                    }
                },
                prepare_delete: |namespace| {
                    let status = child_mut(namespace, "status");
                    status.insert("phase".to_owned(), "Terminating".into());
                },
                ..plain
            },
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self {
                generation: Generation::Spec,
                returns_deleted: true,
                cleanup_finalizer: Some(custom::CLEANUP_FINALIZER),
                prepare_create: custom::prepare_create,
                prepare_update: custom::prepare_update,
                prepare_delete: custom::prepare_delete,
                warnings: custom::warnings,
                default: default_crd,
                validate: validate_crd,
                validate_update: |part, new, old| match part {
                    Part::Main => validate_crd_update(new, old),
                    _ => Vec::new(),
                },
                ..plain
            },
            ("", "Service") => Self { name_validator: name_is_dns1035_label, ..plain },
            ("rbac.authorization.k8s.io", _) => Self { name_validator: name_is_path_segment, ..plain },
            _ => plain,
        }
    }

    /// Where objects are kept.
    pub(super) fn table(&self, group: &str, resource: &str) -> String {
        match self.table {
            Some(table) => table.to_owned(),
            None if group.is_empty() => resource.to_owned(),
            None => format!("{resource}.{group}"),
        }
    }
}

/// Whether this server has the resource. Others are left out of discovery, too.
pub(super) fn is_served(gvk: &GroupVersionKind) -> bool {
    !matches!(gvk.kind.as_str(), "ComponentStatus")
}

/// Namespaces that the system needs stay.
pub(super) fn check_delete(gvk: &GroupVersionKind, name: &str) -> Result<(), Status> {
    let needed = matches!(name, "default" | "kube-system" | "kube-public");
    if gvk.group.is_empty() && gvk.kind == "Namespace" && needed {
        let namespaces = GroupResource::new("", "namespaces");
        return Err(Status::forbidden(&namespaces, name, "this namespace may not be deleted"));
    }
    Ok(())
}
