//! The fence: blocks writes of a process that may no longer lead.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_clock::{Clock, Instant, Scope};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tower_service::Service;

use super::upgraded::{interpose, relay};
use crate::BoxError;
use crate::transport::reads;

/// Interval at which a waiting request checks the fence. Timers stop while the machine is suspended, but the lease
/// expires, so one long timer is not enough.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Whether this process may act as the leader now. Clones share the fence.
///
/// It is open from a successful acquisition or renewal of the lease until the renew deadline after that request *was
/// sent*, on a clock that counts suspend. Others take over at the earliest one lease duration after they observed the
/// renewal, which is later. So at most one process has an open fence.
///
/// # What it guarantees
/// Reads are not fenced. A write passes only in the term in which it began: a fence that closed and opened again in
/// between still blocks it. Exec, attach, port-forward and proxy count as writes, also as GET, and so does each request
/// for an upgrade: they run commands, or carry requests that the API server does not inspect. There are two ways to get
/// a fenced client:
/// - [`Transport::fenced_client`](crate::transport::Transport::fenced_client), or a client over
///   [`Transport::fenced_route`](crate::transport::Transport::fenced_route), checks the fence at each step of a request:
///   at its start, at each retry, and after each wait for credentials, for a connection, or for a `Retry-After`. Nothing
///   happens between the last check and the system call that sends.
/// - [`client`](Self::client) fences any other client, such as those of tests. It checks at the start of a request and
///   while it waits, but not inside that client: one that retries by itself may send up to a second after the fence
///   closed.
///
/// When the fence closes, both drop writes without a response, and close the upgraded connections of the term (exec,
/// attach, port-forward): at once when data is sent over one, otherwise within a second. These cases remain:
/// - A process that is frozen between the last check and the system call, for longer than the lease duration, sends the
///   request when it thaws: at most one per worker. The response is dropped and the connection closed at once, but a fast
///   server may execute the request.
/// - The server may execute a request later that was sent in time.
/// - A user who deletes, empties or reassigns the lease by hand lets another candidate lead at once. The leader notices it
///   at its next renewal, at most a retry period later.
///
/// Only checks at the server (preconditions, resource versions) can exclude these.
///
/// # Platforms
/// On Linux the clock is `CLOCK_BOOTTIME`, which counts suspend. Other platforms use the monotonic clock, which on some
/// systems stops during a suspend. There the guarantee is weaker: after a suspend the fence may stay open for the rest of
/// the renew deadline, and this process may write although another replica leads.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: Clock,
    state: Arc<Mutex<State>>,
    /// The scope of the relays for upgraded connections. They end with the last clone.
    relays: Arc<Scope>,
}

/// The fence is closed: this process does not lead, or cannot be sure that it does. The write was either not sent, or
/// its response is not awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader: the lease was not renewed in time, so writes are refused")]
pub struct FenceClosed;

#[derive(Debug, Default)]
struct State {
    /// On the clock that counts suspend; zero when closed.
    open_until: Instant,
    /// Changes each time the fence opens.
    term: u64,
}

/// The term in which a request began; stored in the request.
#[derive(Clone)]
struct Term {
    fence: Arc<Mutex<State>>,
    number: u64,
}

impl Fence {
    pub(super) fn closed(clock: &Clock) -> Self {
        let relays = Arc::new(clock.scope("upgraded connections"));
        Self { clock: clock.clone(), state: Arc::default(), relays }
    }

    pub(super) fn open_until(&self, end: Instant) {
        let mut state = self.state();
        if state.open_until <= self.clock.now_with_suspend() {
            state.term += 1;
        }
        state.open_until = end;
    }

    pub(crate) fn close(&self) {
        self.state().open_until = Instant::ZERO;
    }

