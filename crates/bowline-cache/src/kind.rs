//! Kinds as values: type, resource and representation. One program can cache one kind in several representations.

use std::{any::TypeId, borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, NamespaceResourceScope, ObjectMeta, PartialObjectMeta},
};
use serde::de::DeserializeOwned;

use crate::decode::{Dynamic, Identity, IdentityError, MetadataOnly, decode};
use crate::packed::Packed;

/// How a cache keeps an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Representation {
    /// The whole object, in the Rust type of its kind.
    Typed,
    /// The whole object, as a JSON tree.
    Dynamic,
    /// Only the metadata.
    Metadata,
    /// The whole object, with decoded metadata and the rest as JSON: see [`Packed`].
    Packed,
}

/// A kind of objects, its representation, and the decoder of its objects.
///
/// Cheap to clone.
///
/// ```
/// use bowline_cache::{Representation, Kind};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// use kube::core::PartialObjectMeta;
///
/// assert_eq!(Kind::<Pod>::typed().to_string(), "pods (v1)");
/// let kind = Kind::<PartialObjectMeta<Deployment>>::metadata();
/// assert_eq!(kind.to_string(), "deployments.apps/v1, metadata only");
/// assert_eq!(kind.form(), Representation::Metadata);
/// ```
pub struct Kind<K> {
    resource: Arc<ApiResource>,
    namespaced: bool,
    form: Representation,
    decode: Decode<K>,
}

/// Decodes an object of a resource, with or without `managedFields`. The last argument is a scratch buffer.
type Decode<K> = fn(&Arc<ApiResource>, &[u8], bool, &mut Vec<u8>) -> serde_json::Result<K>;

/// An object that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {} cannot be decoded: {problem}", object(.namespace.as_deref(), .name.as_deref()))]
pub struct DecodeError {
    /// The kind, as [`Kind`] displays it.
    pub kind: String,
    /// The object's namespace, if it has one that could be read.
    pub namespace: Option<String>,
    /// The object's name, if it could be read.
    pub name: Option<String>,
    /// Problem, without values of the object.
    pub problem: String,
}

impl<K> Kind<K>
where
    K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned,
{
    /// A kind with a Rust type, cached whole.
    #[must_use]
    pub fn typed() -> Self {
        Self::new(
            ApiResource::erase::<K>(&()),
            is_namespaced::<K>(),
            Representation::Typed,
            |_, bytes, keep, scratch| decode(PhantomData, bytes, keep, scratch),
        )
    }
}

impl Kind<DynamicObject> {
    /// A kind that is known only at run time, cached whole.
    ///
    /// Objects always have their `types`: the kind's, if the server did not send them.
    #[must_use]
    pub fn dynamic(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Representation::Dynamic, |resource, bytes, keep, scratch| {
            decode(Dynamic(resource), bytes, keep, scratch)
        })
    }
}

impl<K> Kind<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    /// A kind with a Rust type, with only the metadata cached.
    ///
    /// Objects have the `types` of the kind, not those of `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata() -> Self {
        Self::only_metadata(ApiResource::erase::<K>(&()), is_namespaced::<K>())
    }
}

impl Kind<PartialObjectMeta<DynamicObject>> {
    /// A kind that is known only at run time, with only the metadata cached.
    ///
    /// Objects have the `types` of the kind, not those of `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata_of(resource: ApiResource, namespaced: bool) -> Self {
        Self::only_metadata(resource, namespaced)
    }
}

impl<K> Kind<PartialObjectMeta<K>> {
    fn only_metadata(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Representation::Metadata, |resource, bytes, keep, scratch| {
            decode(MetadataOnly(resource, PhantomData), bytes, keep, scratch)
        })
    }
}

impl Kind<Packed> {
    /// A kind with a Rust type, cached whole: decoded metadata, and the rest as JSON.
    #[must_use]
    pub fn packed<K: Resource<DynamicType = (), Scope: 'static>>() -> Self {
        Self::packed_of(ApiResource::erase::<K>(&()), is_namespaced::<K>())
    }

    /// A kind that is known only at run time, cached whole: decoded metadata, and the rest as JSON.
    #[must_use]
    pub fn packed_of(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Representation::Packed, Packed::read)
    }
}

