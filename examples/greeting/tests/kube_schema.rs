//! Custom kinds with validation rules need no other crate than `bowline` either.

// The derive of `KubeSchema` names this crate without a path.
use bowline::kube::KubeSchema;
use bowline::prelude::*;
use bowline::schemars;

#[bowline::api]
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, Serialize)]
#[kube(group = "demo.example.com", version = "v1", kind = "Range", namespaced, status = "RangeStatus")]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = "self.lowestValue <= self.highestValue")]
struct RangeSpec {
    #[x_kube(validation = "self >= 0")]
    lowest_value: i32,
    highest_value: i32,
}

#[bowline::api]
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, Serialize)]
struct RangeStatus {
    #[x_kube(validation = "self >= 0")]
    size: i32,
}

#[bowline::api]
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "demo.example.com",
    version = "v1",
    kind = "Leader",
    validation = "self.metadata.name == 'one'"
)]
struct LeaderSpec {}

#[test]
fn rules_for_the_whole_object_need_no_other_crate() {
    let crd = bowline::serde_json::to_value(Leader::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["x-kubernetes-validations"][0]["rule"], "self.metadata.name == 'one'");
}

#[test]
fn the_schema_has_the_validation_rules() {
    let crd = bowline::serde_json::to_value(Range::crd()).unwrap();
    let properties = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    let rules = [
        &properties["spec"],
        &properties["spec"]["properties"]["lowestValue"],
        &properties["status"]["properties"]["size"],
    ]
    .map(|schema| schema["x-kubernetes-validations"][0]["rule"].as_str());
    assert_eq!(rules, [Some("self.lowestValue <= self.highestValue"), Some("self >= 0"), Some("self >= 0")]);
}
