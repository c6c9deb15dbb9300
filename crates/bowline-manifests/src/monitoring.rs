//! What Prometheus needs to read the metrics, and the label selector that all queries share.

use serde_json::json;

use crate::document::Document;
use crate::settings::Settings;

/// Why and how Prometheus may read the metrics.
const COMMENT: &str = "The operator's certificate is self-signed, so that Prometheus cannot check it: `insecureSkipVerify`. With a \
                       certificate from `--metrics-cert-path`,\nreplace that by `ca` and `serverName`. Prometheus's service account \
                       needs the role";

pub(crate) fn service_monitor(settings: &Settings) -> Document {
    let comment =
        format!("{COMMENT} {}, and its namespace the label `metrics: enabled`.", settings.metrics_reader());
    Document::with_comment(
        &comment,
        json!({
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": settings.metadata(&settings.metrics_service()),
            "spec": {
                "endpoints": [{
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "path": "/metrics",
                    "port": "https",
                    "scheme": "https",
                    "tlsConfig": {"insecureSkipVerify": true},
                }],
                "selector": {"matchLabels": settings.selector()},
            },
        }),
    )
}

/// A metric of this operator in a query: `name{namespace="…",service="…"}`, with further matchers. The Prometheus operator adds
/// both labels to all metrics of a service monitor.
///
/// [`metric_names`](crate::metric_names()) finds a metric by the brace, so that queries contain metrics in this form only.
pub(crate) fn metric(settings: &Settings, name: &str, matchers: &[&str]) -> String {
    let (namespace, service) = (&settings.namespace, settings.metrics_service());
    let mut all = vec![format!("namespace=\"{namespace}\""), format!("service=\"{service}\"")];
    all.extend(matchers.iter().map(ToString::to_string));
    format!("{name}{{{}}}", all.join(","))
}
