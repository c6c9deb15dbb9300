//! What is counted of requests.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// How often requests were sent again, as client-go counts it.
#[derive(Clone, Debug)]
pub(crate) struct RequestRetries(Family<[(&'static str, String); 3], Counter>);

impl RequestRetries {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family = Family::default();
        let help = "Number of request retries, partitioned by status code, verb, and host";
        registry.register("rest_client_request_retries", help, Family::clone(&family));
        Self(family)
    }

    /// A request is sent again: after an answer with this code, zero for none.
    pub(crate) fn count(&self, code: u16, host: &str, verb: &str) {
        let code = if code == 0 { "<error>".to_owned() } else { code.to_string() };
        let labels = [("code", code), ("host", host.to_owned()), ("verb", verb.to_owned())];
        self.0.get_or_create(&labels).inc();
    }
}
