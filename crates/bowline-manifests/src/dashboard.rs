//! The dashboard for Grafana: reconciles, queues, leadership, triggers, requests.

use serde_json::{Value, json};

use crate::manifest::notice;
use crate::monitoring::metric;
use crate::settings::Settings;

/// Version of Grafana's JSON model that the dashboard is written for: that of Grafana 11. Newer ones convert it.
const SCHEMA: u16 = 39;

/// Columns of Grafana's grid, and the size of a panel in it.
const COLUMNS: usize = 24;
const WIDTH: usize = 12;
const HEIGHT: usize = 8;

/// The matcher for the controllers that the user selected.
const SELECTED: &str = "controller=~\"$controller\"";

pub(crate) fn render(settings: &Settings) -> Value {
    let controllers = metric(settings, "bowline_controller_running", &[]);
    json!({
        "title": settings.name,
        "description": notice(),
        "tags": ["bowline", "operator"],
        "schemaVersion": SCHEMA,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {
                "name": "controller",
                "label": "Controller",
                "type": "query",
                "datasource": datasource(),
                "query": {"query": format!("label_values({controllers}, controller)"), "refId": "controllers"},
                "refresh": 2,
                "sort": 1,
                "includeAll": true,
                "multi": true,
                "allValue": ".*",
                "current": {"text": ["All"], "value": ["$__all"]},
            },
        ]},
        "panels": panels(settings).iter().enumerate().map(|(index, panel)| panel.to_json(index)).collect::<Value>(),
    })
}

struct Panel {
    title: &'static str,
    description: &'static str,
    unit: &'static str,
    /// Legends with their queries.
    queries: Vec<(&'static str, String)>,
}

impl Panel {
    fn new(title: &'static str, description: &'static str, unit: &'static str) -> Self {
        Self { title, description, unit, queries: Vec::new() }
    }

    fn query(mut self, legend: &'static str, query: String) -> Self {
        self.queries.push((legend, query));
        self
    }

    fn to_json(&self, index: usize) -> Value {
        let targets = self.queries.iter().zip('A'..).map(|((legend, query), id)| {
            json!({"refId": id, "expr": query, "legendFormat": legend, "datasource": datasource(), "range": true})
        });
        let (x, y) = (index * WIDTH % COLUMNS, index * WIDTH / COLUMNS * HEIGHT);
        json!({
            "id": index + 1,
            "type": "timeseries",
            "title": self.title,
            "description": self.description,
            "datasource": datasource(),
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": targets.collect::<Value>(),
        })
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn panels(settings: &Settings) -> Vec<Panel> {
    let mut panels = reconciles(settings);
    panels.extend(queues(settings));
    panels.extend(process(settings));
    panels
}

fn reconciles(settings: &Settings) -> Vec<Panel> {
    let metric = |name| metric(settings, name, &[SELECTED]);
    let rate = |name, by| format!("sum by ({by}) (rate({}[$__rate_interval]))", metric(name));
    let time = |share| {
        let buckets = rate("controller_runtime_reconcile_time_seconds_bucket", "controller, le");
        format!("histogram_quantile({share}, {buckets})")
    };
    vec![
        Panel::new("Reconciles", "Reconciles per second by controller and result.", "ops").query(
            "{{controller}} {{result}}",
            rate("controller_runtime_reconcile_total", "controller, result"),
        ),
        Panel::new(
            "Errors",
            "Failed reconciles per second: all, without a retry, by panic, by timeout.",
            "ops",
        )
        .query("{{controller}}", rate("controller_runtime_reconcile_errors_total", "controller"))
        .query(
            "{{controller}} terminal",
            rate("controller_runtime_terminal_reconcile_errors_total", "controller"),
        )
        .query("{{controller}} panic", rate("controller_runtime_reconcile_panics_total", "controller"))
        .query("{{controller}} timeout", rate("controller_runtime_reconcile_timeouts_total", "controller")),
        Panel::new("Duration", "Duration of reconciles: median and 99th percentile.", "s")
            .query("{{controller}} p50", time("0.5"))
            .query("{{controller}} p99", time("0.99")),
        Panel::new("Triggers", "Triggers per second: the causes of reconciles, by source.", "ops").query(
            "{{controller}} {{source}} {{cause}}",
            rate("bowline_reconcile_triggers_total", "controller, source, cause"),
        ),
        Panel::new("Workers", "Busy workers, and their maximum.", "short")
            .query(
                "{{controller}} busy",
                format!("sum by (controller) ({})", metric("controller_runtime_active_workers")),
            )
            .query(
                "{{controller}} maximum",
                format!("max by (controller) ({})", metric("controller_runtime_max_concurrent_reconciles")),
            ),
    ]
}

fn queues(settings: &Settings) -> Vec<Panel> {
    let metric = |name| metric(settings, name, &[SELECTED]);
    let waited = format!(
        "histogram_quantile(0.99, sum by (controller, le) (rate({}[$__rate_interval])))",
        metric("workqueue_queue_duration_seconds_bucket")
    );
    let all = |name| format!("sum by (controller) ({})", metric(name));
    let longest = |name| format!("max by (controller) ({})", metric(name));
    vec![
        Panel::new("Queue depth", "Objects that wait for a worker.", "short")
            .query("{{controller}}", all("workqueue_depth")),
        Panel::new("Queue time", "Time for which objects wait for a worker: 99th percentile.", "s")
            .query("{{controller}} p99", waited),
        Panel::new(
            "Work in progress",
            "Duration of the longest running reconcile, and of all that run, added up.",
            "s",
        )
        .query("{{controller}} longest", longest("workqueue_longest_running_processor_seconds"))
        .query("{{controller}} all", all("workqueue_unfinished_work_seconds")),
    ]
}

fn process(settings: &Settings) -> Vec<Panel> {
    let lease = format!("name={:?}", settings.lease);
    let leads = metric(settings, "leader_election_master_status", &[&lease]);
    let metric = |name| metric(settings, name, &[]);
    let requests =
        format!("sum by (method, code) (rate({}[$__rate_interval]))", metric("rest_client_requests_total"));
    let ready = self::metric(settings, "bowline_controller_ready", &[SELECTED]);
    vec![
        Panel::new("Leader", "1 for the replica that leads.", "short")
            .query("{{pod}}", format!("max by (pod) ({leads})")),
        Panel::new("Controllers that reconcile", "1 if the controller reconciles on a replica.", "short")
            .query("{{controller}}", format!("max by (controller) ({ready})")),
        Panel::new("API requests", "Requests to the API server per second, by method and status.", "reqps")
            .query("{{method}} {{code}}", requests),
        Panel::new("Memory", "Memory of each replica.", "bytes")
            .query("{{pod}}", format!("max by (pod) ({})", metric("process_resident_memory_bytes"))),
        Panel::new("CPU", "Cores that each replica uses.", "short").query(
            "{{pod}}",
            format!("sum by (pod) (rate({}[$__rate_interval]))", metric("process_cpu_seconds_total")),
        ),
    ]
}
