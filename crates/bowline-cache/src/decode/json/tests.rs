//! Tests that compare this decoder with `serde_json`.

use std::{collections::BTreeMap, marker::PhantomData};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::decode::tree::Tree;

fn ours<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    certain(PhantomData, text, true).ok()
}

/// Both give the same value, and this decoder handled it itself.
fn agrees<T: DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    assert_eq!(ours::<T>(text.as_bytes()), Some(serde_json::from_str(text).unwrap()), "{text}");
}

#[test]
fn numbers_are_those_of_serde_json() {
    for text in [
        "0",
        "7",
        "-7",
        "-0",
        "0.0",
        "-0.0",
        "1.5",
        "-1.5e3",
        "1E+2",
        "1e-2",
        "2147483647",
        "-2147483649",
        "999999999999999999",
        "1000000000000000000",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "3.141592653589793238462643",
        "1e308",
        "5e-324",
        "1e-400",
    ] {
        agrees::<Value>(text);
        agrees::<f64>(text);
        let int: Option<i64> = serde_json::from_str(text).ok();
        assert_eq!(ours::<i64>(text.as_bytes()), int, "{text}");
        assert_eq!(ours::<i32>(text.as_bytes()), serde_json::from_str(text).ok(), "{text}");
        assert_eq!(ours::<u8>(text.as_bytes()), serde_json::from_str(text).ok(), "{text}");
    }
}

#[test]
fn strings_are_those_of_serde_json() {
    for text in [
        r#""""#,
        r#""a""#,
        r#""1234567""#,
        r#""12345678""#,
        r#""123456789""#,
        r#""\"\\\/\b\f\n\r\t""#,
        r#""\u0041\u00e9\u20ac""#,
        r#""\ud83d\ude00 after it""#,
        "\"\u{e9}\u{20ac}\u{1f600}\"",
        "\"\u{7f}\u{80}\"",
    ] {
        agrees::<String>(text);
        agrees::<Value>(text);
    }
}

#[test]
fn input_that_serde_json_rejects_is_rejected() {
    for text in [
        "",
        " ",
        "nul",
        "nullx",
        "truefalse",
        "tru",
        "+1",
        "01",
        "-01",
        "-",
        "1.",
        ".5",
        "1e",
        "1e+",
        "--1",
        "1.5.5",
        "1e999",
        "0x10",
        "NaN",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        r#""\ud83d""#,
        r#""\ude00""#,
        "\"\n\"",
        "\"\u{1f}\"",
        "\"12345678\u{0}\"",
        "\"123\u{0}567812345678\"",
        "\"1234567\u{1f}12345678\"",
        "'a'",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "]",
        "{",
        "{}}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a":1,}"#,
        r#"{,"a":1}"#,
        r#"{"a":1 "b":2}"#,
        "{a:1}",
        "{1:1}",
        r#"{"a":1]"#,
        "[] []",
        "1 2",
    ] {
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
        assert_eq!(ours::<Value>(text.as_bytes()), None, "{text}");
        assert!(certain(PhantomData::<de::IgnoredAny>, text.as_bytes(), true).is_err(), "{text}");
    }
    assert_eq!(ours::<Value>(b"\"\xff\""), None);
    assert_eq!(ours::<Value>(b"\"\xed\xa0\x80\""), None);
}

#[test]
fn the_limit_of_depth_is_that_of_serde_json() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        for depth in [126, 127, 128, 129, 100_000] {
            let text = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(ours::<Value>(text.as_bytes()), serde_json::from_str(&text).ok(), "{depth}");
            assert_eq!(
                certain(Tree, text.as_bytes(), true).ok(),
                serde_json::from_str(&text).ok(),
                "{depth}"
            );
        }
    }
}

#[test]
fn a_vector_is_as_large_as_what_is_in_it() {
    for length in [0, 1, 2, 3, 5, 9, 100] {
        let text = json!(vec![json!([{"a": [1]}, "]"]); length]).to_string();
        let vectors: Vec<Vec<Value>> = ours(text.as_bytes()).unwrap();
        assert_eq!((vectors.len(), vectors.capacity()), (length, length));
        assert!(vectors.iter().all(|vector| vector.capacity() == 2));
        let Ok(Value::Array(tree)) = certain(Tree, text.as_bytes(), true) else { panic!("it is an array") };
        assert_eq!((tree.len(), tree.capacity()), (length, length));
    }
}

#[test]
fn counting_has_a_budget_and_decoding_goes_on_without_it() {
    let text = format!("{}{}{}", "[".repeat(100), "1,".repeat(1000) + "1", "]".repeat(100));
    assert_eq!(ours::<Value>(text.as_bytes()), serde_json::from_str(&text).ok());
}

#[derive(Debug, PartialEq, serde::Deserialize)]
enum Shape {
    Unit,
    New(u32),
    Tuple(u32, String),
    Struct { a: Option<u32> },
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(untagged)]
enum Either {
    Number(i32),
    Text(String),
    More { more: Vec<Either> },
}

