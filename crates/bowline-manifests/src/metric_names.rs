//! The metrics that alerts and dashboard use. Owns how they are found: in the queries themselves, so that no list can be out of date.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::settings::Settings;
use crate::{alerts, dashboard};

/// The names of all metrics in the alerts and in the dashboard, as Prometheus stores them: with `_total`, `_bucket` and so on.
/// An operator with leader election serves all of them.
#[must_use]
pub fn metric_names() -> BTreeSet<String> {
    let settings = Settings {
        name: "operator".to_owned(),
        namespace: "operator-system".to_owned(),
        image: "operator:latest".to_owned(),
        namespaces: BTreeSet::new(),
        replicas: 1,
        args: Vec::new(),
        lease: "operator".to_owned(),
    };
    let mut queries = Vec::new();
    collect(&Value::Array(alerts::render(&settings)), &mut queries);
    collect(&dashboard::render(&settings), &mut queries);
    queries.iter().flat_map(|query| in_query(query)).map(str::to_owned).collect()
}

/// Collects the queries in the fields `expr`.
fn collect(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, queries)),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_str() {
                    Some(query) if name == "expr" => queries.push(query.to_owned()),
                    _ => collect(field, queries),
                }
            }
        }
        _ => {}
    }
}

/// The metrics in a query: the words before braces, as [`metric`](crate::monitoring::metric) writes them.
fn in_query(query: &str) -> impl Iterator<Item = &str> {
    query.match_indices('{').map(|(end, _)| {
        let before = &query[..end];
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
        &before[before.trim_end_matches(is_part).len()..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_found_in_queries() {
        let query = "sum by (a) (rate(x_total{b=\"c\"}[5m])) / max(y_1{}) > 0.1";
        assert_eq!(in_query(query).collect::<Vec<_>>(), ["x_total", "y_1"]);
    }

    #[test]
    fn alerts_and_dashboard_use_metrics_of_both() {
        let names = metric_names();
        assert!(names.contains("workqueue_longest_running_processor_seconds"), "{names:?}");
        assert!(names.contains("controller_runtime_reconcile_time_seconds_bucket"), "{names:?}");
        assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    }
}
