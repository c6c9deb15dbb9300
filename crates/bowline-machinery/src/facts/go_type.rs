//! Go's types, limited to their JSON encoding. Owns the parsing of a type's line in the table.

use std::fmt;

use super::slot::Slot;
use super::table::{malformed, table};

/// The type of a built-in kind, or of a struct within it.
#[derive(Clone, Copy)]
pub struct TypeRef(&'static Slot);

impl TypeRef {
    pub(super) fn new(slot: &'static Slot) -> Self {
        Self(slot)
    }

    /// The name with the last parts of Go's package path: `core/v1.PodSpec`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The fields in Go's order, including those of embedded structs. Empty if the type is not a struct.
    #[must_use]
    pub fn fields(self) -> &'static [Field] {
        self.0.fields().in_order()
    }

    /// The field with this JSON name.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static Field> {
        self.0.fields().find(name)
    }

    /// Whether kube-apiserver stores the objects as JSON. All others are stored as protobuf.
    pub(super) fn is_kept_in_json(self) -> bool {
        self.0.name().starts_with("apiextensions/") || self.0.name().starts_with("apiregistration/")
    }

    pub(super) fn slot(self) -> &'static Slot {
        self.0
    }
}

impl fmt::Debug for TypeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypeRef").field(&self.0.name()).finish()
    }
}

/// A field of a struct.
///
/// In the table it is `name:flags:numbers:type`, where flags are `p` for a pointer, `o` for omitempty and `z` for
/// omitzero, and numbers are those of protobuf. `~strategy@key` may follow for patches, then `^Embedded` with the Go
/// names of the embedded structs that it comes from.
#[derive(Debug)]
pub struct Field {
    pub(super) name: &'static str,
    pub(super) go_type: GoType,
    pub(super) pointer: bool,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    pub(super) embedded: &'static str,
    numbers: &'static str,
    patch: &'static str,
}

impl Field {
    pub(super) fn read(token: &'static str) -> Self {
        let mut parts = token.splitn(4, ':');
        let mut part = || parts.next().unwrap_or_else(|| malformed(token));
        let (name, flags, numbers, rest) = (part(), part(), part(), part());
        let (rest, embedded) = rest.split_once('^').unwrap_or((rest, ""));
        let (go_type, patch) = rest.split_once('~').unwrap_or((rest, ""));
        Self {
            name,
            go_type: GoType::read(go_type),
            pointer: flags.contains('p'),
            omit_empty: flags.contains('o'),
            omit_zero: flags.contains('z'),
            embedded,
            numbers,
            patch,
        }
    }

    /// The name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The type in the table's notation: `[]core/v1.Container`.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.go_type.text
    }

    /// Whether Go distinguishes an absent value from an empty one.
    #[must_use]
    pub fn is_pointer(&self) -> bool {
        self.pointer
    }

    /// Whether it is a list. Binary data is not.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.go_type.shape, Shape::List(_))
    }

    /// The struct type of the field, or of the elements of its list or map.
    #[must_use]
    pub fn structure(&self) -> Option<TypeRef> {
        let mut shape = &self.go_type.shape;
        loop {
            match shape {
                Shape::Struct(slot) => return Some(TypeRef(slot)),
                Shape::List(inner) | Shape::Map(inner) => shape = &inner.shape,
                _ => return None,
            }
        }
    }

    /// The numbers on the path to the field in a protobuf body: several if the field is in an embedded message, none if
    /// protobuf lacks it.
    pub fn protobuf_numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.split('.').filter_map(|number| number.parse().ok())
    }

    /// The strategies of a strategic merge patch: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(&self) -> impl Iterator<Item = &'static str> {
        let strategies = self.patch.split_once('@').map_or("", |(strategies, _)| strategies);
        strategies.split(',').filter(|strategy| !strategy.is_empty())
    }

    /// The field that identifies the elements of the list in a strategic merge patch.
    #[must_use]
    pub fn patch_merge_key(&self) -> Option<&'static str> {
        self.patch.split_once('@').map(|(_, key)| key).filter(|key| !key.is_empty())
    }

    /// Whether Go's encoder writes the field even if it is absent.
    pub(super) fn is_always_written(&self) -> bool {
        if self.pointer {
            return !self.omit_empty;
        }
        !self.omit_zero && (!self.omit_empty || !self.go_type.shape.can_be_empty())
    }
}

/// A type and Go's name for it.
#[derive(Debug)]
pub(super) struct GoType {
    /// The table's notation; Go's name is the part after the last slash of the package.
    pub(super) text: &'static str,
    pub(super) shape: Shape,
}

