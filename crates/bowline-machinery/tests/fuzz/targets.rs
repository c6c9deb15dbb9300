//! Properties that hold for any bytes: the bodies of the fuzz targets in `fuzz/`, and of the tests beside this file.

use bowline_machinery::{
    FieldPath, FieldSelector, JsonPatch, LabelSelector, MergePatch, PatchError, Quantity, Schema, parse_json,
};
use serde_json::{Value, json};

/// An object in the first line, a patch in the rest: a patch applies or returns an error, and its result can be written
/// and parsed again.
pub(crate) fn json_patch(data: &[u8]) {
    let place = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (object, patch) = data.split_at(place);
    let Ok(object) = parse_json(object) else { return };
    let strict = JsonPatch::parse_strict(patch);
    if let Ok((strict, _)) = &strict {
        assert_eq!(Ok(strict.clone()), JsonPatch::parse(patch));
    }
    if let Ok(patch) = JsonPatch::parse(patch) {
        match patch.apply(&object.value) {
            Ok(result) => is_written_and_read_again(&result),
            Err(PatchError::DoesNotApply { message }) => assert!(!message.is_empty()),
            Err(PatchError::TooDeep { .. }) => {}
            Err(other) => panic!("{other} for a patch that was read"),
        }
    }
    if let Ok(patch) = MergePatch::parse(patch) {
        is_written_and_read_again(&patch.apply(&object.value));
    }
}

/// Any text: a selector that parses prints a text that parses to the same selector.
pub(crate) fn selectors(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(selector) = LabelSelector::parse(text) {
        assert_eq!(LabelSelector::parse(&selector.to_string()), Ok(selector.clone()));
        let _ = selector.matches(&json!({"a": "1", "b": "x"}));
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let printed = |selector: &FieldSelector| {
            let mut printed: Vec<_> = selector.requirements().iter().map(ToString::to_string).collect();
            printed.sort();
            printed
        };
        let again = FieldSelector::parse(&selector.to_string()).expect("what was printed can be read");
        assert_eq!(printed(&again), printed(&selector));
        let _ = selector.matches(|field| Some(if field == "a" { "1" } else { "" }));
    }
}

/// Any text: the canonical form of a quantity is a quantity, and of the same value if it has a unit.
pub(crate) fn quantity(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(quantity) = Quantity::parse(text) else { return };
    let again = Quantity::parse(&quantity.canonical()).expect("what was printed can be read");
    if quantity.value().is_some() {
        assert_eq!(again, quantity, "{text}");
    }
    assert_eq!(Quantity::parse(&quantity.to_string()).expect("what was printed can be read"), again);
}

/// A schema in the first line, an object in the rest: a schema compiles or returns errors, and a compiled one accepts
/// any object. Pruning is idempotent.
pub(crate) fn schema(data: &[u8]) {
    let place = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (schema, object) = data.split_at(place);
    let Ok(schema) = parse_json(schema) else { return };
    let schema = match Schema::compile(&schema.value, &FieldPath::root()) {
        Ok(schema) => schema,
        Err(errors) => return assert!(errors.iter().all(|error| !error.to_string().is_empty())),
    };
    let Ok(object) = parse_json(object) else { return };
    let mut pruned = object.value.clone();
    schema.prune(&mut pruned);
    let mut again = pruned.clone();
    schema.prune(&mut again);
    assert_eq!(again, pruned);
    let _ = schema.unknown_fields(&object.value);
    let _ = schema.coerce(&mut pruned);
    schema.default(&mut pruned);
    let _ = schema.validate(&pruned, &FieldPath::root());
    let _ = schema.validate_update(&pruned, &object.value);
}

fn is_written_and_read_again(value: &Value) {
    let read = parse_json(value.to_string().as_bytes()).expect("no patch makes what is too deep to be read");
    assert_eq!(read.value, *value);
}
