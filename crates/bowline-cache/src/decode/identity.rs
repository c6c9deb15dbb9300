//! Reads the identity of an object from its bytes without decoding it, and removes `managedFields` from its bytes.
//!
//! Only the object's own `metadata` counts, not that of a pod template. Of duplicate keys, the first counts, because
//! reading stops when all fields are found. A server writes a key once.

use std::{borrow::Cow, ops::Range};

use kube::Resource;

use super::cursor::{Cursor, Raw, Step};

/// Identity and version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// `metadata.name`, never empty.
    pub name: Cow<'a, str>,
    /// `metadata.namespace`; `None` for a cluster-scoped object.
    pub namespace: Option<Cow<'a, str>>,
    /// `metadata.uid`, never empty.
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`, never empty.
    pub resource_version: Cow<'a, str>,
}

/// An object whose identity cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The bytes are not a complete JSON object.
    #[error("not a complete JSON object with metadata")]
    Malformed,
    /// A field is missing that every stored object has.
    #[error("metadata.{field} is missing")]
    Missing {
        /// Name of the field within `metadata`.
        field: &'static str,
        /// The object's name, if it is present.
        name: Option<String>,
        /// The object's namespace, if it is present.
        namespace: Option<String>,
    },
}

impl<'a> Identity<'a> {
    /// Reads the identity from the bytes of one object.
    ///
    /// Stops after the last field, so that the bytes behind it are not checked.
    ///
    /// # Errors
    /// [`IdentityError`] if the bytes are not JSON, as far as they were read, or if name, uid or resource version is
    /// missing or empty.
    pub fn read(object: &'a [u8]) -> Result<Self, IdentityError> {
        if let Some(identity) = usual(object) {
            return Ok(identity);
        }
        let mut found = Found::default();
        found.read(object).ok_or(IdentityError::Malformed)?;
        found.finish()
    }

    /// Namespace (empty for a cluster-scoped object) and name.
    pub(crate) fn place(&self) -> (&str, &str) {
        (self.namespace.as_deref().unwrap_or_default(), &self.name)
    }

    /// Whether an object with the same key has this uid and version.
    pub(crate) fn is_of(&self, object: &impl Resource) -> bool {
        let meta = object.meta();
        meta.uid.as_deref() == Some(&self.uid)
            && meta.resource_version.as_deref() == Some(&self.resource_version)
    }
}

/// Reads an object of a built-in kind, which servers write in this order and without white space.
fn usual(object: &[u8]) -> Option<Identity<'_>> {
    let (_, rest) = value(object, br#"{"kind":""#)?;
    let (_, rest) = value(rest, br#"","apiVersion":""#)?;
    let (name, rest) = value(rest, br#"","metadata":{"name":""#)?;
    let (_, rest) = value(rest, br#"","generateName":""#).unwrap_or(("", rest));
    let (namespace, rest) = value(rest, br#"","namespace":""#).unwrap_or(("", rest));
    let (uid, rest) = value(rest, br#"","uid":""#)?;
    let (resource_version, _) = value(rest, br#"","resourceVersion":""#)?;
    let namespace = (!namespace.is_empty()).then_some(namespace.into());
    Some(Identity {
        name: name.into(),
        namespace,
        uid: uid.into(),
        resource_version: resource_version.into(),
    })
}

/// Reads the string after `before`. Returns it and the rest from its closing quote; `None` if it is empty or has
/// escapes.
#[inline]
fn value<'a>(bytes: &'a [u8], before: &[u8]) -> Option<(&'a str, &'a [u8])> {
    let text = bytes.strip_prefix(before)?;
    // The strings are short: a call to memchr costs more than it saves.
    let length = text.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let (text, rest) = text.split_at(length);
    let text = std::str::from_utf8(text).ok()?;
    (rest.starts_with(b"\"") && !text.is_empty()).then_some((text, rest))
}

/// Removes `metadata.managedFields` from an object. Returns the input if it has none, else a copy in `scratch`.
///
/// Invalid JSON is returned unchanged: the decoder reports the problem.
pub fn without_managed_fields<'a>(object: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let Some(range) = managed_fields(object) else { return object };
    let (Some(before), Some(after)) = (object.get(..range.start), object.get(range.end..)) else {
        return object;
    };
    scratch.clear();
    scratch.reserve(before.len() + after.len());
    scratch.extend_from_slice(before);
    scratch.extend_from_slice(after);
    scratch
}

/// The object with empty metadata; unchanged if it has none.
pub(crate) fn without_metadata(object: &[u8]) -> Box<[u8]> {
    let parts =
        metadata(object).and_then(|range| Some((object.get(..range.start)?, object.get(range.end..)?)));
    match parts {
        Some((before, after)) => [before, b"{}", after].concat().into(),
        None => object.into(),
    }
}

/// Range of the value of `metadata`.
fn metadata(object: &[u8]) -> Option<Range<usize>> {
    let mut cursor = find_metadata(object)?;
    cursor.peek()?;
    let start = cursor.position();
    cursor.value()?;
    Some(start..cursor.position())
}

/// Range of `metadata.managedFields`: key, value and one adjacent comma, if any.
pub(super) fn managed_fields(object: &[u8]) -> Option<Range<usize>> {
    let mut cursor = enter_metadata(object)?;
    let mut first = true;
    loop {
        // After the opening bracket or the previous value.
        let start = cursor.position();
        let Step::Key(key) = cursor.next_key(first)? else { return None };
        if !key.is("managedFields") {
            cursor.value()?;
            first = false;
            continue;
        }
        cursor.value()?;
        if first && cursor.peek()? == b',' {
            // No comma before it: remove the one behind it.
            return Some(start..cursor.position() + 1);
        }
        return Some(start..cursor.position());
    }
}

/// A cursor at the first key in `metadata`.
fn enter_metadata(object: &[u8]) -> Option<Cursor<'_>> {
    let mut cursor = find_metadata(object)?;
    cursor.expect(b'{')?;
    Some(cursor)
}

/// A cursor at the value of `metadata`.
fn find_metadata(object: &[u8]) -> Option<Cursor<'_>> {
    let mut cursor = Cursor::new(object);
    cursor.expect(b'{')?;
    let mut first = true;
    loop {
        let Step::Key(key) = cursor.next_key(first)? else { return None };
        if key.is("metadata") {
            return Some(cursor);
        }
        cursor.value()?;
        first = false;
    }
}

#[derive(Debug, Default)]
struct Found<'a> {
    name: Option<Raw<'a>>,
    namespace: Option<Raw<'a>>,
    uid: Option<Raw<'a>>,
    resource_version: Option<Raw<'a>>,
}

impl<'a> Found<'a> {
    /// Reads until all fields are found or `metadata` ends. `None` for invalid JSON.
    fn read(&mut self, object: &'a [u8]) -> Option<()> {
        let mut cursor = enter_metadata(object)?;
        let (mut first, mut missing) = (true, 4);
        while missing > 0 {
            let Step::Key(key) = cursor.next_key(first)? else { break };
            first = false;
            let field = if key.is("name") {
                &mut self.name
            } else if key.is("namespace") {
                &mut self.namespace
            } else if key.is("uid") {
                &mut self.uid
            } else if key.is("resourceVersion") {
                &mut self.resource_version
            } else {
                cursor.value()?;
                continue;
            };
            if field.is_some() || cursor.peek()? != b'"' {
                cursor.value()?;
                continue;
            }
            *field = Some(cursor.string()?);
            missing -= 1;
        }
        Some(())
    }

    fn finish(self) -> Result<Identity<'a>, IdentityError> {
        let text = |raw: Option<Raw<'a>>| -> Result<Option<Cow<'a, str>>, IdentityError> {
            let Some(raw) = raw else { return Ok(None) };
            let text = raw.text().ok_or(IdentityError::Malformed)?;
            Ok((!text.is_empty()).then_some(text))
        };
        let (name, namespace) = (text(self.name)?, text(self.namespace)?);
        let (uid, resource_version) = (text(self.uid)?, text(self.resource_version)?);
        let missing = match (&name, &uid, &resource_version) {
            (None, _, _) => "name",
            (_, None, _) => "uid",
            _ => "resourceVersion",
        };
        match (name, uid, resource_version) {
            (Some(name), Some(uid), Some(resource_version)) => {
                Ok(Identity { name, namespace, uid, resource_version })
            }
            (name, _, _) => Err(IdentityError::Missing {
                field: missing,
                name: name.map(Cow::into_owned),
                namespace: namespace.map(Cow::into_owned),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn identity(text: &str) -> Result<Identity<'_>, IdentityError> {
        Identity::read(text.as_bytes())
    }

    fn expected<'a>(name: &'a str, namespace: Option<&'a str>) -> Identity<'a> {
        let namespace = namespace.map(Cow::Borrowed);
        Identity { name: name.into(), namespace, uid: "u".into(), resource_version: "7".into() }
    }

    #[test]
    fn the_identity_is_found_in_any_order_and_with_any_white_space() {
        let text = " {\n\"spec\" : {\"metadata\":{\"name\":\"x\"}} ,\t\"metadata\" : { \"uid\":\"u\" , \"labels\":{\"name\":\"l\"},\r\n\
                    \"resourceVersion\":\"7\",\"namespace\":\"b\" , \"name\" : \"a\"} }";
        assert_eq!(identity(text), Ok(expected("a", Some("b"))));
        let text = r#"{"metadata":{"resourceVersion":"7","uid":"u","name":"a"}}"#;
        assert_eq!(identity(text), Ok(expected("a", None)));
    }

    #[test]
    fn the_usual_form_of_built_in_kinds_gives_the_same_identity() {
        let none = expected("a", None);
        let object = |metadata: &str| {
            format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{metadata},"spec":{{}}}}"#)
        };
        let usual =
            |metadata: &str| usual(object(metadata).as_bytes()).map(|identity| format!("{identity:?}"));
        let expected = |name, namespace| Some(format!("{:?}", expected(name, namespace)));
        let version = r#""uid":"u","resourceVersion":"7","generation":1}"#;
        assert_eq!(usual(&format!(r#"{{"name":"a","namespace":"b",{version}"#)), expected("a", Some("b")));
        assert_eq!(
            usual(&format!(r#"{{"name":"a","generateName":"g","namespace":"b",{version}"#)),
            expected("a", Some("b"))
        );
        assert_eq!(usual(&format!(r#"{{"name":"a",{version}"#)), expected("a", None));
        // The general parser reads these, or reports the problem.
        for unusual in [
            format!(r#"{{"name":"a\u0062","namespace":"b",{version}"#),
            format!(r#"{{"name":"","namespace":"b",{version}"#),
            format!(r#"{{"name":"a","labels":{{}},{version}"#),
            r#"{"name":"a","namespace":"b","uid":"u"}"#.to_owned(),
        ] {
            assert_eq!(usual(&unusual), None, "{unusual}");
        }
        assert_eq!(identity(&object(&format!(r#"{{"name":"a","namespace":"",{version}"#))), Ok(none));
    }

    #[test]
    fn escapes_in_keys_and_values_are_read() {
        let text =
            r#"{"meta\u0064ata":{"n\u0061me":"\u0061\n\"","uid":"u","resourceVersion":"7","namespace":"b"}}"#;
        assert_eq!(identity(text), Ok(expected("a\n\"", Some("b"))));
    }

    #[test]
    fn only_the_metadata_at_the_top_counts() {
        let text = r#"{"spec":{"template":{"metadata":{"name":"t","uid":"t","resourceVersion":"t","namespace":"t"}}},
            "list":[{"metadata":{"name":"t"}}],"text":"\"metadata\":{\"name\":\"t\"}",
            "metadata":{"name":"a","uid":"u","resourceVersion":"7","namespace":"b"}}"#;
        assert_eq!(identity(text), Ok(expected("a", Some("b"))));
    }

    #[test]
    fn nothing_is_read_after_the_last_field() {
        let text = r#"{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7" garbage"#;
        assert_eq!(identity(text), Ok(expected("a", Some("b"))));
    }

    #[test]
    fn the_first_of_two_equal_keys_counts() {
        let text =
            r#"{"metadata":{"name":"a","name":"x","uid":"u","resourceVersion":"7"},"metadata":{"name":"y"}}"#;
        assert_eq!(identity(text), Ok(expected("a", None)));
    }

    #[test]
    fn a_missing_field_is_named_with_the_object() {
        let missing = |field, name: Option<&str>, namespace: Option<&str>| {
            Err(IdentityError::Missing {
                field,
                name: name.map(Into::into),
                namespace: namespace.map(Into::into),
            })
        };
        assert_eq!(
            identity(r#"{"metadata":{"name":"a","namespace":"b"}}"#),
            missing("uid", Some("a"), Some("b"))
        );
        assert_eq!(
            identity(r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#),
            missing("name", None, None)
        );
        assert_eq!(
            identity(r#"{"metadata":{"name":"","uid":"u","resourceVersion":"1"}}"#),
            missing("name", None, None)
        );
        let text = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":null}}"#;
        assert_eq!(identity(text), missing("resourceVersion", Some("a"), None));
    }

    #[test]
    fn bytes_without_an_object_with_metadata_are_malformed() {
        for text in [
            "",
            "null",
            "[]",
            "{",
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":"a"#,
            r#"{"metadata":{"name" "a"}}"#,
        ] {
            assert_eq!(identity(text), Err(IdentityError::Malformed), "{text}");
        }
    }

    #[test]
    fn managed_fields_are_cut_with_one_comma() {
        for (before, after) in [
            (r#"{"metadata":{"managedFields":[{"a":"]"}]}}"#, r#"{"metadata":{}}"#),
            (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
            (r#"{"metadata":{"name":"a","managedFields":[]}}"#, r#"{"metadata":{"name":"a"}}"#),
            (
                r#"{"metadata":{"name":"a" , "managedFields" : [ ] ,"uid":"u"}}"#,
                r#"{"metadata":{"name":"a" ,"uid":"u"}}"#,
            ),
            (
                r#"{"metadata":{"name":"a"},"managedFields":1}"#,
                r#"{"metadata":{"name":"a"},"managedFields":1}"#,
            ),
            (
                r#"{"metadata":{"labels":{"managedFields":""}}}"#,
                r#"{"metadata":{"labels":{"managedFields":""}}}"#,
            ),
            (r#"{"metadata":{"managedFields":["#, r#"{"metadata":{"managedFields":["#),
        ] {
            let mut scratch = b"left over".to_vec();
            let cut = without_managed_fields(before.as_bytes(), &mut scratch);
            assert_eq!(std::str::from_utf8(cut).unwrap(), after, "{before}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let key = prop_oneof![
            Just("metadata".to_owned()),
            Just("name".to_owned()),
            Just("managedFields".to_owned()),
            "[a-z\"\\\\{}\\[\\]\u{e9}]{0,6}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i16>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
            "[ -~\u{e9}\n]{0,70}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((key.clone(), inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        (value(), value(), any::<bool>(), "[ -~]{1,20}", any::<bool>()).prop_map(|(one, two, managed, name, pretty)| {
            let mut object = json!({"a": one.clone(), "metadata": {"name": name, "labels": one, "uid": "u", "resourceVersion": "7"}, "spec": two.clone()});
            if managed {
                object["metadata"]["managedFields"] = two;
            }
            object["pretty"] = pretty.into();
            object
        })
    }

    fn text(object: &Value) -> String {
        if object["pretty"] == true { format!("{object:#}") } else { object.to_string() }
    }

    proptest! {
        #[test]
        fn any_object_gives_the_identity_that_decoding_gives(object in object()) {
            let text = text(&object);
            let identity = Identity::read(text.as_bytes()).unwrap();
            prop_assert_eq!(identity.name, object["metadata"]["name"].as_str().unwrap());
            prop_assert_eq!((identity.namespace, &*identity.uid, &*identity.resource_version), (None, "u", "7"));
        }

        #[test]
        fn any_object_without_managed_fields_is_what_decoding_and_removing_gives(mut object in object()) {
            let text = text(&object);
            let mut scratch = Vec::new();
            let cut: Value = serde_json::from_slice(without_managed_fields(text.as_bytes(), &mut scratch)).unwrap();
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            prop_assert_eq!(cut, object);
        }

        #[test]
        fn any_object_without_metadata_has_an_empty_one_and_all_else(mut object in object()) {
            let cut: Value = serde_json::from_slice(&without_metadata(text(&object).as_bytes())).unwrap();
            object["metadata"] = json!({});
            prop_assert_eq!(cut, object);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Identity::read(&bytes);
            without_managed_fields(&bytes, &mut Vec::new());
            without_metadata(&bytes);
        }

        #[test]
        fn no_damage_makes_it_panic(object in object(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in prop_oneof![any::<u8>(), proptest::sample::select(b"{}[]\"\\,: ".to_vec())]) {
            let mut bytes = text(&object).into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            bytes.truncate(cut.index(bytes.len() * 2));
            let _ = Identity::read(&bytes);
            without_managed_fields(&bytes, &mut Vec::new());
        }
    }
}
