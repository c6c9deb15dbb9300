//! The way to an API server: connections, what is sent again and what is not, and how long an answer may take.
//!
//! It makes a [`kube::Client`] that is used like any other, and is a [`Route`] for clients and clusters, without that client's
//! queue. What differs from kube's own:
//! - a request is sent again only when that is safe: one that reads, when the connection broke before there was an
//!   answer, and any other when the server said that it is too busy and when to come again. kube sends a POST again up to
//!   15 times;
//! - long lists and busy watches are read in large pieces, by whoever wants them, without a task in between;
//! - a server that has accepted a request and says nothing is given up after a while; watches never are;
//! - writes can be held back where this process does not lead: see [`Transport::fenced_client`].

mod connection;
mod deadline;
mod pace;
mod pool;
mod proxy;
mod request;
mod retry;
mod route;
mod search;
mod socket;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::Clock;
use bowline_workqueue::Bucket;
use futures::FutureExt as _;
use http::uri::Authority;
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use kube::client::middleware::{AuthLayer, BaseUriLayer, ExtraHeadersLayer};
use kube::client::{Body, Client, ConfigExt as _};
use kube::config::{Config, InClusterError, KubeconfigError};
use tower::util::option_layer;
use tower::{Layer as _, ServiceExt as _};

use crate::leader_election::{Fence, Fenced};
use crate::metrics::RequestMetrics;
use crate::{BoxError, Metrics};
use connection::Connector;
use deadline::Deadline;
use pace::{Pace, Paced};
use pool::{Pool, PoolLimits};
use retry::{Limits, Retry};

pub(crate) use route::AnswerBody;
pub use route::Route;
pub use search::ConfigSearch;

/// A client of the server that a configuration names: the [client](Transport::client) of a [`Transport`] of its own.
///
/// # Errors
/// [`TransportError`] when the configuration cannot be used: nothing is sent here.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn client(config: &Config, options: &TransportOptions) -> Result<Client, TransportError> {
    Ok(Transport::new(config, options)?.client())
}

/// The way to the server that a configuration names. Its clients share connections and credentials, and keep it alive. A
/// clone is the same one.
///
/// It lives as long as the tokio runtime that it was made in. Connections are made when they are needed; there is one for
/// each request that is under way, and some are kept for the next ones.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    pool: Pool,
    base: BaseUriLayer,
    auth: Option<AuthLayer>,
    headers: ExtraHeadersLayer,
    namespace: String,
    counts: Option<Arc<RequestMetrics>>,
    pace: Option<Pace>,
    options: TransportOptions,
}

impl Transport {
    /// The way to the server that a configuration names.
    ///
    /// A proxy is used as Go's tools do: the one in the kubeconfig, or the one in `$HTTPS_PROXY` unless `$NO_PROXY` lists
    /// the server or it is on this machine. It must be one that is spoken to in plain HTTP.
    ///
    /// # Errors
    /// [`TransportError`] when the configuration cannot be used: nothing is sent here.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(config: &Config, options: &TransportOptions) -> Result<Self, TransportError> {
        let clock = options.clock.clone();
        let connect = config.connect_timeout.map_or(options.connect, |limit| limit.min(options.connect));
        let headers = config.extra_headers_layer().map_err(TransportError::Credentials)?;
        let auth = config.auth_layer().map_err(TransportError::Credentials)?;
        let connector = Connector::new(config, connect, clock.clone())?;
        let limits = PoolLimits { requests: options.requests, patience: options.response };
        let pool = Pool::new(connector, host(config)?, &limits, clock);
        let counts = options.metrics.as_ref().map(|metrics| metrics.requests(authority(config)));
        let (base, namespace) = (config.base_uri_layer(), config.default_namespace.clone());
        let pace = options.rate.clone().map(|bucket| Pace::new(bucket, options.clock.clone()));
        Ok(Self(Arc::new(Inner {
            pool,
            base,
            auth,
            headers,
            namespace,
            counts,
            pace,
            options: options.clone(),
        })))
    }

    /// A client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.route(None).kube().clone()
    }

    /// A client whose writes pass only while a fence is open, which is checked each time that one is sent or goes on. Reads
    /// pass always.
    #[must_use]
    pub fn fenced_client(&self, fence: &Fence) -> Client {
        self.route(Some(fence)).kube().clone()
    }

    /// The way of such a client, for what is made of a [`Route`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn fenced_route(&self, fence: &Fence) -> Route {
        self.route(Some(fence))
    }

    /// The way of a client, or of one that is behind a fence.
    fn route(&self, fence: Option<&Fence>) -> Route {
        let Inner { pool, base, auth, headers, namespace, counts, pace, options } = &*self.0;
        let clock = options.clock.clone();
        // The inner fence is the last thing before the connections. The outer one says in which term a request was begun,
        // and ends the pauses between two tries.
        let service = headers.layer(Fenced::new(pool.clone(), fence.cloned()));
        let service = base.layer(option_layer(auth.as_ref()).layer(service));
        let service = Deadline::new(service, options.response, pool.clone(), clock.clone());
        let service = Paced::new(service, pace.clone());
        let limits = Limits { tries: options.tries, pauses: options.pauses };
        let service = Retry::new(service, limits, counts.clone(), clock);
        let service = Fenced::new(service, fence.cloned());
        let kube = Client::new(service.clone(), namespace.clone());
        let direct = move |request: Request<Body>| {
            let answer = service.clone().oneshot(request);
            async move { Ok(answer.await?.map(BodyExt::boxed_unsync)) }.boxed()
        };
        Route::new(kube, Arc::new(direct))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("server", &self.0.pool.server()).finish_non_exhaustive()
    }
}

