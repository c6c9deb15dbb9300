//! The description of an operator: what it declares, as data for other programs. Owns its form, not its output.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use serde::{Deserialize, Serialize};

use crate::Permission;

/// Version of the form: it changes when a reader of the old form could misunderstand the new one.
pub const DESCRIPTION_FORMAT: u32 = 1;

/// What an operator declares: its kinds, controllers and permissions. From [`Manager::describe`](crate::Manager::describe).
///
/// It contains no values of flags or credentials. Manifests are made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OperatorDescription {
    /// [`DESCRIPTION_FORMAT`].
    pub format: u32,
    /// The declared definitions of custom kinds.
    pub crds: Vec<CustomResourceDefinition>,
    /// The controllers, in the order of their registration.
    pub controllers: Vec<ControllerDescription>,
    /// The permissions on the operator's own cluster, sorted.
    pub permissions: Vec<Permission>,
    /// The further clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterDescription>,
    /// The namespaces that the operator works in; empty for all.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Default name of the lease of its leader election.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

/// A controller of an [`OperatorDescription`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerDescription {
    /// Its name.
    pub name: String,
    /// The reconciled kind, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindDescription>,
    /// Whether it needs leadership.
    pub leader_only: bool,
    /// Its watches, its own kind first.
    pub watches: Vec<WatchDescription>,
}

/// A watch of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WatchDescription {
    /// The source's name in triggers.
    pub source: String,
    /// The watched kind; none for channels, streams and functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindDescription>,
}

/// A kind and its resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KindDescription {
    /// API group; empty for the core group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural name of the resource.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// A further cluster of an [`OperatorDescription`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusterDescription {
    /// Its name.
    pub name: String,
    /// The permissions there, sorted.
    pub permissions: Vec<Permission>,
}

impl KindDescription {
    pub(crate) fn of<K>(kind: &bowline_cache::Kind<K>) -> Self {
        let ApiResource { group, version, kind: name, plural, .. } = kind.resource().clone();
        Self { group, version, kind: name, plural, namespaced: kind.is_namespaced() }
    }
}
