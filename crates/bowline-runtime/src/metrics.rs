//! Metrics, with controller-runtime's names.

mod catalog;
mod certificate;
mod controller;
mod election;
mod histogram;
mod process;
mod queue;
mod request;
mod text;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::events::EventCatalog;
use catalog::Catalog;
pub(crate) use catalog::NameReservation;
pub(crate) use certificate::CertificateReads;
pub(crate) use controller::{ControllerMetrics, WorkerMetrics};
pub use election::ElectionMetrics;
use election::Elections;
use process::ProcessCollector;
use request::RequestCatalog;
pub(crate) use request::RequestMetrics;
use writer::Writer;

/// The metrics of one process or of one test: a registry that is a value. Clones share the registry.
///
/// Controllers use the metric names of controller-runtime (`controller_runtime_reconcile_total`, `workqueue_depth` and
/// so on), so that existing dashboards work. So do transports (`rest_client_requests_total`), elections
/// (`leader_election_master_status`) and servers that read certificates (`certwatcher_read_certificate_total`). On
/// Linux there are metrics of the process (`process_resident_memory_bytes` and others). Bowline adds:
/// - `bowline_reconcile_triggers_total{controller,source,cause}`: triggers of reconciles,
/// - `bowline_source_panics_total{controller,source}`: panics of a source, or of its predicates or handler,
/// - `bowline_source_errors_total{controller,source}`: errors that the async handler of a source returned,
/// - `bowline_source_unhandled_changes_total{controller,source}`: changes dropped because a predicate or handler failed
///   on every attempt,
/// - `bowline_controller_running{controller}` and `bowline_controller_ready{controller}`: 0 after the end, and until the
///   watched kinds have synced.
///
/// The metrics of a controller are removed with it. Clusters may share a registry; the names of their controllers must
/// then be unique. At most 64 sources of a controller have their own label.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    catalog: Arc<Catalog>,
    events: Arc<EventCatalog>,
    requests: Arc<RequestCatalog>,
    elections: Elections,
    certificates: CertificateReads,
}

impl Metrics {
    /// A new registry.
    #[must_use]
    pub fn new() -> Self {
        let catalog = Arc::new(Catalog::default());
        let mut registry = Registry::default();
        registry.register_collector(Box::new(catalog.clone()));
        let events = Arc::new(EventCatalog::default());
        registry.register_collector(Box::new(events.clone()));
        let requests = Arc::new(RequestCatalog::default());
        registry.register_collector(Box::new(requests.clone()));
        registry.register_collector(Box::new(ProcessCollector));
        let elections = Elections::register(&mut registry);
        let certificates = CertificateReads::register(&mut registry);
        Self { registry: Arc::new(Mutex::new(registry)), catalog, events, requests, elections, certificates }
    }

    /// Calls a function with the registry, to add custom metrics.
    pub fn with_registry<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        change(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All metrics in the `OpenMetrics` text format, for a scrape with `application/openmetrics-text; version=1.0.0;
    /// charset=utf-8`.
    ///
    /// # Panics
    /// Never, unless a metric that was added to the registry fails to encode.
    #[must_use]
    pub fn encode(&self) -> String {
        self.write(Writer::new(true))
    }

    /// All metrics in the text format of Prometheus (`text/plain; version=0.0.4; charset=utf-8`), for a scrape that
    /// does not accept `OpenMetrics`. Bucket bounds are written as by Go's client (`le="1"`, where
    /// [`encode`](Self::encode) writes `le="1.0"`), so that rules for controller-runtime match.
    ///
    /// # Panics
    /// As [`encode`](Self::encode).
    #[must_use]
    pub fn encode_text(&self) -> String {
        text::from_open_metrics(&self.write(Writer::new(false)))
    }

    fn write(&self, mut writer: Writer) -> String {
        self.with_registry(|registry| encode(&mut writer, registry))
            .expect("nothing fails that is written into a string");
        writer.finish()
    }

    /// The metrics of event sinks.
    pub(crate) fn events(&self) -> &EventCatalog {
        &self.events
    }

    /// The leadership metric of an election, for a program that runs a
    /// [`LeaderElector`](crate::leader_election::LeaderElector) without a manager. Initially zero: not leading.
    #[must_use]
    pub fn election(&self, name: &str) -> ElectionMetrics {
        self.elections.named(name)
    }

    /// The metrics of requests to a server.
    pub(crate) fn requests(&self, host: &str) -> Arc<RequestMetrics> {
        self.requests.host(host)
    }

    /// The metrics of certificate reads.
    pub(crate) fn certificates(&self) -> &CertificateReads {
        &self.certificates
    }

    /// The metrics of a controller, and the reservation of its name. `None` if the name is taken.
    pub(crate) fn claim(&self, name: &Arc<str>) -> Option<(Arc<ControllerMetrics>, NameReservation)> {
        self.catalog.claim(name)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
