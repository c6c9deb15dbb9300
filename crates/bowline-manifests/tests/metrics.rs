//! The alerts and the dashboard use only metrics and labels that an operator serves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Simulation;
use bowline_manifests::{Manifests, metric_names};
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{Action, Context, Error, Manager, Metrics, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::{Value, json};

/// Labels that the Prometheus operator adds, and the bound of a histogram.
const ADDED: [&str; 4] = ["namespace", "service", "pod", "le"];

/// Metrics by the name of their samples, with the labels. A family without samples is there, without labels.
type Served = BTreeMap<String, BTreeSet<String>>;

/// The metrics of an operator that leads and has reconciled an object.
fn served() -> Served {
    let metrics = Metrics::new();
    let registry = metrics.clone();
    Simulation::new(1).run(|clock| async move {
        let server = ApiServer::builder().clock(clock.clone()).build().expect("defaults are valid");
        let client = kube::Client::new(server, "default");
        let metadata = ObjectMeta { name: Some("map".to_owned()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let maps = Api::<ConfigMap>::default_namespaced(client.clone());
        maps.create(&PostParams::default(), &map).await.expect("it is new");

        let scope = clock.scope("test");
        let election = LeaderElectionConfig::new("default", "operator").identity("first");
        let manager = Manager::builder(&scope.spawner(), client).metrics(metrics).leader_election(election);
        let manager = manager.build().expect("the options are valid");
        manager
            .controller::<ConfigMap>()
            .register(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) })
            .expect("the controller is valid");
        let started = manager.clone();
        let running = scope.spawn("manager", async move { started.run().await });
        manager.wait_ready().await.expect("it starts");
        clock.sleep(Duration::from_secs(5)).await;
        let served = read(&registry.encode());
        manager.request_stop();
        running.await.expect("it is not aborted").expect("it stops");
        served
    })
}

/// Reads the `OpenMetrics` format.
fn read(text: &str) -> Served {
    let mut served = Served::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect("it has a type");
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_count", "_sum"],
                _ => &[""],
            };
            served.extend(suffixes.iter().map(|suffix| (format!("{name}{suffix}"), BTreeSet::new())));
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_at(line.find(['{', ' ']).expect("it has a value"));
            let labels = rest.split(['{', ',']).filter_map(|part| part.split_once("=\""));
            let labels = labels.map(|(label, _)| label.to_owned());
            served.get_mut(name).expect("it is in a family").extend(labels);
        }
    }
    served
}

/// All queries, with the labels that they select or group by.
fn queries() -> Vec<(String, BTreeSet<String>)> {
    let description = json!({"format": 1, "crds": [], "controllers": [], "permissions": []});
    let description = serde_json::from_value(description).expect("it is a description");
    let files = Manifests::new("operator").render(&description).expect("the name is valid");
    let mut found = Vec::new();
    for path in ["monitoring/prometheus_rule.yaml", "monitoring/grafana/dashboard.json"] {
        let file = files.iter().find(|file| file.path == path).expect("it is there");
        // JSON is YAML, too.
        collect(&serde_saphyr::from_str(&file.text).expect("it is YAML"), &mut found);
    }
    found
}

fn collect(value: &Value, found: &mut Vec<(String, BTreeSet<String>)>) {
    if let Some(query) = value["expr"].as_str() {
        let groups = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
        let grouped = groups.flat_map(|group| group.split(", "));
        let matched = query.split(['{', ',']).filter_map(|part| part.split_once('"'));
        let matched = matched.map(|(label, _)| label.trim_end_matches(['=', '~', '!']));
        found.push((query.to_owned(), grouped.chain(matched).map(str::to_owned).collect()));
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| collect(field, found)),
        _ => {}
    }
}

#[test]
fn an_operator_serves_every_metric_of_alerts_and_dashboard() {
    let served = served();
    let missing: Vec<_> = metric_names().into_iter().filter(|name| !served.contains_key(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in {:#?}", served.keys());
}

#[test]
fn queries_use_labels_that_exist() {
    let served = served();
    let mut without_samples = BTreeSet::new();
    let queries = queries();
    assert!(queries.len() > 20, "{queries:?}");
    for (query, labels) in queries {
        let is_used = |name: &String| query.contains(&format!("{name}{{"));
        let names: Vec<_> = metric_names().into_iter().filter(is_used).collect();
        assert!(!names.is_empty(), "{query}");
        for name in names {
            let own = &served[&name];
            // Only requests over a connection are counted: there is none here.
            if own.is_empty() && !name.starts_with("process_") {
                without_samples.insert(name);
                continue;
            }
            let exists = |label: &String| ADDED.contains(&label.as_str()) || own.contains(label);
            assert!(labels.iter().all(exists), "{query}: {name} has {own:?}, not {labels:?}");
        }
    }
    assert!(without_samples.iter().eq(["rest_client_requests_total"]), "{without_samples:?}");
}

#[test]
fn every_query_names_this_operator() {
    for (query, labels) in queries() {
        assert!(labels.contains("namespace") && labels.contains("service"), "{query}");
    }
}
