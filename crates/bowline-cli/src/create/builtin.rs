//! Built-in kinds: their Rust types, and an object of each common one for the test of a controller.

use bowline::machinery::facts::{self, ResourceFacts};

/// A built-in kind that a controller can watch.
#[derive(Debug)]
pub(super) struct BuiltinKind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    /// Path of the type in the crate `bowline`.
    pub(super) path: String,
}

/// Why there is no such kind.
#[derive(Debug)]
pub(super) enum NoKind {
    /// The server cannot list and watch it.
    Unwatchable,
    /// There is none, but there are kinds with this name elsewhere, as `apps/v1`.
    Unknown { elsewhere: Vec<String> },
}

impl BuiltinKind {
    /// The kind of a group, which may be given by its first part (`rbac`) or as `core`.
    pub(super) fn find(group: &str, version: &str, kind: &str) -> Result<Self, NoKind> {
        let named: Vec<_> = facts::resources().iter().filter(|resource| resource.kind == kind).collect();
        let found =
            named.iter().find(|resource| is_group(resource.group, group) && resource.version == version);
        let Some(resource) = found else {
            let elsewhere = named.iter().map(|resource| group_version(resource.group, resource.version));
            return Err(NoKind::Unknown { elsewhere: elsewhere.collect() });
        };
        Self::new(resource).ok_or(NoKind::Unwatchable)
    }

    fn new(resource: &ResourceFacts) -> Option<Self> {
        let ResourceFacts { group, version, kind, .. } = *resource;
        let is_watchable = ["get", "list", "watch"].iter().all(|verb| resource.verbs.contains(verb));
        let path = path(facts::type_of(group, version, kind)?.name())?;
        is_watchable.then_some(Self { group, version, kind, path })
    }

    /// Group and version, as in `apiVersion`.
    pub(super) fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// The fields of an object that the API server accepts, as lines of JSON. None if this list does not have one.
    pub(super) fn example(&self) -> Option<&'static str> {
        Some(match (self.group, self.kind) {
            (
                "",
                "ConfigMap" | "LimitRange" | "Namespace" | "Node" | "ResourceQuota" | "Secret"
                | "ServiceAccount",
            )
            | ("coordination.k8s.io", "Lease") => METADATA,
            ("", "Pod") => POD,
            ("", "Service") => SERVICE,
            ("", "PersistentVolumeClaim") => CLAIM,
            ("apps", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => WORKLOAD,
            ("batch", "Job") => JOB,
            ("batch", "CronJob") => CRON_JOB,
            _ => return None,
        })
    }
}

const METADATA: &str = r#"
    "metadata": { "name": "example" }"#;
const POD: &str = r#"
    "metadata": { "name": "example" },
    "spec": { "containers": [{ "name": "main", "image": "example" }] }"#;
const SERVICE: &str = r#"
    "metadata": { "name": "example" },
    "spec": { "ports": [{ "port": 80 }] }"#;
const CLAIM: &str = r#"
    "metadata": { "name": "example" },
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } }
    }"#;
const WORKLOAD: &str = r#"
    "metadata": { "name": "example" },
    "spec": {
        "selector": { "matchLabels": { "app": "example" } },
        "template": {
            "metadata": { "labels": { "app": "example" } },
            "spec": { "containers": [{ "name": "main", "image": "example" }] }
        }
    }"#;
const JOB: &str = r#"
    "metadata": { "name": "example" },
    "spec": {
        "template": {
            "spec": {
                "containers": [{ "name": "main", "image": "example" }],
                "restartPolicy": "Never"
            }
        }
    }"#;
const CRON_JOB: &str = r#"
    "metadata": { "name": "example" },
    "spec": {
        "schedule": "0 0 * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {
                        "containers": [{ "name": "main", "image": "example" }],
                        "restartPolicy": "Never"
                    }
                }
            }
        }
    }"#;

/// Whether a group is the one that the user means.
fn is_group(group: &str, given: &str) -> bool {
    match group {
        "" => given == "core",
        _ => given == group || group.split('.').next() == Some(given),
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The path of the type that the table names with Go's packages: `apps/v1.Deployment`.
fn path(go_name: &str) -> Option<String> {
    let (package, kind) = go_name.rsplit_once('.')?;
    let (group, version) = package.split_once('/')?;
    let module = match group {
        "apiextensions" => "apiextensions_apiserver::pkg::apis::apiextensions".to_owned(),
        "apiregistration" => "kube_aggregator::pkg::apis::apiregistration".to_owned(),
        _ => format!("api::{group}"),
    };
    Some(format!("bowline::k8s_openapi::{module}::{version}::{kind}"))
}

#[cfg(test)]
mod tests {
    use bowline::kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
    use bowline_testing::TestEnv;
    use serde_json::Value;

    use super::*;

    #[test]
    fn groups_are_found_by_their_first_part() {
        for (group, version, kind, path) in [
            ("apps", "v1", "Deployment", "api::apps::v1::Deployment"),
            ("core", "v1", "Pod", "api::core::v1::Pod"),
            ("rbac", "v1", "ClusterRole", "api::rbac::v1::ClusterRole"),
            ("rbac.authorization.k8s.io", "v1", "ClusterRole", "api::rbac::v1::ClusterRole"),
            (
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition",
            ),
        ] {
            let found = BuiltinKind::find(group, version, kind).unwrap();
            assert_eq!(found.path, format!("bowline::k8s_openapi::{path}"));
        }
    }

    #[test]
    fn kinds_that_are_elsewhere_or_cannot_be_watched_are_told_apart() {
        let unknown = BuiltinKind::find("apps", "v1beta1", "Deployment").unwrap_err();
        assert!(matches!(unknown, NoKind::Unknown { elsewhere } if elsewhere == ["apps/v1"]));
        assert!(matches!(BuiltinKind::find("core", "v1", "Binding"), Err(NoKind::Unwatchable)));
    }

    #[test]
    fn the_api_server_accepts_every_example() {
        let all: Vec<_> = facts::resources().iter().filter_map(BuiltinKind::new).collect();
        let with_example: Vec<_> = all.iter().filter(|kind| kind.example().is_some()).collect();
        assert_eq!(with_example.len(), 17, "{with_example:?}");
        TestEnv::test(async |env| {
            for kind in with_example {
                let named = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
                let facts = facts::resources()
                    .iter()
                    .find(|it| it.kind == kind.kind && it.group == kind.group)
                    .unwrap();
                let resource = ApiResource::from_gvk_with_plural(&named, facts.resource);
                let fields = kind.example().unwrap();
                let api_version = kind.api_version();
                let text =
                    format!("{{\"apiVersion\": \"{api_version}\", \"kind\": \"{}\",{fields}}}", kind.kind);
                let object: Value = serde_json::from_str(&text).unwrap();
                let object: DynamicObject = serde_json::from_value(object).unwrap();
                let client = env.kube_client().clone();
                let api: Api<DynamicObject> = if facts.namespaced {
                    Api::default_namespaced_with(client, &resource)
                } else {
                    Api::all_with(client, &resource)
                };
                let created = api.create(&PostParams::default(), &object).await;
                assert!(created.is_ok(), "{}: {created:?}", kind.kind);
            }
        });
    }
}