impl<K> Kind<K> {
    fn new(resource: ApiResource, namespaced: bool, form: Representation, decode: Decode<K>) -> Self {
        Self { resource: Arc::new(resource), namespaced, form, decode }
    }

    /// Group, version, kind and plural.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Name of the kind, independent of the representation: `deployments.apps/v1`.
    #[must_use]
    pub fn name(&self) -> String {
        resource_name(&self.resource)
    }

    /// Whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// Representation of its objects.
    #[must_use]
    pub fn form(&self) -> Representation {
        self.form
    }

    /// Decodes an object from a response. Unlike [`decode`](Self::decode), accepts an object without uid or version (a
    /// dry run's), or with only a name.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an object of this kind.
    #[doc(hidden)]
    pub fn decode_answer(
        &self,
        bytes: &[u8],
        keep_managed_fields: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<K, DecodeError> {
        (self.decode)(&self.resource, bytes, keep_managed_fields, scratch).map_err(|error| {
            let problem = redact_values(&error.to_string());
            let identity = Identity::read(bytes).ok();
            let namespace = identity.as_ref().and_then(|identity| identity.namespace.clone());
            DecodeError {
                kind: self.to_string(),
                namespace: namespace.map(Cow::into_owned),
                name: identity.map(|identity| identity.name.into_owned()),
                problem,
            }
        })
    }
}

impl<K: Resource> Kind<K> {
    /// Decodes a packed object of this kind.
    ///
    /// # Errors
    /// [`DecodeError`] if the object is of another kind or version, or does not fit this kind's type.
    pub fn unpack(&self, packed: &Packed) -> Result<K, DecodeError> {
        let ApiResource { api_version, kind, .. } = &*self.resource;
        packed
            .unpack_as((api_version, kind), |rest| (self.decode)(&self.resource, rest, true, &mut Vec::new()))
    }

    /// Decodes an object. `scratch` is a buffer to reuse from call to call.
    ///
    /// With [`Representation::Metadata`], the bytes may be a whole object: some servers cannot send less.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not an object of this kind, or if name, uid or resource version is missing.
    pub fn decode(
        &self,
        bytes: &[u8],
        keep_managed_fields: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<K, DecodeError> {
        let failure =
            |name, namespace, problem| DecodeError { kind: self.to_string(), namespace, name, problem };
        let decoded = match (self.decode)(&self.resource, bytes, keep_managed_fields, scratch) {
            // No need to read the identity separately.
            Ok(object) if has_identity(object.meta()) => return Ok(object),
            decoded => decoded,
        };
        let identity = Identity::read(bytes).map_err(|error| {
            let problem = error.to_string();
            match error {
                IdentityError::Missing { name, namespace, .. } => failure(name, namespace, problem),
                IdentityError::Malformed => failure(None, None, problem),
            }
        })?;
        decoded.map_err(|error| {
            let namespace = identity.namespace.map(Into::into);
            failure(Some(identity.name.into()), namespace, redact_values(&error.to_string()))
        })
    }
}

/// Whether name, uid and resource version are present.
fn has_identity(meta: &ObjectMeta) -> bool {
    let is_there = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    is_there(&meta.name) && is_there(&meta.uid) && is_there(&meta.resource_version)
}

/// A message of serde without the values in it: they may be secrets, and the message is logged.
#[must_use]
pub fn redact_values(message: &str) -> String {
    let mut message = message.to_owned();
    for before in ["unknown variant `", "integer `", "floating point `", "boolean `", "character `"] {
        if let Some(start) = message.find(before).map(|at| at + before.len())
            && let Some(length) = message[start..].find('`')
        {
            message.replace_range(start..start + length, "…");
        }
    }
    let mut rest = message.as_str();
    let mut kept = String::with_capacity(message.len());
    while let Some((before, quoted)) = rest.split_once('"') {
        kept.push_str(before);
        kept.push_str("\"…\"");
        let mut is_escaped = false;
        let end = quoted.find(|character| {
            let is_end = character == '"' && !is_escaped;
            is_escaped = character == '\\' && !is_escaped;
            is_end
        });
        rest = end.map_or("", |end| &quoted[end + 1..]);
    }
    kept.push_str(rest);
    kept
}

impl<K> Clone for Kind<K> {
    fn clone(&self) -> Self {
        Self { resource: Arc::clone(&self.resource), ..*self }
    }
}

impl<K> fmt::Debug for Kind<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Kind")
            .field("resource", &self.resource)
            .field("namespaced", &self.namespaced)
            .field("form", &self.form)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Display for Kind<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&resource_name(&self.resource))?;
        match self.form {
            Representation::Metadata => formatter.write_str(", metadata only"),
            Representation::Packed => formatter.write_str(", packed"),
            Representation::Typed | Representation::Dynamic => Ok(()),
        }
    }
}

