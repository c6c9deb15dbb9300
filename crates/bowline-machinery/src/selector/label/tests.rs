//! Label selectors: grammar, errors and matching.

use serde_json::json;

use super::*;

#[test]
fn a_selector_is_printed_in_its_canonical_form() {
    let rows = [
        ("", ""),
        (" ", ""),
        ("a=b", "a=b"),
        ("b==1, a!=2", "a!=2,b==1"),
        ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
        ("!old , new", "new,!old"),
        ("a>1,b<2", "a>1,b<2"),
        ("a=,b", "a=,b"),
        ("in in (in,notin)", "in in (in,notin)"),
        ("a in (,)", "a in ()"),
        ("a in (b,b)", "a in (b)"),
        ("notin=in", "notin=in"),
    ];
    for (text, printed) in rows {
        let selector = LabelSelector::parse(text).unwrap();
        assert_eq!(selector.to_string(), printed, "{text}");
        assert_eq!(LabelSelector::parse(printed).unwrap(), selector, "{text}");
    }
}

#[test]
fn invalid_selectors_get_the_message_of_kubernetes() {
    let rows = [
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        ("a>=1", "unable to parse requirement: found '=', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must \
             be an integer",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(LabelSelector::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn keys_and_values_are_those_of_labels() {
    let error = LabelSelector::parse("a/b/c=1").unwrap_err().to_string();
    let start =
        "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key must consist of";
    assert!(error.starts_with(start), "{error}");
    let error = LabelSelector::parse("a=b/c").unwrap_err().to_string();
    let start =
        "unable to parse requirement: values[0][a]: Invalid value: \"b/c\": a valid label must be an empty";
    assert!(error.starts_with(start), "{error}");
    let error = LabelSelector::parse("a>-").unwrap_err().to_string();
    let start = "unable to parse requirement: [values[0]: Invalid value: \"-\": for 'Gt', 'Lt' operators, the value \
                 must be an integer, values[0][a]: Invalid value: \"-\": a valid label must be";
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn a_selector_matches_if_all_requirements_hold() {
    let labels = json!({"a": "1", "b": "x", "c": ""});
    let rows = [
        ("", true),
        ("a=1", true),
        ("a=2", false),
        ("d=1", false),
        ("a!=1", false),
        ("d!=1", true),
        ("b in (x,y)", true),
        ("b notin (x,y)", false),
        ("d notin (x)", true),
        ("d in ()", false),
        ("c in ()", true),
        ("c", true),
        ("!c", false),
        ("!d", true),
        ("a>0", true),
        ("a>1", false),
        ("a<2", true),
        ("b>0", false),
        ("d<5", false),
        ("a=1,b=y", false),
    ];
    for (text, picked) in rows {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), picked, "{text}");
    }
}

#[test]
fn an_exact_value_comes_from_the_first_requirement_on_a_key() {
    let selector = LabelSelector::parse("a=1,b in (x),c in (x,y),d").unwrap();
    assert_eq!(
        ["a", "b", "c", "d", "e"].map(|key| selector.exact(key)),
        [Some("1"), Some("x"), None, None, None]
    );
}
