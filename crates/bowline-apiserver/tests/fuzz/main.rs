//! The fuzz targets as ordinary tests: a small corpus, changed here and there. proptest prints what failed and how to
//! repeat it. `cargo fuzz run request` in `crates/bowline-apiserver` runs the same bodies for longer.

mod targets;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const TOKENS: &[&str] = &[
    "{\"v\":\"meta.k8s.io/v1\",\"rv\":-1,\"start\":\"/a\\u0000\"}",
    "{\"v\":\"meta.k8s.io/v1\",\"rv\":9,\"start\":\"b\"}",
    "{\"v\":\"meta.k8s.io/v1\",\"rv\":1,\"start\":\"/../default/a\"}",
    "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiL2JcdTAwMDAifQ",
];
const REQUESTS: &[&str] = &[
    "GET /api/v1/namespaces/default/configmaps?limit=2&labelSelector=l%20in%20(a,b)&resourceVersion=0",
    "GET /api/v1/configmaps?watch=1&resourceVersion=1&timeoutSeconds=5&allowWatchBookmarks=true",
    "GET /api/v1/watch/namespaces/default/configmaps/a?fieldSelector=metadata.name%3Da",
    "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dx,status.phase!%3DRunning&continue=x",
    "GET /apis/apps/v1/namespaces/default/deployments/x/scale?pretty=true",
    "GET /api/v1/nodes?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99",
    "DELETE /api/v1/namespaces/default/secrets/x?gracePeriodSeconds=0&propagationPolicy=Orphan&dryRun=All",
    "PATCH /apis/apps/v1/namespaces/default/statefulsets/x/status?fieldManager=f&force=true",
    "HEAD /readyz/ping?verbose&exclude=etcd",
    "GET /apis/events.k8s.io/v1/events?limit=-1",
    "GET /openapi/v3/apis/apps/v1?hash=",
];

/// A text of the corpus with some bytes changed, put in, left out, or taken from another.
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
                    bytes.splice(place..place, other[from..].iter().take(12).copied());
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
    fn a_token_of_any_bytes_goes_on_or_is_refused(data in changed(TOKENS)) {
        targets::continue_token(&data);
    }

    #[test]
    fn bytes_that_are_nothing_like_a_token_are_refused(data in vec(any::<u8>(), 0..64)) {
        targets::continue_token(&data);
    }

    #[test]
    fn a_request_of_any_bytes_is_answered(data in changed(REQUESTS)) {
        targets::request(&data);
    }
}
