//! Validation of the whole spec of a `CustomResourceDefinition`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::openapi::{self, Strictness};
use super::super::{defaults, structural};
use super::conversion;
use super::shown;
use super::spec::{Definition, Names, list};
use super::version::{self, check_parts};
use crate::{FieldError, FieldPath, validate_dns1035_label, validate_dns1123_subdomain};

/// The rules to enforce. An update relaxes those that the old definition already violates.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) strictness: Strictness,
    pub(super) known_review_version: bool,
    pub(super) schemas: bool,
    /// Whether the resource is served already, so that names cannot change.
    pub(super) is_established: bool,
    /// The versions that may exceed the limit of selectable fields; "" stands for the common ones.
    pub(super) many_selectable_fields: BTreeSet<String>,
}

impl Options {
    pub(super) fn for_create() -> Self {
        Self {
            strictness: Strictness::FULL,
            known_review_version: true,
            schemas: true,
            is_established: false,
            many_selectable_fields: BTreeSet::new(),
        }
    }

    pub(super) fn for_update(new: &Definition, old: &Definition, is_established: bool) -> Self {
        let review_versions =
            old.conversion.as_ref().map(|conversion| &conversion["webhook"]["conversionReviewVersions"]);
        let review_versions = review_versions.map_or(&[][..], list);
        let has_schema = |version: &super::spec::Version| {
            version.own.validation.as_ref().is_some_and(|own| own.schema.is_some())
        };
        let all_schemas = old.common.validation.as_ref().is_some_and(|common| common.schema.is_some())
            || old.versions.iter().all(has_schema);
        let mut many = BTreeSet::new();
        let is_kept =
            |new: &[String], old: &[String]| old.len() > version::MAX_SELECTABLE_FIELDS && new == old;
        if is_kept(&new.common.selectable_fields, &old.common.selectable_fields) {
            many.insert(String::new());
        }
        for version in &new.versions {
            let old = old.versions.iter().find(|old| old.name == version.name);
            if old.is_some_and(|old| is_kept(&version.own.selectable_fields, &old.own.selectable_fields)) {
                many.insert(version.name.clone());
            }
        }
        Self {
            strictness: Strictness {
                known_types: !old.has_schema(openapi::has_unknown_type),
                pruned_defaults: !old.schemas().any(has_loose_defaults),
                atomic_sets: !old.has_schema(openapi::has_loose_set),
                map_keys: !old.has_schema(openapi::has_loose_keys),
            },
            known_review_version: review_versions.is_empty()
                || review_versions.iter().any(conversion::is_known_review_version),
            schemas: all_schemas,
            is_established,
            many_selectable_fields: many,
        }
    }
}

/// Whether defaults in a schema have unknown fields.
fn has_loose_defaults(schema: &super::super::node::Node) -> bool {
    let path = FieldPath::root();
    let is_structural = structural::obstacle(schema).is_none() && structural::check(schema, &path).is_empty();
    let mut prepared = schema.clone();
    defaults::prepare(&mut prepared);
    is_structural && prepared != *schema
}

pub(super) fn validate_spec(definition: &Definition, options: &Options) -> Vec<FieldError> {
    let path = FieldPath::new("spec");
    let mut errors = Vec::new();
    errors.extend(group(&definition.group, &path.child("group")));
    errors.extend(one_of(&path.child("scope"), &definition.scope, &["Cluster", "Namespaced"]));
    errors.extend(missing_schemas(definition, options, &path.child("versions")));
    if definition.preserve_unknown_fields && definition.has_schema(|node| node.default.is_some()) {
        let at = path.child("preserveUnknownFields");
        errors.push(FieldError::invalid(&at, true, "must be false in order to use defaults in the schema"));
    }
    errors.extend(versions(definition, options, &path));
    errors.extend(version_names(definition, &path));
    let at = path.child("names");
    let required = [
        ("plural", &definition.names.plural),
        ("singular", &definition.names.singular),
        ("kind", &definition.names.kind),
        ("listKind", &definition.names.list_kind),
    ];
    errors.extend(
        required
            .into_iter()
            .filter(|(_, name)| name.is_empty())
            .map(|(name, _)| FieldError::required(&at.child(name), "")),
    );
    errors.extend(names(&definition.names, &at));
    let has_status =
        [&definition.common].into_iter().chain(definition.versions.iter().map(|version| &version.own));
    let has_status = has_status.into_iter().any(version::has_status);
    errors.extend(check_parts(&definition.common, has_status, options, "", &path, true));
    if let Some(conversion) = &definition.conversion {
        let strategy = &conversion["strategy"];
        if definition.preserve_unknown_fields && *strategy != "None" {
            let at = path.child("conversion").child("strategy");
            let strategy = strategy.as_str().unwrap_or_default();
            errors.push(FieldError::invalid(
                &at,
                strategy,
                "must be None if spec.preserveUnknownFields is true",
            ));
        }
        errors.extend(conversion::check(conversion, options.known_review_version, &path.child("conversion")));
    }
    errors
}

