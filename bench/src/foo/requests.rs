//! Requests counted by kube-apiserver itself, so that no proxy is needed.

use std::collections::BTreeMap;

use crate::apiserver::client::{Asked, Connection};
use crate::apiserver::load::Failure;

/// Resources that operators read or write. No other client uses them during a run.
const RESOURCES: [&str; 3] = ["foos", "deployments", "events"];

/// Resources that operators write for a Foo.
const NEEDED: [&str; 2] = ["foos", "deployments"];

const METRIC: &str = "apiserver_request_total{";

/// Number of requests so far, by type.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<Request, u64>);

/// Labels that distinguish requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    verb: String,
    resource: String,
    code: u16,
}

impl Requests {
    /// Counters so far. Reading them costs the server some tens of milliseconds.
    ///
    /// # Errors
    /// When the request fails.
    pub(super) async fn so_far(connection: &mut Connection) -> Result<Self, Failure> {
        let text = connection.ask(Asked::get("/metrics")).await?;
        let text = str::from_utf8(&text)?;
        if !text.contains(METRIC) {
            return Err("the server does not count requests".into());
        }
        Ok(Self::read(text))
    }

    fn read(text: &str) -> Self {
        let mut requests = Self::default();
        for line in text.lines() {
            if let Some((request, count)) = request(line) {
                *requests.0.entry(request).or_default() += count;
            }
        }
        requests
    }

    /// Requests since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        let since = self.0.iter().map(|(request, count)| {
            (request.clone(), count - before.0.get(request).copied().unwrap_or(0).min(*count))
        });
        Self(since.collect())
    }

    /// All requests of an operator except watches, which a server counts when they end.
    pub(super) fn all(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Number of 409 responses to necessary writes: the writer's cache is stale.
    pub(super) fn conflicts(&self) -> u64 {
        self.sum(|request| request.is_needed() && request.code == 409)
    }

    /// Number of accepted necessary writes.
    pub(super) fn writes(&self) -> u64 {
        let is_write = |verb: &str| ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb);
        self.sum(|request| {
            request.is_needed() && is_write(&request.verb) && (200..300).contains(&request.code)
        })
    }

    /// Number of created events: one per Foo, unless a recorder dropped some.
    pub(super) fn events(&self) -> u64 {
        self.sum(|request| request.resource == "events" && request.verb == "POST" && request.code == 201)
    }

    /// Each type of request, for display.
    pub(super) fn describe(&self) -> String {
        let made = self.0.iter().filter(|(_, count)| **count > 0);
        let lines = made.map(|(Request { verb, resource, code }, count)| {
            format!("{count:>8} {verb} {resource}: {code}\n")
        });
        lines.collect()
    }

    fn sum(&self, is_counted: impl Fn(&Request) -> bool) -> u64 {
        let counted = self.0.iter().filter(|(request, _)| request.verb != "WATCH" && is_counted(request));
        counted.map(|(_, count)| count).sum()
    }
}

impl Request {
    fn is_needed(&self) -> bool {
        NEEDED.contains(&self.resource.as_str())
    }
}

/// The request in a line of the metrics, if operators send it.
fn request(line: &str) -> Option<(Request, u64)> {
    let (labels, count) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let label = |name: &str| {
        labels.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
    };
    let resource = label("resource").filter(|resource| RESOURCES.contains(resource))?;
    let request = Request {
        verb: label("verb")?.to_owned(),
        resource: resource.to_owned(),
        code: label("code")?.parse().ok()?,
    };
    Some((request, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="POST",version="v1"} 10
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="PUT",version="v1"} 70
"#;
    const AFTER: &str = r#"
apiserver_request_total{code="201",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="POST",version="v1"} 13
apiserver_request_total{code="409",component="apiserver",dry_run="",group="apps",resource="deployments",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="samplecontroller.k8s.io",resource="foos",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 4
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="cluster",subresource="",verb="LIST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="apps",resource="deployments",scope="cluster",subresource="",verb="WATCH",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="PUT",version="v1"} 90
"#;

    #[test]
    fn what_an_operator_asked_is_told_by_what_was_counted_before_and_after() {
        let asked = Requests::read(AFTER).since(&Requests::read(BEFORE));
        assert_eq!(asked.all(), 3 + 1 + 4 + 3 + 2 + 1);
        assert_eq!(asked.conflicts(), 1, "not those of events");
        assert_eq!(asked.events(), 3);
        assert_eq!(asked.writes(), 3 + 4, "neither events nor what was refused");
    }
}
