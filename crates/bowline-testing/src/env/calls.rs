//! The record of an operator's requests. Owns its limit.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_apiserver::RequestAttributes;
use http::{Method, Uri};

/// Maximum number of distinct calls that are kept.
const KEPT: usize = 4096;

/// The requests that an operator sent, each distinct one once, in the order of their attributes; from
/// [`TestEnv::calls`](crate::TestEnv::calls).
///
/// A call has the [attributes](RequestAttributes) that RBAC compares with rules, and no body. At most 4096 distinct calls are
/// kept; [`missed`](Self::missed) counts requests beyond them.
///
/// Its `Display` has a line for each call: `create configmaps in test (2 times)`.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    counts: BTreeMap<RequestAttributes, u64>,
    missed: u64,
}

impl Calls {
    /// The distinct calls and the number of requests of each.
    pub fn iter(&self) -> impl Iterator<Item = (&RequestAttributes, u64)> {
        self.counts.iter().map(|(call, count)| (call, *count))
    }

    /// Number of requests that are not in the record, because it was full.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (call, count) in self.iter() {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            writeln!(f, "{call} ({times})")?;
        }
        if self.missed > 0 {
            writeln!(f, "and {} requests that the record had no room for", self.missed)?;
        }
        Ok(())
    }
}

/// Record of the requests of all runs' connections.
#[derive(Clone, Default)]
pub(super) struct CallLog(Arc<Mutex<Calls>>);

impl CallLog {
    pub(super) fn record(&self, method: &Method, uri: &Uri) {
        let call = RequestAttributes::of(method, uri);
        let mut calls = self.lock();
        let is_full = calls.counts.len() >= KEPT;
        match calls.counts.get_mut(&call) {
            Some(count) => *count += 1,
            None if is_full => calls.missed += 1,
            None => {
                calls.counts.insert(call, 1);
            }
        }
    }

    pub(super) fn all(&self) -> Calls {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_and_their_number_is_limited() {
        let log = CallLog::default();
        let record = |uri: &str| log.record(&Method::GET, &uri.parse().expect("a URI"));
        for number in 0..KEPT {
            record(&format!("/api/v1/nodes/{number:04}"));
        }
        record("/api/v1/nodes/0000");
        record("/version");
        record("/version");
        let calls = log.all();
        assert_eq!((calls.iter().count(), calls.missed()), (KEPT, 2));
        let text = calls.to_string();
        assert!(text.starts_with("get nodes 0000 (2 times)\nget nodes 0001 (once)\n"), "{text}");
        assert!(text.ends_with("and 2 requests that the record had no room for\n"), "{text}");
    }
}