/// Name of a kind, independent of the representation.
pub(crate) fn resource_name(resource: &ApiResource) -> String {
    let ApiResource { group, version, plural, .. } = resource;
    if group.is_empty() { format!("{plural} ({version})") } else { format!("{plural}.{group}/{version}") }
}

fn is_namespaced<K: Resource<Scope: 'static>>() -> bool {
    TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>()
}

fn object(namespace: Option<&str>, name: Option<&str>) -> String {
    match (namespace, name) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (None, Some(name)) => name.to_owned(),
        (Some(namespace), None) => format!("an object without a name in {namespace}"),
        (None, None) => "an object without a name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Node, Pod},
    };
    use kube::core::GroupVersionKind;
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {
                "name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"},
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"k:{\"name\":\"]\"}": {}}}}],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
            "status": {"phase": "Running"},
        })
    }

    fn decode<K: Resource>(kind: &Kind<K>, object: &Value) -> Result<K, DecodeError> {
        kind.decode(object.to_string().as_bytes(), false, &mut Vec::new())
    }

    fn website() -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("demo.example.com", "v1", "Website"))
    }

    #[test]
    fn an_error_contains_no_values_of_the_object() {
        let secret = br#"{"metadata":{"name":"a","namespace":"b","uid":"1","resourceVersion":"2"},"data":"top \"secret"}"#;
        let error = Kind::<k8s_openapi::api::core::v1::Secret>::typed()
            .decode(secret, false, &mut Vec::new())
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("b/a") && text.contains("invalid type: string"), "{text}");
        assert!(!text.contains("secret\"") && !text.contains("top"), "{text}");
    }

    #[test]
    fn a_typed_kind_knows_its_resource_and_scope() {
        let pods = Kind::<Pod>::typed();
        assert_eq!(
            (pods.resource().plural.as_str(), pods.is_namespaced(), pods.form()),
            ("pods", true, Representation::Typed)
        );
        let nodes = Kind::<PartialObjectMeta<Node>>::metadata();
        assert_eq!((nodes.resource().kind.as_str(), nodes.is_namespaced()), ("Node", false));
        assert_eq!(nodes.clone().to_string(), "nodes (v1), metadata only");
        assert_eq!(Kind::<Deployment>::typed().to_string(), "deployments.apps/v1");
        assert_eq!(Kind::packed::<Node>().to_string(), "nodes (v1), packed");
        assert_eq!(Kind::dynamic(website(), true).to_string(), "websites.demo.example.com/v1");
        assert!(format!("{pods:?}").contains("form: Typed"));
    }

    #[test]
    fn a_typed_object_equals_serde_jsons_without_managed_fields() {
        let mut expected: Pod = serde_json::from_value(pod()).unwrap();
        let kept = Kind::<Pod>::typed().decode(pod().to_string().as_bytes(), true, &mut Vec::new()).unwrap();
        assert_eq!(kept, expected);
        expected.metadata.managed_fields = None;
        assert_eq!(decode(&Kind::<Pod>::typed(), &pod()).unwrap(), expected);
    }

    #[test]
    fn a_dynamic_object_equals_kubes() {
        let mut object = pod();
        object["apiVersion"] = "v1".into();
        object["kind"] = "Pod".into();
        let decoded = decode(&Kind::dynamic(website(), true), &object).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!(decoded, serde_json::from_value(object).unwrap());
    }

    #[test]
    fn a_dynamic_object_without_types_has_those_of_its_kind() {
        let types = decode(&Kind::dynamic(website(), true), &pod()).unwrap().types.unwrap();
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("demo.example.com/v1", "Website"));
    }

    #[test]
    fn metadata_is_taken_from_partial_and_from_whole_objects() {
        let whole = decode(&Kind::<PartialObjectMeta<Pod>>::metadata(), &pod()).unwrap();
        let mut partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
        partial["metadata"] = pod()["metadata"].clone();
        let partial = decode(&Kind::<PartialObjectMeta<Pod>>::metadata(), &partial).unwrap();
        assert_eq!(whole.metadata, partial.metadata);
        assert_eq!(whole.metadata.managed_fields, None);
        assert_eq!(whole.metadata.labels.unwrap()["x"], "y");
        assert_eq!((whole.types.unwrap().kind, partial.types.unwrap().kind), ("Pod".into(), "Pod".into()));
        let dynamic = decode(&Kind::metadata_of(website(), true), &pod()).unwrap();
        assert_eq!(dynamic.types.unwrap().kind, "Website");
    }

    #[test]
    fn a_missing_name_uid_or_version_is_an_error_that_names_the_field() {
        for field in ["name", "uid", "resourceVersion"] {
            let mut object = pod();
            object["metadata"].as_object_mut().unwrap().remove(field);
            let error = decode(&Kind::<Pod>::typed(), &object).unwrap_err();
            assert!(error.to_string().ends_with(&format!("metadata.{field} is missing")), "{error}");
        }
    }

    #[test]
    fn an_object_in_a_response_may_lack_its_version() {
        let mut object = pod();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let kind = Kind::<Pod>::typed();
        let answer = kind.decode_answer(object.to_string().as_bytes(), true, &mut Vec::new()).unwrap();
        assert_eq!(answer.metadata.name.as_deref(), Some("a"));
        assert!(answer.metadata.managed_fields.is_some(), "it is as the server sent it");
        let mut wrong = pod();
        wrong["spec"]["nodeName"] = 7.into();
        let error = kind.decode_answer(wrong.to_string().as_bytes(), true, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("pods (v1): b/a cannot be decoded"), "{error}");
    }

    #[test]
    fn an_error_names_the_kind_the_object_and_what_is_wrong() {
        let mut object = pod();
        object["spec"]["nodeName"] = 7.into();
        let error = decode(&Kind::<Pod>::typed(), &object).unwrap_err();
        assert_eq!((error.namespace.as_deref(), error.name.as_deref()), (Some("b"), Some("a")));
        assert!(
            error.to_string().starts_with(
                "pods (v1): b/a cannot be decoded: invalid type: integer `…`, expected a string"
            ),
            "{error}"
        );
        let error = Kind::<Pod>::typed().decode(b"nonsense", false, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with("pods (v1): an object without a name cannot be decoded"));
    }

    #[test]
    fn truncated_or_trailing_bytes_are_an_error_in_every_representation() {
        fn fails<K: Resource>(kind: &Kind<K>) {
            let whole = pod().to_string();
            for text in [&whole[..whole.len() - 1], &format!("{whole}}}"), &format!("{whole},\"x\":{{}}")] {
                assert!(kind.decode(text.as_bytes(), false, &mut Vec::new()).is_err(), "{kind} {text}");
            }
        }
        fails(&Kind::<Pod>::typed());
        fails(&Kind::dynamic(website(), true));
        fails(&Kind::<PartialObjectMeta<Pod>>::metadata());
    }
}
