//! Custom resources: definitions, and objects of the kinds that they define.
#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is passed")]

use serde_json::{Value, json};

use crate::Env;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition in a group of its own, and where its objects are.
struct Defined {
    group: String,
    name: String,
    objects: String,
}

fn path(name: &str) -> String {
    format!("{DEFINITIONS}/{name}")
}

fn schema(properties: Value) -> Value {
    json!({"openAPIV3Schema": {"type": "object", "properties": properties}})
}

/// A definition with these versions, in a group that no other case has.
fn definition(env: &Env, versions: Value) -> (Defined, Value) {
    let group = format!("{}.example.com", env.namespace);
    let name = format!("widgets.{group}");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    });
    let objects = env.group(&format!("{group}/v1"), "widgets");
    (Defined { group, name, objects }, crd)
}

fn version(name: &str, schema: &Value) -> Value {
    json!({"name": name, "served": true, "storage": name == "v1", "schema": schema})
}

/// Makes a definition and waits until its objects can be used.
async fn define(env: &Env, versions: Value) -> Defined {
    let (defined, crd) = definition(env, versions);
    env.post(DEFINITIONS, crd).await.expect(201);
    established(env, &defined).await;
    defined
}

async fn established(env: &Env, defined: &Defined) {
    let is_established = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    env.until(&path(&defined.name), |answer| is_established(&answer.body)).await;
    // A real server needs a moment longer until it serves what it has established.
    env.until(&defined.objects, |answer| answer.code == 200).await;
}

fn widget(defined: &Defined, name: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = format!("{}/v1", defined.group).into();
    fields["kind"] = "Widget".into();
    fields["metadata"]["name"] = name.into();
    fields
}

fn anything() -> Value {
    json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

#[tokio::test]
async fn a_definition_gets_its_defaults_and_an_empty_status() {
    let env = Env::new().await;
    let (_, crd) = definition(&env, json!([version("v1", &anything())]));
    let made = env.post(DEFINITIONS, crd).await.expect(201);
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    assert_eq!(made["spec"]["names"], names);
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]});
    assert_eq!(made["status"], status);
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_definition_whose_names_are_free_is_established() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    let crd = env.get(&path(&defined.name)).await.expect(200);
    let conditions: Vec<_> = crd["status"]["conditions"]
        .as_array()
        .expect("it has conditions")
        .iter()
        .map(|condition| {
            json!([condition["type"], condition["status"], condition["reason"], condition["message"]])
        })
        .collect();
    let expected = [
        json!(["NamesAccepted", "True", "NoConflicts", "no conflicts found"]),
        json!(["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"]),
    ];
    assert_eq!(conditions, expected);
    assert_eq!(crd["status"]["acceptedNames"], crd["spec"]["names"]);
}

#[tokio::test]
async fn a_definition_whose_kind_is_taken_is_not_established() {
    let env = Env::new().await;
    let (defined, first) = definition(&env, json!([version("v1", &anything())]));
    env.post(DEFINITIONS, first.clone()).await.expect(201);
    established(&env, &defined).await;
    let mut second = first;
    let name = format!("gadgets.{}", defined.group);
    second["metadata"]["name"] = name.clone().into();
    second["spec"]["names"]["plural"] = "gadgets".into();
    env.post(DEFINITIONS, second).await.expect(201);
    let crd = env.until(&path(&name), |answer| answer.body["status"]["conditions"].is_array()).await;
    let condition = &crd.body["status"]["conditions"][0];
    assert_eq!(condition["type"], "NamesAccepted", "{condition:#}");
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("ListKindConflict")));
    assert_eq!(condition["message"], r#""WidgetList" is already in use"#);
}

