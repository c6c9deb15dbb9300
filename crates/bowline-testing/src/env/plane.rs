//! The API server behind a test environment, and the objects that a test leaves there.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Clock;
use bowline_runtime::transport::{self, ConfigSearch, TransportError, TransportOptions};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config};

use super::arm::{ASSETS, Arm, CONTEXT, REAL_KUBECONFIG};
use super::connection::OperatorServer;
use super::{EnvError, FinishError, identity};
use crate::{Binaries, RealControlPlane};

/// Time for the clean-up of an environment that was dropped.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of the arm `existing`.
#[derive(Debug, Default)]
pub(super) struct Existing {
    /// Default: `KUBECONFIG`, then `~/.kube/config`.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Default: `BOWLINE_TEST_CONTEXT`.
    pub(super) context: Option<String>,
}

impl Existing {
    async fn config(self) -> Result<Config, EnvError> {
        let context = self.context.or_else(|| env::var(CONTEXT).ok()).filter(|name| !name.is_empty());
        let search = ConfigSearch::new().context(context.ok_or(EnvError::NoContext)?);
        let search = self.kubeconfig.into_iter().fold(search, ConfigSearch::kubeconfig);
        Ok(search.find().await?)
    }
}

/// An API server. One of the environment's own lives as long as this value.
pub(super) enum Plane {
    /// In this process.
    Embedded(ApiServer),
    /// A real control plane of the environment's own.
    Own(Box<RealControlPlane>, Box<ConfiguredServer>),
    /// A real control plane that other tests use too.
    Shared(Box<ConfiguredServer>),
    /// An existing cluster.
    Existing(Box<ConfiguredServer>),
}

impl Plane {
    /// The server of the arm `real` or `existing`.
    pub(super) async fn find(arm: Arm, existing: Existing, clock: &Clock) -> Result<Self, EnvError> {
        if arm == Arm::Existing {
            return Ok(Self::Existing(Box::new(ConfiguredServer::new(existing.config().await?))));
        }
        if let Some(path) = env::var_os(REAL_KUBECONFIG) {
            let config = transport::config(Some(Path::new(&path))).await?;
            return Ok(Self::Shared(Box::new(ConfiguredServer::new(config))));
        }
        let Some(directory) = env::var_os(ASSETS) else { return Err(EnvError::NoPrograms) };
        let plane =
            RealControlPlane::builder(clock.clone(), Binaries::in_directory(directory)).start().await?;
        let config = transport::config(Some(&plane.kubeconfig())).await?;
        Ok(Self::Own(Box::new(plane), Box::new(ConfiguredServer::new(config))))
    }

    /// A fresh client of the test's user, on the current runtime.
    pub(super) fn client(&self, namespace: &str) -> Result<Client, EnvError> {
        match self {
            Self::Embedded(server) => Ok(Client::new(server.clone(), namespace)),
            Self::Own(_, server) | Self::Shared(server) | Self::Existing(server) => {
                Ok(server.client(namespace)?)
            }
        }
    }

    /// The same server for the operator's user, which is created where it needs objects.
    pub(super) async fn operator(&self, namespace: &str, clock: &Clock) -> Result<OperatorServer, EnvError> {
        let server = match self {
            Self::Embedded(server) => {
                return Ok(OperatorServer::Embedded(server.clone(), identity::user(namespace)));
            }
            Self::Own(_, server) | Self::Shared(server) => {
                identity::service_account(server, namespace, clock).await?
            }
            Self::Existing(server) => server.with(identity::with_user_agent(&server.config)),
        };
        Ok(OperatorServer::Configured(Box::new(server)))
    }

    /// Creates the test's namespace and returns its name: the given one, with a random suffix on a shared server.
    pub(super) async fn make_namespace(&self, name: &str, clock: &Clock) -> Result<String, EnvError> {
        let name = match self {
            // The name is the same in each run of the test, so that a snapshot may contain it.
            Self::Embedded(_) | Self::Own(..) => name.to_owned(),
            Self::Shared(_) | Self::Existing(_) => format!("{name}-{:012x}", clock.rng().next_u64() >> 16),
        };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let namespaces = Api::<Namespace>::all(self.client(&name)?);
        match namespaces.create(&PostParams::default(), &namespace).await {
            Ok(_) => Ok(name),
            Err(source) => Err(EnvError::Namespace { name, source: Box::new(source) }),
        }
    }

    /// Deletes the test's objects from a shared server, or stops the environment's own.
    pub(super) async fn leave(self, namespace: &str) -> Result<(), FinishError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Own(plane, _) => Ok(plane.stop().await?),
            shared => shared.delete_objects(namespace).await.map_err(|source| FinishError::Namespace {
                name: namespace.to_owned(),
                source: Box::new(source),
            }),
        }
    }

    /// The same for an environment that was dropped: on a thread of its own, with a time limit. Errors are ignored.
    pub(super) fn abandon(self, namespace: String) {
        if matches!(self, Self::Embedded(_) | Self::Own(..)) {
            return;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a value is dropped: the runtime may be ending, and this is real time"
        )]
        let cleanup = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let _ = Clock::real().timeout(ABANDON_TIMEOUT, self.delete_objects(&namespace)).await;
            });
        });
        let _ = cleanup.join();
    }

    /// Deletes the test's objects from a shared server.
    async fn delete_objects(&self, namespace: &str) -> kube::Result<()> {
        let (server, has_binding) = match self {
            Self::Embedded(_) | Self::Own(..) => return Ok(()),
            Self::Shared(server) => (server, true),
            Self::Existing(server) => (server, false),
        };
        let client = server.client(namespace).map_err(|error| kube::Error::Service(error.into()))?;
        let bindings =
            if has_binding { identity::delete_binding(client.clone(), namespace).await } else { Ok(()) };
        let namespaces = Api::<Namespace>::all(client);
        match namespaces.delete(namespace, &DeleteParams::default()).await {
            Ok(_) => bindings,
            Err(kube::Error::Api(status)) if status.code == 404 => bindings,
            Err(error) => Err(error),
        }
    }
}

/// A server outside this process. Its clients share one credential plugin, so that a user logs in once.
pub(super) struct ConfiguredServer {
    pub(super) config: Config,
    options: TransportOptions,
}

impl ConfiguredServer {
    fn new(config: Config) -> Self {
        Self { config, options: TransportOptions::new(&Clock::real()) }
    }

    /// The same server with another configuration.
    pub(super) fn with(&self, config: Config) -> Self {
        Self { config, options: self.options.clone() }
    }

    /// A fresh client on the current runtime.
    pub(super) fn client(&self, namespace: &str) -> Result<Client, TransportError> {
        let mut config = self.config.clone();
        namespace.clone_into(&mut config.default_namespace);
        transport::client(&config, &self.options)
    }
}
