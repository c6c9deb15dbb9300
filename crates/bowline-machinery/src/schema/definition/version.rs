//! Validation of one version, or of the parts that all versions share: schema, subresources, columns, selectable
//! fields.

use std::collections::BTreeSet;

use super::super::node::Node;
use super::super::{check, field_path, structural};
use super::rules::Options;
use super::shown;
use super::spec::{Column, Parts, Scale, Validation, Version};
use crate::quote::is_printable;
use crate::{FieldError, FieldPath};

/// Maximum number of selectable fields of a resource.
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn has_status(parts: &Parts) -> bool {
    parts.subresources.as_ref().is_some_and(|subresources| subresources.status)
}

/// `name` is the version's; `path` that of the version, or of the spec for the shared parts.
pub(super) fn check_parts(
    parts: &Parts,
    has_status: bool,
    options: &Options,
    name: &str,
    path: &FieldPath,
    is_common: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = if is_common { "validation" } else { "schema" };
    if let Some(validation) = &parts.validation {
        errors.extend(validation_errors(validation, has_status, options, &path.child(field)));
    }
    if let Some(scale) = parts.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref()) {
        errors.extend(scale_errors(scale, &path.child("subresources")));
    }
    for (index, column) in parts.columns.iter().enumerate() {
        errors.extend(column_errors(column, &path.child("additionalPrinterColumns").index(index)));
    }
    if !parts.selectable_fields.is_empty() {
        let at = path.child("selectableFields");
        let schema = parts.validation.as_ref().and_then(|validation| validation.schema.as_ref());
        match schema {
            Some(schema) => {
                errors.extend(selectable_fields(&parts.selectable_fields, schema, options, name, &at));
            }
            None if is_common => {
                errors.push(FieldError::invalid(
                    &at,
                    "",
                    "may only be set when validations.schema is included",
                ));
            }
            None => {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(FieldError::invalid(&at, "", detail));
            }
        }
    }
    errors
}

pub(super) fn deprecation(version: &Version, path: &FieldPath) -> Vec<FieldError> {
    let Some(warning) = version.deprecation_warning.as_deref() else { return Vec::new() };
    let wrong = |detail: String| FieldError::invalid_shown(path, warning, shown::text(warning), detail);
    if !version.deprecated {
        return vec![wrong("can only be set for deprecated versions".to_owned())];
    }
    let mut errors = Vec::new();
    if warning.len() > 256 {
        errors.push(wrong("must be <= 256 characters long".to_owned()));
    }
    if warning.is_empty() {
        errors.push(wrong("must not be an empty string".to_owned()));
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, c)| !is_printable(*c)) {
        let only = "must only contain printable UTF-8 characters";
        errors.push(wrong(format!("{only}; non-printable character found at index {index}")));
    }
    errors
}

fn validation_errors(
    validation: &Validation,
    has_status: bool,
    options: &Options,
    path: &FieldPath,
) -> Vec<FieldError> {
    let Some(schema) = &validation.schema else { return Vec::new() };
    let mut errors = Vec::new();
    let at = path.child("openAPIV3Schema");
    if has_status {
        errors.extend(status_obstacle(schema, &at));
    }
    if schema.nullable {
        errors.push(FieldError::forbidden(&at.child("nullable"), "nullable cannot be true at the root"));
    }
    let is_fine_so_far = errors.is_empty();
    let found = check::check(schema, &at, options.strictness);
    // An error that keeps a schema from being converted is reported only if it is the only one.
    let is_obstacle = structural::obstacle(schema).is_some() && found.len() == 1 && found[0].path == at;
    if is_fine_so_far || !is_obstacle {
        errors.extend(found);
    }
    errors
}