#[tokio::test]
async fn fields_that_the_schema_does_not_know_are_pruned() {
    let env = Env::new().await;
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let defined = define(&env, json!([version("v1", &schema(json!({"spec": spec})))])).await;
    let sent = json!({"spec": {"size": 1, "colour": "red", "free": {"a": {"b": 1}}}, "extra": true});
    let made = env.post(&defined.objects, widget(&defined, "a", sent)).await;
    let warnings: Vec<String> = made.warnings().iter().map(|warning| (*warning).to_owned()).collect();
    let made = made.expect(201);
    assert_eq!(made["spec"], json!({"size": 1, "free": {"a": {"b": 1}}}));
    assert!(made.get("extra").is_none());
    assert_eq!(warnings, [r#"299 - "unknown field \"extra\"""#, r#"299 - "unknown field \"spec.colour\"""#]);
}

#[tokio::test]
async fn defaults_are_set_when_an_object_is_written() {
    let env = Env::new().await;
    let spec = json!({"type": "object", "default": {}, "properties": {
        "size": {"type": "integer", "default": 3},
        "mode": {"type": "string", "default": "fast"},
    }});
    let defined = define(&env, json!([version("v1", &schema(json!({"spec": spec})))])).await;
    let made = env.post(&defined.objects, widget(&defined, "a", json!({}))).await.expect(201);
    assert_eq!(made["spec"], json!({"size": 3, "mode": "fast"}));
    let made =
        env.post(&defined.objects, widget(&defined, "b", json!({"spec": {"size": 0}}))).await.expect(201);
    assert_eq!(made["spec"], json!({"size": 0, "mode": "fast"}));
}

#[tokio::test]
async fn defaults_that_came_later_are_seen_in_objects_that_were_stored_before() {
    let env = Env::new().await;
    let before = schema(json!({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}));
    let defined = define(&env, json!([version("v1", &before)])).await;
    let object = format!("{}/a", defined.objects);
    env.post(&defined.objects, widget(&defined, "a", json!({"spec": {}}))).await.expect(201);
    let revision = env.get(&object).await.expect(200)["metadata"]["resourceVersion"].clone();
    let after = schema(
        json!({"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}}),
    );
    let change = json!({"spec": {"versions": [version("v1", &after)]}});
    env.merge(&path(&defined.name), change).await.expect(200);
    let read = env.until(&object, |answer| answer.body["spec"]["size"] == 7).await.expect(200);
    assert_eq!(read["metadata"]["resourceVersion"], revision, "it was not written again");
    let list = env.get(&defined.objects).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["size"], 7);
}

#[tokio::test]
async fn an_object_that_the_schema_forbids_is_refused_with_every_error() {
    let env = Env::new().await;
    let spec = json!({"type": "object", "required": ["mode"], "properties": {
        "size": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
    }});
    let defined = define(&env, json!([version("v1", &schema(json!({"spec": spec})))])).await;
    let group = &defined.group;
    for (spec, error) in [
        (
            json!({"mode": "fast", "size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            json!({"mode": "fast", "size": "big"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (json!({}), "spec.mode: Required value"),
        (
            json!({"mode": "odd"}),
            "spec.mode: Unsupported value: \"odd\": supported values: \"fast\", \"slow\"",
        ),
    ] {
        let answer = env.post(&defined.objects, widget(&defined, "a", json!({"spec": spec}))).await;
        let status =
            answer.expect_status(422, "Invalid", &format!("Widget.{group} \"a\" is invalid: {error}"));
        assert_eq!(status["details"]["kind"], "Widget");
        assert_eq!(status["details"]["group"], group.as_str());
    }
}

#[tokio::test]
async fn a_custom_object_has_to_say_what_it_is() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    let group = &defined.group;
    let nameless = env.post(&defined.objects, json!({"metadata": {"name": "a"}})).await.expect(400);
    let text = nameless["message"].as_str().expect("it has a message");
    assert!(text.starts_with(
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"
    ));
    let mut other = widget(&defined, "a", json!({}));
    other["apiVersion"] = format!("{group}/v2").into();
    let message = format!(
        "the API version in the data ({group}/v2) does not match the expected API version ({group}/v1)"
    );
    env.post(&defined.objects, other).await.expect_status(400, "BadRequest", &message);
    let mut other = widget(&defined, "a", json!({}));
    other["kind"] = "Gadget".into();
    let message = format!("Gadget.{group} \"a\" is invalid: kind: Invalid value: \"Gadget\": must be Widget");
    env.post(&defined.objects, other).await.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn metadata_of_a_custom_object_has_its_types() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    let wrong = widget(&defined, "a", json!({"metadata": {"labels": {"a": 1}}}));
    let message = "Widget in version \"v1\" cannot be handled as a Widget: json: cannot unmarshal number into Go struct \
                   field ObjectMeta.labels of type string";
    env.post(&defined.objects, wrong).await.expect_status(400, "BadRequest", message);
}

#[tokio::test]
async fn an_update_of_a_custom_object_needs_a_resource_version() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    env.post(&defined.objects, widget(&defined, "a", json!({}))).await.expect(201);
    let answer = env.put(&format!("{}/a", defined.objects), widget(&defined, "a", json!({"spec": {}}))).await;
    let message = format!(
        "widgets.{} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        defined.group
    );
    answer.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn generation_moves_with_everything_but_metadata_where_there_is_no_status_subresource() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    let object = format!("{}/a", defined.objects);
    let made = env.post(&defined.objects, widget(&defined, "a", json!({"spec": {}}))).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let labelled = env.merge(&object, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(labelled["metadata"]["generation"], 1);
    let changed = env.merge(&object, json!({"status": {"ready": true}})).await.expect(200);
    assert_eq!((&changed["metadata"]["generation"], &changed["status"]["ready"]), (&json!(2), &json!(true)));
}

fn with_status(mut version: Value) -> Value {
    version["subresources"] = json!({"status": {}});
    version
}

#[tokio::test]
async fn a_status_subresource_parts_status_from_the_rest() {
    let env = Env::new().await;
    let defined = define(&env, json!([with_status(version("v1", &anything()))])).await;
    let object = format!("{}/a", defined.objects);
    let sent = json!({"spec": {"size": 1}, "status": {"ready": true}});
    let made = env.post(&defined.objects, widget(&defined, "a", sent)).await.expect(201);
    assert!(made.get("status").is_none(), "{made:#}");
    let both = json!({"spec": {"size": 2}, "status": {"ready": true}});
    let changed = env.merge(&object, both).await.expect(200);
    assert_eq!((&changed["spec"]["size"], changed.get("status")), (&json!(2), None));
    let both = json!({"spec": {"size": 3}, "status": {"ready": true}, "metadata": {"labels": {"a": "b"}}});
    let changed = env.merge(&format!("{object}/status"), both).await.expect(200);
    assert_eq!((&changed["spec"]["size"], &changed["status"]["ready"]), (&json!(2), &json!(true)));
    assert!(changed["metadata"].get("labels").is_none(), "{changed:#}");
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn a_resource_without_a_status_subresource_has_no_such_path() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    env.post(&defined.objects, widget(&defined, "a", json!({}))).await.expect(201);
    let answer = env.get(&format!("{}/a/status", defined.objects)).await;
    answer.expect_status(404, "NotFound", &format!("widgets.{} \"a\" not found", defined.group));
}

#[tokio::test]
async fn a_scale_subresource_reads_and_writes_where_the_definition_says() {
    let env = Env::new().await;
    let mut version = with_status(version("v1", &anything()));
    version["subresources"]["scale"] = json!({
        "specReplicasPath": ".spec.count",
        "statusReplicasPath": ".status.count",
        "labelSelectorPath": ".status.selector",
    });
    let defined = define(&env, json!([version])).await;
    let object = format!("{}/a", defined.objects);
    env.post(&defined.objects, widget(&defined, "a", json!({"spec": {"count": 2}}))).await.expect(201);
    env.merge(&format!("{object}/status"), json!({"status": {"count": 1, "selector": "a=b"}}))
        .await
        .expect(200);
    let scale = env.get(&format!("{object}/scale")).await.expect(200);
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b"}));
    let scaled = env.merge(&format!("{object}/scale"), json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!(scaled["spec"]["replicas"], 5);
    assert_eq!(env.get(&object).await.expect(200)["spec"]["count"], 5);
}

#[tokio::test]
async fn every_served_version_shows_the_same_objects() {
    let env = Env::new().await;
    let versions = json!([version("v1", &anything()), version("v2", &anything())]);
    let defined = define(&env, versions).await;
    env.post(&defined.objects, widget(&defined, "a", json!({"spec": {"size": 1}}))).await.expect(201);
    let second = env.group(&format!("{}/v2", defined.group), "widgets");
    let read = env.get(&format!("{second}/a")).await.expect(200);
    assert_eq!(
        (&read["apiVersion"], &read["spec"]["size"]),
        (&json!(format!("{}/v2", defined.group)), &json!(1))
    );
    let list = env.get(&second).await.expect(200);
    assert_eq!(list["items"][0]["apiVersion"], format!("{}/v2", defined.group));
    assert_eq!(list["apiVersion"], format!("{}/v2", defined.group));
}

#[tokio::test]
async fn a_version_that_is_not_served_is_not_there() {
    let env = Env::new().await;
    let mut second = version("v2", &anything());
    second["served"] = false.into();
    let defined = define(&env, json!([version("v1", &anything()), second])).await;
    let path = env.group(&format!("{}/v2", defined.group), "widgets");
    assert_eq!(env.get(&path).await.code, 404);
}

#[tokio::test]
async fn objects_can_be_selected_by_the_fields_that_the_definition_names() {
    let env = Env::new().await;
    let spec = json!({"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}});
    let mut version = version("v1", &schema(spec));
    version["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    let defined = define(&env, json!([version])).await;
    for (name, colour) in [("a", "red"), ("b", "blue")] {
        let spec = json!({"spec": {"colour": colour}});
        env.post(&defined.objects, widget(&defined, name, spec)).await.expect(201);
    }
    let list = env.get(&format!("{}?fieldSelector=spec.colour%3Dred", defined.objects)).await.expect(200);
    let names: Vec<_> =
        list["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["a"]);
    let other = env.get(&format!("{}?fieldSelector=spec.size%3D1", defined.objects)).await;
    other.expect_status(400, "BadRequest", "field label not supported: spec.size");
}

#[tokio::test]
async fn a_list_map_refuses_two_items_with_the_same_keys() {
    let env = Env::new().await;
    let ports = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    });
    let spec = json!({"spec": {"type": "object", "properties": {"ports": ports}}});
    let defined = define(&env, json!([version("v1", &schema(spec))])).await;
    let sent = json!({"spec": {"ports": [{"name": "a"}, {"name": "a"}]}});
    let answer = env.post(&defined.objects, widget(&defined, "a", sent)).await;
    let message = format!(
        "Widget.{} \"a\" is invalid: spec.ports[1]: Duplicate value: {{\"name\":\"a\"}}",
        defined.group
    );
    answer.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn an_int_or_string_is_either() {
    let env = Env::new().await;
    let spec =
        json!({"spec": {"type": "object", "properties": {"port": {"x-kubernetes-int-or-string": true}}}});
    let defined = define(&env, json!([version("v1", &schema(spec))])).await;
    for (name, port) in [("a", json!(80)), ("b", json!("http"))] {
        let made = env.post(&defined.objects, widget(&defined, name, json!({"spec": {"port": port}}))).await;
        assert_eq!(made.expect(201)["spec"]["port"], port);
    }
    let wrong = widget(&defined, "c", json!({"spec": {"port": true}}));
    let message = format!(
        "Widget.{} \"c\" is invalid: spec.port: Invalid value: \"boolean\": spec.port in body must be of type \
         integer,string: \"boolean\"",
        defined.group
    );
    env.post(&defined.objects, wrong).await.expect_status(422, "Invalid", &message);
}

#[tokio::test]
async fn an_embedded_resource_keeps_its_type_and_metadata() {
    let env = Env::new().await;
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}});
    let spec = json!({"spec": {"type": "object", "properties": {"template": template}}});
    let defined = define(&env, json!([version("v1", &schema(spec))])).await;
    let inner = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1}, "spec": {"odd": 1}, "odd": 1});
    let made = env.post(&defined.objects, widget(&defined, "a", json!({"spec": {"template": inner}}))).await;
    let expected = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}});
    assert_eq!(made.expect(201)["spec"]["template"], expected);
}

