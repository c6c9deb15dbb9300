//! The status of a manager, for probes and the debug page.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_cache::NotSynced;

use super::lifecycle::{Inner, Phase};
use super::runnable::Stage;
use super::stages::StartPhase;
use crate::debug::{DebugPage, LeadershipState, ManagerReport, RunnableReport};

impl Inner {
    /// The debug page. It does not keep the manager alive.
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
            None => (LeadershipState::NoElection, None, hostname()),
            Some(elector) => {
                let leadership = match (self.elected.is_cancelled(), elector.fence().is_open()) {
                    (false, _) => LeadershipState::Waiting,
                    (true, true) => LeadershipState::Leading,
                    (true, false) => LeadershipState::Lost,
                };
                (leadership, elector.leader(), elector.identity().to_owned())
            }
        };
        ManagerReport {
            identity,
            uptime: self.clock().now().duration_since(state.began),
            leadership,
            leader,
            runnables: running.chain(waiting).collect(),
        }
    }

    /// Whether it has a webhook, so that it must be ready before its caches have synced.
    pub(super) fn has_webhooks(&self) -> bool {
        !self.state().webhooks.is_empty()
    }

    /// Readiness: with webhooks, whether they serve; otherwise, whether controllers have started. The error is the
    /// current state.
    pub(super) fn check(&self) -> Result<(), String> {
        let open = self.is_open()?;
        let webhooks = self.state().webhooks.clone();
        if webhooks.is_empty() {
            return match open {
                StartPhase::Warm | StartPhase::Elected if self.is_about_to_begin(open) => {
                    Err(STARTS.to_owned())
                }
                StartPhase::Warm | StartPhase::Elected => Ok(()),
                StartPhase::Cache => {
                    // Without the server's messages: probes are not authenticated.
                    let missing = self.cluster.cache().not_synced();
                    let missing: Vec<_> = missing.iter().map(NotSynced::in_brief).collect();
                    Err(format!("it waits for informers: {}", missing.join("; ")))
                }
                StartPhase::Server | StartPhase::Webhook | StartPhase::EveryReplica => Err(STARTS.to_owned()),
            };
        }
        // `is_serving` is foreign code, and may call the manager.
        let waited_for = webhooks.iter().filter(|(_, service)| !service.is_serving());
        let waited_for: Vec<_> = waited_for.map(|(name, _)| name.as_str()).collect();
        if waited_for.is_empty() {
            return Ok(());
        }
        Err(format!("it waits until webhooks serve: {}", waited_for.join(", ")))
    }

    /// Checks that all watches and caches have synced; the error names those that have not.
    pub(super) fn check_sync(&self) -> Result<(), String> {
        let open = self.is_open()?;
        let mut missing = Vec::new();
        let mut reported = BTreeSet::new();
        for controller in self.controllers() {
            for waiting in controller.waiting_for() {
                reported.extend(waiting.informer().map(|part| (waiting.cluster().cloned(), part.in_brief())));
                missing.push(format!("the controller {:?} waits for {}", controller.name(), waiting.brief()));
            }
        }
        let clusters = self.clusters();
        for (cluster, part) in clusters.iter().flat_map(|cluster| {
            cluster.cache().not_synced().into_iter().map(move |part| (cluster, part.in_brief()))
        }) {
            if reported.contains(&(cluster.name().cloned(), part.clone())) {
                continue;
            }
            missing.push(match cluster.name() {
                Some(name) if !cluster.is_same(&self.cluster) => format!("{part} in cluster {name}"),
                _ => part,
            });
        }
        if !missing.is_empty() {
            return Err(missing.join("; "));
        }
        if open < StartPhase::Warm || self.is_about_to_begin(open) {
            return Err(STARTS.to_owned());
        }
        Ok(())
    }

    /// The last started phase while it runs; the error is the current state.
    fn is_open(&self) -> Result<StartPhase, String> {
        let state = self.state();
        match (state.phase, state.open) {
            (Phase::New, _) => Err("it is not started".to_owned()),
            (Phase::Stopping, _) => Err("it is stopping".to_owned()),
            (Phase::Running, None) => Err(STARTS.to_owned()),
            (Phase::Running, Some(open)) => Ok(open),
        }
    }

    /// Whether there are controllers that may start and have not, so that they cannot report their sources yet.
    fn is_about_to_begin(&self, open: StartPhase) -> bool {
        let state = self.state();
        state.controllers.iter().any(|managed| managed.phase <= open && !managed.begun.is_cancelled())
    }
}

/// State of a manager before its controllers start.
const STARTS: &str = "it is starting";

/// The name of this machine, for display.
fn hostname() -> String {
    hostname::get().map_or_else(|_| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}
