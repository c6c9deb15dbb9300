//! Metrics of requests, with client-go's names.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use http::Method;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;

/// The methods with their own label; any other method counts as the last.
const METHODS: [&str; 8] = ["GET", "PUT", "POST", "HEAD", "PATCH", "DELETE", "OPTIONS", "OTHER"];

/// The metrics of requests, by server.
#[derive(Debug, Default)]
pub(crate) struct RequestCatalog {
    hosts: Mutex<BTreeMap<String, Arc<RequestMetrics>>>,
}

/// The metrics of requests to one server.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics {
    sent: Tally,
    retried: Tally,
}

/// Counts by method and status code, zero for no response. Each counter is created once; after that, counting is a
/// lookup.
#[derive(Debug, Default)]
struct Tally(RwLock<BTreeMap<(u16, usize), Counter>>);

impl RequestCatalog {
    /// The metrics of requests to a server.
    pub(crate) fn host(&self, host: &str) -> Arc<RequestMetrics> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.entry(host.to_owned()).or_default().clone()
    }
}

impl RequestMetrics {
    /// Counts a sent request by the code of its response; zero for none.
    pub(crate) fn sent(&self, code: u16, method: &Method) {
        self.sent.count(code, method);
    }

    /// Counts a retry by the code of the previous response; zero for none.
    pub(crate) fn retried(&self, code: u16, method: &Method) {
        self.retried.count(code, method);
    }
}

impl Tally {
    fn count(&self, code: u16, method: &Method) {
        let method = METHODS.iter().position(|name| *name == method.as_str()).unwrap_or(METHODS.len() - 1);
        let key = (code, method);
        if let Some(counter) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            counter.inc();
            return;
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().inc();
    }

    /// The counts by code and method.
    fn counts(&self) -> Vec<(String, &'static str, Counter)> {
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let count = |((code, method), counter): (&(u16, usize), &Counter)| {
            let code = if *code == 0 { "<error>".to_owned() } else { code.to_string() };
            (code, METHODS[*method], counter.clone())
        };
        counts.iter().map(count).collect()
    }
}

impl Collector for RequestCatalog {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut family = |name, help, label, tally: fn(&RequestMetrics) -> &Tally| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (host, metrics) in &hosts {
                for (code, method, counter) in tally(metrics).counts() {
                    let labels = [("code", &*code), ("host", host), (label, method)];
                    counter.encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        let help = "Number of HTTP requests, partitioned by status code, method, and host";
        family("rest_client_requests", help, "method", |metrics| &metrics.sent)?;
        let help = "Number of request retries, partitioned by status code, verb, and host";
        family("rest_client_request_retries", help, "verb", |metrics| &metrics.retried)
    }
}
