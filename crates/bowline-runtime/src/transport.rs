//! The transport to an API server: connections, credentials, retries and timeouts.
//!
//! It provides a [`kube::Client`], and a [`RequestService`] for clients and clusters, which avoids that client's queue.
//! Differences from kube's own client:
//! - Retries only if that is safe: a read whose connection broke before a response, and any request that the server
//!   rejected as too busy with a `Retry-After`. kube retries a POST up to 15 times.
//! - Long lists and busy watches are read in large chunks, by the reader itself, without a task in between.
//! - A request without a response times out; watches do not.
//! - Writes can be blocked in processes that do not lead: see [`Transport::fenced_client`].

mod connection;
mod credentials;
mod deadline;
mod plugin;
mod pool;
mod proxy;
mod rate_limit;
mod request;
mod request_service;
mod retry;
mod search;
mod socket;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::Clock;
use bowline_workqueue::TokenBucket;
use futures::FutureExt as _;
use http::uri::Authority;
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use kube::client::middleware::{AuthLayer, BaseUriLayer, ExtraHeadersLayer};
use kube::client::{Body, Client, ConfigExt as _};
use kube::config::{AuthInfo, Config, InClusterError, KubeconfigError};
use tower::util::option_layer;
use tower::{Layer as _, ServiceExt as _};

use crate::leader_election::{Fence, Fenced};
use crate::metrics::RequestMetrics;
use crate::{BoxError, Metrics};
use connection::Connector;
use credentials::CredentialSource;
use deadline::Deadline;
use plugin::{Authorized, PluginAuth, PluginIdentity};
use pool::{Pool, PoolLimits};
use rate_limit::{RateLimit, RateLimited};
use retry::{Limits, Retry};

pub use credentials::CredentialsError;
pub(crate) use plugin::Plugins;
pub(crate) use request::reads;
pub(crate) use request_service::AnswerBody;
pub use request_service::RequestService;
pub use search::{ConfigOrigin, ConfigSearch};

/// A client of the server in a configuration: the [client](Transport::client) of a new [`Transport`].
///
/// # Errors
/// [`TransportError`] if the configuration cannot be used. Sends nothing.
///
/// # Panics
/// Panics outside a tokio runtime.
pub fn client(config: &Config, options: &TransportOptions) -> Result<Client, TransportError> {
    Ok(Transport::new(config, options)?.client())
}

/// A transport to the server in a configuration. Its clients share connections and credentials, and keep it alive. A
/// clone is the same transport.
///
/// It is bound to the tokio runtime in which it was created. Connections are opened on demand: each request in progress
/// has its own, and some idle ones are kept.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    pool: Pool,
    base: BaseUriLayer,
    auth: Option<AuthLayer>,
    plugin: Option<PluginAuth>,
    credentials: CredentialSource,
    headers: ExtraHeadersLayer,
    namespace: String,
    counts: Option<Arc<RequestMetrics>>,
    rate_limit: Option<RateLimit>,
    options: TransportOptions,
}

