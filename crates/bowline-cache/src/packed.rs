//! Packed objects: decoded metadata, and the rest as the server sent it. For large caches of objects that are seldom
//! read.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::de::DeserializeOwned;

use crate::decode::{MetadataOnly, decode, without_metadata};
use crate::key::object_key;
use crate::kind::{DecodeError, redact_values, resource_name};

/// An object with decoded metadata; the rest stays JSON until it is [unpacked](Self::unpack).
///
/// A typed object takes several times the memory of its JSON, mostly for fields that are not set. A packed object takes
/// about the size of its JSON, and each read costs some microseconds to decode. Use it for kinds with many objects that
/// are seldom read: owned children, rather than objects that are listed all the time.
///
/// Handlers and predicates see the metadata, and unpack the object if they need more. Problems outside the metadata
/// show when the object is unpacked: if it does not fit `K`, that is an error. Transforms and indexes are those of the
/// packed representation, `KindOptions::new(Kind::packed::<K>())`, and see the same.
///
/// ```
/// use bowline_cache::{Kind, Packed};
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let bytes = br#"{"metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"7"},"spec":{"replicas":3}}"#;
/// let packed: Packed = Kind::packed::<Deployment>().decode(bytes, false, &mut Vec::new())?;
/// assert_eq!(packed.metadata().name.as_deref(), Some("a"));
/// assert_eq!(packed.unpack::<Deployment>()?.spec.unwrap_or_default().replicas, Some(3));
/// # Ok::<(), bowline_cache::DecodeError>(())
/// ```
#[derive(Clone)]
pub struct Packed {
    resource: Arc<ApiResource>,
    metadata: ObjectMeta,
    /// The object with empty metadata.
    rest: Box<[u8]>,
}

impl Packed {
    pub(crate) fn read(
        resource: &Arc<ApiResource>,
        object: &[u8],
        keep_managed_fields: bool,
        scratch: &mut Vec<u8>,
    ) -> serde_json::Result<Self> {
        let seed = MetadataOnly::<Self>(resource, PhantomData);
        let metadata = decode(seed, object, keep_managed_fields, scratch)?.metadata;
        Ok(Self { resource: Arc::clone(resource), metadata, rest: without_metadata(object) })
    }

    /// The metadata, as changed by the cache's transform.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// The resource of the object.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Decodes the whole object; each call decodes again.
    ///
    /// # Errors
    /// [`DecodeError`] if the object is of another kind, or does not fit its type.
    pub fn unpack<K>(&self) -> Result<K, DecodeError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let wanted = (&*K::api_version(&()), &*K::kind(&()));
        self.unpack_as(wanted, |rest| decode(PhantomData, rest, true, &mut Vec::new()))
    }

    /// Decodes the object as this API version and kind, which must be its own: the JSON of list items does not contain
    /// them.
    pub(crate) fn unpack_as<K: Resource>(
        &self,
        (api_version, kind): (&str, &str),
        decode: impl FnOnce(&[u8]) -> serde_json::Result<K>,
    ) -> Result<K, DecodeError> {
        if api_version != self.resource.api_version || kind != self.resource.kind {
            return Err(self.failure(&format!("it is unpacked as a {kind} of {api_version}")));
        }
        let mut object = decode(&self.rest).map_err(|error| self.failure(&error.to_string()))?;
        object.meta_mut().clone_from(&self.metadata);
        Ok(object)
    }

    fn failure(&self, problem: &str) -> DecodeError {
        DecodeError {
            kind: resource_name(&self.resource),
            namespace: self.metadata.namespace.clone(),
            name: self.metadata.name.clone(),
            problem: redact_values(problem),
        }
    }
}

