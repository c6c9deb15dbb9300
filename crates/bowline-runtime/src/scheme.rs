//! The Rust types of kinds, in both directions.

use std::any::{Any, TypeId, type_name};
use std::collections::BTreeMap;
use std::fmt;

use bowline_cache::Kind;
use bowline_machinery::{GroupKind, GroupVersion, GroupVersionKind, GroupVersionResource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use crate::mapper::{MapperError, MapperFuture, RestMapper, RestMapping};
use crate::{BoxError, Object};

/// Types by kind, and kinds by type.
///
/// A type names its own kind, so most programs need no scheme. Use it to start from a kind: to [decode](Self::decode)
/// objects of any kind, or to find kinds without a request to a server, also as a [`RestMapper`].
///
/// ```
/// use bowline_machinery::GroupVersionKind;
/// use bowline_runtime::Scheme;
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
///
/// let scheme = Scheme::new().with::<Pod>()?.with::<Deployment>()?;
/// assert_eq!(scheme.kind_of::<Deployment>(), Some(&GroupVersionKind::new("apps", "v1", "Deployment")));
/// let object = scheme.decode(br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}"#)?;
/// assert_eq!(object.meta().name.as_deref(), Some("a"));
/// assert!(object.downcast::<Pod>().is_ok());
/// # Ok::<(), bowline_runtime::SchemeError>(())
/// ```
#[derive(Clone, Default)]
pub struct Scheme {
    kinds: BTreeMap<GroupVersionKind, Entry>,
    types: BTreeMap<TypeId, GroupVersionKind>,
}

#[derive(Clone)]
struct Entry {
    type_id: TypeId,
    type_name: &'static str,
    mapping: RestMapping,
    decode: fn(&[u8]) -> serde_json::Result<Box<dyn AnyObject>>,
}

/// An operation of a scheme failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemeError {
    /// The kind is registered with another type.
    #[error("{kind} is already registered as {known}, not {other}")]
    Taken {
        /// The kind.
        kind: String,
        /// The registered type.
        known: &'static str,
        /// The new type.
        other: &'static str,
    },
    /// The kind has no registered type.
    #[error("no type is registered for {0}: register it with `Scheme::with`")]
    Unknown(String),
    /// The object does not match the type of its kind.
    #[error("cannot decode an object of {kind}: {source}")]
    Decode {
        /// The kind.
        kind: String,
        /// The decode error.
        #[source]
        source: BoxError,
    },
    /// `apiVersion` or `kind` cannot be read.
    #[error("cannot read `apiVersion` and `kind` of an object")]
    NoKind,
}

/// A decoded object, to be downcast to its type.
pub struct Decoded {
    kind: GroupVersionKind,
    object: Box<dyn AnyObject>,
}

