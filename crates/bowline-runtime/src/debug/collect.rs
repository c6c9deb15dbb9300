//! Looks around, and says what is worth attention.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bowline_cache::{Form, InformerStatus};
use bowline_clock::Clock;
use futures::FutureExt as _;

use super::human;
use super::report::{
    Attention, ControllerReport, ControllerState, InformerReport, Leadership, ManagerReport, PartReport,
    ReconcileReport, Report, RunningReport, UnreadableReport,
};
use crate::{Cluster, Controller, Run};

/// A reconcile that runs for longer is worth a look.
const LONG: Duration = Duration::from_secs(60);

/// An informer that has heard nothing for longer is worth a look: servers send bookmarks about once a minute.
const SILENT: Duration = Duration::from_secs(300);

/// So many objects that fail are named.
const NAMED: usize = 5;

pub(super) fn report(
    clock: &Clock,
    clusters: &[(String, Cluster)],
    controllers: &[Controller],
    manager: Option<ManagerReport>,
) -> Report {
    let now = clock.wall();
    let mut running: Vec<_> = controllers.iter().flat_map(running).collect();
    running.sort_by_key(|report| std::cmp::Reverse(report.running));
    let mut controllers: Vec<_> = controllers.iter().map(controller).collect();
    controllers.sort_by(|a, b| a.name.cmp(&b.name));
    let informers = clusters.iter().flat_map(|(name, cluster)| {
        cluster.cache().statuses().into_iter().map(|status| informer(name, status))
    });
    let mut runs: Vec<_> = clusters.iter().flat_map(|(_, cluster)| cluster.journal().runs()).collect();
    runs.sort_by_key(|run| std::cmp::Reverse(ended(run)));
    let mut report = Report {
        time: human::time(now),
        manager,
        attention: Vec::new(),
        controllers,
        running,
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
        // One that runs has not ended, and the others have: nothing is waited for.
        error: controller.ended().now_or_never().and_then(Result::err).map(|error| error.to_string()),
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
        .set_aside
        .into_iter()
        .map(|object| UnreadableReport { object: object.key.to_string(), error: object.error });
    InformerReport {
        cluster: cluster.to_owned(),
        kind: status.kind,
        form: match status.form {
            Form::Dynamic => "dynamic",
            Form::Metadata => "metadata",
            Form::Packed => "packed",
            // There may be more one day.
            _ => "typed",
        }
        .to_owned(),
        has_synced: status.has_synced,
        objects: stats.items,
        parts: parts.collect(),
        unreadable_count: stats.set_aside,
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

fn reconcile(run: &Run, now: SystemTime) -> ReconcileReport {
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

fn ended(run: &Run) -> SystemTime {
    run.started + run.took
}

/// What somebody should look at.
fn attention(report: &Report) -> Vec<Attention> {
    let mut all = Vec::new();
    let mut say = |subject: String, problem: String| all.push(Attention { subject, problem });
    if let Some(manager) = &report.manager
        && manager.leadership == Leadership::Lost
    {
        say("manager".to_owned(), "lost the lease, and ends".to_owned());
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
    for running in report.running.iter().filter(|running| running.running > LONG) {
        let problem = format!("has reconciled {} for {}", running.object, human::duration(running.running));
        say(format!("controller {}", running.controller), problem);
    }
    for informer in &report.informers {
        let subject = || format!("informer {}", informer.kind);
        for part in &informer.parts {
            // What keeps a controller from beginning was said there.
            if let Some(error) =
                part.error.as_ref().filter(|_| part.has_synced || !is_waited_for(report, informer))
            {
                say(subject(), format!("{}, {}: {error}", part.namespaces, part.phase));
            }
        }
        if let Some(first) = informer.unreadable.first() {
            let count = informer.unreadable_count;
            say(subject(), format!("cannot read {count} objects; {}: {}", first.object, first.error));
        }
        if let Some(silent) = informer.silent.filter(|silent| *silent > SILENT)
            && informer.parts.iter().any(|part| part.error.is_none() && part.phase != "stopped")
        {
            say(subject(), format!("has heard nothing of the server for {}", human::duration(silent)));
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

/// Whether a controller waits for an informer, and says so.
fn is_waited_for(report: &Report, informer: &InformerReport) -> bool {
    report
        .controllers
        .iter()
        .flat_map(|controller| &controller.waiting_for)
        .any(|reason| reason.starts_with(&informer.kind))
}

/// The objects whose last reconcile failed: that reconcile of each.
fn failing<'a>(report: &'a Report, controller: &str) -> Vec<&'a ReconcileReport> {
    let mut seen = BTreeSet::new();
    let newest = report
        .reconciles
        .iter()
        .filter(|run| run.controller == controller)
        .filter(|run| seen.insert(run.object.as_str()));
    newest.filter(|run| run.is_failure).collect()
}
