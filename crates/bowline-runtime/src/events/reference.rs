//! References to objects.

use bowline_cache::Packed;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta, TypeMeta};

/// Objects that an event can be about: all that know their kind.
///
/// These are typed objects and their metadata, dynamic objects and their metadata with `types` (as from an API server
/// or a cache), and packed objects.
pub trait ToReference: Resource {
    /// Kind, namespace, name, uid and resource version, if present.
    fn to_reference(&self) -> ObjectReference;
}

impl<K: Resource<DynamicType: Refer<K>>> ToReference for K {
    fn to_reference(&self) -> ObjectReference {
        K::DynamicType::refer(self)
    }
}

/// Creates references for a `K`. Implemented for the dynamic type, which distinguishes typed and dynamic objects.
pub trait Refer<K> {
    /// A reference to the object.
    fn refer(object: &K) -> ObjectReference;
}

impl<K: Resource<DynamicType = ()>> Refer<K> for () {
    fn refer(object: &K) -> ObjectReference {
        ObjectReference { resource_version: object.meta().resource_version.clone(), ..object.object_ref(&()) }
    }
}

impl Refer<DynamicObject> for ApiResource {
    fn refer(object: &DynamicObject) -> ObjectReference {
        untyped(object.types.as_ref(), &object.metadata)
    }
}

impl Refer<PartialObjectMeta<DynamicObject>> for ApiResource {
    fn refer(object: &PartialObjectMeta<DynamicObject>) -> ObjectReference {
        untyped(object.types.as_ref(), &object.metadata)
    }
}

impl Refer<Packed> for ApiResource {
    fn refer(object: &Packed) -> ObjectReference {
        let ApiResource { api_version, kind, .. } = object.resource();
        untyped(Some(&TypeMeta { api_version: api_version.clone(), kind: kind.clone() }), object.metadata())
    }
}

fn untyped(types: Option<&TypeMeta>, meta: &kube::core::ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: types.map(|types| types.api_version.clone()),
        kind: types.map(|types| types.kind.clone()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        resource_version: meta.resource_version.clone(),
        uid: meta.uid.clone(),
        field_path: None,
    }
}

#[cfg(test)]
mod tests {
    use bowline_cache::Kind;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_typed_and_a_dynamic_object_are_referred_to_alike() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7"},
        });
        let typed: Pod = serde_json::from_value(object.clone()).unwrap();
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let partial: PartialObjectMeta<DynamicObject> = serde_json::from_value(object.clone()).unwrap();
        let partial_typed: PartialObjectMeta<Pod> = serde_json::from_value(object.clone()).unwrap();
        let kind = Kind::packed::<Pod>();
        let packed = kind.decode(object.to_string().as_bytes(), false, &mut Vec::new()).unwrap();
        let expected = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some("a".into()),
            namespace: Some("b".into()),
            resource_version: Some("7".into()),
            uid: Some("u".into()),
            field_path: None,
        };
        assert_eq!(typed.to_reference(), expected);
        assert_eq!(dynamic.to_reference(), expected);
        assert_eq!(partial.to_reference(), expected);
        assert_eq!(partial_typed.to_reference(), expected);
        assert_eq!(packed.to_reference(), expected);
    }
}
