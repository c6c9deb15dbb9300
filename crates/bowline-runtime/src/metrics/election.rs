//! The leadership metric, with client-go's name.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Whether this process leads, by the name of the election.
#[derive(Clone, Debug, Default)]
pub(super) struct Elections(Family<[(&'static str, String); 1], Gauge>);

/// Whether this process leads in one election: `leader_election_master_status`.
#[derive(Clone, Debug)]
pub struct ElectionMetrics(Gauge);

impl Elections {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let elections = Self::default();
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates \
                    master. 'name' is the string used to identify the lease. Please make sure to group by name";
        registry.register("leader_election_master_status", help, elections.0.clone());
        elections
    }

    pub(super) fn named(&self, name: &str) -> ElectionMetrics {
        ElectionMetrics(self.0.get_or_create(&[("name", name.to_owned())]).clone())
    }
}

impl ElectionMetrics {
    /// Sets whether this process leads.
    pub fn set_leading(&self, is_leading: bool) {
        self.0.set(is_leading.into());
    }
}