#[tokio::test]
async fn a_definition_is_checked() {
    let env = Env::new().await;
    let (defined, crd) = definition(&env, json!([version("v1", &anything())]));
    let mut wrong = crd.clone();
    wrong["metadata"]["name"] = "other.example.com".into();
    let status = env.post(DEFINITIONS, wrong).await.expect(422);
    let message = "CustomResourceDefinition.apiextensions.k8s.io \"other.example.com\" is invalid: metadata.name: Invalid \
                   value: \"other.example.com\": must be spec.names.plural+\".\"+spec.group";
    assert_eq!(status["message"], message);
    let mut wrong = crd.clone();
    wrong["spec"]["versions"][0]["storage"] = false.into();
    let status = env.post(DEFINITIONS, wrong).await.expect(422);
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("must have exactly one version marked as storage version"), "{message}");
    let mut wrong = crd;
    wrong["spec"]["versions"][0]["schema"] =
        schema(json!({"spec": {"properties": {"a": {"type": "string"}}}}));
    let status = env.post(DEFINITIONS, wrong).await.expect(422);
    let expected = format!(
        "CustomResourceDefinition.apiextensions.k8s.io \"{}\" is invalid: \
         spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object \
         fields",
        defined.name
    );
    assert_eq!(status["message"], expected);
}

