//! Locks that the model checker schedules, and a clock that advances only on request.

use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bowline_clock::Instant;
use shuttle::sync::Mutex;
pub(crate) use shuttle::sync::MutexGuard;

/// Other threads may take the lock after each key.
pub(crate) const SHARED_KEYS: usize = 1;

/// The model checker schedules waiting threads, so the lock always counts as wanted.
pub(crate) struct Lock<T>(Mutex<T>);

pub(crate) struct Sharing;

#[expect(clippy::unused_self, reason = "the signatures are the real one's")]
impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_first(&self) -> MutexGuard<'_, T> {
        self.lock()
    }

    pub(crate) fn share(&self) -> Sharing {
        Sharing
    }
}

#[expect(clippy::unused_self, reason = "the signatures are the real one's")]
impl Sharing {
    pub(crate) fn is_wanted(&self) -> bool {
        true
    }

    pub(crate) fn yield_lock(&self) {}
}

#[derive(Clone)]
pub struct Clock {
    time: Arc<Mutex<Time>>,
}

struct Time {
    now: Instant,
    sleepers: Vec<(Instant, Waker)>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { time: Arc::new(Mutex::new(Time { now: Instant::ZERO, sleepers: Vec::new() })) }
    }

    pub(crate) fn now(&self) -> Instant {
        self.time.lock().unwrap().now
    }

    pub(crate) fn advance(&self, by: Duration) {
        let mut time = self.time.lock().unwrap();
        time.now = time.now + by;
        let now = time.now;
        let (over, left) =
            std::mem::take(&mut time.sleepers).into_iter().partition(|(until, _)| *until <= now);
        time.sleepers = left;
        drop(time);
        let over: Vec<(Instant, Waker)> = over;
        for (_, waker) in over {
            waker.wake();
        }
    }

    pub(crate) fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { clock: self.clone(), deadline }
    }

    pub(crate) async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, ()> {
        let mut future = std::pin::pin!(future);
        let mut sleep = self.sleep_until(self.now() + limit);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut sleep).poll(cx).map(Err),
        })
        .await
    }
}

pub struct Sleep {
    clock: Clock,
    deadline: Instant,
}

impl Sleep {
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut time = self.clock.time.lock().unwrap();
        if time.now >= self.deadline {
            return Poll::Ready(());
        }
        time.sleepers.push((self.deadline, cx.waker().clone()));
        Poll::Pending
    }
}

pub(crate) struct Progress;

impl Progress {
    #[expect(clippy::unused_self, reason = "the signature is the real one's")]
    pub(crate) fn made_progress(self) {}
}

/// Every poll may continue: the model checker ensures fairness.
pub(crate) fn poll_cooperate(_cx: &mut Context<'_>) -> Poll<Progress> {
    Poll::Ready(Progress)
}
