//! Properties of all files, whatever their content is.

use bowline_manifests::{Manifests, is_generated};
use bowline_runtime::OperatorDescription;
use serde_json::Value;

use crate::description::{documents, file, games, maps, render};

#[test]
fn every_document_has_a_version_a_kind_and_a_name() {
    for limited in [&[][..], &["blue"]] {
        let files = render(|options| options.namespaces(limited.iter().copied()));
        for file in &files {
            assert!(is_generated(&file.text), "{}", file.path);
            assert!(file.text.ends_with('\n'), "{}", file.path);
            if file.text.starts_with('{') {
                serde_json::from_str::<Value>(&file.text).expect("it is JSON");
                continue;
            }
            for document in documents(&file.text) {
                for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
                    assert!(
                        document.pointer(pointer).is_some_and(Value::is_string),
                        "{}: {document}",
                        file.path
                    );
                }
            }
        }
    }
}

#[test]
fn the_output_depends_on_nothing_but_its_input() {
    let (first, second) = (render(|options| options), render(|options| options));
    assert_eq!(first, second);
    let paths: Vec<_> = first.iter().map(|file| &file.path).collect();
    assert!(paths.is_sorted(), "{paths:?}");

    // The order of permissions does not show.
    let mut shuffled = games();
    shuffled.permissions.reverse();
    let options = Manifests::new("games").image("registry.example.com/games:1.2.0");
    assert_eq!(options.render(&shuffled).expect("all options are valid"), first);
}

#[test]
fn the_installer_has_everything_but_the_monitoring_in_an_order_that_works() {
    let files = render(|options| options);
    let install = documents(file(&files, "install.yaml"));
    let kinds: Vec<_> = install.iter().map(|object| object["kind"].as_str().unwrap_or_default()).collect();
    let last = |kind: &str| kinds.iter().rposition(|other| *other == kind).expect("there is one");
    let first = |kind: &str| kinds.iter().position(|other| *other == kind).expect("there is one");
    assert_eq!(first("Namespace"), 0);
    assert_eq!((first("CustomResourceDefinition"), last("CustomResourceDefinition")), (1, 2));
    assert!(last("ClusterRoleBinding") < first("Deployment"), "{kinds:?}");

    let is_installed = |path: &str| path != "install.yaml" && !path.starts_with("monitoring/");
    let others = files.iter().filter(|file| is_installed(&file.path));
    let mut others: Vec<_> = others.flat_map(|file| documents(&file.text)).collect();
    let mut install = install;
    for all in [&mut install, &mut others] {
        all.sort_by_key(ToString::to_string);
    }
    assert_eq!(install, others);
}

#[test]
fn every_binding_refers_to_a_role_and_to_the_service_account() {
    let files = render(|options| options.namespaces(["blue", "red"]));
    let install = documents(file(&files, "install.yaml"));
    let has = |kind: &str, namespace: &Value, name: &Value| {
        let is_same = |object: &&Value| {
            object["kind"] == kind
                && object["metadata"]["namespace"] == *namespace
                && object["metadata"]["name"] == *name
        };
        install.iter().any(|object| is_same(&object))
    };
    let mut bindings = 0;
    for binding in
        install.iter().filter(|object| object["kind"].as_str().unwrap_or_default().ends_with("Binding"))
    {
        bindings += 1;
        let role = &binding["roleRef"];
        let kind = role["kind"].as_str().expect("it has a kind");
        assert!(has(kind, &binding["metadata"]["namespace"], &role["name"]), "{binding}");
        let subject = &binding["subjects"][0];
        assert!(has("ServiceAccount", &subject["namespace"], &subject["name"]), "{binding}");
    }
    // Cluster, blue, red, default for events of arenas, vault; election; reviews.
    assert_eq!(bindings, 7);
}

/// Kinds, namespaces and names of the operator's roles.
fn roles(description: &OperatorDescription, namespaces: &[&str]) -> Vec<String> {
    let options = Manifests::new("maps").namespaces(namespaces.iter().copied());
    let files = options.render(description).expect("all options are valid");
    let roles = documents(file(&files, "rbac/role.yaml"));
    let roles = roles.iter().filter(|object| object["kind"].as_str().unwrap_or_default().ends_with("Role"));
    roles.map(|role| format!("{} {}", role["kind"], role["metadata"]["namespace"])).collect()
}

#[test]
fn an_operator_without_cluster_scoped_kinds_has_no_cluster_role_in_namespaces() {
    assert_eq!(roles(&maps(), &[]), [r#""ClusterRole" null"#]);
    assert_eq!(roles(&maps(), &["red", "blue", "red"]), [r#""Role" "blue""#, r#""Role" "red""#]);
    // Namespaces of the description count, unless there are others.
    let mut limited = maps();
    limited.namespaces = vec!["green".to_owned()];
    assert_eq!(roles(&limited, &[]), [r#""Role" "green""#]);
    assert_eq!(roles(&limited, &["red"]), [r#""Role" "red""#]);
}

#[test]
fn a_fixed_namespace_is_a_role_there_only_for_what_is_not_allowed_everywhere() {
    let mut description = maps();
    let mut fixed = description.permissions[0].clone().in_namespace("vault");
    description.permissions.push(fixed.clone());
    assert_eq!(roles(&description, &[]), [r#""ClusterRole" null"#]);
    fixed.verbs.insert("delete".to_owned());
    description.permissions.push(fixed);
    assert_eq!(roles(&description, &[]), [r#""ClusterRole" null"#, r#""Role" "vault""#]);
    // A namespace has one role.
    assert_eq!(roles(&description, &["vault"]), [r#""Role" "vault""#]);
}

#[test]
fn the_namespaces_of_the_cluster_are_not_created() {
    for (namespace, is_created) in [("default", false), ("kube-system", false), ("games", true)] {
        let files = render(|options| options.namespace(namespace));
        assert_eq!(
            files.iter().any(|file| file.path == "operator/namespace.yaml"),
            is_created,
            "{namespace}"
        );
    }
}