#[tokio::test]
async fn objects_go_with_their_definition() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    env.post(&defined.objects, widget(&defined, "a", json!({}))).await.expect(201);
    let going = env.delete(&path(&defined.name)).await.expect(200);
    assert_eq!(going["kind"], "CustomResourceDefinition");
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    env.until(&path(&defined.name), |answer| answer.code == 404).await;
    env.until(&defined.objects, |answer| answer.code == 404).await;
    // A kind that is defined again begins without objects.
    let (again, crd) = definition(&env, json!([version("v1", &anything())]));
    env.post(DEFINITIONS, crd).await.expect(201);
    established(&env, &again).await;
    assert_eq!(env.get(&again.objects).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_definition_waits_for_objects_that_are_kept() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything())])).await;
    let kept = widget(&defined, "a", json!({"metadata": {"finalizers": ["example.com/kept"]}}));
    env.post(&defined.objects, kept).await.expect(201);
    let object = format!("{}/a", defined.objects);
    env.delete(&path(&defined.name)).await.expect(200);
    env.until(&object, |answer| answer.body["metadata"]["deletionTimestamp"].is_string()).await;
    let answer = env.post(&defined.objects, widget(&defined, "b", json!({}))).await;
    let message = format!(
        "widgets.{} \"b\" is forbidden: create not allowed while custom resource definition is terminating",
        defined.group
    );
    answer.expect_status(403, "Forbidden", &message);
    env.merge(&object, json!({"metadata": {"finalizers": null}})).await.expect(200);
    env.until(&path(&defined.name), |answer| answer.code == 404).await;
}

