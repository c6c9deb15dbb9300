//! The parts of a `CustomResourceDefinition` in the form that Kubernetes validates: parts that all versions share are
//! separate. Therefore an error can name `spec.validation`, a field that the object does not have.

use serde_json::Value;

use super::super::node::Node;
use super::super::pattern::Patterns;
use super::super::read;
use crate::{FieldError, FieldPath};

#[derive(Clone, Debug, Default)]
pub(super) struct Definition {
    pub(super) group: String,
    pub(super) scope: String,
    pub(super) names: Names,
    pub(super) versions: Vec<Version>,
    /// Whether a list of versions is set, possibly an empty one.
    pub(super) has_versions: bool,
    /// The parts that all versions share.
    pub(super) common: Parts,
    pub(super) preserve_unknown_fields: bool,
    pub(super) conversion: Option<Value>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) short: Vec<String>,
    pub(super) categories: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    pub(super) deprecated: bool,
    pub(super) deprecation_warning: Option<String>,
    /// The parts of this version that not all versions share.
    pub(super) own: Parts,
}

/// The parts that can be set for one version, or for all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) validation: Option<Validation>,
    pub(super) subresources: Option<Subresources>,
    pub(super) columns: Vec<Column>,
    pub(super) selectable_fields: Vec<String>,
}

/// The `schema` of a version, possibly without an `openAPIV3Schema`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Validation {
    pub(super) schema: Option<Node>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Subresources {
    pub(super) status: bool,
    pub(super) scale: Option<Scale>,
}

/// The paths of the `scale` subresource.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) spec_replicas: String,
    pub(super) status_replicas: String,
    pub(super) label_selector: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) format: String,
    pub(super) description: String,
    pub(super) priority: i64,
    pub(super) json_path: String,
}

/// A text field; empty if it is absent.
pub(super) fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// A list of texts; empty if it is absent.
pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    list(&value[name]).iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn flag(value: &Value, name: &str) -> bool {
    value[name].as_bool().unwrap_or_default()
}

impl Names {
    pub(super) fn read(names: &Value) -> Self {
        Self {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            short: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }
}

impl Definition {
    /// Reads a definition. A field of the wrong type counts as absent, since decoding refuses it earlier.
    ///
    /// # Errors
    /// Schemas that cannot be read.
    pub(super) fn read(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let spec = &crd["spec"];
        let mut versions = Vec::new();
        let mut patterns = Patterns::default();
        for (index, version) in list(&spec["versions"]).iter().enumerate() {
            let path = FieldPath::new("spec").child("versions").index(index);
            versions.push(Version {
                name: text(version, "name"),
                served: flag(version, "served"),
                storage: flag(version, "storage"),
                deprecated: flag(version, "deprecated"),
                deprecation_warning: version["deprecationWarning"].as_str().map(str::to_owned),
                own: Parts::read(version, &path, &mut patterns)?,
            });
        }
        let mut definition = Self {
            group: text(spec, "group"),
            scope: text(spec, "scope"),
            names: Names::read(&spec["names"]),
            versions,
            has_versions: spec["versions"].is_array(),
            common: Parts::default(),
            preserve_unknown_fields: flag(spec, "preserveUnknownFields"),
            conversion: Some(spec["conversion"].clone()).filter(Value::is_object),
        };
        definition.find_common_parts();
        Ok(definition)
    }

    fn find_common_parts(&mut self) {
        self.common.validation = take_common(&mut self.versions, |parts| &mut parts.validation);
        self.common.subresources = take_common(&mut self.versions, |parts| &mut parts.subresources);
        self.common.columns = take_common(&mut self.versions, |parts| &mut parts.columns);
        self.common.selectable_fields = take_common(&mut self.versions, |parts| &mut parts.selectable_fields);
    }

    /// All schemas, with their paths.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &Node> {
        let validations =
            self.versions.iter().map(|version| &version.own.validation).chain([&self.common.validation]);
        validations.flatten().filter_map(|validation| validation.schema.as_ref())
    }

    /// Whether a predicate holds for any schema or inner schema.
    pub(super) fn has_schema(&self, mut property: impl FnMut(&Node) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(&mut property))
    }
}

/// Moves a part out of all versions if it is the same in all.
fn take_common<T: PartialEq + Default>(versions: &mut [Version], part: impl Fn(&mut Parts) -> &mut T) -> T {
    let Some((first, others)) = versions.split_first_mut() else { return T::default() };
    let first = part(&mut first.own);
    if !others.iter_mut().all(|version| part(&mut version.own) == first) {
        return T::default();
    }
    let common = std::mem::take(first);
    for version in others {
        *part(&mut version.own) = T::default();
    }
    common
}

impl Parts {
    fn read(version: &Value, path: &FieldPath, patterns: &mut Patterns) -> Result<Self, Vec<FieldError>> {
        let validation = match &version["schema"] {
            Value::Object(validation) => {
                let schema = validation.get("openAPIV3Schema").filter(|schema| !schema.is_null());
                let path = path.child("schema").child("openAPIV3Schema");
                let schema = schema.map(|schema| read::read_among(schema, &path, patterns));
                Some(Validation { schema: schema.transpose()? })
            }
            _ => None,
        };
        let subresources = version["subresources"].as_object().map(|subresources| Subresources {
            status: subresources.get("status").is_some_and(|status| !status.is_null()),
            scale: subresources.get("scale").filter(|scale| !scale.is_null()).map(|scale| Scale {
                spec_replicas: text(scale, "specReplicasPath"),
                status_replicas: text(scale, "statusReplicasPath"),
                label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
            }),
        });
        let columns = list(&version["additionalPrinterColumns"]).iter().map(|column| Column {
            name: text(column, "name"),
            kind: text(column, "type"),
            format: text(column, "format"),
            description: text(column, "description"),
            priority: column["priority"].as_i64().unwrap_or_default(),
            json_path: text(column, "jsonPath"),
        });
        let fields = list(&version["selectableFields"]).iter().map(|field| text(field, "jsonPath"));
        Ok(Self { validation, subresources, columns: columns.collect(), selectable_fields: fields.collect() })
    }
}
