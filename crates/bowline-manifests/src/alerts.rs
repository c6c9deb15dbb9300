//! The alerts: failing reconciles, stuck work, panics, no leader, controllers that are not ready.

use serde_json::{Value, json};

use crate::document::Document;
use crate::monitoring::metric;
use crate::settings::Settings;

pub(crate) fn prometheus_rule(settings: &Settings) -> Document {
    Document::new(json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": settings.metadata(&settings.name),
        "spec": {"groups": [{"name": settings.name, "rules": render(settings)}]},
    }))
}

struct Alert {
    name: &'static str,
    query: String,
    /// Time for which the query has a result before the alert fires.
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    description: &'static str,
}

impl Alert {
    fn to_json(&self, settings: &Settings) -> Value {
        json!({
            "alert": self.name,
            "expr": self.query,
            "for": self.lasts,
            "labels": {"operator": settings.name, "severity": self.severity},
            "annotations": {
                "summary": format!("{}: {}", settings.name, self.summary),
                "description": self.description,
            },
        })
    }
}

/// The alerts, without the object around them.
pub(crate) fn render(settings: &Settings) -> Vec<Value> {
    reconciles(settings).iter().chain(&operation(settings)).map(|alert| alert.to_json(settings)).collect()
}

/// Alerts about reconciles.
fn reconciles(settings: &Settings) -> [Alert; 4] {
    let metric = |name| metric(settings, name, &[]);
    let (errors, all) =
        (metric("controller_runtime_reconcile_errors_total"), metric("controller_runtime_reconcile_total"));
    let longest = metric("workqueue_longest_running_processor_seconds");
    let panics = metric("controller_runtime_reconcile_panics_total");
    let dropped = metric("bowline_source_unhandled_changes_total");
    [
        Alert {
            name: "OperatorReconcileErrors",
            // An object that always fails is tried every 1000 seconds: a shorter range would miss it.
            query: format!(
                "sum by (controller) (increase({errors}[40m])) / sum by (controller) (increase({all}[40m])) > 0.1"
            ),
            lasts: "10m",
            severity: "warning",
            summary: "reconciles of {{ $labels.controller }} fail",
            description: "{{ $value | humanizePercentage }} of the reconciles in 40 minutes failed. The log has their errors: \
                          \"reconcile failed\".",
        },
        Alert {
            name: "OperatorWorkStuck",
            // By default, a reconcile is dropped after 10 minutes.
            query: format!("max by (controller, pod) ({longest}) > 300"),
            lasts: "1m",
            severity: "warning",
            summary: "a reconcile of {{ $labels.controller }} does not end",
            description: "A reconcile in pod {{ $labels.pod }} has been running for {{ $value | humanizeDuration }}. Its object and \
                          its worker wait for it.",
        },
        Alert {
            name: "OperatorReconcilePanics",
            query: format!("sum by (controller) (increase({panics}[15m])) > 0"),
            lasts: "0m",
            severity: "warning",
            summary: "reconciles of {{ $labels.controller }} panic",
            description: "A reconcile panicked in the last 15 minutes. It is retried. The log has the message.",
        },
        Alert {
            name: "OperatorChangesDropped",
            query: format!("sum by (controller, source) (increase({dropped}[15m])) > 0"),
            lasts: "0m",
            severity: "critical",
            summary: "{{ $labels.controller }} missed changes of {{ $labels.source }}",
            description: "A predicate or handler panicked or failed on every attempt, so that objects are not reconciled. Restart \
                          the operator: it reconciles all objects then.",
        },
    ]
}

/// Alerts about the operator as a whole.
fn operation(settings: &Settings) -> [Alert; 3] {
    let lease = format!("name={:?}", settings.lease);
    let leads = metric(settings, "leader_election_master_status", &[&lease]);
    let ready = metric(settings, "bowline_controller_ready", &[]);
    [
        Alert {
            name: "OperatorHasNoLeader",
            query: format!("sum({leads}) == 0"),
            lasts: "5m",
            severity: "critical",
            summary: "no replica leads",
            description: "Replicas run, but none holds the lease, so that nothing is reconciled.",
        },
        Alert {
            name: "OperatorMetricsAbsent",
            query: format!("absent({leads})"),
            lasts: "10m",
            severity: "critical",
            summary: "no replica is seen",
            description: "There are no metrics: no pod runs, or Prometheus may not read them.",
        },
        Alert {
            name: "OperatorControllerNotReady",
            // A replica that does not lead is not ready to reconcile, so one replica is enough.
            query: format!("max by (controller) ({ready}) == 0"),
            lasts: "15m",
            severity: "warning",
            summary: "controller {{ $labels.controller }} does not reconcile",
            description: "Its caches have not synced on any replica, or it has ended. A kind may be missing, or a permission: \
                          /readyz/sync of the operator names what it waits for.",
        },
    ]
}
