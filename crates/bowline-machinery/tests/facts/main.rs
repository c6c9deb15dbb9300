//! The normaliser against Go: each object of the fixtures becomes the same as in Go. `cargo xtask facts` writes the
//! expected objects; see `tests/fixtures/README.md`.

use bowline_machinery::facts::{self, DecodeError, Normalised, UnknownFields};
use serde_json::Value;

const OBJECTS: &str = include_str!("../fixtures/objects.jsonl");
const NORMALISED: &str = include_str!("../fixtures/normalised.jsonl");
const BROKEN: &str = include_str!("../fixtures/broken.jsonl");
const REFUSED: &str = include_str!("../fixtures/refused.jsonl");

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn normalise(object: Value) -> Result<Normalised, DecodeError> {
    let text = |field: &str| object[field].as_str().expect("objects name their kind").to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let go_type = facts::type_of(group, version, &kind).expect("the kind is built in");
    go_type.normalise(object, UnknownFields::Report)
}

/// Compares the results for two files line by line, and prints all differences.
#[track_caller]
fn assert_as_in_go(inputs: &str, outputs: &str) {
    let (inputs, outputs) = (lines(inputs), lines(outputs));
    assert_eq!(inputs.len(), outputs.len());
    let mut different = 0;
    for (input, expected) in inputs.into_iter().zip(outputs) {
        let input_text = input.to_string();
        let actual = match normalise(input) {
            Ok(Normalised { value, unknown_fields, .. }) => {
                let mut result = serde_json::json!({ "value": value });
                if !unknown_fields.is_empty() {
                    result["unknownFields"] = unknown_fields.into();
                }
                result
            }
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        if actual != expected {
            different += 1;
            eprintln!("{input_text}\n  ours {actual}\n  Go's {expected}\n");
        }
    }
    assert_eq!(different, 0, "objects differ from what Go makes of them");
}

#[test]
fn an_object_is_normalised_as_in_go() {
    assert_as_in_go(OBJECTS, NORMALISED);
}

#[test]
fn undecodable_objects_get_the_message_of_go() {
    assert_as_in_go(BROKEN, REFUSED);
}

#[test]
fn normalisation_is_idempotent() {
    for result in lines(NORMALISED) {
        // A pointer to Go's zero time or to an empty choice is written as null, which decodes as no pointer.
        if ["zero-time", "schemas.example.com"]
            .map(Value::from)
            .contains(&result["value"]["metadata"]["name"])
        {
            continue;
        }
        let Normalised { value, unknown_fields, .. } = normalise(result["value"].clone()).unwrap();
        assert_eq!(value, result["value"]);
        assert_eq!(unknown_fields, Vec::<String>::new());
    }
}

#[test]
fn ignored_unknown_fields_are_dropped_silently() {
    let pod = facts::type_of("", "v1", "Pod").unwrap();
    let object = serde_json::json!({ "metadata": { "foo": 1 } });
    let normalised = pod.normalise(object, UnknownFields::Ignore).unwrap();
    assert_eq!(normalised.value["metadata"], serde_json::json!({}));
    assert_eq!(normalised.unknown_fields, Vec::<String>::new());
}
