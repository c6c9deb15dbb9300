//! Versions and schemas as Kubernetes prints them in errors: the JSON of its internal Go structs, with every field.

use serde_json::{Value, json};

use super::super::node::{Additional, Dependency, Items, Node};
use super::spec::{Definition, Parts, Version};
use crate::go_text;

/// `[{"Name":"v1",…}]`
pub(super) fn versions(definition: &Definition) -> String {
    if definition.has_versions { array(definition.versions.iter().map(version)) } else { null() }
}

/// A string pointer in Go, which is printed as JSON.
pub(super) fn text(text: &str) -> String {
    plain(text)
}

fn version(version: &Version) -> String {
    let Parts { validation, subresources, columns, selectable_fields } = &version.own;
    let validation = validation.as_ref().map_or_else(null, |validation| {
        object(&[("OpenAPIV3Schema", validation.schema.as_ref().map_or_else(null, schema))])
    });
    let subresources = subresources.as_ref().map_or_else(null, |subresources| {
        let scale = subresources.scale.as_ref().map_or_else(null, |scale| {
            object(&[
                ("SpecReplicasPath", plain(&scale.spec_replicas)),
                ("StatusReplicasPath", plain(&scale.status_replicas)),
                ("LabelSelectorPath", plain(&scale.label_selector)),
            ])
        });
        object(&[("Status", if subresources.status { "{}".to_owned() } else { null() }), ("Scale", scale)])
    });
    let columns = columns.iter().map(|column| {
        object(&[
            ("Name", plain(&column.name)),
            ("Type", plain(&column.kind)),
            ("Format", plain(&column.format)),
            ("Description", plain(&column.description)),
            ("Priority", plain(&column.priority)),
            ("JSONPath", plain(&column.json_path)),
        ])
    });
    let fields = selectable_fields.iter().map(|path| object(&[("JSONPath", plain(path))]));
    object(&[
        ("Name", plain(&version.name)),
        ("Served", plain(&version.served)),
        ("Storage", plain(&version.storage)),
        ("Deprecated", plain(&version.deprecated)),
        ("DeprecationWarning", plain(&version.deprecation_warning)),
        ("Schema", validation),
        ("Subresources", subresources),
        ("AdditionalPrinterColumns", array_or_null(columns)),
        ("SelectableFields", array_or_null(fields)),
    ])
}

/// `{"ID":"",…}`
pub(super) fn schema(node: &Node) -> String {
    let (limits, extensions, rare) = (&node.limits, &node.extensions, node.rare());
    let nodes = |nodes: &[Node]| array_or_null(nodes.iter().map(schema));
    let texts = |texts: &[String]| array_or_null(texts.iter().map(plain));
    let rules = node.rules.iter().map(|rule| {
        object(&[
            ("Rule", plain(&rule.expression)),
            ("Message", plain(&rule.message)),
            ("MessageExpression", plain(&rule.message_expression)),
            ("Reason", plain(&rule.reason)),
            ("FieldPath", plain(&rule.field_path)),
            ("OptionalOldSelf", plain(&rule.optional_old_self)),
        ])
    });
    let docs = rare.external_docs.as_ref().map_or_else(null, |(description, url)| {
        object(&[("Description", plain(description)), ("URL", plain(url))])
    });
    let dependencies = rare.dependencies.as_ref().map(|dependencies| {
        dependencies.iter().map(|(name, dependency)| {
            let (schema, names) = match dependency {
                Dependency::Schema(node) => (schema(node), null()),
                Dependency::Names(names) => (null(), texts(names)),
            };
            (name.as_str(), object(&[("Schema", schema), ("Property", names)]))
        })
    });
    object(&[
        ("ID", plain(&rare.id)),
        ("Schema", plain(&rare.url)),
        ("Ref", plain(&rare.reference)),
        ("Description", plain(&rare.description)),
        ("Type", plain(&node.kind)),
        ("Nullable", plain(&node.nullable)),
        ("Format", plain(&node.format.name())),
        ("Title", plain(&rare.title)),
        ("Default", plain(&node.default)),
        ("Maximum", plain(&limits.maximum)),
        ("ExclusiveMaximum", plain(&limits.exclusive_maximum)),
        ("Minimum", plain(&limits.minimum)),
        ("ExclusiveMinimum", plain(&limits.exclusive_minimum)),
        ("MaxLength", plain(&limits.max_length)),
        ("MinLength", plain(&limits.min_length)),
        ("Pattern", plain(&limits.pattern.as_ref().map_or("", |pattern| pattern.source()))),
        ("MaxItems", plain(&limits.max_items)),
        ("MinItems", plain(&limits.min_items)),
        ("UniqueItems", plain(&limits.unique_items)),
        ("MultipleOf", plain(&limits.multiple_of)),
        ("Enum", array_or_null(node.choices.iter().map(go_text::json))),
        ("MaxProperties", plain(&limits.max_properties)),
        ("MinProperties", plain(&limits.min_properties)),
        ("Required", texts(&node.required)),
        ("Items", items(node.items.as_ref())),
        ("AllOf", nodes(&node.all_of)),
        ("OneOf", nodes(&node.one_of)),
        ("AnyOf", nodes(&node.any_of)),
        ("Not", node.not.as_deref().map_or_else(null, schema)),
        ("Properties", map(node.properties.iter().map(|(name, node)| (name.as_str(), schema(node))))),
        ("AdditionalProperties", additional(node.additional.as_ref())),
        (
            "PatternProperties",
            map(rare.pattern_properties.iter().map(|(name, node)| (name.as_str(), schema(node)))),
        ),
        ("Dependencies", dependencies.map_or_else(null, map)),
        ("AdditionalItems", additional(rare.additional_items.as_ref())),
        ("Definitions", map(rare.definitions.iter().map(|(name, node)| (name.as_str(), schema(node))))),
        ("ExternalDocs", docs),
        ("Example", plain(&rare.example)),
        ("XPreserveUnknownFields", plain(&extensions.preserve_unknown_fields)),
        ("XEmbeddedResource", plain(&extensions.embedded_resource)),
        ("XIntOrString", plain(&extensions.int_or_string)),
        ("XListMapKeys", texts(&extensions.list_map_keys)),
        ("XListType", plain(&extensions.list_type)),
        ("XMapType", plain(&extensions.map_type)),
        ("XValidations", array_or_null(rules)),
    ])
}

/// `{"Schema":…,"JSONSchemas":…}`
fn items(items: Option<&Items>) -> String {
    let (one, each) = match items {
        None => return null(),
        Some(Items::One(node)) => (schema(node), null()),
        Some(Items::Each(nodes)) => (null(), array_or_null(nodes.iter().map(schema))),
    };
    object(&[("Schema", one), ("JSONSchemas", each)])
}

fn additional(additional: Option<&Additional>) -> String {
    let (allows, schema) = match additional {
        None => return null(),
        Some(Additional::Allowed(allows)) => (*allows, null()),
        Some(Additional::Schema(node)) => (true, schema(node)),
    };
    object(&[("Allows", plain(&allows)), ("Schema", schema)])
}

fn plain<T: serde::Serialize + ?Sized>(value: &T) -> String {
    go_text::json(&json!(value))
}

fn null() -> String {
    Value::Null.to_string()
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn array_or_null(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { null() } else { array(items.into_iter()) }
}

fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn map<'n>(entries: impl Iterator<Item = (&'n str, String)>) -> String {
    let entries: Vec<String> = entries.map(|(name, value)| format!("{}:{value}", plain(name))).collect();
    if entries.is_empty() { null() } else { format!("{{{}}}", entries.join(",")) }
}
