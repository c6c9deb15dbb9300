//! A manager's metrics compared with controller-runtime's, so that dashboards work for both.

use std::collections::{BTreeMap, BTreeSet};

use bowline_apiserver::{ApiServer, ServeOptions};
use bowline_runtime::server::{MetricsServer, Tls};
use bowline_runtime::transport::{self, TransportOptions};
use bowline_runtime::{Action, Cluster, Context, Error, Metrics, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::encryption::{ask, put};
use crate::exposition::{self, Family};
use crate::world::{PATIENCE, Running, local, scope};

/// Name, type, labels and bounds of all metrics of controller-runtime.
const TABLE: &str = include_str!("controller_runtime_metrics.txt");

/// Prefixes of metrics that are missing here, with the reason.
const ABSENT: [(&str, &str); 4] = [
    ("go_", "Go's runtime: its garbage collector, scheduler and goroutines"),
    ("controller_runtime_client_consistency_wait_", "the client has no metrics"),
    ("controller_runtime_webhook_", "comes with webhooks"),
    ("controller_runtime_conversion_webhook_", "comes with webhooks"),
];

/// Runs everything that is counted, and scrapes it.
async fn scrape() -> BTreeMap<String, Family> {
    let (scope, folder, metrics) = (scope(), TempDir::new().expect("there is room"), Metrics::new());
    let (spawner, clock) = (scope.spawner(), scope.spawner().clock().clone());
    let server = ApiServer::builder().clock(clock.clone()).build().expect("it can be built");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let serving = server.serve(listener, ServeOptions::default()).expect("it can be served");
    let path = folder.path().join("kubeconfig");
    serving.kubeconfig().write(&path).expect("it can be written");
    let config = transport::config(Some(&path)).await.expect("it is a configuration");
    let options = TransportOptions::new(&clock).metrics(&metrics);
    let kube = transport::client(&config, &options).expect("the configuration is good");

    let cluster = Cluster::builder(&spawner, kube).metrics(metrics.clone()).build().expect("it can be built");
    cluster.start();
    let controller = cluster
        .controller::<ConfigMap>()
        .build(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) })
        .expect("it can be built");
    controller.start().expect("it can be started");
    metrics.election("operator").set_leading(true);
    let metadata = ObjectMeta { name: Some("map".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    Api::default_namespaced(cluster.kube_client().clone())
        .create(&PostParams::default(), &map)
        .await
        .expect("it is new");

    put(folder.path());
    let bound =
        MetricsServer::new(local()).tls(Tls::from_directory(folder.path())).bind(&spawner, &metrics).await;
    let running = Running::start(scope, bound);
    let reconciled = async {
        loop {
            let families = exposition::read(&ask(&running, "/metrics", "").await.body);
            let total = families["controller_runtime_reconcile_total"].value(&[("result", "success")]);
            if total.is_some_and(|total| total > 0.0) {
                return families;
            }
        }
    };
    clock.timeout(PATIENCE, reconciled).await.expect("it is reconciled")
}

#[tokio::test]
async fn all_metrics_of_controller_runtime_exist_with_type_labels_and_bounds() {
    let families = scrape().await;
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split(' ');
        let mut column = || columns.next().unwrap_or_default();
        let [name, kind, labels, bounds] = [column(), column(), column(), column()];
        known.insert(name);
        let labels: BTreeSet<&str> = labels.split(',').filter(|label| *label != "-").collect();
        let is_absent = ABSENT.iter().any(|(begins, _)| name.starts_with(begins));
        match families.get(name) {
            Some(_) if is_absent => wrong.push(format!("{name} is there after all: take it from the list")),
            None if !is_absent => wrong.push(format!("{name} is missing")),
            Some(family) if family.kind != kind => {
                wrong.push(format!("{name} is a {}, not a {kind}", family.kind));
            }
            Some(family) if family.labels() != labels => {
                wrong.push(format!("{name} has the labels {:?}, not {labels:?}", family.labels()));
            }
            Some(family) if family.bounds() != bounds => {
                wrong.push(format!("{name} has the bounds {}, not {bounds}", family.bounds()));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known.len() > 50, "only {} are compared", known.len());

    // Further metrics are Bowline's own, or optional ones of controller-runtime.
    let ours = |name: &&String| !known.contains(name.as_str()) && !name.starts_with("bowline_");
    let others: Vec<_> = families.keys().filter(ours).collect();
    assert!(others.iter().all(|name| *name == "rest_client_request_retries_total"), "{others:?}");
}

#[tokio::test]
async fn counters_have_correct_values() {
    let families = scrape().await;
    let value = |name: &str, labels: &[(&str, &str)]| families[name].value(labels).expect("it is there");
    assert!(value("rest_client_requests_total", &[("code", "201"), ("method", "POST")]) >= 1.0);
    assert!(value("rest_client_requests_total", &[("code", "200"), ("method", "GET")]) >= 1.0);
    let host = &families["rest_client_requests_total"].samples[0].labels["host"];
    assert!(host.starts_with("127.0.0.1:"), "{host}");
    assert!((value("leader_election_master_status", &[("name", "operator")]) - 1.0).abs() < f64::EPSILON);
    assert!(value("certwatcher_read_certificate_total", &[]) >= 1.0);
    assert!(value("process_resident_memory_bytes", &[]) > 1e6);
    assert!(value("process_start_time_seconds", &[]) > 1.7e9);
}
