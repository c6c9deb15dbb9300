//! The fuzz targets as ordinary tests, with a small, mutated corpus. proptest prints the failing input and its seed.
//! `cargo fuzz run selectors` in `crates/bowline-machinery` runs the same bodies for longer.

mod targets;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const PATCHES: &[&str] = &[
    "{\"a\":{\"b\":1},\"l\":[1,2]}\n[{\"op\":\"add\",\"path\":\"/a/c\",\"value\":{}}]",
    "{\"a\":{\"b\":1},\"l\":[1,2]}\n[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/l/-\"},{\"op\":\"remove\",\"path\":\"/l/0\"}]",
    "{\"a/b\":[[null]]}\n[{\"op\":\"copy\",\"from\":\"/a~1b/0\",\"path\":\"/a~1b/-1\"}]",
    "{\"a\":1}\n[{\"op\":\"test\",\"path\":\"/a\",\"value\":1},{\"op\":\"replace\",\"path\":\"\",\"value\":{\"x\":[]}}]",
    "{\"a\":{\"b\":[1,{\"c\":null}]}}\n{\"a\":{\"b\":null,\"d\":[{\"e\":null}]}}",
];
const SELECTORS: &[&str] = &[
    "a=b,c!=d",
    "x in (foo,,baz),y,z notin ()",
    "!a,b>1,c<-2",
    "metadata.name=a,status.phase!=Running",
    r"a=x\,y\=z\\",
    "example.com/a==b",
];
const QUANTITIES: &[&str] = &["1", "0.5", "1024Mi", "-1.5Gi", "1e3", "100m", "0500n", "12E", "1e-10", "9Ei"];

const SCHEMAS: &[&str] = &[
    "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"required\":[\"n\"],\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":1,\"default\":2}}}}}\n{\"spec\":{\"n\":0,\"x\":1}}",
    "{\"type\":\"object\",\"properties\":{\"l\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-z]{1,3}\\\\d*$\",\"format\":\"date\"}}}}\n{\"l\":[\"a1\",\"a1\",null]}",
    "{\"type\":\"object\",\"properties\":{\"e\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true}}}\n{\"e\":{\"kind\":\"A\",\"metadata\":{\"name\":1}}}",
    "{\"type\":\"object\",\"anyOf\":[{\"required\":[\"a\"]},{\"not\":{\"required\":[\"b\"]}}],\"properties\":{\"m\":{\"type\":\"object\",\"additionalProperties\":{\"x-kubernetes-int-or-string\":true}}}}\n{\"m\":{\"k\":1.5}}",
];

/// A text of the corpus with some bytes changed, inserted, removed, or replaced by those of another.
fn changed(corpus: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let change = (0..4_u8, any::<Index>(), any::<u8>(), select(corpus), any::<Index>());
    (select(corpus), vec(change, 0..6)).prop_map(|(text, changes)| {
        let mut bytes = text.as_bytes().to_vec();
        for (kind, place, byte, other, cut) in changes {
            let place = place.index(bytes.len() + 1);
            match kind {
                0 if place < bytes.len() => bytes[place] = byte,
                1 if place < bytes.len() => {
                    bytes.remove(place);
                }
                2 => {
                    let other = other.as_bytes();
                    let from = cut.index(other.len());
                    bytes.splice(place..place, other[from..].iter().take(8).copied());
                }
                _ => bytes.insert(place, byte & 0x7f),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_of_any_bytes_applies_or_says_why_not(data in changed(PATCHES)) {
        targets::json_patch(&data);
    }

    #[test]
    fn a_selector_of_any_bytes_is_printed_as_the_same_selector(data in changed(SELECTORS)) {
        targets::selectors(&data);
    }

    #[test]
    fn a_quantity_of_any_bytes_is_printed_as_the_same_quantity(data in changed(QUANTITIES)) {
        targets::quantity(&data);
    }

    #[test]
    fn a_schema_of_any_bytes_compiles_or_says_why_not(data in changed(SCHEMAS)) {
        targets::schema(&data);
    }
}