impl Resource for Packed {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Shows the key, not the content: that may be secret.
impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} {}, {} bytes)", self.resource.kind, object_key(self), self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Pod, Secret},
    };
    use kube::core::DynamicObject;
    use serde_json::{Value, json};

    use super::*;
    use crate::kind::Kind;

    fn deployment() -> Value {
        json!({
            "kind": "Deployment", "apiVersion": "apps/v1",
            "metadata": {
                "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "}{\""},
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"x": "y"}},
                "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}},
            },
            "status": {"availableReplicas": 2},
        })
    }

    fn resource() -> ApiResource {
        ApiResource::erase::<Deployment>(&())
    }

    fn pack(object: &Value, keep_managed_fields: bool) -> Result<Packed, DecodeError> {
        let text = object.to_string();
        Kind::packed::<Deployment>().decode(text.as_bytes(), keep_managed_fields, &mut Vec::new())
    }

    #[test]
    fn an_unpacked_object_equals_a_typed_one() {
        let text = deployment().to_string();
        let typed = Kind::<Deployment>::typed();
        for keep in [false, true] {
            let expected = typed.decode(text.as_bytes(), keep, &mut Vec::new()).unwrap();
            let packed = pack(&deployment(), keep).unwrap();
            assert_eq!(*packed.metadata(), expected.metadata);
            assert_eq!(packed.unpack::<Deployment>().unwrap(), expected);
            assert_eq!(typed.unpack(&packed).unwrap(), expected);
        }
        assert!(pack(&deployment(), false).unwrap().rest.len() < text.len());
    }

    #[test]
    fn a_packed_object_can_be_unpacked_as_a_tree() {
        let dynamic = Kind::dynamic(resource(), true);
        let mut expected = deployment();
        expected["metadata"].as_object_mut().unwrap().remove("managedFields");
        let unpacked = dynamic.unpack(&pack(&deployment(), false).unwrap()).unwrap();
        assert_eq!(unpacked, serde_json::from_value::<DynamicObject>(expected).unwrap());
    }

    #[test]
    fn changes_of_the_metadata_are_kept() {
        let mut packed = pack(&deployment(), false).unwrap();
        packed.meta_mut().labels = None;
        let unpacked = packed.unpack::<Deployment>().unwrap();
        assert_eq!((unpacked.metadata.labels, unpacked.spec.unwrap().replicas), (None, Some(3)));
    }

    #[test]
    fn another_kind_or_a_wrong_field_is_an_error_that_names_the_object() {
        let packed = pack(&deployment(), false).unwrap();
        let error = packed.unpack::<Pod>().unwrap_err().to_string();
        assert_eq!(error, "deployments.apps/v1: b/a cannot be decoded: it is unpacked as a Pod of v1");
        let older =
            ApiResource { version: "v1beta1".into(), api_version: "apps/v1beta1".into(), ..resource() };
        let error = Kind::dynamic(older, true).unpack(&packed).unwrap_err().to_string();
        assert!(error.ends_with("it is unpacked as a Deployment of apps/v1beta1"), "{error}");
        let mut wrong = deployment();
        wrong["spec"]["replicas"] = "three".into();
        let error = pack(&wrong, false).unwrap().unpack::<Deployment>().unwrap_err().to_string();
        assert!(error.starts_with("deployments.apps/v1: b/a cannot be decoded: invalid type"), "{error}");
        assert!(!error.contains("three"), "{error}");
    }

    #[test]
    fn invalid_objects_are_not_packed() {
        let whole = deployment().to_string();
        for text in [&whole[..whole.len() - 1], &format!("{whole}}}"), "nonsense", r#"{"metadata":7}"#] {
            let kind = Kind::packed::<Deployment>();
            assert!(kind.decode(text.as_bytes(), false, &mut Vec::new()).is_err(), "{text}");
        }
        let mut nameless = deployment();
        nameless["metadata"].as_object_mut().unwrap().remove("name");
        assert!(pack(&nameless, false).unwrap_err().to_string().ends_with("metadata.name is missing"));
    }

    #[test]
    fn debug_does_not_show_the_content() {
        let secret = json!({
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"},
            "stringData": {"password": "hunter2"},
        });
        let kind = Kind::packed::<Secret>();
        let packed = kind.decode(secret.to_string().as_bytes(), false, &mut Vec::new()).unwrap();
        let shown = format!("{packed:?}");
        assert!(shown.starts_with("Packed(Secret b/a, ") && !shown.contains("hunter2"), "{shown}");
    }
}
