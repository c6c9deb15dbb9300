//! Futures that are polled only after their own wake-up.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A future with rare wake-ups, beside a busy one in the same task.
///
/// A task with two futures polls both after a wake-up of either. The rare future then takes its locks each time. If
/// many tasks share it (a server that stops), they contend for these locks without need. This future is polled once at
/// first, and then only after it has woken the task.
pub(crate) struct PollOnWake<F> {
    future: Pin<Box<F>>,
    bell: Arc<WakeFlag>,
    /// Records a wake-up of the inner future.
    ringer: Waker,
    /// Waker of the task.
    sleeper: Option<Waker>,
}

#[derive(Default)]
struct WakeFlag {
    has_rung: AtomicBool,
    sleeper: Mutex<Option<Waker>>,
}

impl<F: Future> PollOnWake<F> {
    pub(crate) fn new(future: F) -> Self {
        let bell = Arc::new(WakeFlag { has_rung: AtomicBool::new(true), ..WakeFlag::default() });
        let ringer = Waker::from(bell.clone());
        Self { future: Box::pin(future), bell, ringer, sleeper: None }
    }
}

impl<F: Future> Future for PollOnWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.sleeper.as_ref().is_some_and(|sleeper| sleeper.will_wake(cx.waker())) {
            this.sleeper = Some(cx.waker().clone());
            let before = this.bell.sleeper().replace(cx.waker().clone());
            drop(before);
        }
        // A wake-up after this check finds the new waker.
        if !this.bell.has_rung.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        this.bell.has_rung.store(false, Ordering::Release);
        this.future.as_mut().poll(&mut Context::from_waker(&this.ringer))
    }
}

impl WakeFlag {
    fn sleeper(&self) -> MutexGuard<'_, Option<Waker>> {
        // Only moves and clones happen under this lock.
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        let sleeper = self.sleeper().clone();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::task::noop_waker_ref;
    use tokio::sync::Notify;

    use super::*;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_dormant_future_is_asked_once_and_again_when_it_has_called() {
        let (asked, notify) = (AtomicUsize::new(0), Notify::new());
        let mut notified = std::pin::pin!(notify.notified());
        let mut dormant = PollOnWake::new(std::future::poll_fn(|cx| {
            asked.fetch_add(1, Ordering::Relaxed);
            notified.as_mut().poll(cx)
        }));
        let mut cx = Context::from_waker(noop_waker_ref());
        for _ in 0..3 {
            assert!(Pin::new(&mut dormant).poll(&mut cx).is_pending());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        notify.notify_one();
        assert!(Pin::new(&mut dormant).poll(&mut cx).is_ready());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn whoever_asked_last_is_woken() {
        let notify = Notify::new();
        let mut dormant = PollOnWake::new(notify.notified());
        let [first, last] = [(); 2].map(|()| Arc::new(Count::default()));
        for count in [&first, &last] {
            let waker = Waker::from(count.clone());
            assert!(Pin::new(&mut dormant).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        notify.notify_one();
        assert_eq!([&first, &last].map(|count| count.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
