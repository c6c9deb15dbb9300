//! Collects the report, and derives the problems.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bowline_cache::{InformerStatus, Representation};
use bowline_clock::Clock;
use futures::FutureExt as _;

use super::human;
use super::report::{
    Attention, ControllerReport, ControllerState, DelayedReport, InformerReport, LeadershipState,
    ManagerReport, PartReport, ReconcileReport, Report, RunningReport, UnreadableReport,
};
use crate::{Cluster, Controller, ReconcileRecord};

/// Duration after which a reconcile counts as a problem.
const LONG: Duration = Duration::from_secs(60);

/// Time without data after which an informer counts as a problem: servers send bookmarks about once a minute.
const SILENT: Duration = Duration::from_secs(300);

/// Maximum number of delayed requests per controller.
const DELAYED: usize = 256;

/// Maximum number of failing objects that a problem names.
const NAMED: usize = 5;

pub(super) fn report(
    clock: &Clock,
    clusters: &[(String, Cluster)],
    controllers: &[Controller],
    manager: Option<ManagerReport>,
) -> Report {
    let now = clock.system_time();
    let mut running: Vec<_> = controllers.iter().flat_map(running).collect();
    running.sort_by_key(|report| std::cmp::Reverse(report.running));
    let mut delayed: Vec<_> = controllers
        .iter()
        .flat_map(|one| one.delayed(DELAYED).into_iter().map(move |next| (one, next)))
        .collect();
    delayed.sort_by_key(|(_, (_, due))| *due);
    let delayed = delayed.into_iter().map(|(one, (request, due))| DelayedReport {
        controller: one.name().to_owned(),
        object: request.to_string(),
        due: human::time(due),
        due_in: due.duration_since(now).unwrap_or_default(),
    });
    let delayed = delayed.collect();
    let mut controllers: Vec<_> = controllers.iter().map(controller).collect();
    controllers.sort_by(|a, b| a.name.cmp(&b.name));
    let informers = clusters.iter().flat_map(|(name, cluster)| {
        cluster.cache().statuses().into_iter().map(|status| informer(name, status))
    });
    let mut runs: Vec<_> = clusters.iter().flat_map(|(_, cluster)| cluster.history().runs()).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(ended(run)));
    // Clusters may share one history.
    let mut seen = BTreeSet::new();
    runs.retain(|run| seen.insert(run.id));
    let mut report = Report {
        time: human::time(now),
        manager,
        attention: Vec::new(),
        delayed_count: controllers.iter().map(|controller| controller.delayed).sum(),
        controllers,
        running,
        delayed,
        informers: informers.collect(),
        reconciles: runs.iter().map(|run| reconcile(run, now)).collect(),
    };
    report.attention = attention(&report);
    report
}

fn controller(controller: &Controller) -> ControllerReport {
    let core = controller.core();
    let metrics = &core.metrics;
    let queue = controller.queue_stats();
    let state = if !controller.is_running() {
        ControllerState::Stopped
    } else if controller.is_ready() {
        ControllerState::Working
    } else if controller.is_warm() {
        ControllerState::Warm
    } else {
        ControllerState::Waiting
    };
    let is_waiting = state == ControllerState::Waiting;
    let waiting_for = if is_waiting { controller.waiting_for() } else { Vec::new() };
    ControllerReport {
        name: controller.name().to_owned(),
        group: core.group.clone(),
        kind: core.kind.clone(),
        state,
        waiting_for: waiting_for.iter().map(ToString::to_string).collect(),
        unhandled_changes: controller.unhandled_changes().iter().map(ToString::to_string).collect(),
        // A running one has not ended, and the others have: this does not wait.
        error: controller.wait_ended().now_or_never().and_then(Result::err).map(|error| error.to_string()),
        needs_leadership: controller.needs_leadership(),
        watches: controller.watches(),
        workers: core.options.concurrency.get(),
        busy: metrics.active(),
        ready: queue.ready,
        delayed: queue.delayed,
        successes: metrics.successes(),
        errors: metrics.errors.get(),
        requeues: metrics.requeues.get() + metrics.requeues_after.get(),
    }
}

fn running(controller: &Controller) -> Vec<RunningReport> {
    let running = controller.reconciling().into_iter().map(|(request, running)| RunningReport {
        controller: controller.name().to_owned(),
        object: request.to_string(),
        running,
    });
    running.collect()
}