impl Transport {
    /// Creates a transport to the server in a configuration.
    ///
    /// Uses a proxy like Go's tools: the one in the kubeconfig, or the one in `$HTTPS_PROXY` unless `$NO_PROXY` lists
    /// the server or it is local. The proxy itself must use plain HTTP.
    ///
    /// For a server with an `http://` address, tokens, passwords and credential plugins are not used, and a warning is
    /// logged.
    ///
    /// A credential plugin (`exec`) runs when the first request needs it, again before its credential expires, and
    /// after the server has rejected it (401), at most once a second. Requests wait for it within their response timeout. One run may take 2
    /// minutes.
    ///
    /// # Errors
    /// [`TransportError`] if the configuration cannot be used. Sends nothing.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn new(config: &Config, options: &TransportOptions) -> Result<Self, TransportError> {
        let mut config = credentials::without_exposed(config).unwrap_or_else(|| config.clone());
        // kube would run the plugin here and block the caller.
        let exec = config.auth_info.exec.take();
        let config = &config;
        let credentials = CredentialSource::new(&config.auth_info);
        let unusable = |error: kube::Error| TransportError::Credentials(credentials.redact(error.into()));
        let clock = options.clock.clone();
        let connect = config.connect_timeout.map_or(options.connect, |limit| limit.min(options.connect));
        let headers = config.extra_headers_layer().map_err(unusable)?;
        let auth = config.auth_layer().map_err(unusable)?;
        let mut connector = Connector::new(config, connect, clock.clone(), unusable)?;
        // As in client-go, other credentials of the configuration take precedence.
        let AuthInfo { client_certificate, client_certificate_data, .. } = &config.auth_info;
        let has_others = auth.is_some() || client_certificate.is_some() || client_certificate_data.is_some();
        let exec = exec.filter(|_| !has_others);
        let plugin = exec.map(|exec| PluginAuth {
            plugin: options.plugins.get(&exec, &clock),
            identity: connector.identify(PluginIdentity::new),
        });
        let limits = PoolLimits { requests: options.requests, read_timeout: options.response };
        let pool = Pool::new(connector, host(config)?, &limits, clock);
        let counts = options.metrics.as_ref().map(|metrics| metrics.requests(authority(config)));
        let (base, namespace) = (config.base_uri_layer(), config.default_namespace.clone());
        let rate_limit = options.rate.clone().map(|bucket| RateLimit::new(bucket, options.clock.clone()));
        Ok(Self(Arc::new(Inner {
            pool,
            base,
            auth,
            plugin,
            credentials,
            headers,
            namespace,
            counts,
            rate_limit,
            options: options.clone(),
        })))
    }

    /// Returns a client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.route(None).kube_client().clone()
    }

    /// Returns a client whose writes pass only while the fence is open. The fence is checked for every attempt. Reads
    /// always pass; exec, attach, port-forward and proxy count as writes.
    #[must_use]
    pub fn fenced_client(&self, fence: &Fence) -> Client {
        self.route(Some(fence)).kube_client().clone()
    }

    /// Same as [`fenced_client`](Self::fenced_client), as a [`RequestService`].
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    #[must_use]
    pub fn fenced_route(&self, fence: &Fence) -> RequestService {
        self.route(Some(fence))
    }

    /// The service stack of a client, with or without a fence.
    fn route(&self, fence: Option<&Fence>) -> RequestService {
        let Inner { pool, base, auth, plugin, credentials, headers, namespace, counts, rate_limit, options } =
            &*self.0;
        let clock = options.clock.clone();
        // The inner fence is the last layer before the connections. The outer one records the term in which a request
        // began, and ends the delay between attempts.
        let service = headers.layer(Fenced::new(pool.clone(), fence.cloned()));
        let service = Authorized::new(service, plugin.clone(), pool.clone());
        let service = base.layer(option_layer(auth.as_ref()).layer(service));
        let service =
            Deadline::new(service, options.response, pool.clone(), credentials.clone(), clock.clone());
        let service = RateLimited::new(service, rate_limit.clone());
        let limits = Limits { max_attempts: options.max_attempts, max_delay: options.max_retry_delay };
        let service = Retry::new(service, limits, counts.clone(), clock);
        let service = Fenced::new(service, fence.cloned());
        let kube = Client::new(service.clone(), namespace.clone());
        let direct = move |request: Request<Body>| {
            let answer = service.clone().oneshot(request);
            async move { Ok(answer.await?.map(BodyExt::boxed_unsync)) }.boxed()
        };
        RequestService::new(kube, Arc::new(direct))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("server", &self.0.pool.server()).finish_non_exhaustive()
    }
}

/// Finds a configuration: a [`ConfigSearch`] for the current context of a file, or of the usual places.
///
/// # Errors
/// As for [`ConfigSearch::find`].
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, TransportError> {
    let search = ConfigSearch::new();
    match kubeconfig {
        Some(path) => search.kubeconfig(path).find().await,
        None => search.find().await,
    }
}

/// Options of a transport.
///
/// Transports with clones of the same options share credential plugins, so that an interactive login runs only once.
#[derive(Clone, Debug)]
#[must_use]
pub struct TransportOptions {
    clock: Clock,
    connect: Duration,
    response: Duration,
    max_attempts: u32,
    max_retry_delay: Duration,
    requests: usize,
    rate: Option<TokenBucket>,
    metrics: Option<Metrics>,
    plugins: Plugins,
}