/// The configuration that a program is meant to use: short for a [`ConfigSearch`] for the current context of a file, or of
/// whatever is found.
///
/// # Errors
/// As [`ConfigSearch::find`].
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, TransportError> {
    let search = ConfigSearch::new();
    match kubeconfig {
        Some(path) => search.kubeconfig(path).find().await,
        None => search.find().await,
    }
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
    requests: usize,
    rate: Option<Bucket>,
    metrics: Option<Metrics>,
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
            requests: 128,
            rate: None,
            metrics: None,
        }
    }

    /// How long it may take to connect, TLS included. 30 s by default; the configuration may say less.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect = limit;
        self
    }

    /// How long an answer, and then each next piece of it, may take; getting credentials and a connection counts. 75 s by
    /// default: kube-apiserver gives up after 60 s and says so. Watches and other answers that last are not limited once
    /// they were asked for.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response = limit;
        self
    }

    /// How many requests may be under way at once; others wait for their turn. 128 by default. A request is under way until
    /// its answer was read or dropped. Watches and others that last are not counted: there are as many as somebody reads.
    pub fn requests(mut self, limit: usize) -> Self {
        self.requests = limit.max(1);
        self
    }

    /// How many requests may be sent in a second, all clients together; others wait for their turn, before the time that
    /// their answer may take begins. No limit by default: API servers look after themselves, with priority and fairness.
    pub fn rate(mut self, limit: Bucket) -> Self {
        self.rate = Some(limit);
        self
    }

    /// Where it is counted what is sent (`rest_client_requests_total`), and what of it is sent again
    /// (`rest_client_request_retries_total`). Nowhere by default.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
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
    /// The kubeconfig has no such context.
    #[error("the kubeconfig has no context {name:?}; it has: {}", list(known))]
    UnknownContext {
        /// The context that was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// There is no kubeconfig, and this runs in no pod, or a context was asked for.
    #[error(
        "there is no {}: set --kubeconfig or $KUBECONFIG, or write ~/.kube/config",
        context.as_ref().map_or_else(
            || "configuration of a cluster".to_owned(),
            |name| format!("kubeconfig that could have a context {name:?}"),
        )
    )]
    NoConfiguration {
        /// The context that was asked for.
        context: Option<String>,
    },
    /// This runs in a pod, and what the pod has of the cluster cannot be read.
    #[error("cannot use the pod's service account")]
    InCluster(#[from] InClusterError),
    /// Certificates, keys, tokens or headers cannot be used.
    #[error("cannot use the credentials in the configuration")]
    Credentials(#[source] kube::Error),
    /// The server's address has no host, or the name its certificate must have is none.
    #[error("{0:?} is no name of a server; correct the configuration's `server` or `tls-server-name`")]
    ServerName(String),
    /// The proxy that is asked for is not one that is spoken to in plain HTTP.
    #[error(
        "cannot go through the proxy {proxy}, which {origin} names: use an http:// one, or list the server in $NO_PROXY"
    )]
    Proxy {
        /// The proxy's address, without credentials.
        proxy: String,
        /// Where it was named.
        origin: String,
    },
}

/// Why a request got no answer, where it is not the connection that broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There is no connection.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server's host and port.
        server: String,
        /// Why.
        source: BoxError,
    },
    /// There were no credentials in time. Nothing was sent.
    #[error(
        "{request}: no credentials within {limit:?}; see the `exec` or `auth-provider` of the configuration's user"
    )]
    Credentials {
        /// The method and the path.
        request: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// All requests that may be under way were, for too long. Nothing was sent.
    #[error(
        "{request}: too many requests are under way, and none ended within {limit:?}; are all answers read?"
    )]
    Crowded {
        /// The method and the path.
        request: String,
        /// How long it was waited for.
        limit: Duration,
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
    let host = authority(config);
    let is_name = !host.is_empty();
    let value = HeaderValue::from_str(host).ok().filter(|_| is_name);
    value.ok_or_else(|| TransportError::ServerName(host.to_owned()))
}

/// The server's host and port, without credentials.
fn authority(config: &Config) -> &str {
    let authority = config.cluster_url.authority().map_or("", Authority::as_str);
    authority.rsplit('@').next().unwrap_or_default()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