#[tokio::test]
async fn a_watch_of_custom_objects_shows_them_in_its_version() {
    let env = Env::new().await;
    let defined = define(&env, json!([version("v1", &anything()), version("v2", &anything())])).await;
    env.post(&defined.objects, widget(&defined, "a", json!({}))).await.expect(201);
    let second = env.group(&format!("{}/v2", defined.group), "widgets");
    let events = env.watch(&second, 1).await;
    assert_eq!(events[0]["type"], "ADDED");
    assert_eq!(events[0]["object"]["apiVersion"], format!("{}/v2", defined.group));
    assert_eq!(events[0]["object"]["kind"], "Widget");
}

#[tokio::test]
async fn a_definition_does_not_replace_what_is_built_in() {
    let env = Env::new().await;
    let leases = env.group("coordination.k8s.io/v1", "leases");
    env.post(&leases, json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}})).await.expect(201);
    // Only one case may do this on a server that all share.
    let name = "leases.coordination.k8s.io";
    let crd = json!({
        "metadata": {
            "name": name,
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": "coordination.k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "leases", "kind": "Lease"},
            "versions": [version("v1", &anything())],
        },
    });
    env.post(DEFINITIONS, crd).await.expect(201);
    let read = env.get(&format!("{leases}/a")).await.expect(200);
    assert_eq!(read["spec"]["holderIdentity"], "me");
    env.delete(&path(name)).await.expect(200);
    env.until(&path(name), |answer| answer.code == 404).await;
    let read = env.get(&format!("{leases}/a")).await.expect(200);
    assert_eq!(read["spec"]["holderIdentity"], "me");
    // Neither was it another resource in between.
    let bad =
        env.post(&leases, json!({"metadata": {"name": "b"}, "spec": {"leaseDurationSeconds": -1}})).await;
    assert_eq!(bad.code, 422);
}

#[tokio::test]
async fn a_definition_gets_its_names_when_they_become_free() {
    let env = Env::new().await;
    let (defined, first) = definition(&env, json!([version("v1", &anything())]));
    env.post(DEFINITIONS, first.clone()).await.expect(201);
    established(&env, &defined).await;
    let mut second = first;
    let name = format!("gadgets.{}", defined.group);
    second["metadata"]["name"] = name.clone().into();
    second["spec"]["names"]["plural"] = "gadgets".into();
    second["spec"]["names"]["singular"] = "gadget".into();
    env.post(DEFINITIONS, second).await.expect(201);
    env.until(&path(&name), |answer| answer.body["status"]["conditions"][0]["status"] == "False").await;
    env.delete(&path(&defined.name)).await.expect(200);
    let is_established = |crd: &Value| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    };
    env.until(&path(&name), |answer| is_established(&answer.body)).await;
}

#[tokio::test]
async fn objects_can_be_selected_by_fields_that_are_named_later() {
    let env = Env::new().await;
    let spec = json!({"spec": {"type": "object", "properties": {"colour": {"type": "string"}}}});
    let before = version("v1", &schema(spec));
    let defined = define(&env, json!([before])).await;
    env.post(&defined.objects, widget(&defined, "a", json!({"spec": {"colour": "red"}}))).await.expect(201);
    env.post(&defined.objects, widget(&defined, "b", json!({"spec": {"colour": "blue"}}))).await.expect(201);
    let mut after = before;
    after["selectableFields"] = json!([{"jsonPath": ".spec.colour"}]);
    env.merge(&path(&defined.name), json!({"spec": {"versions": [after]}})).await.expect(200);
    let selecting = format!("{}?fieldSelector=spec.colour%3Dred", defined.objects);
    let list = env.until(&selecting, |answer| answer.code == 200).await.expect(200);
    let names: Vec<_> =
        list["items"].as_array().expect("items").iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["a"]);
}
