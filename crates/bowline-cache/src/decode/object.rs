//! Decodes dynamic objects and metadata-only objects.
//!
//! kube decodes both with `flatten`, which first builds a tree of the whole object.

use std::{fmt, marker::PhantomData};

use kube::core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta, TypeMeta};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::tree::Tree;

/// Decodes a whole object of this kind as a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dynamic<'k>(pub(crate) &'k ApiResource);

/// Decodes only the metadata of an object of this kind.
#[derive(Debug)]
pub(crate) struct MetadataOnly<'k, K>(pub(crate) &'k ApiResource, pub(crate) PhantomData<K>);

impl<'de> DeserializeSeed<'de> for Dynamic<'_> {
    type Value = DynamicObject;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<DynamicObject, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Dynamic<'_> {
    type Value = DynamicObject;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DynamicObject, A::Error> {
        let mut types = types(self.0);
        let mut metadata = ObjectMeta::default();
        let mut data = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => types.api_version = map.next_value()?,
                "kind" => types.kind = map.next_value()?,
                "metadata" => metadata = map.next_value()?,
                _ => {
                    data.insert(key, map.next_value_seed(Tree)?);
                }
            }
        }
        Ok(DynamicObject { types: Some(types), metadata, data: Value::Object(data) })
    }
}

impl<K> Clone for MetadataOnly<'_, K> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<'de, K> DeserializeSeed<'de> for MetadataOnly<'_, K> {
    type Value = PartialObjectMeta<K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<PartialObjectMeta<K>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, K> Visitor<'de> for MetadataOnly<'_, K> {
    type Value = PartialObjectMeta<K>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PartialObjectMeta<K>, A::Error> {
        let mut metadata = ObjectMeta::default();
        while let Some(key) = map.next_key_seed(Key)? {
            match key {
                Field::Metadata => metadata = map.next_value()?,
                Field::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(PartialObjectMeta { types: Some(types(self.0)), metadata, _phantom: PhantomData })
    }
}

fn types(resource: &ApiResource) -> TypeMeta {
    TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() }
}

/// Distinguishes keys without storing them.
struct Key;

enum Field {
    Metadata,
    Other,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Field;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Field, E> {
        Ok(if key == "metadata" { Field::Metadata } else { Field::Other })
    }
}
