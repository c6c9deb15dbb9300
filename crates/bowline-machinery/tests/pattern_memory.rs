//! The memory that patterns of a schema use for a match, and keep afterwards. This test is a program of its own that
//! counts allocations.

use std::alloc::System;

use bowline_machinery::{FieldPath, Schema};
use cap::Cap;
use serde_json::{Map, Value, json};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The number of patterns in a definition of 22 KB.
const PATTERNS: usize = 150;

/// One test only: two at once would count each other's memory.
#[test]
fn patterns_take_little_memory_to_match_and_keep_none() {
    patterns_keep_no_memory_of_their_matches();
    groups_of_a_pattern_cost_no_memory_in_a_match();
}

fn patterns_keep_no_memory_of_their_matches() {
    // The automaton of such a pattern has a state for each of the last twelve digits, and fills any cache.
    let properties: Map<String, Value> = (0..PATTERNS)
        .map(|index| {
            (format!("p{index}"), json!({"type": "string", "pattern": format!("{index}[01]*1[01]{{12}}2$")}))
        })
        .collect();
    let definition = json!({"type": "object", "properties": properties});
    let schema = Schema::compile(&definition, &FieldPath::root()).expect("the schema is valid");
    let digits: String = (0..40_000_u64)
        .map(|index| if index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0 { '0' } else { '1' })
        .collect();
    let object: Map<String, Value> =
        (0..PATTERNS).map(|index| (format!("p{index}"), format!("{index}{digits}").into())).collect();
    let object = Value::Object(object);

    let before = ALLOCATOR.allocated();
    let errors = schema.validate(&object, &FieldPath::root());
    // No text matches its pattern. Errors are limited to one megabyte.
    assert!(errors.len() > 20, "{} problems", errors.len());
    drop(errors);
    let kept = ALLOCATOR.allocated().saturating_sub(before);
    assert!(kept < 1 << 20, "{kept} bytes are kept");
}

fn groups_of_a_pattern_cost_no_memory_in_a_match() {
    // Too large for the automaton, and the text is too long for backtracking.
    let pattern = format!("(?:{}){{20}}c", "([ab]?)".repeat(1000));
    let definition = json!({"type": "object", "properties": {"p": {"type": "string", "pattern": pattern}}});
    let schema = Schema::compile(&definition, &FieldPath::root()).expect("the schema is valid");
    let object = json!({"p": "a".repeat(130)});
    let before = ALLOCATOR.allocated();
    ALLOCATOR.set_limit(before + (256 << 20)).expect("it is above what is allocated");
    assert_eq!(schema.validate(&object, &FieldPath::root()).len(), 1, "there is no c");
    ALLOCATOR.set_limit(usize::MAX).expect("it is above what is allocated");
}
