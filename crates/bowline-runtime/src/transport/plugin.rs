//! Credential plugins of a configuration (`exec`). One process runs at a time, and all requests share its result.
//!
//! kube runs a plugin three times for a client, on the thread that creates the client. Here it runs when a request
//! needs a credential, in a task of its own with a deadline, so that a cancelled request does not end a login.

mod run;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bowline_clock::{Clock, Instant, Scope};
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use kube::config::ExecConfig;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use tokio::sync::watch;
use tower_service::Service;

use super::credentials::CredentialsError;
use super::pool::Pool;
use crate::BoxError;

/// Maximum duration of a run. A user may have to log in.
const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// Minimum delay between runs: a plugin may fail, return a cached credential until it expires, or return one that has expired
/// or that the server rejects.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Time before expiry at which a credential is replaced.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);

/// Result of a plugin.
pub(super) struct Credential {
    token: Option<HeaderValue>,
    identity: Option<Arc<CertifiedKey>>,
    expires: Option<SystemTime>,
}

impl Credential {
    fn expires_after(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

type Outcome = Result<Arc<Credential>, CredentialsError>;

/// The plugins that transports with the same options share, one per configuration.
#[derive(Clone, Default)]
pub(crate) struct Plugins(Arc<Mutex<Vec<(Value, Plugin)>>>);

impl Plugins {
    /// Must be called in a tokio runtime.
    pub(super) fn get(&self, exec: &ExecConfig, clock: &Clock) -> Plugin {
        let key = json!([exec, exec.cluster, exec.drop_env]);
        let mut plugins = lock(&self.0);
        if let Some((_, plugin)) = plugins.iter().find(|(known, _)| *known == key) {
            return plugin.clone();
        }
        let plugin = Plugin::new(exec.clone(), clock);
        plugins.push((key, plugin.clone()));
        plugin
    }
}

impl fmt::Debug for Plugins {
    /// The keys contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugins").finish_non_exhaustive()
    }
}

/// One plugin. A clone is the same plugin.
#[derive(Clone)]
pub(super) struct Plugin(Arc<Inner>);

struct Inner {
    exec: Arc<ExecConfig>,
    clock: Clock,
    /// Separate, so that a run does not keep its own scope alive.
    state: Arc<Mutex<State>>,
    scope: Scope,
}

enum State {
    /// No credential, and the end of the last run.
    Empty {
        last: Option<Instant>,
    },
    Running(watch::Receiver<Option<Outcome>>),
    Valid {
        since: Instant,
        credential: Arc<Credential>,
    },
    Failed {
        at: Instant,
        error: CredentialsError,
    },
}

impl Plugin {
    fn new(exec: ExecConfig, clock: &Clock) -> Self {
        let scope = clock.scope("credential-plugin");
        let state = Arc::new(Mutex::new(State::Empty { last: None }));
        Self(Arc::new(Inner { exec: Arc::new(exec), clock: clock.clone(), state, scope }))
    }

    /// Returns a valid credential; runs the plugin if needed. Dropping the future does not end the plugin.
    async fn credential(&self) -> Outcome {
        let (now, wall) = (self.0.clock.now(), self.0.clock.system_time());
        let mut run = {
            let mut state = lock(&self.0.state);
            match &*state {
                State::Valid { since, credential }
                    if credential.expires_after(wall + EXPIRY_MARGIN)
                        || (now.duration_since(*since) < RETRY_DELAY && credential.expires_after(wall)) =>
                {
                    return Ok(credential.clone());
                }
                State::Failed { at, error } if now.duration_since(*at) < RETRY_DELAY => {
                    return Err(error.clone());
                }
                State::Running(run) => run.clone(),
                State::Empty { last } => {
                    let run = self.start(*last);
                    *state = State::Running(run.clone());
                    run
                }
                State::Valid { since: last, .. } | State::Failed { at: last, .. } => {
                    let run = self.start(Some(*last));
                    *state = State::Running(run.clone());
                    run
                }
            }
        };
        if let Ok(Some(outcome)) = run.wait_for(Option::is_some).await.as_deref() {
            return outcome.clone();
        }
        // The run panicked, or its runtime has ended.
        let mut state = lock(&self.0.state);
        if matches!(&*state, State::Running(ended) if ended.same_channel(&run)) {
            *state = State::Empty { last: Some(now) };
        }
        let program = run::program(&self.0.exec);
        Err(CredentialsError::Unusable(format!("credential plugin {program:?} was not run to its end")))
    }

