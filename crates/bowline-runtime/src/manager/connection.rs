//! The connections of a manager to one API server.

use bowline_clock::Clock;
use kube::Config;
use kube::client::Body;

use crate::Metrics;
use crate::leader_election::Fence;
use crate::transport::{Plugins, RequestService, Transport, TransportError, TransportOptions};

/// The connection of a manager to its API server: a [`Config`], for transports of the manager's own, or an existing client.
///
/// From a configuration, the manager makes three clients: one for informers and events, one behind the fence for controllers
/// that need leadership, and one for the lease alone, so that nothing else delays its renewal. An existing client, for example
/// of an embedded server, serves all three purposes; its fence guarantees [less](Fence#what-it-guarantees).
/// [`ManagerBuilder::lease_connection`](crate::ManagerBuilder::lease_connection) gives the lease another connection.
#[derive(Clone, Debug)]
pub struct ConnectionConfig(Way);

#[derive(Clone)]
enum Way {
    Configured(Box<Config>, RequestOptions),
    Given(kube::Client),
    /// Nothing is sent.
    Refused,
}

/// The options of all transports for a configuration. Either way, they share the credential plugin, so that it runs once.
#[derive(Clone)]
enum RequestOptions {
    Default(Plugins),
    Given(Box<TransportOptions>),
}

impl RequestOptions {
    fn transport(
        &self,
        config: &Config,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Result<Transport, TransportError> {
        let options = match self {
            Self::Default(plugins) => TransportOptions::new(clock).plugins(plugins),
            Self::Given(options) => TransportOptions::clone(options),
        };
        Transport::new(config, &options.metrics(metrics))
    }
}

/// The built services.
pub(super) struct Ways {
    pub(super) route: RequestService,
    way: Made,
}

enum Made {
    Transport(Transport),
    Given(kube::Client),
}

impl ConnectionConfig {
    /// Connects to the server of a configuration, with options for its requests. The manager sets their metrics.
    #[must_use]
    pub fn with_options(config: Config, options: TransportOptions) -> Self {
        Self(Way::Configured(Box::new(config), RequestOptions::Given(Box::new(options))))
    }

    /// No connection: every request fails. For a manager that is only asked what it [declares](crate::Manager::describe).
    #[must_use]
    pub fn refused() -> Self {
        Self(Way::Refused)
    }

    pub(super) fn make(&self, clock: &Clock, metrics: &Metrics) -> Result<Ways, TransportError> {
        Ok(match &self.0 {
            Way::Configured(config, options) => {
                let transport = options.transport(config, clock, metrics)?;
                Ways { route: (&transport).into(), way: Made::Transport(transport) }
            }
            Way::Given(kube) => Ways { route: kube.clone().into(), way: Made::Given(kube.clone()) },
            Way::Refused => {
                let kube = refusing_client();
                Ways { route: kube.clone().into(), way: Made::Given(kube) }
            }
        })
    }

    /// A client for the lease alone: from a configuration, with connections that it shares with no other client.
    pub(super) fn make_lease(
        &self,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Result<kube::Client, TransportError> {
        Ok(match &self.0 {
            Way::Configured(config, options) => options.transport(config, clock, metrics)?.client(),
            Way::Given(kube) => kube.clone(),
            Way::Refused => refusing_client(),
        })
    }
}

/// A request of a manager that has no connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this manager has no connection to an API server: it only describes what the operator declares")]
struct NoConnection;

fn refusing_client() -> kube::Client {
    let refuse = |_: http::Request<Body>| async { Err::<http::Response<Body>, _>(NoConnection) };
    kube::Client::new(tower::service_fn(refuse), "default")
}

impl Ways {
    /// The service of a client whose writes pass only while the fence is open.
    pub(super) fn fenced(&self, fence: &Fence) -> RequestService {
        match &self.way {
            Made::Transport(transport) => transport.fenced_route(fence),
            Made::Given(kube) => fence.client(kube.clone()).into(),
        }
    }
}

impl From<Config> for ConnectionConfig {
    fn from(config: Config) -> Self {
        Self(Way::Configured(Box::new(config), RequestOptions::Default(Plugins::default())))
    }
}

impl From<kube::Client> for ConnectionConfig {
    fn from(kube: kube::Client) -> Self {
        Self(Way::Given(kube))
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A configuration contains credentials.
        match self {
            Self::Configured(config, _) => f.debug_tuple("Configured").field(&config.cluster_url).finish(),
            Self::Given(_) => f.debug_tuple("Given").finish_non_exhaustive(),
            Self::Refused => f.write_str("Refused"),
        }
    }
}
