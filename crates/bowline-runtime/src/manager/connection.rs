//! The ways to one API server that a manager needs.

use bowline_clock::Clock;
use kube::Config;

use crate::Metrics;
use crate::leader_election::Fence;
use crate::transport::{Route, Transport, TransportError, TransportOptions};

/// How a manager comes to its API server: from a [`Config`], by transports of its own, or through a client that is there
/// already.
///
/// From a configuration it has three ways: a client for informers and events, one behind the fence for controllers that need
/// leadership, and one for the lease alone, so that nothing else holds up its renewal. A client that is there already, of
/// an embedded server for example, plays all three parts; its fence guarantees
/// [somewhat less](Fence#what-it-guarantees).
#[derive(Clone, Debug)]
pub struct Connection(Way);

#[derive(Clone)]
enum Way {
    Configured(Box<Config>, Option<Box<TransportOptions>>),
    Given(kube::Client),
}

/// The ways, made.
pub(super) struct Ways {
    pub(super) route: Route,
    pub(super) lease: kube::Client,
    way: Made,
}

enum Made {
    Transport(Transport),
    Given(kube::Client),
}

impl Connection {
    /// To the server that a configuration names, with options for its requests. Where they are counted is the manager's to say.
    #[must_use]
    pub fn with_options(config: Config, options: TransportOptions) -> Self {
        Self(Way::Configured(Box::new(config), Some(Box::new(options))))
    }

    pub(super) fn make(self, clock: &Clock, metrics: &Metrics) -> Result<Ways, TransportError> {
        match self.0 {
            Way::Configured(config, options) => {
                let options = options.map_or_else(|| TransportOptions::new(clock), |options| *options);
                let options = options.metrics(metrics);
                let transport = Transport::new(&config, &options)?;
                let lease = Transport::new(&config, &options)?.client();
                Ok(Ways { route: (&transport).into(), lease, way: Made::Transport(transport) })
            }
            Way::Given(kube) => {
                Ok(Ways { route: kube.clone().into(), lease: kube.clone(), way: Made::Given(kube) })
            }
        }
    }
}

impl Ways {
    /// The way of a client whose writes pass only while the fence is open.
    pub(super) fn fenced(&self, fence: &Fence) -> Route {
        match &self.way {
            Made::Transport(transport) => transport.fenced_route(fence),
            Made::Given(kube) => fence.client(kube.clone()).into(),
        }
    }
}

impl From<Config> for Connection {
    fn from(config: Config) -> Self {
        Self(Way::Configured(Box::new(config), None))
    }
}

impl From<kube::Client> for Connection {
    fn from(kube: kube::Client) -> Self {
        Self(Way::Given(kube))
    }
}

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A configuration has credentials in it.
        match self {
            Self::Configured(config, _) => f.debug_tuple("Configured").field(&config.cluster_url).finish(),
            Self::Given(_) => f.debug_tuple("Given").finish_non_exhaustive(),
        }
    }
}