#[derive(Debug)]
pub(super) enum Shape {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    /// Any JSON, kept unchanged.
    Raw,
    /// A value behind an interface: empty if it is null.
    Any,
    Quantity,
    IntOrString,
    Time,
    MicroTime,
    /// Part of the type of JSON schemas, as are the next two.
    SchemaOrBool(&'static Slot),
    SchemaOrArray(&'static Slot),
    SchemaOrStrings(&'static Slot),
    List(Box<GoType>),
    Map(Box<GoType>),
    Struct(&'static Slot),
}

impl GoType {
    fn read(text: &'static str) -> Self {
        Self { text, shape: Shape::read(text) }
    }
}

impl Shape {
    fn read(text: &'static str) -> Self {
        match text {
            "string" => return Self::String,
            "bool" => return Self::Bool,
            "int32" => return Self::Int32,
            "int64" => return Self::Int64,
            "float64" => return Self::Float,
            "any" => return Self::Any,
            "[]uint8" => return Self::Bytes,
            "resource.Quantity" => return Self::Quantity,
            "intstr.IntOrString" => return Self::IntOrString,
            "meta/v1.Time" => return Self::Time,
            "meta/v1.MicroTime" => return Self::MicroTime,
            "meta/v1.FieldsV1" | "runtime.RawExtension" | "apiextensions/v1.JSON" => return Self::Raw,
            "apiextensions/v1.JSONSchemaPropsOrBool" => return Self::SchemaOrBool(schema()),
            "apiextensions/v1.JSONSchemaPropsOrArray" => return Self::SchemaOrArray(schema()),
            "apiextensions/v1.JSONSchemaPropsOrStringArray" => return Self::SchemaOrStrings(schema()),
            _ => {}
        }
        if let Some(element) = text.strip_prefix("[]") {
            return Self::List(Box::new(GoType::read(element)));
        }
        if let Some((_, element)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return Self::Map(Box::new(GoType::read(element)));
        }
        match table().slot(text) {
            Some(slot) if slot.is_struct() => Self::Struct(slot),
            Some(slot) => Self::read(slot.body()),
            None => malformed(text),
        }
    }

    /// Whether Go's omitempty ever leaves a value of this type out.
    pub(super) fn can_be_empty(&self) -> bool {
        match self {
            Self::String
            | Self::Bool
            | Self::Int32
            | Self::Int64
            | Self::Float
            | Self::Bytes
            | Self::Any
            | Self::List(_)
            | Self::Map(_) => true,
            // All of these are structs in Go.
            Self::Raw
            | Self::Quantity
            | Self::IntOrString
            | Self::Time
            | Self::MicroTime
            | Self::SchemaOrBool(_)
            | Self::SchemaOrArray(_)
            | Self::SchemaOrStrings(_)
            | Self::Struct(_) => false,
        }
    }
}

fn schema() -> &'static Slot {
    let name = "apiextensions/v1.JSONSchemaProps";
    table().slot(name).unwrap_or_else(|| malformed(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: &str, path: &[&str]) -> &'static Field {
        let mut structure = table().type_of("", "v1", kind).unwrap();
        let (last, before) = path.split_last().unwrap();
        for name in before {
            structure = structure.field(name).and_then(Field::structure).unwrap();
        }
        structure.field(last).unwrap()
    }

    #[test]
    fn fields_have_patch_strategies_and_merge_keys() {
        let volumes = field("Pod", &["spec", "volumes"]);
        assert!(volumes.is_list());
        assert_eq!(volumes.patch_strategies().collect::<Vec<_>>(), ["merge", "retainKeys"]);
        assert_eq!(volumes.patch_merge_key(), Some("name"));
        let finalizers = field("Pod", &["metadata", "finalizers"]);
        assert_eq!(finalizers.patch_strategies().collect::<Vec<_>>(), ["merge"]);
        assert_eq!(finalizers.patch_merge_key(), None);
        assert_eq!(field("Pod", &["spec", "hostname"]).patch_strategies().count(), 0);
    }

    #[test]
    fn fields_have_protobuf_numbers() {
        let numbers = |field: &Field| field.protobuf_numbers().collect::<Vec<_>>();
        assert_eq!(numbers(field("Pod", &["spec"])), [2]);
        assert_eq!(numbers(field("Pod", &["spec", "volumes", "emptyDir"])), [2, 2]);
        assert_eq!(numbers(field("Pod", &["kind"])), [0; 0]);
    }

    #[test]
    fn fields_with_the_same_prefix_are_distinguished() {
        let spec = field("Pod", &["spec"]).structure().unwrap();
        for name in
            ["serviceAccount", "serviceAccountName", "host", "hostname", "hostNetwork", "hostnameOverride"]
        {
            assert_eq!(spec.field(name).map(Field::name), Some(name).filter(|name| *name != "host"));
        }
        assert!(spec.field("").is_none() && spec.field("Hostname").is_none());
    }
}
