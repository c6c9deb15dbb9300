//! What is cached, and in which form: a value, so that one program can hold one kind in several forms.

use std::{any::TypeId, borrow::Cow, fmt, marker::PhantomData, sync::Arc};

use kube::{
    Resource,
    core::{ApiResource, DynamicObject, NamespaceResourceScope, ObjectMeta, PartialObjectMeta},
};
use serde::de::DeserializeOwned;

use crate::decode::{Dynamic, Identity, IdentityError, MetadataOnly, decode};
use crate::packed::Packed;

/// How much of an object is kept, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Form {
    /// All of it, in the Rust type of its kind.
    Typed,
    /// All of it, as a tree.
    Dynamic,
    /// Its metadata.
    Metadata,
    /// All of it, the metadata decoded and the rest as JSON: see [`Packed`].
    Packed,
}

/// A kind of objects, the form in which they are kept, and how their bytes become such objects.
///
/// Cheap to clone.
///
/// ```
/// use bowline_cache::{Form, Kind};
/// use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
/// use kube::core::PartialObjectMeta;
///
/// assert_eq!(Kind::<Pod>::typed().to_string(), "pods (v1)");
/// let kind = Kind::<PartialObjectMeta<Deployment>>::metadata();
/// assert_eq!(kind.to_string(), "deployments.apps/v1, metadata only");
/// assert_eq!(kind.form(), Form::Metadata);
/// ```
pub struct Kind<K> {
    resource: Arc<ApiResource>,
    namespaced: bool,
    form: Form,
    decode: Decode<K>,
}

/// From the bytes of an object of this resource to it, with or without its `managedFields`, with some room to work in.
type Decode<K> = fn(&Arc<ApiResource>, &[u8], bool, &mut Vec<u8>) -> serde_json::Result<K>;

/// Why the bytes of an object cannot be made into one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {} cannot be decoded: {problem}", object(.namespace.as_deref(), .name.as_deref()))]
pub struct DecodeError {
    /// The kind, as [`Kind`] shows itself.
    pub kind: String,
    /// The object's namespace, if it has one and it could be found.
    pub namespace: Option<String>,
    /// The object's name, if it could be found.
    pub name: Option<String>,
    /// What is wrong.
    pub problem: String,
}

impl<K> Kind<K>
where
    K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned,
{
    /// A kind with a Rust type, of which everything is kept.
    #[must_use]
    pub fn typed() -> Self {
        Self::new(
            ApiResource::erase::<K>(&()),
            is_namespaced::<K>(),
            Form::Typed,
            |_, bytes, keep, scratch| decode(PhantomData, bytes, keep, scratch),
        )
    }
}

impl Kind<DynamicObject> {
    /// A kind that is only known at run time, of which everything is kept.
    ///
    /// Objects always have their `types`: the kind's, if the server did not send them.
    #[must_use]
    pub fn dynamic(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Form::Dynamic, |resource, bytes, keep, scratch| {
            decode(Dynamic(resource), bytes, keep, scratch)
        })
    }
}

impl<K> Kind<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = (), Scope: 'static>,
{
    /// A kind with a Rust type, of which the metadata is kept.
    ///
    /// Objects have the `types` of the kind, not those of `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata() -> Self {
        Self::only_metadata(ApiResource::erase::<K>(&()), is_namespaced::<K>())
    }
}

impl Kind<PartialObjectMeta<DynamicObject>> {
    /// A kind that is only known at run time, of which the metadata is kept.
    ///
    /// Objects have the `types` of the kind, not those of `PartialObjectMetadata`.
    #[must_use]
    pub fn metadata_of(resource: ApiResource, namespaced: bool) -> Self {
        Self::only_metadata(resource, namespaced)
    }
}

impl<K> Kind<PartialObjectMeta<K>> {
    fn only_metadata(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Form::Metadata, |resource, bytes, keep, scratch| {
            decode(MetadataOnly(resource, PhantomData), bytes, keep, scratch)
        })
    }
}

impl Kind<Packed> {
    /// A kind with a Rust type, of which everything is kept, but as JSON beside the metadata.
    #[must_use]
    pub fn packed<K: Resource<DynamicType = (), Scope: 'static>>() -> Self {
        Self::packed_of(ApiResource::erase::<K>(&()), is_namespaced::<K>())
    }

    /// A kind that is only known at run time, of which everything is kept, but as JSON beside the metadata.
    #[must_use]
    pub fn packed_of(resource: ApiResource, namespaced: bool) -> Self {
        Self::new(resource, namespaced, Form::Packed, Packed::read)
    }
}