/// The status subresource takes the schema of the status out of the root's properties. The root must therefore not
/// refer to it elsewhere.
fn status_obstacle(schema: &Node, path: &FieldPath) -> Option<FieldError> {
    let (rare, limits, extensions) = (schema.rare(), &schema.limits, &schema.extensions);
    let is_refused = || {
        let detail = concat!(
            "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength ",
            "Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example ",
            "XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status ",
            "subresource is enabled"
        );
        Some(FieldError::invalid_shown(path, serde_json::Value::Null, shown::schema(schema), detail))
    };
    if !rare.id.is_empty() || !rare.url.is_empty() || rare.reference.is_some() {
        return is_refused();
    }
    if !schema.kind.is_empty() && schema.kind != "object" {
        let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        return Some(FieldError::invalid(&path.child("type"), schema.kind.as_str(), detail));
    }
    let has_others = schema.nullable
        || schema.default.is_some()
        || !schema.choices.is_empty()
        || limits.max_properties.is_some()
        || limits.min_properties.is_some()
        || !schema.all_of.is_empty()
        || !schema.one_of.is_empty()
        || !schema.any_of.is_empty()
        || schema.not.is_some()
        || schema.additional.is_some()
        || !rare.pattern_properties.is_empty()
        || rare.dependencies.is_some()
        || rare.additional_items.is_some()
        || !rare.definitions.is_empty()
        || extensions.embedded_resource
        || extensions.int_or_string
        || !extensions.list_map_keys.is_empty()
        || extensions.list_type.is_some()
        || extensions.map_type.is_some();
    if has_others { is_refused() } else { None }
}

fn scale_errors(scale: &Scale, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |name: &str, value: &str, roots: &[&str], detail: &str| {
        let at = path.child("scale").child(name);
        if value.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !value.starts_with('.') {
            errors.push(not_a_path(&at, value));
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid(&at, value, detail));
        }
    };
    check("specReplicasPath", &scale.spec_replicas, &[".spec."], "should be a json path under .spec");
    check("statusReplicasPath", &scale.status_replicas, &[".status."], "should be a json path under .status");
    if let Some(selector) = scale.label_selector.as_deref().filter(|selector| !selector.is_empty()) {
        let detail = "should be a json path under either .spec or .status";
        check("labelSelectorPath", selector, &[".spec.", ".status."], detail);
    }
    errors
}

fn not_a_path(path: &FieldPath, value: &str) -> FieldError {
    FieldError::invalid(path, value, "must be a simple json path starting with .")
}

fn column_errors(column: &Column, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if column.name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    if column.kind.is_empty() {
        errors.push(FieldError::required(&path.child("type"), detail));
    } else if !COLUMN_TYPES.contains(&column.kind.as_str()) {
        errors.push(FieldError::invalid(&path.child("type"), column.kind.as_str(), detail));
    }
    if !column.format.is_empty() && !COLUMN_FORMATS.contains(&column.format.as_str()) {
        let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(&path.child("format"), column.format.as_str(), detail));
    }
    let at = path.child("JSONPath");
    if column.json_path.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !column.json_path.starts_with('.') {
        errors.push(not_a_path(&at, &column.json_path));
    }
    errors
}

fn selectable_fields(
    fields: &[String],
    schema: &Node,
    options: &Options,
    version: &str,
    path: &FieldPath,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = path.index(index).child("jsonPath");
        if field.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let found = match field_path::follow(field, schema, false) {
            Ok(found) => found,
            Err(message) => {
                errors.push(FieldError::invalid(
                    &at,
                    field.as_str(),
                    format!("is an invalid path: {message}"),
                ));
                continue;
            }
        };
        if found.first == "metadata" {
            errors.push(FieldError::invalid(&at, field.as_str(), "must not point to fields in metadata"));
        }
        let kind = found.node.map_or("", |node| node.kind.as_str());
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&at, field.as_str(), detail));
        }
        if !seen.insert(found.path.to_string()) {
            errors.push(FieldError::duplicate(&at, field.as_str()));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !options.many_selectable_fields.contains(version) {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
    errors
}
