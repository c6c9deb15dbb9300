//! The manifests of an operator: CRDs, RBAC, workload and monitoring as YAML. A function of options and of the operator's
//! [`OperatorDescription`](bowline_runtime::OperatorDescription), without I/O.
//!
//! ```
//! # fn show(description: &bowline_runtime::OperatorDescription) -> Result<(), bowline_manifests::ManifestError> {
//! use bowline_manifests::Manifests;
//!
//! let manifests = Manifests::new("games").image("registry.example.com/games:1.2.0");
//! for manifest in manifests.render(description)? {
//!     println!("{}: {} bytes", manifest.path, manifest.text.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//! | file | content |
//! |---|---|
//! | `crds/GROUP_PLURAL.yaml` | a declared CRD |
//! | `rbac/role.yaml` | the service account, and the rules that follow from the operator's permissions, with their reasons |
//! | `rbac/leader_election.yaml` | the rules for the lease |
//! | `rbac/metrics.yaml` | token and access reviews of the metrics server; a role for readers of metrics, bound to no one |
//! | `rbac/GROUP_PLURAL.yaml` | roles of users for a custom kind: admin, editor, viewer |
//! | `operator/namespace.yaml` | the namespace; not for `default` and `kube-…`, which belong to the cluster |
//! | `operator/deployment.yaml`, `disruption_budget.yaml`, `metrics_service.yaml`, `network_policy.yaml` | the workload |
//! | `install.yaml` | all of the above in one file, in an order in which they can be created |
//! | `monitoring/service_monitor.yaml`, `prometheus_rule.yaml` | for the Prometheus operator, whose CRDs they need |
//! | `monitoring/grafana/dashboard.json` | a dashboard for Grafana, in a folder of its own, because it is no object of Kubernetes |
//!
//! # Namespaces
//! An operator for all namespaces gets a `ClusterRole`. One that is [limited to namespaces](Manifests::namespaces) gets a `Role`
//! in each of them, and a `ClusterRole` for cluster-scoped resources only, if it needs any. The namespaces must exist before the
//! roles are created. Permissions with a fixed namespace become a `Role` there.
//!
//! # Limits
//! Permissions on further clusters have no manifests: see [`ClusterDescription`](bowline_runtime::ClusterDescription).

mod alerts;
mod crds;
mod dashboard;
mod deployment;
mod document;
mod error;
mod kind_roles;
mod manifest;
mod manifests;
mod metric_names;
mod monitoring;
mod operator;
mod rbac;
mod rules;
mod settings;

pub use error::ManifestError;
pub use manifest::{MARKER, Manifest, is_generated};
pub use manifests::Manifests;
pub use metric_names::metric_names;