fn group(group: &str, path: &FieldPath) -> Option<FieldError> {
    if group.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    let wrong = validate_dns1123_subdomain(group);
    if !wrong.is_empty() {
        return Some(FieldError::invalid(path, group, wrong.join(",")));
    }
    (!group.contains('.'))
        .then(|| FieldError::invalid(path, group, "should be a domain with at least one dot"))
}

/// A required text with one of a few values.
pub(super) fn one_of(path: &FieldPath, value: &str, accepted: &[&str]) -> Option<FieldError> {
    if value.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    (!accepted.contains(&value)).then(|| FieldError::not_supported(path, value, accepted))
}

fn missing_schemas(definition: &Definition, options: &Options, path: &FieldPath) -> Vec<FieldError> {
    if definition.common.validation.as_ref().is_some_and(|common| common.schema.is_some()) {
        return Vec::new();
    }
    let has_schema = |version: &super::spec::Version| {
        version.own.validation.as_ref().is_some_and(|own| own.schema.is_some())
    };
    let detail = if options.schemas { "" } else { "because otherwise all fields are pruned" };
    let is_needed = |version: &super::spec::Version| {
        options.schemas || version.served && !definition.preserve_unknown_fields
    };
    let missing = definition.versions.iter().enumerate();
    let missing = missing.filter(|(_, version)| !has_schema(version) && is_needed(version));
    let at = |index| path.index(index).child("schema").child("openAPIV3Schema");
    missing.map(|(index, _)| FieldError::required(&at(index), detail)).collect()
}

fn versions(definition: &Definition, options: &Options, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let is_per_version = definition.versions.iter().any(|version| version.own.subresources.is_some());
    for (index, version) in definition.versions.iter().enumerate() {
        let at = path.child("versions").index(index);
        let wrong = validate_dns1035_label(&version.name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(&at.child("name"), version.name.as_str(), wrong.join(",")));
        }
        errors.extend(version::deprecation(version, &at.child("deprecationWarning")));
        let has_status = version::has_status(if is_per_version { &version.own } else { &definition.common });
        errors.extend(check_parts(&version.own, has_status, options, &version.name, &at, false));
    }
    errors
}

fn version_names(definition: &Definition, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("versions");
    let mut wrong = |detail: &str| {
        let shown = shown::versions(definition);
        let names: Vec<Value> = definition.versions.iter().map(|version| json!(version.name)).collect();
        errors.push(FieldError::invalid_shown(&at, names, shown, detail));
    };
    let names: BTreeSet<&str> = definition.versions.iter().map(|version| version.name.as_str()).collect();
    if names.len() != definition.versions.len() {
        wrong("must contain unique version names");
    }
    if definition.versions.iter().filter(|version| version.storage).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    // Kubernetes repeats the first version's name in a deprecated field.
    let first = definition.versions.first().map_or("", |version| version.name.as_str());
    let wrong = validate_dns1035_label(first);
    if !first.is_empty() && !wrong.is_empty() {
        errors.push(FieldError::invalid(&path.child("version"), first, wrong.join(",")));
    }
    errors
}

/// Validates names that are set.
pub(super) fn names(names: &Names, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |at: FieldPath, name: &str, has_case: bool| {
        let lower = if has_case { name.to_lowercase() } else { name.to_owned() };
        let wrong = validate_dns1035_label(&lower);
        if !wrong.is_empty() {
            let prefix = if has_case { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(&at, name, format!("{prefix}{}", wrong.join(","))));
        }
    };
    let single = [
        ("plural", &names.plural, false),
        ("singular", &names.singular, false),
        ("kind", &names.kind, true),
        ("listKind", &names.list_kind, true),
    ];
    for (name, value, has_case) in single.into_iter().filter(|(_, value, _)| !value.is_empty()) {
        check(path.child(name), value, has_case);
    }
    for (index, name) in names.short.iter().enumerate() {
        check(path.child("shortNames").index(index), name, false);
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), names.list_kind.as_str(), detail));
    }
    for (index, category) in names.categories.iter().enumerate() {
        let wrong = validate_dns1035_label(category);
        if !wrong.is_empty() {
            let at = path.child("categories").index(index);
            errors.push(FieldError::invalid(&at, category.as_str(), wrong.join(",")));
        }
    }
    errors
}