    /// Starts a run, at the earliest after the minimum delay.
    fn start(&self, last: Option<Instant>) -> watch::Receiver<Option<Outcome>> {
        let (sender, receiver) = watch::channel(None);
        let (exec, clock, state) = (self.0.exec.clone(), self.0.clock.clone(), self.0.state.clone());
        self.0.scope.spawn("run", async move {
            if let Some(last) = last {
                clock.sleep_until(last + RETRY_DELAY).await;
            }
            let outcome = match clock.timeout(RUN_TIMEOUT, run::run(&exec, &clock)).await {
                Ok(outcome) => outcome.map(Arc::new),
                Err(_) => {
                    Err(CredentialsError::TimedOut { program: run::program(&exec), limit: RUN_TIMEOUT })
                }
            };
            *lock(&state) = match &outcome {
                Ok(credential) => State::Valid { since: clock.now(), credential: credential.clone() },
                Err(error) => State::Failed { at: clock.now(), error: error.clone() },
            };
            sender.send_replace(Some(outcome));
        });
        receiver
    }

    /// Discards a credential that the server rejected, so that the next request gets another.
    fn reject(&self, refused: &Arc<Credential>) {
        let mut state = lock(&self.0.state);
        match &*state {
            State::Valid { since, credential } if Arc::ptr_eq(credential, refused) => {
                *state = State::Empty { last: Some(*since) };
            }
            _ => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client certificate of new connections: the last one from the plugin, else the configured one.
#[derive(Debug)]
pub(super) struct PluginIdentity {
    current: Mutex<Option<Arc<CertifiedKey>>>,
    configured: Arc<dyn ResolvesClientCert>,
}

impl PluginIdentity {
    pub(super) fn new(configured: Arc<dyn ResolvesClientCert>) -> Self {
        Self { current: Mutex::default(), configured }
    }

    /// Sets the certificate. Returns whether it replaced another one.
    fn replace(&self, identity: Option<&Arc<CertifiedKey>>) -> bool {
        let mut current = lock(&self.current);
        if current.as_ref().map(Arc::as_ptr) == identity.map(Arc::as_ptr) {
            return false;
        }
        let is_first = current.is_none();
        *current = identity.cloned();
        !is_first
    }
}

impl ResolvesClientCert for PluginIdentity {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let current = lock(&self.current).clone();
        current.or_else(|| self.configured.resolve(issuers, schemes))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The parts of a plugin that a transport needs.
#[derive(Clone)]
pub(super) struct PluginAuth {
    pub(super) plugin: Plugin,
    /// `None` without TLS.
    pub(super) identity: Option<Arc<PluginIdentity>>,
}

/// A service that adds a plugin's credential to requests, if there is one.
#[derive(Clone)]
pub(super) struct Authorized<S> {
    inner: S,
    auth: Option<PluginAuth>,
    pool: Pool,
}

impl<S> Authorized<S> {
    pub(super) fn new(inner: S, auth: Option<PluginAuth>, pool: Pool) -> Self {
        Self { inner, auth, pool }
    }
}

impl<S, B> Service<Request<Body>> for Authorized<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(PluginAuth { plugin, identity }) = self.auth.clone() else {
            return Box::pin(self.inner.call(request));
        };
        let (another, pool) = (self.inner.clone(), self.pool.clone());
        let mut inner = std::mem::replace(&mut self.inner, another);
        Box::pin(async move {
            let credential = plugin.credential().await?;
            if let Some(token) = &credential.token {
                request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| token.clone());
            }
            if identity.is_some_and(|identity| identity.replace(credential.identity.as_ref())) {
                // Idle connections use the previous certificate.
                pool.close_idle();
            }
            let response = inner.call(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                plugin.reject(&credential);
            }
            Ok(response)
        })
    }
}
