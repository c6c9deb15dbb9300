//! The cluster of the user's current context, and the custom kinds of an operator there.

use bowline::kube::api::{DeleteParams, ListParams};
use bowline::kube::core::{ApiResource, DynamicObject};
use bowline::kube::{self, Api, ResourceExt as _};
use bowline::prelude::Clock;
use bowline::runtime::transport::{self, ConfigOrigin, ConfigSearch, TransportError, TransportOptions};
use bowline::runtime::{DefinitionError, DefinitionInstaller};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Objects that are named before a kind is removed.
const SHOWN: u32 = 20;

/// A cluster of a kubeconfig.
pub(crate) struct Cluster {
    pub(crate) context: String,
    pub(crate) server: String,
    client: kube::Client,
}

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClusterError {
    #[error("no cluster: {0}")]
    Transport(#[from] TransportError),
    #[error("the current configuration is that of a pod, and not of a kubeconfig")]
    Pod,
    #[error(transparent)]
    Install(#[from] DefinitionError),
    #[error("cannot {act} {name}: {}", message(source))]
    Request { act: &'static str, name: String, source: Box<kube::Error> },
}

impl ClusterError {
    /// Advice for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Transport(_) | Self::Pod => {
                Some("choose one with `kubectl config use-context`, or with `--context`".to_owned())
            }
            _ => None,
        }
    }
}

/// The objects of a kind that would be deleted with it.
pub(crate) struct Objects {
    /// The first ones, as `namespace/name`.
    pub(crate) names: Vec<String>,
    pub(crate) total: u64,
}

impl Cluster {
    /// The cluster of a context, or of the current one. Sends nothing.
    pub(crate) async fn find(context: Option<&str>) -> Result<Self, ClusterError> {
        let mut search = ConfigSearch::new().without_pod();
        if let Some(context) = context {
            search = search.context(context);
        }
        let (config, origin) = search.find_with_origin().await?;
        let ConfigOrigin::Context(context) = origin else { return Err(ClusterError::Pod) };
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = transport::client(&config, &TransportOptions::new(&Clock::real()))?;
        Ok(Self { context, server, client })
    }

    /// Creates a CRD, or replaces its spec, and waits until its kind is served.
    pub(crate) async fn install(&self, definition: &CustomResourceDefinition) -> Result<(), ClusterError> {
        Ok(DefinitionInstaller::new(&Clock::real(), self.client.clone()).install(definition).await?)
    }

    /// The objects of a kind in all namespaces. `None` if the cluster does not have the kind.
    pub(crate) async fn objects(
        &self,
        definition: &CustomResourceDefinition,
    ) -> Result<Option<Objects>, ClusterError> {
        let failed = |source| request("list the objects of", definition, source);
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        let Some(installed) = definitions.get_opt(&definition.name_any()).await.map_err(failed)? else {
            return Ok(None);
        };
        let spec = installed.spec;
        let Some(version) = spec.versions.iter().find(|version| version.served) else {
            return Ok(Some(Objects { names: Vec::new(), total: 0 }));
        };
        let resource = ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        };
        let objects = Api::<DynamicObject>::all_with(self.client.clone(), &resource);
        let page = objects.list_metadata(&ListParams::default().limit(SHOWN)).await.map_err(failed)?;
        let names = page.items.iter().map(|object| match object.namespace() {
            Some(namespace) => format!("{namespace}/{}", object.name_any()),
            None => object.name_any(),
        });
        let names: Vec<_> = names.collect();
        let rest = page.metadata.remaining_item_count.unwrap_or_default();
        let total = names.len() as u64 + u64::try_from(rest).unwrap_or_default();
        Ok(Some(Objects { names, total }))
    }

    /// Deletes a CRD with all objects of its kind. The cluster does the rest on its own.
    pub(crate) async fn remove(&self, definition: &CustomResourceDefinition) -> Result<(), ClusterError> {
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        match definitions.delete(&definition.name_any(), &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(source) => Err(request("delete", definition, source)),
        }
    }
}

fn request(act: &'static str, definition: &CustomResourceDefinition, source: kube::Error) -> ClusterError {
    ClusterError::Request { act, name: definition.name_any(), source: Box::new(source) }
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
