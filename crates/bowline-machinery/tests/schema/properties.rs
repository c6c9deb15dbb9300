//! Properties that hold for all schemas and objects, also for hostile ones.

use bowline_machinery::{FieldPath, Schema, default_crd, validate_crd, validate_crd_update};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "enum",
    "default",
    "nullable",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "metadata",
    "kind",
    "apiVersion",
    "spec",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "rule",
    "fieldPath",
    "a",
    "b",
];

const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "object",
    "array",
    "string",
    "integer",
    "number",
    "boolean",
    "date",
    "date-time",
    "email",
    "uri",
    "duration",
    "ipv4",
    "cidr",
    "mac",
    "isbn",
    "int32",
    "set",
    "map",
    "atomic",
    "^a+$",
    "(",
    "[",
    "\\",
    "(?i",
    "a{2}{3}",
    "[[:x:]]",
    "\\x{",
    "\\Q",
    "é",
    "2020-01-01T00:00:00Z",
    "1h",
    "a@b",
    "http://a/%",
    "::1",
    ".a['b']",
];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-10i64..10).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ]
}

/// JSON of any shape, with names and values that schemas use.
fn anything() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 64, 6, |inner| {
        let name = proptest::sample::select(KEYWORDS).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(name, inner, 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A schema that compiles, with some defaults.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "default": "a"})),
        Just(json!({"type": "string", "nullable": true, "default": "a"})),
        Just(json!({"type": "string", "maxLength": 2, "pattern": "^a"})),
        Just(json!({"type": "integer", "minimum": 1, "default": 1})),
        Just(json!({"type": "number", "nullable": true})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        })),
    ];
    let names = || proptest::sample::select(&["a", "b", "kind", "metadata"][..]).prop_map(str::to_owned);
    let field = leaf.prop_recursive(4, 32, 4, move |inner| {
        let properties = btree_map(names(), inner.clone(), 1..4);
        prop_oneof![
            inner.clone().prop_map(|item| json!({"type": "array", "items": item})),
            inner.prop_map(|value| json!({"type": "object", "additionalProperties": value})),
            (properties, any::<bool>(), any::<bool>()).prop_map(|(properties, is_kept, has_default)| {
                let mut schema = json!({"type": "object", "properties": properties});
                if is_kept {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                if has_default {
                    schema["default"] = Map::new().into();
                }
                schema
            }),
        ]
    });
    field.prop_map(|field| json!({"type": "object", "properties": {"spec": field}}))
}

/// An object that roughly fits a schema.
fn object() -> impl Strategy<Value = Value> {
    anything()
        .prop_map(|spec| json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec}))
}

proptest! {
    #[test]
    fn nothing_that_is_json_makes_compilation_panic(schema in anything(), object in anything()) {
        if let Ok(schema) = Schema::compile(&schema, &FieldPath::root()) {
            let mut changed = object.clone();
            schema.prune(&mut changed);
            let _ = schema.coerce(&mut changed);
            schema.default(&mut changed);
            let _ = schema.validate(&changed, &FieldPath::root());
            let _ = schema.validate_update(&changed, &object);
        }
    }

    #[test]
    fn nothing_that_is_json_makes_the_check_of_a_definition_panic(spec in anything(), old in anything()) {
        let mut new = json!({"metadata": spec, "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": spec}}]}});
        default_crd(&mut new);
        let _ = validate_crd(&new);
        let _ = validate_crd_update(&new, &old);
        let _ = validate_crd_update(&old, &new);
        let mut old = old;
        default_crd(&mut old);
        let _ = validate_crd(&old);
    }

    #[test]
    fn any_text_is_a_pattern_or_is_refused(pattern in ".*", text in ".*") {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}});
        if let Ok(schema) = Schema::compile(&schema, &FieldPath::root()) {
            let _ = schema.validate(&json!({"a": text}), &FieldPath::root());
        }
    }

    #[test]
    fn what_is_pruned_stays_pruned(schema in schema(), object in object()) {
        let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
        let mut once = object;
        schema.prune(&mut once);
        let mut twice = once.clone();
        schema.prune(&mut twice);
        prop_assert_eq!(&once, &twice);
        prop_assert!(!schema.unknown_fields(&once).iter().any(|path| !path.contains("metadata")));
    }

    #[test]
    fn what_is_defaulted_stays_as_it_is(schema in schema(), object in object()) {
        let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
        let mut once = object;
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_update_that_changes_nothing_is_let_through(object in object()) {
        let schema = json!({
            "type": "object",
            "properties": {"spec": {
                "type": "object",
                "properties": {"a": {"type": "integer", "maximum": 0}, "b": {"type": "array", "items": {"type": "string"}}},
                "required": ["kind"],
            }},
        });
        let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
        let mut object = object;
        schema.prune(&mut object);
        prop_assert_eq!(schema.validate_update(&object, &object), []);
    }
}