#[test]
fn types_beyond_those_of_kubernetes_are_decoded_too() {
    agrees::<Vec<Shape>>(
        r#"["Unit",{"Unit":null},{"New":1},{"Tuple":[1,"\n"]},{ "Struct" : {"a":null} },{"Struct":{"b":[1],"a":2}}]"#,
    );
    agrees::<Vec<Either>>(r#"[1,"a",{"more":[2,{"more":[]}],"else":{"x":[true]}}]"#);
    agrees::<(u8, (), Option<bool>, char, [u64; 2])>(r#"[1,null,true,"x",[1,2]]"#);
    agrees::<BTreeMap<String, BTreeMap<char, f32>>>(r#"{"a":{"\u0062":1.5},"c":{}}"#);
    for text in [r#"{"New":1,"Unit":null}"#, r#"{"New":"x"}"#, r#"{"Other":1}"#, "{}", r#""New""#] {
        assert_eq!(ours::<Shape>(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn rare_constructs_are_decoded_by_serde_json() {
    #[derive(serde::Deserialize)]
    struct Unusual {
        metadata: Value,
        raw: Box<serde_json::value::RawValue>,
        numbers: BTreeMap<u32, bool>,
    }
    let text = br#"{"metadata":{"managedFields":[1],"a":2},"raw":{"a" : 1},"numbers":{"7":true}}"#;
    assert!(certain(PhantomData::<Unusual>, text, true).is_err());
    let unusual: Unusual = decode(PhantomData, text, false, &mut Vec::new()).unwrap();
    assert_eq!(
        (unusual.raw.get(), unusual.numbers[&7], unusual.metadata),
        (r#"{"a" : 1}"#, true, json!({"a": 2}))
    );
    let error = decode(PhantomData::<Pod>, br#"{"spec":7}"#, false, &mut Vec::new()).unwrap_err();
    assert!(error.to_string().starts_with("invalid type: integer `7`"), "{error}");
}

#[test]
fn only_the_managed_fields_of_the_object_itself_are_passed_over() {
    let inner = json!({"metadata": {"managedFields": 1}, "managedFields": 2});
    let object = json!({
        "managedFields": 3, "first": inner, "list": [{"metadata": inner}],
        "metadata": {"a": 1, "managedFields": [{"b": "]"}], "metadata": inner, "z": {"managedFields": 4}},
        "spec": inner,
    });
    let mut expected = object.clone();
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    for text in
        [object.to_string(), format!("{object:#}"), object.to_string().replace("managedF", "managed\\u0046")]
    {
        assert_eq!(certain(Tree, text.as_bytes(), false).unwrap(), expected);
        assert_eq!(certain(Tree, text.as_bytes(), true).unwrap(), object);
    }
    for (text, expected) in [
        (r#"{"metadata":{"managedFields":[]}}"#, json!({"metadata": {}})),
        (r#"{"metadata":{"managedFields":[],"a":1}}"#, json!({"metadata": {"a": 1}})),
    ] {
        assert_eq!(certain(Tree, text.as_bytes(), false).unwrap(), expected);
    }
    assert!(certain(Tree, br#"{"metadata":{"managedFields":[],}}"#, false).is_err());
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "labels": {"a": "\u{e9}\n", "b": ""}, "creationTimestamp": "2026-11-15T13:00:00Z",
            "deletionGracePeriodSeconds": 30, "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "http"}},
            "readinessProbe": {"httpGet": {"port": 8080}}, "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            "unknown": [{"x": [1, 2.5, null, "\\"]}], "hostNetwork": true, "priority": -5},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}]},
    })
}

#[test]
fn kinds_of_kubernetes_equal_serde_jsons() {
    agrees::<Pod>(&pod().to_string());
    agrees::<Pod>(&format!("{:#}", pod()));
    let deployment = json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}, "template": pod(), "replicas": 3}});
    agrees::<Deployment>(&deployment.to_string());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ -~\n]{0,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, Vec<u8>, usize)> {
    let byte =
        prop_oneof![any::<u8>(), proptest::sample::select(b"{}[]\"\\,: 0123456789.eE+-ntfu\n".to_vec())];
    (any::<prop::sample::Index>(), proptest::collection::vec(byte, 0..4), 0..4_usize)
}

fn damaged(mut text: Vec<u8>, (at, bytes, cut): &(prop::sample::Index, Vec<u8>, usize)) -> Vec<u8> {
    let start = at.index(text.len() + 1);
    let end = (start + cut).min(text.len());
    text.splice(start..end, bytes.iter().copied());
    text
}

proptest! {
    #[test]
    fn any_value_equals_serde_jsons(value in value(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let expected: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(ours::<Value>(text.as_bytes()), Some(expected.clone()));
        prop_assert_eq!(certain(Tree, text.as_bytes(), false).ok(), Some(expected));
        prop_assert!(certain(PhantomData::<de::IgnoredAny>, text.as_bytes(), true).is_ok());
    }

    #[test]
    fn damaged_json_is_accepted_only_if_serde_json_accepts_it_and_says_the_same(value in value(), damage in damage()) {
        let text = damaged(value.to_string().into_bytes(), &damage);
        if let Some(value) = ours::<Value>(&text) {
            prop_assert_eq!(Some(value), serde_json::from_slice(&text).ok());
        }
        if certain(PhantomData::<de::IgnoredAny>, &text, true).is_ok() {
            prop_assert!(serde_json::from_slice::<de::IgnoredAny>(&text).is_ok());
        }
    }

    #[test]
    fn a_damaged_pod_is_accepted_only_if_serde_json_accepts_it_and_says_the_same(damage in damage()) {
        let text = damaged(pod().to_string().into_bytes(), &damage);
        if let Some(pod) = ours::<Pod>(&text) {
            prop_assert_eq!(Some(pod), serde_json::from_slice(&text).ok());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = certain(Tree, &bytes, false);
        let _ = decode(Tree, &bytes, false, &mut Vec::new());
    }
}
