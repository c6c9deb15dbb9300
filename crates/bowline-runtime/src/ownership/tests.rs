//! Owner references without an API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod};
use kube::core::DynamicObject;
use serde_json::json;

use super::*;

fn meta(namespace: Option<&str>, name: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: namespace.map(Into::into),
        name: Some(name.into()),
        uid: Some(uid.into()),
        ..ObjectMeta::default()
    }
}

fn deployment(namespace: &str, name: &str, uid: &str) -> Deployment {
    Deployment { metadata: meta(Some(namespace), name, uid), ..Deployment::default() }
}

fn pod(namespace: &str) -> Pod {
    Pod { metadata: meta(Some(namespace), "pod", "p"), ..Pod::default() }
}

#[test]
fn a_controller_is_set_once_and_known_by_its_uid() {
    let (owner, mut pod) = (deployment("a", "web", "1"), pod("a"));
    assert_eq!(set_controller_reference(&owner, &mut pod), Ok(true));
    assert_eq!(set_controller_reference(&owner, &mut pod), Ok(false));
    let references = pod.metadata.owner_references.clone().unwrap();
    assert_eq!(references.len(), 1);
    let expected = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1", "controller": true,
        "blockOwnerDeletion": true,
    });
    assert_eq!(serde_json::to_value(controller_of(&pod)).unwrap(), expected);
    assert!(has_controller_reference(&owner, &pod) && has_owner_reference(&owner, &pod));
    let namesake = deployment("a", "web", "2");
    assert!(!has_controller_reference(&namesake, &pod) && !has_owner_reference(&namesake, &pod));
    assert_eq!(set_controller_reference(&namesake, &mut pod), Ok(true), "made again: it takes the place");
    assert_eq!(pod.metadata.owner_references.unwrap().len(), 1);
}

#[test]
fn an_object_has_one_controller_and_any_number_of_owners() {
    let (first, second, mut pod) = (deployment("a", "one", "1"), deployment("a", "two", "2"), pod("a"));
    set_controller_reference(&first, &mut pod).unwrap();
    let error = set_controller_reference(&second, &mut pod).unwrap_err();
    assert_eq!(
        error.to_string(),
        "object a/pod is already controlled by Deployment one; Deployment a/two cannot control it too"
    );
    assert_eq!(set_owner_reference(&second, &mut pod), Ok(true));
    let reference = &pod.metadata.owner_references.as_ref().unwrap()[1];
    assert_eq!((reference.controller, reference.block_owner_deletion), (None, None));
    Owner::plain(&second).unwrap().block_owner_deletion(true).set_on(&mut pod).unwrap();
    assert_eq!(pod.metadata.owner_references.as_ref().unwrap()[1].block_owner_deletion, Some(true));
    assert!(has_controller_reference(&first, &pod) && !has_controller_reference(&second, &pod));
    assert!(!remove_controller_reference(&second, &mut pod), "it is not the controller");
    assert!(remove_owner_reference(&second, &mut pod) && !remove_owner_reference(&second, &mut pod));
    assert!(remove_controller_reference(&first, &mut pod));
    assert_eq!(pod.metadata.owner_references, None);
}

#[test]
fn an_owner_in_a_namespace_owns_only_what_is_in_it() {
    let owner = deployment("a", "web", "1");
    let error = set_controller_reference(&owner, &mut pod("b")).unwrap_err();
    assert!(matches!(error, OwnershipError::CrossNamespace { .. }), "{error}");
    let mut node = Node { metadata: meta(None, "n", "n"), ..Node::default() };
    let error = set_owner_reference(&owner, &mut node).unwrap_err();
    assert!(matches!(error, OwnershipError::NoNamespace { .. }), "{error}");
    assert_eq!(node.metadata.owner_references, None);
    assert_eq!(set_owner_reference(&node, &mut pod("b")), Ok(true), "an owner in none owns everything");
    let mut other = Node::default();
    assert_eq!(set_owner_reference(&node, &mut other), Ok(true));
}

#[test]
fn an_owner_that_was_not_read_is_refused() {
    let error = set_controller_reference(&Deployment::default(), &mut pod("a")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Deployment without a name cannot be an owner: it has no name; use the object as the API server has it"
    );
    let mut owner = deployment("a", "web", "1");
    owner.metadata.uid = None;
    assert!(matches!(Owner::plain(&owner), Err(OwnershipError::Incomplete { missing: "uid", .. })));
    let dynamic: DynamicObject =
        serde_json::from_value(json!({"metadata": {"name": "x", "uid": "1"}})).unwrap();
    assert!(matches!(Owner::plain(&dynamic), Err(OwnershipError::Incomplete { missing: "apiVersion", .. })));
}

#[test]
fn a_child_has_the_namespace_and_the_controller() {
    let owner = std::sync::Arc::new(deployment("a", "web", "1"));
    let map = owner.child::<ConfigMap>("settings").unwrap();
    assert_eq!(map.metadata.namespace.as_deref(), Some("a"));
    assert_eq!(map.metadata.name.as_deref(), Some("settings"));
    assert!(has_controller_reference(&owner, &map));
    let map = owner.child_with_suffix::<ConfigMap>("settings").unwrap();
    assert_eq!(map.metadata.name.as_deref(), Some("web-settings"));
    let error = owner.child::<Namespace>("x").unwrap_err();
    assert!(matches!(error, OwnershipError::NoNamespace { .. }), "{error}");
    let error = deployment("a", "web", "").child::<ConfigMap>("x").unwrap_err();
    assert!(matches!(error, OwnershipError::Incomplete { missing: "uid", .. }), "{error}");
}

#[test]
fn a_child_of_a_cluster_scoped_owner_has_the_namespace_that_is_given() {
    let node = Node { metadata: meta(None, "n", "n"), ..Node::default() };
    let map = node.child_in::<ConfigMap>("a", "settings").unwrap();
    assert_eq!(map.metadata.namespace.as_deref(), Some("a"));
    assert!(has_controller_reference(&node, &map));
    assert_eq!(node.child::<ConfigMap>("settings").unwrap().metadata.namespace, None);
    assert!(node.child::<Namespace>("x").is_ok());
    let error = node.child_in::<Namespace>("a", "x").unwrap_err();
    assert!(error.to_string().starts_with("Namespace x cannot be in namespace a"), "{error}");
    let owner = deployment("a", "web", "1");
    assert!(owner.child_in::<ConfigMap>("a", "x").is_ok());
    let error = owner.child_in::<ConfigMap>("b", "x").unwrap_err();
    assert!(matches!(error, OwnershipError::CrossNamespace { .. }), "{error}");
}