trait AnyObject: Any + Send + Sync {
    fn meta(&self) -> &ObjectMeta;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<K: Object> AnyObject for K {
    fn meta(&self) -> &ObjectMeta {
        kube::Resource::meta(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Scheme {
    /// An empty scheme.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type. Adding it again changes nothing.
    ///
    /// # Errors
    /// If its kind has another type.
    pub fn with<K: Object>(mut self) -> Result<Self, SchemeError> {
        self.register::<K>()?;
        Ok(self)
    }

    /// Adds a type in place. Adding it again changes nothing.
    ///
    /// # Errors
    /// If its kind has another type.
    pub fn register<K: Object>(&mut self) -> Result<(), SchemeError> {
        let kind = Kind::<K>::typed();
        let mapping = RestMapping { resource: kind.resource().clone(), namespaced: kind.is_namespaced() };
        let name = mapping.kind();
        let entry = Entry {
            type_id: TypeId::of::<K>(),
            type_name: type_name::<K>(),
            mapping,
            decode: |bytes| Ok(Box::new(serde_json::from_slice::<K>(bytes)?)),
        };
        let known = self.kinds.entry(name.clone()).or_insert_with(|| entry.clone());
        if known.type_id != entry.type_id {
            return Err(SchemeError::Taken {
                kind: name.to_string(),
                known: known.type_name,
                other: entry.type_name,
            });
        }
        self.types.insert(entry.type_id, name);
        Ok(())
    }

    /// The kind of a type.
    #[must_use]
    pub fn kind_of<K: 'static>(&self) -> Option<&GroupVersionKind> {
        self.types.get(&TypeId::of::<K>())
    }

    /// Whether a kind has a type.
    #[must_use]
    pub fn has(&self, kind: &GroupVersionKind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// The resource of a kind, from its type.
    #[must_use]
    pub fn mapping(&self, kind: &GroupVersionKind) -> Option<&RestMapping> {
        self.kinds.get(kind).map(|entry| &entry.mapping)
    }

    /// All kinds, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds.keys()
    }

    /// Decodes the JSON of an object into the type for its `apiVersion` and `kind`.
    ///
    /// # Errors
    /// If no type is registered for it, or it does not match its type.
    pub fn decode(&self, json: &[u8]) -> Result<Decoded, SchemeError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Types {
            api_version: String,
            kind: String,
        }
        let types: Types = serde_json::from_slice(json).map_err(|_| SchemeError::NoKind)?;
        let GroupVersion { group, version } =
            GroupVersion::parse(&types.api_version).ok_or(SchemeError::NoKind)?;
        let kind = GroupVersionKind { group, version, kind: types.kind };
        let entry = self.kinds.get(&kind).ok_or_else(|| SchemeError::Unknown(kind.to_string()))?;
        match (entry.decode)(json) {
            Ok(object) => Ok(Decoded { kind, object }),
            Err(error) => Err(SchemeError::Decode { kind: kind.to_string(), source: error.into() }),
        }
    }
}

impl Decoded {
    /// The kind of the object.
    #[must_use]
    pub fn kind(&self) -> &GroupVersionKind {
        &self.kind
    }

    /// The metadata of the object.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    /// The object, if it is of this type.
    #[must_use]
    pub fn downcast_ref<K: Object>(&self) -> Option<&K> {
        self.object.as_any().downcast_ref()
    }

    /// The object, if it is of this type.
    ///
    /// # Errors
    /// Returns `self` if it is not.
    pub fn downcast<K: Object>(self) -> Result<K, Self> {
        let Self { kind, object } = self;
        if !object.as_any().is::<K>() {
            return Err(Self { kind, object });
        }
        match object.into_any().downcast() {
            Ok(object) => Ok(*object),
            Err(_) => unreachable!("it was looked at"),
        }
    }
}

/// Resolves kinds from its types, without requests.
impl RestMapper for Scheme {
    fn mapping<'a>(&'a self, kind: &'a GroupVersionKind) -> MapperFuture<'a, RestMapping> {
        let found = self.mapping(kind).cloned();
        Box::pin(async move { found.ok_or_else(|| MapperError::NoKind(kind.to_string())) })
    }

    fn mappings<'a>(&'a self, kind: &'a GroupKind) -> MapperFuture<'a, Vec<RestMapping>> {
        let of_kind =
            self.kinds.iter().filter(|(name, _)| name.group == kind.group && name.kind == kind.kind);
        let found: Vec<_> = of_kind.map(|(_, entry)| entry.mapping.clone()).collect();
        Box::pin(async move {
            if found.is_empty() { Err(MapperError::NoKind(kind.to_string())) } else { Ok(found) }
        })
    }

    fn mapping_of<'a>(&'a self, resource: &'a GroupVersionResource) -> MapperFuture<'a, RestMapping> {
        let is_it = |mapping: &&RestMapping| {
            let found = &mapping.resource;
            found.plural == resource.resource
                && found.group == resource.group
                && found.version == resource.version
        };
        let found = self.kinds.values().map(|entry| &entry.mapping).find(is_it).cloned();
        Box::pin(async move {
            let name = || format!("{} in {}", resource.group_resource(), resource.version);
            found.ok_or_else(|| MapperError::NoResource(name()))
        })
    }
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}

impl fmt::Debug for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = self.meta();
        f.debug_struct("Decoded")
            .field("kind", &self.kind)
            .field("namespace", &meta.namespace)
            .field("name", &meta.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
    struct OtherPod {
        metadata: ObjectMeta,
    }

    impl kube::Resource for OtherPod {
        type DynamicType = ();
        type Scope = kube::core::NamespaceResourceScope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            "Pod".into()
        }

        fn group((): &()) -> std::borrow::Cow<'_, str> {
            "".into()
        }

        fn version((): &()) -> std::borrow::Cow<'_, str> {
            "v1".into()
        }

        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            "pods".into()
        }

        fn meta(&self) -> &ObjectMeta {
            &self.metadata
        }

        fn meta_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    #[test]
    fn a_kind_has_one_type() {
        let scheme = Scheme::new().with::<Pod>().unwrap().with::<Pod>().unwrap();
        assert_eq!(scheme.kinds().count(), 1);
        let error = scheme.with::<OtherPod>().unwrap_err();
        assert!(matches!(error, SchemeError::Taken { .. }), "{error}");
    }

    #[test]
    fn an_object_is_decoded_into_the_type_of_its_kind() {
        let scheme = Scheme::new().with::<Pod>().unwrap();
        let decoded = scheme.decode(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#).unwrap();
        assert_eq!(decoded.kind(), scheme.kind_of::<Pod>().unwrap());
        let decoded = decoded.downcast::<ConfigMap>().unwrap_err();
        assert_eq!(decoded.downcast::<Pod>().unwrap().metadata.name.as_deref(), Some("a"));
    }

    #[test]
    fn decode_errors_are_distinguished() {
        let scheme = Scheme::new().with::<Pod>().unwrap();
        let error = |json: &str| scheme.decode(json.as_bytes()).unwrap_err();
        assert!(matches!(error("[]"), SchemeError::NoKind));
        assert!(matches!(error(r#"{"kind":"Pod"}"#), SchemeError::NoKind));
        assert!(matches!(error(r#"{"apiVersion":"v1","kind":"Node"}"#), SchemeError::Unknown(_)));
        let wrong = r#"{"apiVersion":"v1","kind":"Pod","metadata":7}"#;
        assert!(matches!(error(wrong), SchemeError::Decode { .. }));
    }
}