fn nested(depth: usize, around: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "string"}), |schema, _| around(schema))
}

#[test]
fn a_schema_that_is_too_deep_is_refused() {
    let forms: [fn(Value) -> Value; 4] = [
        |inner| json!({"type": "array", "items": inner}),
        |inner| json!({"type": "object", "properties": {"a": inner}}),
        |inner| json!({"allOf": [inner]}),
        |inner| json!({"not": inner}),
    ];
    for form in forms {
        let schema = json!({"type": "object", "properties": {"spec": nested(300, form)}});
        let errors = Schema::compile(&schema, &FieldPath::new("s")).expect_err("too deep");
        assert_eq!(
            errors[0].to_string(),
            "s: Forbidden: must not be nested more than 128 levels deep, or have more than 65536 schemas"
        );
    }
}

#[test]
fn the_deepest_schema_that_is_allowed_does_not_exhaust_the_stack() {
    let lists = nested(120, |inner| json!({"type": "array", "items": inner}));
    let schema = json!({"type": "object", "properties": {"spec": lists}});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("not too deep");
    let mut object = json!({"spec": (0..120).fold(json!(1), |value, _| json!([value]))});
    schema.prune(&mut object);
    schema.default(&mut object);
    assert_eq!(schema.validate(&object, &FieldPath::root()).len(), 1);

    let junctions = (0..120).fold(json!({"maximum": 0}), |inner, _| json!({"allOf": [inner]}));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "integer", "allOf": [junctions]}}});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("not too deep");
    assert_eq!(schema.validate(&json!({"spec": 1}), &FieldPath::root()).len(), 2);
}

#[test]
fn a_schema_that_is_too_large_is_refused() {
    let properties: Map<String, Value> =
        (0..70_000).map(|index| (format!("f{index}"), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties});
    assert_eq!(Schema::compile(&schema, &FieldPath::root()).expect_err("too large").len(), 1);
}

#[test]
fn the_number_and_size_of_errors_is_limited() {
    let properties: Map<String, Value> = (0..60_000).map(|index| (format!("f{index}"), json!({}))).collect();
    let errors = Schema::compile(&json!({"type": "object", "properties": properties}), &FieldPath::root());
    assert!((1000..1100).contains(&errors.expect_err("no types").len()));

    let schema =
        json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}}}});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
    let object = json!({"l": vec![1; 100_000]});
    assert_eq!(schema.validate(&object, &FieldPath::root()).len(), 1000);
}

#[test]
fn rules_are_listed_as_unsupported() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-validations": [{"rule": "true"}, {"rule": "self.a > 1"}]},
        }},
    });
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
    let needs = schema.needs();
    let needed: Vec<String> = needs.iter().map(|need| format!("{}: {}", need.path, need.detail)).collect();
    assert_eq!(
        needed,
        [
            "properties[spec].items.x-kubernetes-validations[0]: true",
            "properties[spec].items.x-kubernetes-validations[1]: self.a > 1",
        ]
    );
}

#[test]
fn a_status_update_is_validated_by_the_schema_of_the_status_only() {
    let status =
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "l": {"type": "integer"}}});
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}, "status": status}});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema that compiles");
    let new = json!({"status": {"n": "x", "l": "y"}});
    let errors = |old: Value| -> Vec<String> {
        schema.validate_status_update(&new, &old).iter().map(ToString::to_string).collect()
    };
    let n = r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#;
    let l = r#"status.l: Invalid value: "string": l in body must be of type integer: "string""#;
    assert_eq!(errors(json!({})), [l, n]);
    assert_eq!(errors(json!({"status": {"n": "x"}})), [l]);
    assert_eq!(errors(new.clone()), [""; 0]);
}

