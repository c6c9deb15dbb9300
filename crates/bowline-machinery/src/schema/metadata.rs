//! Metadata after decoding into Go's `ObjectMeta` and encoding: without unknown and empty fields, or with the error of
//! Go's decoder for a wrong type.

use serde_json::{Map, Number, Value};

use crate::go_text::go_kind;

/// Metadata after decoding.
pub(super) struct Decoded {
    /// The remaining fields.
    pub(super) metadata: Map<String, Value>,
    /// The paths of unknown fields, relative to the metadata.
    pub(super) unknown: Vec<String>,
}

/// Decodes metadata.
///
/// # Errors
/// The message of Go's decoder.
pub(super) fn decode(metadata: &Value) -> Result<Decoded, String> {
    let mut unknown = Vec::new();
    let metadata = match metadata {
        Value::Null => Map::new(),
        Value::Object(fields) => OBJECT_META.decode(fields, "", "", &mut unknown)?,
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                go_kind(other)
            ));
        }
    };
    Ok(Decoded { metadata, unknown })
}

/// A Go struct.
struct Shape {
    name: &'static str,
    fields: &'static [(&'static str, Kind)],
}

/// The Go type of a field, and whether it is omitted when empty.
enum Kind {
    Text,
    Uid,
    /// A text that is written even when empty.
    FullText,
    Integer,
    /// A value that may be null, and is written unless it is.
    Pointer(Scalar),
    Time,
    Texts,
    TextMap,
    Shapes(&'static Shape),
}

#[derive(Clone, Copy)]
enum Scalar {
    Integer,
    Boolean,
    Anything,
}

static OBJECT_META: Shape = Shape {
    name: "ObjectMeta",
    fields: &[
        ("annotations", Kind::TextMap),
        ("creationTimestamp", Kind::Time),
        ("deletionGracePeriodSeconds", Kind::Pointer(Scalar::Integer)),
        ("deletionTimestamp", Kind::Time),
        ("finalizers", Kind::Texts),
        ("generateName", Kind::Text),
        ("generation", Kind::Integer),
        ("labels", Kind::TextMap),
        ("managedFields", Kind::Shapes(&MANAGED_FIELDS)),
        ("name", Kind::Text),
        ("namespace", Kind::Text),
        ("ownerReferences", Kind::Shapes(&OWNER_REFERENCE)),
        ("resourceVersion", Kind::Text),
        ("selfLink", Kind::Text),
        ("uid", Kind::Uid),
    ],
};

static OWNER_REFERENCE: Shape = Shape {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", Kind::FullText),
        ("blockOwnerDeletion", Kind::Pointer(Scalar::Boolean)),
        ("controller", Kind::Pointer(Scalar::Boolean)),
        ("kind", Kind::FullText),
        ("name", Kind::FullText),
        ("uid", Kind::FullText),
    ],
};

static MANAGED_FIELDS: Shape = Shape {
    name: "ManagedFieldsEntry",
    fields: &[
        ("apiVersion", Kind::Text),
        ("fieldsType", Kind::Text),
        ("fieldsV1", Kind::Pointer(Scalar::Anything)),
        ("manager", Kind::Text),
        ("operation", Kind::Text),
        ("subresource", Kind::Text),
        ("time", Kind::Time),
    ],
};

impl Shape {
    /// `path` is the path of the struct with indexes, and `names` without; both end with a dot unless empty.
    fn decode(
        &self,
        fields: &Map<String, Value>,
        path: &str,
        names: &str,
        unknown: &mut Vec<String>,
    ) -> Result<Map<String, Value>, String> {
        for name in fields.keys() {
            if !self.fields.iter().any(|(known, _)| known == name) {
                unknown.push(format!("{path}{name}"));
            }
        }
        let mut decoded = Map::new();
        for (name, kind) in self.fields {
            let field =
                Field { shape: self.name, names: format!("{names}{name}"), path: format!("{path}{name}") };
            let value = fields.get(*name).unwrap_or(&Value::Null);
            if let Some(value) = kind.decode(value, &field, unknown)? {
                decoded.insert((*name).to_owned(), value);
            }
        }
        Ok(decoded)
    }
}

/// The position of a value, for its errors.
struct Field {
    shape: &'static str,
    names: String,
    path: String,
}

impl Field {
    fn wrong(&self, value: &Value, expected: &str) -> String {
        let kind = go_kind(value);
        let Self { shape, names, .. } = self;
        format!("json: cannot unmarshal {kind} into Go struct field {shape}.{names} of type {expected}")
    }

    fn text(&self, value: &Value) -> Result<String, String> {
        match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(other, "string")),
        }
    }

    fn integer(&self, value: &Value) -> Result<Number, String> {
        match value {
            Value::Number(number) if number.is_i64() => Ok(number.clone()),
            Value::Number(number) => {
                let Self { shape, names, .. } = self;
                let number = crate::go_text::json(&Value::Number(number.clone()));
                let target = format!("Go struct field {shape}.{names} of type int64");
                Err(format!("json: cannot unmarshal number {number} into {target}"))
            }
            other => Err(self.wrong(other, "int64")),
        }
    }
}