impl TransportOptions {
    /// The default options, with a clock.
    pub fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            connect: Duration::from_secs(30),
            response: Duration::from_secs(75),
            max_attempts: 4,
            max_retry_delay: Duration::from_secs(30),
            requests: 128,
            rate: None,
            metrics: None,
            plugins: Plugins::default(),
        }
    }

    /// Maximum time to connect, including TLS. Default: 30 s; the configuration may set less.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect = limit;
        self
    }

    /// Maximum time until a response begins, including credentials and connection, and for each further chunk. Default:
    /// 75 s, since kube-apiserver itself gives up after 60 s. Watches and other streams have no limit once the request
    /// was sent.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response = limit;
        self
    }

    /// Maximum concurrent requests; others wait. Default: 128. A request counts until its response was read or dropped.
    /// Watches and other streams do not count.
    pub fn max_concurrent_requests(mut self, limit: usize) -> Self {
        self.requests = limit.max(1);
        self
    }

    /// Rate limit for all clients together. Waiting requests do not use up their response timeout. Default: none, since
    /// API servers have priority and fairness.
    pub fn rate(mut self, limit: TokenBucket) -> Self {
        self.rate = Some(limit);
        self
    }

    /// Plugins to share with other transports.
    pub(crate) fn plugins(mut self, plugins: &Plugins) -> Self {
        self.plugins = plugins.clone();
        self
    }

    /// Counts requests (`rest_client_requests_total`) and retries (`rest_client_request_retries_total`). Default: none.
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Maximum attempts per request, including the first one. Default: 4; 1 disables retries.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts.max(1);
        self
    }

    /// Maximum total delay between the attempts of one request. Default: 30 s. If the server asks for more, its
    /// rejection is returned.
    pub fn max_retry_delay(mut self, limit: Duration) -> Self {
        self.max_retry_delay = limit;
        self
    }
}

/// A transport that cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The kubeconfig cannot be read or is incomplete.
    #[error("cannot use the kubeconfig; see --kubeconfig and $KUBECONFIG")]
    Kubeconfig(#[from] KubeconfigError),
    /// The kubeconfig does not have the context.
    #[error("the kubeconfig has no context {name:?}; it has: {}", list(known))]
    UnknownContext {
        /// The requested context.
        name: String,
        /// The existing contexts.
        known: Vec<String>,
    },
    /// There is no kubeconfig, and the process runs in no pod or requested a context.
    #[error(
        "there is no {}: set --kubeconfig or $KUBECONFIG, or write ~/.kube/config",
        context.as_ref().map_or_else(
            || "configuration of a cluster".to_owned(),
            |name| format!("kubeconfig that could have a context {name:?}"),
        )
    )]
    NoConfiguration {
        /// The requested context.
        context: Option<String>,
    },
    /// The process runs in a pod, and the pod's configuration cannot be read.
    #[error("cannot use the pod's service account")]
    InCluster(#[from] InClusterError),
    /// Certificates, keys, tokens or headers cannot be used.
    #[error("cannot use the credentials in the configuration")]
    Credentials(#[source] BoxError),
    /// The server's address has no host, or the name for its certificate is invalid.
    #[error("{0:?} is not a server name; correct the configuration's `server` or `tls-server-name`")]
    ServerName(String),
    /// The proxy does not use plain HTTP.
    #[error(
        "cannot use the proxy {proxy} from {origin}: use an http:// proxy, or list the server in $NO_PROXY"
    )]
    Proxy {
        /// The proxy's address, without credentials.
        proxy: String,
        /// Source of the proxy setting.
        origin: String,
    },
}

/// A request without a response, for other reasons than a broken connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The connection could not be opened.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server's host and port.
        server: String,
        /// The cause.
        source: BoxError,
    },
    /// There were no credentials in time. Nothing was sent.
    #[error(
        "{request}: no credentials within {limit:?}; see the `exec` or `auth-provider` of the configuration's user"
    )]
    Credentials {
        /// Method and path.
        request: String,
        /// The limit.
        limit: Duration,
    },
    /// Too many requests were in progress for too long. Nothing was sent.
    #[error(
        "{request}: too many concurrent requests, and none ended within {limit:?}; are all responses read?"
    )]
    ConcurrencyLimit {
        /// Method and path.
        request: String,
        /// The limit.
        limit: Duration,
    },
    /// The server did not respond in time. It may have executed the request.
    #[error("{request}: no response within {limit:?}")]
    Timeout {
        /// Method and path.
        request: String,
        /// The limit.
        limit: Duration,
    },
}

/// The `Host` header of requests.
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
