//! Metrics of certificate reads, with controller-runtime's names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Number of certificate reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct CertificateReads {
    all: Counter,
    errors: Counter,
}

impl CertificateReads {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let reads = Self::default();
        let name = "certwatcher_read_certificate";
        registry.register(name, "Total number of certificate reads", reads.all.clone());
        let name = "certwatcher_read_certificate_errors";
        registry.register(name, "Total number of certificate read errors", reads.errors.clone());
        reads
    }

    pub(crate) fn count(&self, is_usable: bool) {
        self.all.inc();
        if !is_usable {
            self.errors.inc();
        }
    }
}
