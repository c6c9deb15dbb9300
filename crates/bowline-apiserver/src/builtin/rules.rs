//! Rules of single built-in kinds, one row each.

mod admit;
mod job;
mod limits;
mod namespace;
mod pod;
mod service;
mod small;
mod unsupported;

use bowline_machinery::{
    FieldError, GroupResource, GroupVersionKind, NameValidator, Status, default_crd, name_is_dns_label,
    name_is_dns_subdomain, name_is_path_segment, validate_crd, validate_crd_update,
};
use serde_json::Value;

use crate::admission::Admission;
use crate::custom;
use crate::resource::{Generation, WriteTarget};

/// Metadata that an update of the status may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusMetadata {
    /// Whatever another update may.
    Free,
    /// All but labels.
    KeepsLabels,
    /// All but the owners.
    KeepsOwners,
    /// Nothing that clients set.
    Kept,
}

/// For how many seconds an object stays, given those that were asked for.
type Grace = fn(&Value, Option<i64>) -> i64;

/// Mutating admission of an object; it sees the old one.
pub(super) type Admit = fn(&Admission<'_>, WriteTarget, &mut Value, Option<&Value>) -> Result<(), Status>;

/// Validating admission of an object; it sees the old one.
pub(super) type Review = fn(&Admission<'_>, WriteTarget, &Value, Option<&Value>) -> Result<(), Status>;

/// A row. Most kinds differ from the [default](Rules::plain) in a few places only.
#[expect(clippy::struct_excessive_bools, reason = "a row of a table: each is a column")]
pub(super) struct Rules {
    pub(super) default: fn(&mut Value),
    pub(super) admit: Admit,
    pub(super) review: Review,
    /// Whether one object is written at a time.
    pub(super) alone: bool,
    pub(super) prepare_create: fn(&mut Value),
    pub(super) prepare_update: fn(WriteTarget, &mut Value, &Value),
    pub(super) prepare_delete: fn(&mut Value),
    pub(super) validate: fn(&Value) -> Vec<FieldError>,
    pub(super) validate_update: fn(WriteTarget, &Value, &Value) -> Vec<FieldError>,
    pub(super) name_validator: NameValidator,
    pub(super) generation: Generation,
    pub(super) create_on_update: bool,
    pub(super) unconditional_update: bool,
    pub(super) returns_deleted: bool,
    pub(super) scale: bool,
    pub(super) status_metadata: StatusMetadata,
    /// Whether a new object keeps the status that it was sent with.
    pub(super) keeps_sent_status: bool,
    /// Whether a finalizer without a domain must be one of Kubernetes' own.
    pub(super) qualified_finalizers: bool,
    /// Whether objects are marked first, and go with a second delete or with their last finalizer.
    pub(super) terminates: bool,
    /// Whether an object is kept by something that is not in its metadata.
    pub(super) is_held: fn(&Value) -> bool,
    pub(super) cleanup_finalizer: Option<&'static str>,
    pub(super) warnings: fn(&Value) -> Vec<String>,
    pub(super) grace_period: Option<Grace>,
}

impl Rules {
    const fn plain() -> Self {
        Self {
            default: |_| {},
            admit: |_, _, _, _| Ok(()),
            review: |_, _, _, _| Ok(()),
            alone: false,
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
            status_metadata: StatusMetadata::Free,
            keeps_sent_status: false,
            qualified_finalizers: true,
            terminates: false,
            is_held: |_| false,
            cleanup_finalizer: None,
            warnings: |_| Vec::new(),
            grace_period: None,
        }
    }

    pub(super) fn of(gvk: &GroupVersionKind) -> Self {
        match gvk.group.as_str() {
            "" => Self::of_core(&gvk.kind),
            "apps" | "batch" | "autoscaling" | "policy" | "scheduling.k8s.io" => Self::of_workload(&gvk.kind),
            "discovery.k8s.io" | "networking.k8s.io" => Self::of_network(&gvk.kind),
            "storage.k8s.io" | "resource.k8s.io" => Self::of_storage(&gvk.kind),
            "events.k8s.io" => Self::of_core("Event"),
            _ => Self::of_system(gvk),
        }
    }

    fn of_core(kind: &str) -> Self {
        let plain = Self::plain();
        match kind {
            "Namespace" => Self {
                name_validator: name_is_dns_label,
                default: namespace::default,
                prepare_create: namespace::prepare_create,
                prepare_update: namespace::prepare_update,
                prepare_delete: namespace::prepare_delete,
                validate_update: namespace::validate_update,
                returns_deleted: true,
                terminates: true,
                is_held: namespace::is_held,
                warnings: unsupported::namespace,
                ..plain
            },
            "Pod" => Self {
                generation: Generation::Spec,
                returns_deleted: true,
                status_metadata: StatusMetadata::KeepsOwners,
                admit: admit::pod,
                review: admit::review_pod,
                prepare_create: pod::prepare_create,
                prepare_update: pod::prepare_update,
                grace_period: Some(pod::grace_period),
                ..plain
            },
            "Event" => Self { name_validator: name_is_path_segment, create_on_update: true, ..plain },
            "Endpoints" => Self { create_on_update: true, ..plain },
            "LimitRange" => Self { create_on_update: true, prepare_create: small::name_limit_range, ..plain },
            "Node" => Self {
                keeps_sent_status: true,
                admit: admit::node,
                prepare_create: small::begin_node,
                ..plain
            },
            "PersistentVolume" => Self {
                returns_deleted: true,
                prepare_create: small::begin_volume,
                prepare_update: small::update_volume,
                ..plain
            },
            "PersistentVolumeClaim" => Self {
                returns_deleted: true,
                admit: admit::claim,
                review: admit::review_claim,
                prepare_create: small::begin_claim,
                ..plain
            },
            "PodTemplate" => Self { generation: Generation::Spec, returns_deleted: true, ..plain },
            "ReplicationController" => Self { generation: Generation::Spec, scale: true, ..plain },
            "ResourceQuota" => Self { returns_deleted: true, warnings: unsupported::quota, ..plain },
            "Service" => Self {
                admit: service::admit,
                alone: true,
                prepare_update: service::prepare_update,
                name_validator: name_is_dns_label,
                create_on_update: true,
                returns_deleted: true,
                ..plain
            },
            "ServiceAccount" => Self {
                returns_deleted: true,
                prepare_create: small::clean_secrets,
                prepare_update: |_, account, _| small::clean_secrets(account),
                ..plain
            },
            _ => plain,
        }
    }

    fn of_workload(kind: &str) -> Self {
        let plain = Self { generation: Generation::Spec, ..Self::plain() };
        match kind {
            "Deployment" => Self {
                generation: Generation::SpecAndAnnotations,
                scale: true,
                status_metadata: StatusMetadata::KeepsLabels,
                ..plain
            },
            "ReplicaSet" => Self { scale: true, ..plain },
            "StatefulSet" => Self { scale: true, name_validator: name_is_dns_label, ..plain },
            "DaemonSet" => Self {
                prepare_create: small::begin_template_generation,
                prepare_update: small::move_template_generation,
                ..plain
            },
            "Job" => Self { prepare_create: job::prepare_create, ..plain },
            "PodDisruptionBudget" => {
                Self { name_validator: name_is_path_segment, unconditional_update: false, ..plain }
            }
            "PriorityClass" => Self { generation: Generation::Fixed, review: admit::priority_class, ..plain },
            "ControllerRevision" | "HorizontalPodAutoscaler" => {
                Self { generation: Generation::None, ..plain }
            }
            _ => plain,
        }
    }

    fn of_network(kind: &str) -> Self {
        let plain = Self::plain();
        match kind {
            "EndpointSlice" => Self { generation: Generation::SpecAndLabels, ..plain },
            "Ingress" => Self { generation: Generation::Spec, admit: admit::ingress, ..plain },
            "IngressClass" | "NetworkPolicy" => Self { generation: Generation::Spec, ..plain },
            "ServiceCIDR" => Self { status_metadata: StatusMetadata::Kept, ..plain },
            _ => plain,
        }
    }

    fn of_storage(kind: &str) -> Self {
        let plain = Self { returns_deleted: true, ..Self::plain() };
        match kind {
            "CSIDriver" => Self { generation: Generation::Unstarted, unconditional_update: false, ..plain },
            "CSINode" => Self { unconditional_update: false, ..plain },
            "CSIStorageCapacity" => Self { returns_deleted: false, unconditional_update: false, ..plain },
            "VolumeAttachment" => {
                Self { unconditional_update: false, status_metadata: StatusMetadata::Kept, ..plain }
            }
            "DeviceClass" | "ResourceSlice" => Self { generation: Generation::Spec, ..plain },
            "ResourceClaim" => Self { status_metadata: StatusMetadata::Kept, ..plain },
            "VolumeAttributesClass" => Self { prepare_create: small::begin_attributes, ..plain },
            _ => plain,
        }
    }

    fn of_system(gvk: &GroupVersionKind) -> Self {
        let plain = Self::plain();
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self {
                generation: Generation::Spec,
                unconditional_update: false,
                qualified_finalizers: false,
                terminates: true,
                cleanup_finalizer: Some(custom::CLEANUP_FINALIZER),
                prepare_create: custom::prepare_create,
                prepare_update: custom::prepare_update,
                prepare_delete: custom::prepare_delete,
                warnings: custom::warnings,
                default: default_crd,
                validate: validate_crd,
                validate_update: |part, new, old| match part {
                    WriteTarget::Main => validate_crd_update(new, old),
                    _ => Vec::new(),
                },
                ..plain
            },
            ("apiregistration.k8s.io", _) => Self {
                unconditional_update: false,
                qualified_finalizers: false,
                status_metadata: StatusMetadata::Kept,
                warnings: unsupported::api_service,
                prepare_create: small::begin_api_service,
                ..plain
            },
            ("admissionregistration.k8s.io", _) => Self {
                warnings: unsupported::admission,
                generation: Generation::Spec,
                unconditional_update: false,
                qualified_finalizers: false,
                status_metadata: StatusMetadata::Kept,
                ..plain
            },
            ("certificates.k8s.io", "CertificateSigningRequest") => {
                Self { admit: admit::signing_request, prepare_update: small::update_signing_request, ..plain }
            }
            ("coordination.k8s.io", "Lease") => Self {
                create_on_update: true,
                unconditional_update: false,
                qualified_finalizers: false,
                ..plain
            },
            ("flowcontrol.apiserver.k8s.io", _) => {
                Self { generation: Generation::Spec, status_metadata: StatusMetadata::Kept, ..plain }
            }
            ("node.k8s.io", "RuntimeClass") => {
                Self { create_on_update: true, unconditional_update: false, ..plain }
            }
            ("rbac.authorization.k8s.io", _) => {
                Self { name_validator: name_is_path_segment, create_on_update: true, ..plain }
            }
            _ => plain,
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
