//! What a manager tells about itself: to probes, and to people.

use std::sync::Arc;

use super::lifecycle::{Inner, Phase};
use super::runnable::Stage;
use super::stages::Door;
use crate::debug::{DebugPage, Leadership, ManagerReport, RunnableReport};

impl Inner {
    /// The page that shows all of it, and does not keep it alive.
    pub(super) fn page(self: &Arc<Self>) -> DebugPage {
        let weak = || Arc::downgrade(self);
        let (clusters, controllers, manager) = (weak(), weak(), weak());
        DebugPage::new(self.clock())
            .clusters(move || {
                clusters.upgrade().map_or_else(Vec::new, |inner| inner.state().clusters.clone())
            })
            .controllers(move || controllers.upgrade().map_or_else(Vec::new, |inner| inner.controllers()))
            .manager(move || manager.upgrade().map_or_else(ManagerReport::default, |inner| inner.report()))
    }

    fn report(&self) -> ManagerReport {
        let state = self.state();
        let report = |name: &str, stage: Stage, state: &str| RunnableReport {
            name: name.to_owned(),
            stage: stage.to_string(),
            state: state.to_owned(),
        };
        let waiting = state.waiting.iter().map(|waiting| report(waiting.name(), waiting.stage(), "waiting"));
        let running = Stage::ALL.into_iter().flat_map(|stage| {
            self.groups.of(stage).running().into_iter().map(move |name| report(&name, stage, "running"))
        });
        let (leadership, leader, identity) = match &self.elector {
            None => (Leadership::NoElection, None, hostname()),
            Some(elector) => {
                let leadership = match (self.elected.is_cancelled(), elector.fence().is_open()) {
                    (false, _) => Leadership::Waiting,
                    (true, true) => Leadership::Leading,
                    (true, false) => Leadership::Lost,
                };
                (leadership, elector.leader(), elector.identity().to_owned())
            }
        };
        ManagerReport {
            identity,
            uptime: self.clock().now().since(state.began),
            leadership,
            leader,
            runnables: running.chain(waiting).collect(),
        }
    }

    /// Whether it has come as far as to start what it runs; if not, what it is at.
    pub(super) fn check(&self) -> Result<(), String> {
        let state = self.state();
        match (state.phase, state.open) {
            (Phase::New, _) => Err("it was not started".to_owned()),
            (Phase::Stopping, _) => Err("it stops".to_owned()),
            (Phase::Running, Some(Door::Warm | Door::Elected)) => Ok(()),
            (Phase::Running, Some(Door::Cache)) => {
                let missing = state.clusters.iter().flat_map(|(_, cluster)| cluster.cache().not_synced());
                // Without what the server says: anybody may probe.
                let missing: Vec<_> = missing.map(|missing| missing.in_brief()).collect();
                Err(format!("it waits for informers: {}", missing.join("; ")))
            }
            (Phase::Running, _) => Err("it starts".to_owned()),
        }
    }
}

/// What this machine is called, for people.
fn hostname() -> String {
    hostname::get().map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}