impl Kind {
    /// The value to write; `None` if it is omitted.
    fn decode(
        &self,
        value: &Value,
        field: &Field,
        unknown: &mut Vec<String>,
    ) -> Result<Option<Value>, String> {
        match self {
            Self::FullText => return Ok(Some(field.text(value)?.into())),
            _ if value.is_null() => return Ok(None),
            Self::Text => Ok(Some(field.text(value)?)),
            Self::Uid => match value {
                Value::String(uid) => Ok(Some(uid.clone())),
                other => Err(field.wrong(other, "types.UID")),
            },
            Self::Time => Ok(Some(time(&field.text(value)?)?)),
            Self::Integer => {
                let number = field.integer(value)?;
                return Ok((number.as_i64() != Some(0)).then_some(Value::Number(number)));
            }
            Self::Pointer(scalar) => return scalar.decode(value, field).map(Some),
            Self::Texts => {
                let Value::Array(items) = value else { return Err(field.wrong(value, "[]string")) };
                let texts: Result<Vec<_>, _> = items.iter().map(|item| field.text(item)).collect();
                return Ok(Some(texts?).filter(|texts| !texts.is_empty()).map(Value::from));
            }
            Self::TextMap => {
                let Value::Object(entries) = value else {
                    return Err(field.wrong(value, "map[string]string"));
                };
                let texts = entries.iter().map(|(name, value)| Ok((name.clone(), field.text(value)?.into())));
                let texts: Result<Map<_, _>, String> = texts.collect();
                return Ok(Some(texts?).filter(|texts| !texts.is_empty()).map(Value::Object));
            }
            Self::Shapes(shape) => return shape.decode_list(value, field, unknown),
        }
        .map(|text| text.filter(|text| !text.is_empty()).map(Value::from))
    }
}

impl Shape {
    fn decode_list(
        &self,
        value: &Value,
        field: &Field,
        unknown: &mut Vec<String>,
    ) -> Result<Option<Value>, String> {
        let Value::Array(items) = value else {
            return Err(field.wrong(value, &format!("[]v1.{}", self.name)));
        };
        let empty = Map::new();
        let mut decoded = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let fields = match item {
                Value::Object(fields) => fields,
                Value::Null => &empty,
                other => return Err(field.wrong(other, &format!("v1.{}", self.name))),
            };
            let path = format!("{}[{index}].", field.path);
            let names = format!("{}.", field.names);
            decoded.push(Value::Object(self.decode(fields, &path, &names, unknown)?));
        }
        Ok((!decoded.is_empty()).then_some(Value::Array(decoded)))
    }
}

impl Scalar {
    fn decode(self, value: &Value, field: &Field) -> Result<Value, String> {
        match (self, value) {
            (Self::Integer, value) => Ok(Value::Number(field.integer(value)?)),
            (Self::Boolean, Value::Bool(_)) | (Self::Anything, _) => Ok(value.clone()),
            (Self::Boolean, other) => Err(field.wrong(other, "bool")),
        }
    }
}

/// A time in its written form: in seconds, and in UTC.
fn time(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err(unparsed(text, "", "2006"));
    }
    super::format::rfc3339_in_utc(text).ok_or_else(|| unparsed(text, text, "2006"))
}

fn unparsed(text: &str, rest: &str, expected: &str) -> String {
    let (text, rest) = (crate::quote::quoted(text), crate::quote::quoted(rest));
    format!("parsing time {text} as \"2006-01-02T15:04:05Z07:00\": cannot parse {rest} as \"{expected}\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected values are the output of Go's decoder and encoder.
    #[test]
    fn metadata_is_normalised_as_in_go() {
        let rows = [
            (json!(null), json!({}), ""),
            (json!({"name": null, "labels": null, "unknown": 1}), json!({}), "unknown"),
            (
                json!({"creationTimestamp": "2020-01-02T03:04:05.123+01:00", "labels": {}, "finalizers": [], "name": ""}),
                json!({"creationTimestamp": "2020-01-02T02:04:05Z"}),
                "",
            ),
            (
                json!({"ownerReferences": [{"x": 1, "name": "a"}]}),
                json!({"ownerReferences": [{"apiVersion": "", "kind": "", "name": "a", "uid": ""}]}),
                "ownerReferences[0].x",
            ),
            (
                json!({"managedFields": [{"fieldsV1": {"f:a": {}}, "time": "2020-01-02T03:04:05Z", "foo": 1}]}),
                json!({"managedFields": [{"fieldsV1": {"f:a": {}}, "time": "2020-01-02T03:04:05Z"}]}),
                "managedFields[0].foo",
            ),
            (json!({"deletionGracePeriodSeconds": 0}), json!({"deletionGracePeriodSeconds": 0}), ""),
            (
                json!({"labels": {"a": null}, "finalizers": [null], "ownerReferences": [null]}),
                json!({
                    "finalizers": [""],
                    "labels": {"a": ""},
                    "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}],
                }),
                "",
            ),
        ];
        for (metadata, expected, unknown) in rows {
            let decoded = decode(&metadata).unwrap();
            assert_eq!(
                (Value::Object(decoded.metadata), decoded.unknown.join(",")),
                (expected, unknown.to_owned())
            );
        }
    }

    #[test]
    fn undecodable_metadata_is_refused_with_the_message_of_go() {
        let rows = [
            (json!(5), "json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
            (
                json!({"name": 5}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
            ),
            (
                json!({"labels": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"labels": []}),
                "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"generation": 1.5}),
                "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"uid": 1}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.uid of type types.UID",
            ),
            (
                json!({"creationTimestamp": "x"}),
                r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
            ),
            (
                json!({"ownerReferences": [{"controller": "a"}]}),
                "json: cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool",
            ),
            (
                json!({"ownerReferences": [5]}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference",
            ),
        ];
        for (metadata, error) in rows {
            assert_eq!(decode(&metadata).err().as_deref(), Some(error));
        }
    }
}
