//! The fence: writes of a leader that may no longer be one do not leave the process.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower_service::Service;

use crate::BoxError;

/// How often a request that waits looks at the fence. Timers stand still while the machine is suspended, the lease does
/// not: what is left of it cannot be slept through.
const LOOK: Duration = Duration::from_secs(1);

/// Whether this process may act as the leader, right now. A clone is the same fence.
///
/// It is open from an acquisition or renewal of the lease that succeeded until the renew deadline after that request *was
/// sent*, on a clock that counts while the machine is suspended. Others take over a lease duration after they saw it renewed
/// at the earliest, which is later: so of two processes at most one has an open fence.
///
/// # What it guarantees
/// Reads are not fenced. A write passes only during the term in which it was begun: when the fence was closed meanwhile, it
/// does not help that it is open again. There are two ways to have a fenced client:
/// - [`Transport::fenced_client`](crate::transport::Transport::fenced_client), or a client over
///   [`Transport::fenced_route`](crate::transport::Transport::fenced_route), checks the fence whenever a request goes on:
///   when it is begun, each time that it is sent again, and after each wait on the way, for credentials, for a connection,
///   for the pause that a server asked for. Nothing happens between the last check and the system call that sends.
/// - [`client`](Self::client) is for clients that others made, as those of tests. It checks when a request is begun and
///   while it waits, but it is that client's own business what it does in between: one that sends again by itself may
///   do so up to a second after the fence was closed.
///
/// Both give up a write that is not answered when the fence closes. What remains:
/// - a process that is frozen between the last check and the moment at which the bytes leave, for longer than the lease
///   lasts, sends that when it thaws: one request for each worker that was just there, and no more. Nobody waits for the
///   answer and the connection is closed at once, but a server that reads quickly does what was asked;
/// - a request that was sent in time may be executed by the server later than that;
/// - somebody who deletes, empties or gives away the lease by hand lets another one lead at once, and the leader hears of
///   it at its next renewal, a retry period later at most.
///
/// Only a server that checks (preconditions, resource versions) can exclude these.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

/// The fence is closed: this process does not lead, or cannot be sure that it does. A write that gets this was not sent,
/// or it was sent before and its answer is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader any more: the lease was not renewed in time, so nothing more is written")]
pub struct FenceClosed;

#[derive(Debug, Default)]
struct State {
    /// On the clock that counts suspend; zero when closed.
    open_until: Instant,
    /// Another one whenever it is opened.
    term: u64,
}

/// What a request was begun in: it goes along with it.
#[derive(Clone)]
struct Term {
    fence: Arc<Mutex<State>>,
    number: u64,
}

impl Fence {
    pub(super) fn closed(clock: &Clock) -> Self {
        Self { clock: clock.clone(), state: Arc::default() }
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

    /// For how long it may, if no renewal comes.
    ///
    /// # Errors
    /// [`FenceClosed`] when it may not.
    pub fn remaining(&self) -> Result<Duration, FenceClosed> {
        Ok(self.current()?.1)
    }

    /// A client whose writes pass only while the fence is open. For clients that are not made by
    /// [`transport`](crate::transport), see [what is guaranteed](Self#what-it-guarantees).
    #[must_use]
    pub fn client(&self, kube: kube::Client) -> kube::Client {
        let namespace = kube.default_namespace().to_owned();
        let inner = tower::service_fn(move |request: Request<Body>| {
            let kube = kube.clone();
            async move { kube.send(request).await }
        });
        kube::Client::new(Fenced::new(inner, Some(self.clone())), namespace)
    }

    /// The term, and for how long it lasts.
    fn current(&self) -> Result<(u64, Duration), FenceClosed> {
        let state = self.state();
        let left = state.open_until.since(self.clock.now_with_suspend());
        if left.is_zero() { Err(FenceClosed) } else { Ok((state.term, left)) }
    }

    /// The term that a request was begun in: this one, unless another service has seen it before.
    fn enter<B>(&self, request: &mut Request<B>) -> Result<u64, FenceClosed> {
        let begun = request.extensions().get::<Term>().filter(|term| Arc::ptr_eq(&term.fence, &self.state));
        if let Some(term) = begun {
            return Ok(term.number);
        }
        let (number, _) = self.current()?;
        request.extensions_mut().insert(Term { fence: Arc::clone(&self.state), number });
        Ok(number)
    }

    /// Goes on with something only while the fence is open in that term.
    async fn guard<F: Future>(&self, term: u64, future: F) -> Result<F::Output, FenceClosed> {
        let mut future = pin!(future);
        let mut timer = None;
        poll_fn(|cx| {
            loop {
                // Before it is polled, not only by the timer: what it was woken for may be that it can send now.
                let left = match self.current() {
                    Ok((current, left)) if current == term => left,
                    _ => return Poll::Ready(Err(FenceClosed)),
                };
                if let Poll::Ready(output) = future.as_mut().poll(cx) {
                    return Poll::Ready(Ok(output));
                }
                let look = timer.get_or_insert_with(|| self.clock.sleep(left.min(LOOK)));
                ready!(Pin::new(look).poll(cx));
                timer = None;
            }
        })
        .await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service behind a fence, if there is one.
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
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let Some(fence) = self.fence.clone().filter(|_| !reads) else {
            let answer = self.inner.call(request);
            return Box::pin(async move { answer.await.map_err(Into::into) });
        };
        let term = match fence.enter(&mut request) {
            Ok(term) => term,
            Err(closed) => return Box::pin(async move { Err(closed.into()) }),
        };
        // The one that was found to be ready is the one to be called, and nothing is begun before the first check.
        let another = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, another);
        Box::pin(async move {
            let answer = async move { inner.call(request).await };
            fence.guard(term, answer).await?.map_err(Into::into)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientError, Operation, Verb};

    #[test]
    fn a_closed_fence_is_no_reason_to_try_again_and_a_broken_connection_is() {
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
