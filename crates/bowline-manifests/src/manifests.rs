//! The options of manifests, and the list of files. Owns which file contains what.

use bowline_runtime::{DESCRIPTION_FORMAT, OperatorDescription};

use crate::settings::Settings;
use crate::{
    Manifest, ManifestError, alerts, crds, dashboard, deployment, kind_roles, monitoring, operator, rbac,
};

/// Options of an operator's manifests. They are validated in [`render`](Self::render).
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `render`"]
pub struct Manifests {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) image: Option<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) replicas: u16,
    pub(crate) args: Vec<String>,
    pub(crate) lease: Option<String>,
}

impl Manifests {
    /// Defaults for an operator of this name. Its objects have this name, some with a suffix: at most 55 lower case letters, digits
    /// and `-`, with a letter first. Two operators of one cluster need different names: cluster-scoped roles have it, too.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            image: None,
            namespaces: Vec::new(),
            replicas: 2,
            args: Vec::new(),
            lease: None,
        }
    }

    /// Namespace of the operator. The manifests create it, unless it is `default` or begins with `kube-`. Default: `NAME-system`.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Image of the operator: its entry point is the program. It must run as a user other than root, given by number. Default:
    /// `NAME:latest`.
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.image = Some(image.into());
        self
    }

    /// Namespaces that the operator works in. Default: those of the description, which by default are all.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(Into::into).collect();
        self
    }

    /// Number of replicas; one of them leads. Default: 2.
    pub fn replicas(mut self, replicas: u16) -> Self {
        self.replicas = replicas;
        self
    }

    /// Further arguments of the program. Kubernetes replaces `$(NAME)` in them. With a `--graceful-shutdown-timeout` above 40s, the
    /// pod's grace period of 45 seconds is too short. Default: none.
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Name of the lease of the leader election. Default: that of the description, or else the name of the operator.
    pub fn lease(mut self, lease: impl Into<String>) -> Self {
        self.lease = Some(lease.into());
        self
    }

    /// The files, sorted by path. Equal options and descriptions give equal files.
    ///
    /// # Errors
    /// When an option or the description is not valid.
    pub fn render(&self, description: &OperatorDescription) -> Result<Vec<Manifest>, ManifestError> {
        if description.format != DESCRIPTION_FORMAT {
            return Err(ManifestError::Format { format: description.format });
        }
        let settings = Settings::new(self, description)?;
        // In an order in which they can be created.
        let mut parts = Vec::new();
        parts.extend(
            operator::namespace(&settings)
                .map(|namespace| ("operator/namespace.yaml".to_owned(), vec![namespace])),
        );
        for crd in &description.crds {
            let (file, definition) = crds::render(crd)?;
            parts.push((format!("crds/{file}.yaml"), vec![definition]));
        }
        parts.push(("rbac/role.yaml".to_owned(), rbac::operator(&settings, description)));
        parts.push(("rbac/leader_election.yaml".to_owned(), rbac::leader_election(&settings)));
        parts.push(("rbac/metrics.yaml".to_owned(), rbac::metrics(&settings)));
        for crd in &description.crds {
            parts.push((format!("rbac/{}.yaml", crds::file_name(crd)?), kind_roles::render(&settings, crd)));
        }
        for (file, document) in [
            ("deployment", deployment::render(&settings)),
            ("disruption_budget", operator::disruption_budget(&settings)),
            ("metrics_service", operator::metrics_service(&settings)),
            ("network_policy", operator::network_policy(&settings)),
        ] {
            parts.push((format!("operator/{file}.yaml"), vec![document]));
        }
        let install = Manifest::yaml("install.yaml", parts.iter().flat_map(|(_, documents)| documents));
        let mut files: Vec<_> =
            parts.into_iter().map(|(path, documents)| Manifest::yaml(path, &documents)).collect();
        files.push(install);
        files.push(Manifest::yaml(
            "monitoring/service_monitor.yaml",
            &[monitoring::service_monitor(&settings)],
        ));
        files.push(Manifest::yaml("monitoring/prometheus_rule.yaml", &[alerts::prometheus_rule(&settings)]));
        files.push(Manifest::json("monitoring/grafana/dashboard.json", dashboard::render(&settings)));
        files.sort();
        Ok(files)
    }
}