#[test]
fn paths_of_many_unknown_fields_below_a_long_name_are_limited() {
    let key = "k".repeat(100_000);
    let resource = json!({"type": "object", "x-kubernetes-embedded-resource": true,
        "properties": {"metadata": {"type": "object"}}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        "other": {"type": "object", "additionalProperties": resource},
    }});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema");
    let fields: Map<String, Value> = (0..20_000).map(|index| (format!("f{index}"), 1.into())).collect();
    let metadata = json!({"apiVersion": "v1", "kind": "A", "metadata": fields});
    for object in
        [json!({"spec": {key.as_str(): fields.clone()}}), json!({"other": {key.as_str(): metadata}})]
    {
        let unknown = schema.unknown_fields(&object);
        assert_eq!(unknown.len(), 1);
        assert!(unknown[0].contains(&key), "the first is reported, however long it is");
    }
    let unknown = schema.unknown_fields(&json!({"spec": {"k": fields.clone()}}));
    assert_eq!(unknown.len(), 100);
    assert!(unknown.is_sorted());
}

#[test]
fn a_schema_whose_patterns_take_too_much_is_refused() {
    let properties: Map<String, Value> = (0..200)
        .map(|index| {
            let pattern = format!(r"{index}\pL{{90}}");
            (format!("f{index:03}"), json!({"type": "string", "pattern": pattern}))
        })
        .collect();
    let schema = json!({"type": "object", "properties": properties});
    let errors = Schema::compile(&schema, &FieldPath::new("s")).expect_err("too much");
    let last = errors.last().map(ToString::to_string).unwrap_or_default();
    assert_eq!(
        last,
        "s.properties[f199].pattern: Invalid value: \"199\\\\pL{90}\": must be a valid regular expression, but isn't: \
         the patterns of a schema must not take more than 32 MiB together, or be more than 4096"
    );
}

#[test]
fn defaults_add_a_limited_size() {
    let item = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x".repeat(50_000)},
        "b": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "y".repeat(50_000)}}},
    }});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
    let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema");
    let object = |items: usize| json!({"list": vec![json!({}); items]});
    let mut small = object(30);
    assert!(schema.default(&mut small));
    assert!(small["list"][29]["b"]["c"].is_string());
    let mut large = object(4_000);
    assert!(!schema.default(&mut large));
    let length = large.to_string().len();
    assert!((3 << 20..4 << 20).contains(&length), "{length}");
}

#[test]
fn errors_below_a_long_name_are_limited() {
    let key = "k".repeat(100_000);
    let length = |errors: &[bowline_machinery::FieldError]| -> usize {
        errors.iter().map(|error| error.to_string().len()).sum()
    };
    let bounds = 1 << 20..2 << 20;
    let fields: Map<String, Value> = (0..900).map(|index| (format!("f{index}"), json!({}))).collect();
    let schemas = [
        json!({"type": "object", "properties": {key.as_str(): {"type": "object", "properties": fields}}}),
        json!({"type": "object", "properties": {key.as_str(): {"type": "object"}},
            "not": {"properties": {key.as_str(): {"properties": fields}}}}),
    ];
    for schema in schemas {
        let errors = Schema::compile(&schema, &FieldPath::root()).expect_err("fields without a type");
        assert!(bounds.contains(&length(&errors)), "{}", length(&errors));
    }

    let labels: Map<String, Value> = (0..900).map(|index| (format!("-{index}"), "".into())).collect();
    let of = |items: Value| {
        json!({"type": "object", "properties": {
        "spec": {"type": "object", "additionalProperties": items}}})
    };
    let rows = [
        (of(json!({"type": "array", "items": {"type": "string"}})), json!((0..900).collect::<Vec<_>>())),
        (
            of(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}})),
            json!((0..900).chain(0..900).collect::<Vec<_>>()),
        ),
        (
            of(json!({"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true})),
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"labels": labels}}),
        ),
    ];
    for (schema, value) in rows {
        let schema = Schema::compile(&schema, &FieldPath::root()).expect("a schema");
        let errors = schema.validate(&json!({"spec": {key.as_str(): value}}), &FieldPath::root());
        assert!((1 << 19..2 << 20).contains(&length(&errors)), "{}", length(&errors));
    }
}
