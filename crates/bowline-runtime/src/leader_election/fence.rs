//! The fence: writes of a leader that may no longer be one do not leave the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower_service::Service;

use crate::BoxError;

/// Whether this process may act as the leader, right now. A clone is the same fence.
///
/// It is open from an acquisition or renewal of the lease that succeeded until the renew deadline after that request *was
/// sent*, on a clock that counts while the machine is suspended. Others take over a lease duration after they saw it renewed
/// at the earliest, which is later: so of two processes at most one has an open fence.
///
/// # What it guarantees
/// [`client`](Self::client) checks the fence right before a request is given to the transport, and gives up a request that is
/// not answered when the fence closes. What remains: a process that is frozen between the check and the moment at which the
/// bytes leave, for longer than the lease lasts, may send that one request per worker when it thaws; and a request that was
/// sent in time may be executed by the server later than that. Only a server that checks (preconditions, resource versions)
/// can exclude these. Reads are not fenced.
#[derive(Clone, Debug)]
pub struct Fence {
    clock: Clock,
    /// Nanoseconds, on the clock that counts suspend; zero when closed.
    open_until: Arc<AtomicU64>,
}

/// The fence is closed: this process does not lead, or cannot be sure that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader any more: the lease was not renewed in time, so nothing is written")]
pub struct FenceClosed;

impl Fence {
    pub(super) fn closed(clock: &Clock) -> Self {
        Self { clock: clock.clone(), open_until: Arc::default() }
    }

    pub(super) fn open_until(&self, end: Instant) {
        self.open_until.store(end.as_nanos(), Ordering::SeqCst);
    }

    pub(super) fn close(&self) {
        self.open_until.store(0, Ordering::SeqCst);
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
        let end = Instant::from_nanos(self.open_until.load(Ordering::SeqCst));
        let left = end.since(self.clock.now_with_suspend());
        if left.is_zero() { Err(FenceClosed) } else { Ok(left) }
    }

    /// A client whose writes pass only while the fence is open.
    #[must_use]
    pub fn client(&self, kube: kube::Client) -> kube::Client {
        let namespace = kube.default_namespace().to_owned();
        kube::Client::new(Fenced { fence: self.clone(), inner: kube }, namespace)
    }
}

/// A client behind a fence.
#[derive(Clone)]
struct Fenced {
    fence: Fence,
    inner: kube::Client,
}

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { fence, inner } = self.clone();
        Box::pin(async move {
            if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
                return Ok(inner.send(request).await?);
            }
            let left = fence.remaining()?;
            match fence.clock.timeout(left, inner.send(request)).await {
                Ok(answer) => Ok(answer?),
                // It may have been renewed meanwhile, but the request was not checked against that.
                Err(_) => Err(FenceClosed.into()),
            }
        })
    }
}