impl<K> Kind<K> {
    fn new(resource: ApiResource, namespaced: bool, form: Form, decode: Decode<K>) -> Self {
        Self { resource: Arc::new(resource), namespaced, form, decode }
    }

    /// Group, version, kind and plural.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// What it is called, whatever its form: `deployments.apps/v1`.
    #[must_use]
    pub fn name(&self) -> String {
        shown(&self.resource)
    }

    /// Whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.namespaced
    }

    /// How its objects are kept.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Makes an object of the bytes of an answer, which may be of an object that was never stored (a dry run's has no
    /// version), or that has only a name.
    ///
    /// # Errors
    /// If the bytes are not an object of this kind.
    pub fn decode_answer(
        &self,
        bytes: &[u8],
        keep_managed_fields: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<K, DecodeError> {
        (self.decode)(&self.resource, bytes, keep_managed_fields, scratch).map_err(|error| {
            let problem = without_texts(&error.to_string());
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
    /// Makes an object of one of this kind that is packed.
    ///
    /// # Errors
    /// When it is of another kind or version, or not as this kind's objects are.
    pub fn unpack(&self, packed: &Packed) -> Result<K, DecodeError> {
        let ApiResource { api_version, kind, .. } = &*self.resource;
        packed
            .unpack_as((api_version, kind), |rest| (self.decode)(&self.resource, rest, true, &mut Vec::new()))
    }

    /// Makes an object of its bytes. `scratch` is room to work in, worth keeping from one call to the next.
    ///
    /// In the form of metadata, the bytes may be those of a whole object: a server may not know how to send less.
    ///
    /// # Errors
    /// If the bytes are not an object of this kind, or one without a name, a uid or a resource version.
    pub fn decode(
        &self,
        bytes: &[u8],
        keep_managed_fields: bool,
        scratch: &mut Vec<u8>,
    ) -> Result<K, DecodeError> {
        let failure =
            |name, namespace, problem| DecodeError { kind: self.to_string(), namespace, name, problem };
        let decoded = match (self.decode)(&self.resource, bytes, keep_managed_fields, scratch) {
            // The bytes need not be looked at once more.
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
            failure(Some(identity.name.into()), namespace, without_texts(&error.to_string()))
        })
    }
}

/// Whether these are all there by which an object is known.
fn has_identity(meta: &ObjectMeta) -> bool {
    let is_there = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    is_there(&meta.name) && is_there(&meta.uid) && is_there(&meta.resource_version)
}

/// What serde says, without the values that it found: they may be secrets, and this is logged.
#[must_use]
pub fn without_texts(message: &str) -> String {
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
        formatter.write_str(&shown(&self.resource))?;
        match self.form {
            Form::Metadata => formatter.write_str(", metadata only"),
            Form::Packed => formatter.write_str(", packed"),
            Form::Typed | Form::Dynamic => Ok(()),
        }
    }
}

/// A kind, whatever its form.
pub(crate) fn shown(resource: &ApiResource) -> String {
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
    fn an_error_does_not_repeat_what_an_object_holds() {
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
            ("pods", true, Form::Typed)
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
    fn a_typed_object_is_what_serde_json_makes_of_it_but_for_managed_fields() {
        let mut expected: Pod = serde_json::from_value(pod()).unwrap();
        let kept = Kind::<Pod>::typed().decode(pod().to_string().as_bytes(), true, &mut Vec::new()).unwrap();
        assert_eq!(kept, expected);
        expected.metadata.managed_fields = None;
        assert_eq!(decode(&Kind::<Pod>::typed(), &pod()).unwrap(), expected);
    }

    #[test]
    fn a_dynamic_object_is_what_kube_makes_of_it() {
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
    fn an_object_without_what_every_object_has_is_an_error_that_says_so() {
        for field in ["name", "uid", "resourceVersion"] {
            let mut object = pod();
            object["metadata"].as_object_mut().unwrap().remove(field);
            let error = decode(&Kind::<Pod>::typed(), &object).unwrap_err();
            assert!(error.to_string().ends_with(&format!("metadata.{field} is missing")), "{error}");
        }
    }

    #[test]
    fn an_answer_need_not_have_what_every_object_has() {
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
    fn bytes_that_break_off_or_go_on_are_an_error_in_every_form() {
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
