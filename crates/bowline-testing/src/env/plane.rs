//! The API server behind a test environment, and what a test may leave there.

use std::env;
use std::path::Path;
use std::time::Duration;

use bowline_apiserver::ApiServer;
use bowline_clock::Clock;
use bowline_runtime::transport::{self, TransportError, TransportOptions};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Config};

use super::arm::{ASSETS, Arm, REAL_KUBECONFIG};
use super::{EnvError, FinishError};
use crate::{Binaries, RealControlPlane};

/// How long the end of a test may take that nobody waited for.
const FAREWELL: Duration = Duration::from_secs(10);

/// An API server, for as long as this is there.
pub(super) enum Plane {
    /// Inside this process.
    Embedded(ApiServer),
    /// Real, and of the test's own.
    Own(Box<RealControlPlane>, Box<Config>),
    /// Somebody else's.
    Shared(Box<Config>),
}

impl Plane {
    /// The real one or an existing one; the embedded one has options of its own.
    pub(super) async fn find(arm: Arm, clock: &Clock) -> Result<Self, EnvError> {
        if arm == Arm::Existing {
            return Ok(Self::Shared(Box::new(transport::config(None).await?)));
        }
        if let Some(path) = env::var_os(REAL_KUBECONFIG) {
            return Ok(Self::Shared(Box::new(transport::config(Some(Path::new(&path))).await?)));
        }
        let Some(directory) = env::var_os(ASSETS) else { return Err(EnvError::NoPrograms) };
        let plane =
            RealControlPlane::builder(clock.clone(), Binaries::in_directory(directory)).start().await?;
        let config = transport::config(Some(&plane.kubeconfig())).await?;
        Ok(Self::Own(Box::new(plane), Box::new(config)))
    }

    /// A fresh client: what it does runs on the current runtime.
    pub(super) fn client(&self, namespace: &str) -> Result<Client, EnvError> {
        match self {
            Self::Embedded(server) => Ok(Client::new(server.clone(), namespace)),
            Self::Own(_, config) | Self::Shared(config) => Ok(client_of(config, namespace)?),
        }
    }

    /// Makes a namespace that nobody else uses, and returns its name, which is this one or begins with it.
    pub(super) async fn make_namespace(&self, name: &str, clock: &Clock) -> Result<String, EnvError> {
        // On a server of one's own the name is the same in every run, so that it can be in a snapshot.
        let name = match self {
            Self::Embedded(_) | Self::Own(..) => name.to_owned(),
            Self::Shared(_) => format!("{name}-{:012x}", clock.rng().next_u64() >> 16),
        };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        let namespaces = Api::<Namespace>::all(self.client(&name)?);
        match namespaces.create(&PostParams::default(), &namespace).await {
            Ok(_) => Ok(name),
            Err(source) => Err(EnvError::Namespace { name, source: Box::new(source) }),
        }
    }

    /// Takes away what the test put there, or the whole server if it is the test's own.
    pub(super) async fn leave(self, namespace: &str) -> Result<(), FinishError> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Own(plane, _) => Ok(plane.stop().await?),
            Self::Shared(config) => delete_namespace(&config, namespace).await.map_err(|source| {
                FinishError::Namespace { name: namespace.to_owned(), source: Box::new(source) }
            }),
        }
    }

    /// The same where nobody can wait: the test failed, or forgot to. On a server of its own, nothing is left anyway.
    pub(super) fn abandon(self, namespace: String) {
        let Self::Shared(config) = self else { return };
        #[expect(
            clippy::disallowed_methods,
            reason = "a value is dropped: the runtime may be ending, and this is real time"
        )]
        let farewell = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            // What cannot be deleted stays: there is nobody left to be told.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let _ = Clock::real().timeout(FAREWELL, delete_namespace(&config, &namespace)).await;
            });
        });
        let _ = farewell.join();
    }
}

fn client_of(config: &Config, namespace: &str) -> Result<Client, TransportError> {
    let mut config = config.clone();
    namespace.clone_into(&mut config.default_namespace);
    transport::client(&config, &TransportOptions::new(&Clock::real()))
}

async fn delete_namespace(config: &Config, name: &str) -> kube::Result<()> {
    let client = client_of(config, name).map_err(|error| kube::Error::Service(error.into()))?;
    let namespaces = Api::<Namespace>::all(client);
    match namespaces.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
