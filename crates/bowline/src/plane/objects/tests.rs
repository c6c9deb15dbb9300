//! Valid objects, and reports of mistakes.

use bowline_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

fn places(text: &str) -> Vec<String> {
    parse("file", text).unwrap().into_iter().map(|document| document.place).collect()
}

fn mistake(text: &str) -> String {
    parse("file", text).unwrap_err().to_string()
}

#[test]
fn a_file_has_several_documents_and_empty_ones_do_not_count() {
    assert_eq!(places(MAP), ["file, document 1"]);
    assert_eq!(places(&format!("---\n{MAP}--- # next\n{MAP}")), ["file, document 1", "file, document 2"]);
    assert_eq!(places(&format!("# licence\n---\n{MAP}---\n# end\n---\n")), ["file, document 2"]);
    assert_eq!(places(""), [""; 0]);
    let data = format!("{MAP}data:\n  text: |\n    a\n    --- b\n");
    assert_eq!(places(&data), ["file, document 1"]);
}

#[test]
fn json_is_an_object_or_several() {
    let map = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
    assert_eq!(places(map), ["file, document 1"]);
    assert_eq!(places(&format!("{map}\n{map}")), ["file, document 1", "file, document 2"]);
    let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{map}, {map}]}}"#);
    assert_eq!(places(&list), ["file, document 1, item 1", "file, document 1, item 2"]);
}

#[test]
fn a_mistake_names_file_and_document() {
    for (text, message) in [
        ("a: [".to_owned(), "file, document 1: it is not valid YAML or JSON, at line 1"),
        (format!("{MAP}---\nkind: A\nb: ]\n"), "file, document 2: it is not valid YAML or JSON, at line 6"),
        (format!("{MAP}---\nkind: A\n"), "file, document 2: it has no apiVersion"),
        ("apiVersion: v1\n".to_owned(), "file, document 1: it has no kind"),
        ("apiVersion: v1\nkind: A\n".to_owned(), "file, document 1: this A has no metadata.name"),
        ("- a\n".to_owned(), "file, document 1: it is not an object with apiVersion, kind and metadata"),
        ("kind: List\n".to_owned(), "file, document 1: a List has an array `items`"),
    ] {
        assert_eq!(mistake(&text), message, "{text}");
    }
    let labels = mistake("apiVersion: v1\nkind: A\nmetadata: {name: a, labels: b}\n");
    assert!(labels.starts_with("file, document 1: its metadata is not valid: "), "{labels}");
    let definition = mistake(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: games.a.example.com}\n\
         spec: {group: [a.example.com]}\n",
    );
    let start = "file, document 1: it is not a valid CustomResourceDefinition: ";
    assert!(definition.starts_with(start), "{definition}");
    let missing = read(Path::new("/nowhere/a.yaml")).unwrap_err().to_string();
    assert_eq!(missing, "cannot read /nowhere/a.yaml");
}

#[tokio::test]
async fn objects_are_created_in_order_and_a_refusal_names_the_document() {
    let client = kube::Client::new(ApiServer::builder().build().unwrap(), "default");
    let clock = Clock::real();
    let text = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: web}}\n---\n{MAP}  \n---\n\
         {{apiVersion: v1, kind: ConfigMap, metadata: {{name: b, namespace: web}}}}\n"
    );
    create(&client, &clock, parse("file", &text).unwrap()).await.unwrap();
    Api::<ConfigMap>::namespaced(client.clone(), "default").get("a").await.unwrap();
    Api::<ConfigMap>::namespaced(client.clone(), "web").get("b").await.unwrap();

    for (text, message) in [
        (MAP, r#"file, document 1: cannot create ConfigMap a: configmaps "a" already exists"#),
        (
            "apiVersion: a.example.com/v1\nkind: Game\nmetadata: {name: chess}\n",
            "file, document 1: cannot create Game chess: the plane has no kind Game in a.example.com/v1: declare it with \
             `Manager::crd`, or apply its CRD first",
        ),
        (
            "apiVersion: v1\nkind: Game\nmetadata: {name: chess}\n",
            "file, document 1: cannot create Game chess: the plane has no kind Game in v1: declare it with `Manager::crd`, or \
             apply its CRD first",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: nowhere}}",
            r#"file, document 1: cannot create ConfigMap b: namespaces "nowhere" not found"#,
        ),
    ] {
        let error = create(&client, &clock, parse("file", text).unwrap()).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}
