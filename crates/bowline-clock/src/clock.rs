//! The clock: what time it is, and waiting for a later one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use crate::{Instant, Rng, Scope};

/// A sleep longer than this is cut into pieces: timers need not hold a deadline that a process never reaches.
const LONGEST_TIMER: Duration = Duration::from_hours(365 * 24);

/// Monotonic time, wall time, sleeping, randomness and task scopes. Clones share them.
///
/// Pass a clock to whatever waits, draws or spawns; make one in `main` with [`Clock::real`], or let a
/// `Simulation` make it. Sleeping needs a tokio runtime with its timer enabled; reading the time needs none.
#[derive(Clone)]
pub struct Clock {
    shared: Arc<Shared>,
}

struct Shared {
    origin: tokio::time::Instant,
    wall: Wall,
    rng: Rng,
}

enum Wall {
    System,
    #[cfg(feature = "simulation")]
    Simulated {
        epoch: SystemTime,
    },
}

impl Clock {
    /// The machine's clocks, and random numbers from the operating system.
    ///
    /// Monotonic time is tokio's, so it follows a runtime whose time is paused.
    #[must_use]
    pub fn real() -> Self {
        Self::new(Wall::System, Rng::from_system())
    }

    /// Time that starts at `epoch` and passes as tokio's does, which is paused in a simulation.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(epoch: SystemTime, seed: u64) -> Self {
        Self::new(Wall::Simulated { epoch }, Rng::seeded(seed))
    }

    fn new(wall: Wall, rng: Rng) -> Self {
        Self { shared: Arc::new(Shared { origin: tokio_now(), wall, rng }) }
    }

    /// Whether time is simulated, so that everything must run on one thread.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        !matches!(self.shared.wall, Wall::System)
    }

    /// The monotonic time. It never goes back.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::ZERO + tokio_now().saturating_duration_since(self.shared.origin)
    }

    /// The monotonic time, counting also while the machine is suspended, which [`now`](Self::now) does not on Linux. For
    /// deadlines that others keep on their own clocks: a lease goes on ending while its holder sleeps. In a simulation it
    /// is `now`. Not comparable with `now`.
    #[must_use]
    pub fn now_with_suspend(&self) -> Instant {
        match self.shared.wall {
            Wall::System => boot_time(),
            #[cfg(feature = "simulation")]
            Wall::Simulated { .. } => self.now(),
        }
    }

    /// The wall time: for people and for other machines. It can jump, so never measure with it.
    #[must_use]
    pub fn wall(&self) -> SystemTime {
        match self.shared.wall {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
            Wall::System => SystemTime::now(),
            #[cfg(feature = "simulation")]
            Wall::Simulated { epoch } => epoch + self.now().since(Instant::ZERO),
        }
    }

    /// Waits for `duration`. Zero is over at once.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `deadline`. One in the past is over at once; [`Instant::MAX`] never comes.
    ///
    /// # Panics
    /// When polled outside a tokio runtime, or in one without a timer.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { clock: self.clone(), deadline, timer: None }
    }

    /// Waits for `future`, but no longer than `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] when `limit` passed first; the future is dropped then. One that is ready at once wins, even
    /// over a limit of zero.
    pub async fn timeout<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        let mut future = std::pin::pin!(future);
        let mut sleep = self.sleep(limit);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed { limit })),
        })
        .await
    }

    /// Random numbers.
    #[must_use]
    pub fn rng(&self) -> &Rng {
        &self.shared.rng
    }

    /// A new scope of tasks, a root of its own. `name` is what its tasks are known by in reports.
    #[must_use]
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        Scope::root(self.clone(), name.into())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("now", &self.now()).field("simulated", &self.is_simulated()).finish()
    }
}

/// A wait for a deadline, see [`Clock::sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Clock,
    deadline: Instant,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Sleep {
    /// When the wait is over.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// A timer for the deadline or, if that is far off, for a part of the way.
    fn start_timer(&self, now: Instant) -> Pin<Box<tokio::time::Sleep>> {
        let piece = self.deadline.since(now).min(LONGEST_TIMER);
        #[expect(clippy::disallowed_methods, reason = "this is the one place that starts timers")]
        let timer = tokio::time::sleep(piece);
        Box::pin(timer)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(timer) = &mut self.timer {
                std::task::ready!(timer.as_mut().poll(cx));
                self.timer = None;
            }
            if self.deadline == Instant::MAX {
                // No timer: a simulation would leap to it.
                return Poll::Pending;
            }
            let now = self.clock.now();
            if now >= self.deadline {
                return Poll::Ready(());
            }
            self.timer = Some(self.start_timer(now));
        }
    }
}

/// The limit of [`Clock::timeout`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not done within {limit:?}")]
pub struct Elapsed {
    limit: Duration,
}

/// Where there is no clock that counts suspend, the monotonic one has to do.
fn boot_time() -> Instant {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the monotonic clock")]
fn tokio_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulation;
    use std::future::{pending, ready};

    #[test]
    fn real_time_passes_and_never_goes_back() {
        let clock = Clock::real();
        let before = clock.now();
        while clock.now() == before {}
        assert!(clock.now() > before);
        assert!(!clock.is_simulated());
    }

    #[test]
    fn a_sleep_ends_at_its_deadline_and_wall_time_goes_along() {
        Simulation::new(0).run(|clock| async move {
            let (now, wall) = (clock.now(), clock.wall());
            clock.sleep(Duration::from_secs(3600)).await;
            assert_eq!(clock.now().since(now), Duration::from_secs(3600));
            assert_eq!(clock.wall().duration_since(wall).unwrap(), Duration::from_secs(3600));
        });
    }

    #[test]
    fn a_sleep_of_years_is_cut_into_pieces_and_still_ends_on_time() {
        Simulation::new(0).run(|clock| async move {
            let decade = LONGEST_TIMER * 10 + Duration::from_secs(1);
            clock.sleep(decade).await;
            assert_eq!(clock.now().since(Instant::ZERO), decade);
        });
    }

    #[test]
    fn the_end_of_time_never_comes_and_the_past_is_over_at_once() {
        Simulation::new(0).run(|clock| async move {
            clock.sleep(Duration::ZERO).await;
            clock.sleep_until(Instant::ZERO).await;
            assert_eq!(clock.now(), Instant::ZERO);
            let year = Duration::from_secs(31_536_000);
            assert!(clock.timeout(year, clock.sleep(Duration::MAX)).await.is_err());
        });
    }

    #[test]
    fn a_timeout_lets_a_ready_future_win_and_names_the_limit_otherwise() {
        Simulation::new(0).run(|clock| async move {
            assert_eq!(clock.timeout(Duration::ZERO, ready(1)).await, Ok(1));
            let elapsed = clock.timeout(Duration::from_secs(2), pending::<()>()).await.unwrap_err();
            assert_eq!(elapsed.to_string(), "not done within 2s");
        });
    }
}