fn informer(cluster: &str, status: InformerStatus) -> InformerReport {
    let stats = status.stats;
    let parts = status.parts.into_iter().map(|part| PartReport {
        namespaces: part.namespaces.to_string(),
        phase: part.phase.to_string(),
        has_synced: part.has_synced,
        error: part.error,
    });
    let unreadable = status
        .undecodable
        .into_iter()
        .map(|object| UnreadableReport { object: object.key.to_string(), error: object.error });
    InformerReport {
        cluster: cluster.to_owned(),
        kind: status.kind,
        form: match status.form {
            Representation::Dynamic => "dynamic",
            Representation::Metadata => "metadata",
            Representation::Packed => "packed",
            // The enum may grow.
            _ => "typed",
        }
        .to_owned(),
        has_synced: status.has_synced,
        objects: stats.items,
        parts: parts.collect(),
        unreadable_count: stats.undecodable,
        unreadable: unreadable.collect(),
        lists: stats.lists,
        relists: stats.relists,
        watches: stats.watches,
        failures: stats.failures,
        handlers: stats.handlers,
        backlog: stats.backlog,
        silent: stats.staleness,
    }
}

fn reconcile(run: &ReconcileRecord, now: SystemTime) -> ReconcileReport {
    ReconcileReport {
        started: human::time(run.started),
        ago: now.duration_since(ended(run)).unwrap_or_default(),
        took: run.took,
        controller: run.controller.to_string(),
        object: run.request.to_string(),
        triggers: run.triggers.iter().map(ToString::to_string).collect(),
        more_triggers: run.triggers.more(),
        attempt: run.attempt,
        outcome: run.outcome.as_str().to_owned(),
        is_failure: run.outcome.is_failure(),
        detail: run.outcome.to_string(),
        id: run.id.to_string(),
    }
}

fn ended(run: &ReconcileRecord) -> SystemTime {
    run.started + run.took
}

/// The problems in a report.
fn attention(report: &Report) -> Vec<Attention> {
    let mut all = Vec::new();
    let mut say = |subject: String, problem: String| all.push(Attention { subject, problem });
    if let Some(manager) = &report.manager
        && manager.leadership == LeadershipState::Lost
    {
        say("manager".to_owned(), "leadership lost; stopping".to_owned());
    }
    for controller in &report.controllers {
        let subject = || format!("controller {}", controller.name);
        match (&controller.error, controller.state) {
            (Some(error), _) => say(subject(), error.clone()),
            (None, ControllerState::Waiting) if !controller.waiting_for.is_empty() => {
                say(subject(), format!("waits for {}", controller.waiting_for.join("; ")));
            }
            _ => {}
        }
    }
    for controller in &report.controllers {
        if let Some(first) = controller.unhandled_changes.first() {
            let problem = match controller.unhandled_changes.len() - 1 {
                0 => format!("cannot handle a change of {first}"),
                more => format!("cannot handle a change of {first}, and {more} more"),
            };
            say(format!("controller {}", controller.name), problem);
        }
    }
    for running in report.running.iter().filter(|running| running.running > LONG) {
        let problem = format!("has reconciled {} for {}", running.object, human::duration(running.running));
        say(format!("controller {}", running.controller), problem);
    }
    for informer in &report.informers {
        let subject = || format!("informer {}", informer.kind);
        for part in &informer.parts {
            // The controllers' problems name the informers that they wait for.
            if let Some(error) =
                part.error.as_ref().filter(|_| part.has_synced || !is_waited_for(report, informer))
            {
                say(subject(), format!("{}, {}: {error}", part.namespaces, part.phase));
            }
        }
        if let Some(first) = informer.unreadable.first() {
            let count = informer.unreadable_count;
            say(subject(), format!("cannot decode {count} objects; {}: {}", first.object, first.error));
        }
        if let Some(silent) = informer.silent.filter(|silent| *silent > SILENT)
            && informer.parts.iter().any(|part| part.error.is_none() && part.phase != "stopped")
        {
            say(subject(), format!("no data from the server for {}", human::duration(silent)));
        }
    }
    for controller in &report.controllers {
        let failing = failing(report, &controller.name);
        if let Some(last) = failing.first() {
            let named: Vec<_> = failing.iter().take(NAMED).map(|run| run.object.as_str()).collect();
            let more = failing.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let problem = format!("fails on {}{more}; last: {}", named.join(", "), last.detail);
            say(format!("controller {}", controller.name), problem);
        }
    }
    all
}

/// Whether a controller reports that it waits for an informer.
fn is_waited_for(report: &Report, informer: &InformerReport) -> bool {
    report
        .controllers
        .iter()
        .flat_map(|controller| &controller.waiting_for)
        .any(|reason| reason.starts_with(&informer.kind))
}

/// The last reconcile of each object for which that failed.
fn failing<'a>(report: &'a Report, controller: &str) -> Vec<&'a ReconcileReport> {
    let mut seen = BTreeSet::new();
    let newest = report
        .reconciles
        .iter()
        .filter(|run| run.controller == controller)
        .filter(|run| seen.insert(run.object.as_str()));
    newest.filter(|run| run.is_failure).collect()
}
