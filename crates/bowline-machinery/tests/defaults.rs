//! Compares the defaults of built-in kinds with those of the Go scheme.

use bowline_machinery::facts::{UnknownFields, type_of};
use bowline_machinery::{GroupVersion, set_defaults};
use serde_json::Value;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// Kinds that a server does not store, or whose defaults belong to other features.
const ELSEWHERE: [&str; 18] = [
    "CustomResourceDefinition",
    "List",
    "PodList",
    "TokenReview",
    "TokenRequest",
    "SelfSubjectReview",
    "SubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "DeviceClass",
    "ResourceSlice",
    "ComponentStatus",
    "Binding",
    "Eviction",
    "Scale",
    "",
];

#[test]
fn defaults_are_those_of_the_go_scheme() {
    let objects = lines(include_str!("fixtures/objects.jsonl"));
    let expected = lines(include_str!("fixtures/defaulted.jsonl"));
    assert_eq!(objects.len(), expected.len());
    let (mut compared, mut different) = (0, Vec::new());
    for (object, expected) in objects.into_iter().zip(expected) {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let kind = text("kind");
        if ELSEWHERE.contains(&kind.as_str()) {
            continue;
        }
        let GroupVersion { group, version } = GroupVersion::parse(&text("apiVersion")).expect("a version");
        let go_type = type_of(&group, &version, &kind).expect("a built-in kind");
        let mut object =
            go_type.normalise(object, UnknownFields::Ignore).expect("an object of that kind").value;
        set_defaults(&group, &version, &kind, &mut object);
        compared += 1;
        if object != expected {
            different.push(format!("{kind}\n  ours {object}\n  Go's {expected}"));
        }
    }
    assert!(compared > 150, "{compared} objects were compared");
    assert!(different.is_empty(), "{} of {compared} differ:\n{}", different.len(), different.join("\n"));
}
