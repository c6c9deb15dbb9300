//! Kubernetes objects and the rules for them, without I/O: names, metadata, defaults, validation, schemas, patches,
//! selectors. Every function depends only on its arguments. Objects are [`serde_json::Value`]s; a kind is data, not a
//! type.

mod base64;
pub mod calendar;
mod conversion;
mod defaults;
pub mod facts;
mod field;
mod go_text;
mod json;
mod name;
mod object_key;
mod object_meta;
mod patch;
mod pod;
mod quantity;
mod quote;
mod resource;
mod schema;
mod selector;
mod status;
mod validation;

pub use conversion::{StorageConversion, stored_form};
pub use defaults::set_defaults;
pub use field::{FieldError, FieldErrorKind, FieldPath};
pub use json::{JsonError, MAX_JSON_DEPTH, ParsedJson, parse_json, sort_by_document_order};
pub use name::{
    GENERATED_NAME_ALPHABET, GENERATED_SUFFIX_LENGTH, NameValidator, generate_name, name_is_dns_label,
    name_is_dns_subdomain, name_is_dns1035_label, name_is_path_segment, validate_c_identifier,
    validate_config_map_key, validate_dns1035_label, validate_dns1123_label, validate_dns1123_subdomain,
    validate_env_var_name, validate_ip, validate_label_value, validate_path_segment_name, validate_port_name,
    validate_qualified_name, validate_relaxed_env_var_name, validate_wildcard_dns1123_subdomain,
};
pub use object_key::{ObjectKey, ObjectKeyError};
pub use object_meta::{
    validate_annotations, validate_field_manager, validate_immutable, validate_labels, validate_object_meta,
    validate_object_meta_update, validate_qualified_finalizers,
};
pub use patch::{
    JsonPatch, MAX_JSON_PATCH_COPY, MAX_JSON_PATCH_OPERATIONS, MAX_JSON_PATCH_WORK, MergePatch, PatchError,
};
pub use pod::pod_qos_class;
pub use quantity::{Quantity, QuantityError, QuantityFormat};
pub use resource::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use schema::{Schema, Unsupported, default_crd, validate_crd, validate_crd_update};
pub use selector::{
    FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError, LabelOperator, LabelRequirement,
    LabelSelector, LabelSelectorError, Labels, validate_label_selector,
};
pub use status::{Status, StatusCause, StatusDetails};
pub use validation::{
    validate_builtin, validate_builtin_part, validate_builtin_update, validate_service_addresses,
};