    /// Whether this process may act as the leader now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.remaining().is_ok()
    }

    /// The remaining time of leadership without another renewal.
    ///
    /// # Errors
    /// [`FenceClosed`] if the fence is closed.
    pub fn remaining(&self) -> Result<Duration, FenceClosed> {
        Ok(self.current()?.1)
    }

    /// A client whose writes pass only while the fence is open. For clients that [`transport`](crate::transport) did
    /// not build, see [the guarantees](Self#what-it-guarantees).
    #[must_use]
    pub fn client(&self, kube: kube::Client) -> kube::Client {
        let namespace = kube.default_namespace().to_owned();
        let inner = tower::service_fn(move |request: Request<Body>| {
            let kube = kube.clone();
            async move { kube.send(request).await }
        });
        kube::Client::new(Fenced::new(inner, Some(self.clone())), namespace)
    }

    /// The term and its remaining time.
    fn current(&self) -> Result<(u64, Duration), FenceClosed> {
        self.state().current(&self.clock)
    }

    /// The term in which a request began, if a fenced service stored one.
    fn begun<B>(&self, request: &Request<B>) -> Option<u64> {
        let term = request.extensions().get::<Term>().filter(|term| Arc::ptr_eq(&term.fence, &self.state));
        term.map(|term| term.number)
    }

    /// The term in which a request began: the current one, unless a fenced service stored one before.
    fn enter<B>(&self, request: &mut Request<B>) -> Result<u64, FenceClosed> {
        if let Some(number) = self.begun(request) {
            return Ok(number);
        }
        let (number, _) = self.current()?;
        request.extensions_mut().insert(Term { fence: Arc::clone(&self.state), number });
        Ok(number)
    }

    /// Polls a future only while the fence is open in that term.
    async fn guard<F: Future>(&self, term: u64, future: F) -> Result<F::Output, FenceClosed> {
        guard(&self.clock, &self.state, term, future).await
    }

    /// Closes the response's upgraded connection when the term ends.
    async fn bind<B>(&self, term: u64, response: &mut Response<B>) -> Result<(), BoxError> {
        let (server, user) = interpose(response).await?;
        // Without the fence itself: it owns the scope that owns the task.
        let (clock, state) = (self.clock.clone(), self.state.clone());
        self.relays.spawn("relay", async move {
            let relay = relay(server, user, clock.clone());
            match guard(&clock, &state, term, relay).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(error, "upgraded connection failed"),
                Err(FenceClosed) => tracing::info!("leadership ended; upgraded connection closed"),
            }
        });
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// The term and its remaining time.
    fn current(&self, clock: &Clock) -> Result<(u64, Duration), FenceClosed> {
        let left = self.open_until.duration_since(clock.now_with_suspend());
        if left.is_zero() { Err(FenceClosed) } else { Ok((self.term, left)) }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls a future only while a fence is open in that term.
async fn guard<F: Future>(
    clock: &Clock,
    state: &Mutex<State>,
    term: u64,
    future: F,
) -> Result<F::Output, FenceClosed> {
    let mut future = pin!(future);
    let mut timer = None;
    poll_fn(|cx| {
        loop {
            // Checked before each poll, not only by the timer: the wake-up may mean that the request can be sent now.
            let left = match lock(state).current(clock) {
                Ok((current, left)) if current == term => left,
                _ => return Poll::Ready(Err(FenceClosed)),
            };
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let check = timer.get_or_insert_with(|| clock.sleep(left.min(CHECK_INTERVAL)));
            ready!(Pin::new(check).poll(cx));
            timer = None;
        }
    })
    .await
}

/// A service with an optional fence.
#[derive(Clone)]
pub(crate) struct Fenced<S> {
    inner: S,
    fence: Option<Fence>,
}

impl<S> Fenced<S> {
    pub(crate) fn new(inner: S, fence: Option<Fence>) -> Self {
        Self { inner, fence }
    }
}

impl<S, B> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<BoxError>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The first fence that a request reaches classifies it: later ones may see a path with a prefix.
        let fence = self.fence.clone().filter(|fence| fence.begun(&request).is_some() || !reads(&request));
        let Some(fence) = fence else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let is_outermost = fence.begun(&request).is_none();
        let term = match fence.enter(&mut request) {
            Ok(term) => term,
            Err(closed) => return Box::pin(async move { Err(closed.into()) }),
        };
        // The service that was polled ready must be the one called, and no request begins before the first check.
        let another = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, another);
        Box::pin(async move {
            let answer = async move { inner.call(request).await };
            let mut response = fence.guard(term, answer).await?.map_err(Into::into)?;
            if is_outermost && response.status() == StatusCode::SWITCHING_PROTOCOLS {
                fence.guard(term, fence.bind(term, &mut response)).await??;
            }
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientError, Operation, Verb};

    #[test]
    fn a_closed_fence_is_not_retryable_and_a_broken_connection_is() {
        let operation =
            || Operation { verb: Verb::Create, kind: "pods/v1".to_owned(), key: None, subresource: None };
        let failed = |error: BoxError| ClientError::Transport {
            operation: Box::new(operation()),
            source: kube::Error::Service(error).into(),
        };
        assert!(!failed(FenceClosed.into()).is_retryable());
        assert!(failed("the connection broke".into()).is_retryable());
    }
}
