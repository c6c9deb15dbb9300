//! Roles and bindings of the operator: from its permissions, for its lease, for its metrics server.

use std::collections::BTreeMap;

use bowline_runtime::{OperatorDescription, Permission, election_permissions, review_permissions};
use serde_json::{Value, json};

use crate::document::Document;
use crate::rules::{Rule, Rules};
use crate::settings::Settings;

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// Namespace of the events of cluster-scoped objects.
const CLUSTER_EVENTS: &str = "default";

/// The rules of the operator, by the place where they count.
struct Places {
    cluster: Rules,
    namespaces: BTreeMap<String, Rules>,
}

/// The service account, and the roles that follow from the operator's permissions.
pub(crate) fn operator(settings: &Settings, description: &OperatorDescription) -> Vec<Document> {
    let mut documents = vec![Document::new(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": settings.metadata(&settings.name),
    }))];
    let Places { cluster, namespaces } = Places::of(settings, description);
    documents.extend(cluster_role(settings, &settings.name, &cluster.clone().grouped()));
    for (namespace, rules) in namespaces {
        let rules = rules.without(&cluster).grouped();
        documents.extend(role_in(settings, &namespace, &settings.name, &rules));
    }
    documents
}

/// The role for the lease.
pub(crate) fn leader_election(settings: &Settings) -> Vec<Document> {
    let rules = election_permissions(&settings.lease).iter().collect::<Rules>().grouped();
    role_in(settings, &settings.namespace, &settings.named("leader-election"), &rules)
}

/// The role of a metrics server that asks the cluster about its readers, and a role for readers.
pub(crate) fn metrics(settings: &Settings) -> Vec<Document> {
    let rules = review_permissions().iter().collect::<Rules>().grouped();
    let mut documents = cluster_role(settings, &settings.named("metrics-auth"), &rules);
    let name = settings.metrics_reader();
    let comment = format!(
        "For readers of metrics. Bind it to the service account of Prometheus, for example:\n\
         kubectl create clusterrolebinding {name} --clusterrole={name} --serviceaccount=monitoring:prometheus-k8s"
    );
    documents.push(Document::with_comment(
        &comment,
        json!({
            "apiVersion": API_VERSION,
            "kind": "ClusterRole",
            "metadata": settings.cluster_metadata(&name),
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        }),
    ));
    documents
}

impl Places {
    fn of(settings: &Settings, description: &OperatorDescription) -> Self {
        let mut places = Self { cluster: Rules::default(), namespaces: BTreeMap::new() };
        let is_further = |permission: &&Permission| !is_own(permission);
        for permission in description.permissions.iter().filter(is_further) {
            match &permission.namespace {
                _ if !permission.namespaced => places.cluster.add(permission),
                Some(namespace) => places.add_in(namespace, permission),
                None if settings.is_for_all_namespaces() => places.cluster.add(permission),
                None => {
                    settings.namespaces.iter().for_each(|namespace| places.add_in(namespace, permission));
                    if writes_events(permission) && has_cluster_kinds(description) {
                        places.add_in(CLUSTER_EVENTS, permission);
                    }
                }
            }
        }
        places
    }

    fn add_in(&mut self, namespace: &str, permission: &Permission) {
        self.namespaces.entry(namespace.to_owned()).or_default().add(permission);
    }
}

/// Whether a permission has a role of its own: it is for the election or for the metrics server.
fn is_own(permission: &Permission) -> bool {
    let own = election_permissions("").into_iter().chain(review_permissions());
    let is_same = |own: Permission| {
        own.group == permission.group
            && own.resource == permission.resource
            && own.reason == permission.reason
    };
    !permission.is_declared && own.into_iter().any(is_same)
}

/// Whether a permission is that of a recorder of events.
fn writes_events(permission: &Permission) -> bool {
    let is_event =
        matches!(permission.group.as_str(), "" | "events.k8s.io") && permission.resource == "events";
    is_event && !permission.is_declared && permission.verbs.contains("create")
}

/// Whether a controller may record events of cluster-scoped objects.
fn has_cluster_kinds(description: &OperatorDescription) -> bool {
    let controllers = description.controllers.iter();
    let mut kinds = controllers.flat_map(|controller| {
        controller.kind.iter().chain(controller.watches.iter().flat_map(|it| &it.kind))
    });
    kinds.any(|kind| !kind.namespaced)
}

/// A cluster role of the operator with its binding; nothing without rules.
fn cluster_role(settings: &Settings, name: &str, rules: &[Rule]) -> Vec<Document> {
    role(settings, "ClusterRole", &settings.cluster_metadata(name), rules)
}

/// A role of the operator in a namespace with its binding; nothing without rules.
fn role_in(settings: &Settings, namespace: &str, name: &str, rules: &[Rule]) -> Vec<Document> {
    role(settings, "Role", &settings.metadata_in(namespace, name), rules)
}

fn role(settings: &Settings, kind: &str, metadata: &Value, rules: &[Rule]) -> Vec<Document> {
    if rules.is_empty() {
        return Vec::new();
    }
    let role = json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata});
    let binding = json!({
        "apiVersion": API_VERSION,
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": settings.name, "namespace": settings.namespace}],
    });
    vec![Document::role(role, rules), Document::new(binding)]
}
