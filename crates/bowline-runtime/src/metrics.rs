//! What is counted, under controller-runtime's names.

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
pub(crate) use catalog::Claim;
pub(crate) use certificate::CertificateReads;
pub(crate) use controller::{ControllerMetrics, WorkerMetrics};
pub use election::ElectionMetrics;
use election::Elections;
use process::ProcessCollector;
use request::RequestCatalog;
pub(crate) use request::RequestMetrics;
use writer::Writer;

/// The metrics of one process or of one test: a registry that is a value. A clone is the same registry.
///
/// Controllers count in it under the names that controller-runtime uses (`controller_runtime_reconcile_total`,
/// `workqueue_depth` and so on), so that dashboards made for it show Bowline's operators too. So do transports
/// (`rest_client_requests_total`), elections (`leader_election_master_status`) and servers that read certificates
/// (`certwatcher_read_certificate_total`), and on Linux the process is told of (`process_resident_memory_bytes` and others).
/// Beyond these there are
/// - `bowline_reconcile_triggers_total{controller,source,cause}`: why objects were reconciled,
/// - `bowline_source_panics_total{controller,source}`: how often a source, or a predicate or handler behind it, panicked,
/// - `bowline_controller_running{controller}` and `bowline_controller_ready{controller}`: 0 for one that ended, or still
///   waits to see what there is.
///
/// A controller that is gone takes its numbers with it. Clusters may share this; names of controllers are then unique among
/// all of them. Of one controller 64 sources are told apart.
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
    /// A registry of its own.
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

    /// Calls a function with the registry, to add metrics of one's own.
    pub fn with_registry<T>(&self, change: impl FnOnce(&mut Registry) -> T) -> T {
        change(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All that was counted, as text in the form of `OpenMetrics`: what a scrape is answered with
    /// (`application/openmetrics-text; version=1.0.0; charset=utf-8`).
    ///
    /// # Panics
    /// Never, unless a metric that was added to the registry cannot be written.
    #[must_use]
    pub fn encode(&self) -> String {
        self.write(Writer::new(true))
    }

    /// All that was counted, in Prometheus's own text form (`text/plain; version=0.0.4; charset=utf-8`): what a scrape is
    /// answered with that does not ask for `OpenMetrics`. Bounds of buckets are written as Go's client does (`le="1"`, where
    /// [`encode`](Self::encode) has `le="1.0"`), so that rules made for controller-runtime find them.
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

    /// Where sinks of events count.
    pub(crate) fn events(&self) -> &EventCatalog {
        &self.events
    }

    /// Where it is shown whether this process leads in an election, for whoever runs an
    /// [`Elector`](crate::leader_election::Elector) without a manager. Until it is told otherwise, it does not.
    #[must_use]
    pub fn election(&self, name: &str) -> ElectionMetrics {
        self.elections.named(name)
    }

    /// Where requests to a server are counted.
    pub(crate) fn requests(&self, host: &str) -> Arc<RequestMetrics> {
        self.requests.host(host)
    }

    /// Where servers count how often they read certificates.
    pub(crate) fn certificates(&self) -> &CertificateReads {
        &self.certificates
    }

    /// Where a controller counts, and the claim to its name; none if somebody has it.
    pub(crate) fn claim(&self, name: &Arc<str>) -> Option<(Arc<ControllerMetrics>, Claim)> {
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
