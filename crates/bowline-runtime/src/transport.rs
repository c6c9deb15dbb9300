//! The way to an API server: connections, what is sent again and what is not, and how long an answer may take.
//!
//! It makes a [`kube::Client`] that is used like any other. What differs from kube's own:
//! - a request is sent again only when that is safe: one that reads, when the connection broke before there was an
//!   answer, and any other when the server said that it is too busy and when to come again. kube sends a POST again up to
//!   15 times;
//! - long lists and busy watches are read in large pieces, by whoever wants them, without a task in between;
//! - a server that has accepted a request and says nothing is given up after a while; watches never are.

mod connection;
mod pool;
mod request;
mod retry;
mod socket;

use std::env;
use std::path::Path;
use std::time::Duration;

use bowline_clock::Clock;
use http::HeaderValue;
use http::uri::Authority;
use kube::client::{Client, ConfigExt as _};
use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::Layer as _;
use tower::util::option_layer;

use crate::BoxError;
use connection::Connector;
use pool::Pool;
use retry::{Limits, Retry};

/// A client of the server that a configuration names.
///
/// It must be made inside a tokio runtime, and lives as long as that. Connections are made when they are needed; there is
/// one for each request that is under way, and some are kept for the next ones.
///
/// # Errors
/// [`TransportError`] when the configuration cannot be used: nothing is sent here.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn client(config: &Config, options: &TransportOptions) -> Result<Client, TransportError> {
    let clock = options.clock.clone();
    let connect = config.connect_timeout.map_or(options.connect, |limit| limit.min(options.connect));
    let connector = Connector::new(config, connect, clock.clone())?;
    let pool = Pool::new(connector, host(config)?, options.response, clock.clone());
    let service = config.extra_headers_layer().map_err(TransportError::Credentials)?.layer(pool);
    let auth = config.auth_layer().map_err(TransportError::Credentials)?;
    let service = option_layer(auth).layer(service);
    let limits = Limits { tries: options.tries, pauses: options.pauses };
    let service = config.base_uri_layer().layer(Retry::new(service, limits, clock));
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// The configuration that a program is meant to use, looked for as Go's tools do: the file that a flag names, the files in
/// `$KUBECONFIG`, that of the pod it runs in, and last `~/.kube/config`.
///
/// # Errors
/// [`TransportError`] when the first of these that is there cannot be used, or none is.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, TransportError> {
    let options = KubeConfigOptions::default();
    if let Some(path) = kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path)?;
        return Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?);
    }
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("KUBECONFIG") && is_set("KUBERNETES_SERVICE_HOST") {
        return Ok(Config::incluster()?);
    }
    Ok(Config::from_kubeconfig(&options).await?)
}

/// How requests are sent.
#[derive(Clone, Debug)]
#[must_use]
pub struct TransportOptions {
    clock: Clock,
    connect: Duration,
    response: Duration,
    tries: u32,
    pauses: Duration,
}

impl TransportOptions {
    /// The defaults, by a clock.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            connect: Duration::from_secs(30),
            response: Duration::from_secs(75),
            tries: 4,
            pauses: Duration::from_secs(30),
        }
    }

    /// How long it may take to connect, TLS included. 30 s by default; the configuration may say less.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect = limit;
        self
    }

    /// How long an answer, and then each next piece of it, may take. 75 s by default: kube-apiserver gives up after 60 s
    /// and says so. Watches and other answers that last are not limited.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response = limit;
        self
    }

    /// How often a request is sent at most, the first time included. 4 by default; 1 is never again.
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries.max(1);
        self
    }

    /// How long the pauses of one request may be together. 30 s by default: when the server asks for more, its refusal is
    /// the answer.
    pub fn pauses(mut self, limit: Duration) -> Self {
        self.pauses = limit;
        self
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The kubeconfig cannot be read, or lacks something.
    #[error("cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG")]
    Kubeconfig(#[from] KubeconfigError),
    /// This runs in a pod, and what the pod has of the cluster cannot be read.
    #[error("cannot use the pod's service account")]
    InCluster(#[from] InClusterError),
    /// Certificates, keys, tokens or headers cannot be used.
    #[error("cannot use the credentials in the configuration")]
    Credentials(#[source] kube::Error),
    /// The server's address has no host, or the name its certificate must have is none.
    #[error("{0:?} is no name of a server; correct the configuration's `server` or `tls-server-name`")]
    ServerName(String),
    /// A proxy is asked for.
    #[error("cannot go through the proxy that the configuration names (`proxy-url`): this is not supported")]
    Proxy,
}

/// Why a request got no answer, where it is not the connection that broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There is no connection.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server's address.
        server: String,
        /// Why.
        source: BoxError,
    },
    /// The server said nothing for too long. It may have done what was asked.
    #[error("{request}: no answer within {limit:?}")]
    Silent {
        /// The method and the path.
        request: String,
        /// How long it was waited for.
        limit: Duration,
    },
}

/// What the server is called in requests.
fn host(config: &Config) -> Result<HeaderValue, TransportError> {
    let authority = config.cluster_url.authority().map_or("", Authority::as_str);
    let host = authority.rsplit('@').next().unwrap_or_default();
    let is_name = !host.is_empty();
    let value = HeaderValue::from_str(host).ok().filter(|_| is_name);
    value.ok_or_else(|| TransportError::ServerName(config.cluster_url.to_string()))
}
