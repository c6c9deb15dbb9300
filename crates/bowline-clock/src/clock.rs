//! The clock: reading the time, and waiting.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
#[cfg(feature = "simulation")]
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use crate::{Instant, Rng, Scope};

/// Maximum duration of one timer. Longer sleeps use several timers in turn.
const LONGEST_TIMER: Duration = Duration::from_hours(365 * 24);

/// Monotonic time, wall time, sleeping, randomness and task scopes. Clones share them.
///
/// Pass a clock to code that waits, draws random numbers or spawns. Create one in `main` with [`Clock::real`], or let a
/// `Simulation` create it. Sleeping needs a tokio runtime with its timer enabled; reading the time does not.
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
        /// The wall time at the clock's creation, derived from the current wall clock.
        epoch: Mutex<SystemTime>,
    },
}

impl Clock {
    /// The machine's clocks, and random numbers from the operating system.
    ///
    /// Monotonic time is tokio's, so it follows a runtime with paused time.
    #[must_use]
    pub fn real() -> Self {
        Self::new(Wall::System, Rng::from_system())
    }

    /// Time that starts at `epoch` and follows tokio's, which is paused in a simulation.
    #[cfg(feature = "simulation")]
    pub(crate) fn simulated(epoch: SystemTime, seed: u64) -> Self {
        Self::new(Wall::Simulated { epoch: Mutex::new(epoch) }, Rng::seeded(seed))
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

    /// The monotonic time, including time in suspend, which [`now`](Self::now) excludes on Linux. Use it for deadlines
    /// that other machines measure too: a lease expires while its holder is suspended. In a simulation it equals `now`.
    /// Not comparable with `now`.
    #[must_use]
    pub fn now_with_suspend(&self) -> Instant {
        match self.shared.wall {
            Wall::System => boot_time(),
            #[cfg(feature = "simulation")]
            Wall::Simulated { .. } => self.now(),
        }
    }

    /// The wall time, for people and for other machines. It can jump, so never measure durations with it.
    #[must_use]
    pub fn system_time(&self) -> SystemTime {
        match self.shared.wall {
            #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system")]
            Wall::System => SystemTime::now(),
            #[cfg(feature = "simulation")]
            Wall::Simulated { ref epoch } => *lock(epoch) + self.now().duration_since(Instant::ZERO),
        }
    }

    /// Sets the wall clock of a simulation, as an administrator, NTP or the end of a suspend does: the wall time jumps,
    /// the monotonic time does not.
    ///
    /// # Panics
    /// When the clock is a real one.
    #[cfg(feature = "simulation")]
    pub fn set_wall(&self, wall: SystemTime) {
        match &self.shared.wall {
            Wall::System => panic!("the wall clock of the machine is not ours to set"),
            Wall::Simulated { epoch } => *lock(epoch) = wall - self.now().duration_since(Instant::ZERO),
        }
    }

    /// Waits for `duration`. Zero ends at once.
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Waits until `deadline`. One in the past ends at once; [`Instant::MAX`] never ends.
    ///
    /// # Panics
    /// When polled outside a tokio runtime, or in one without a timer.
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { clock: self.clone(), deadline, timer: None }
    }

    /// Waits for `future`, at most for `limit`.
    ///
    /// # Errors
    /// [`Elapsed`] when `limit` passed first; the future is then dropped. A future that is ready at once succeeds, even
    /// with a limit of zero.
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

    /// A new root scope of tasks. `name` is the prefix of its tasks' names in reports.
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

/// The future of [`Clock::sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Clock,
    deadline: Instant,
    timer: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Sleep {
    /// The time when the sleep ends.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// A timer until the deadline, or for a part of the time if that is far off.
    fn start_timer(&self, now: Instant) -> Pin<Box<tokio::time::Sleep>> {
        let piece = self.deadline.duration_since(now).min(LONGEST_TIMER);
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
                // No timer: a simulation would jump to it.
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

/// No code panics under this lock.
#[cfg(feature = "simulation")]
fn lock(epoch: &Mutex<SystemTime>) -> MutexGuard<'_, SystemTime> {
    epoch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Platforms without a clock that counts suspend use the monotonic one.
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
            let (now, wall) = (clock.now(), clock.system_time());
            clock.sleep(Duration::from_secs(3600)).await;
            assert_eq!(clock.now().duration_since(now), Duration::from_secs(3600));
            assert_eq!(clock.system_time().duration_since(wall).unwrap(), Duration::from_secs(3600));
        });
    }

    #[test]
    fn the_wall_clock_of_a_simulation_can_be_set_and_runs_on() {
        Simulation::new(0).run(|clock| async move {
            clock.sleep(Duration::from_secs(10)).await;
            let (now, past) = (clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
            clock.set_wall(past);
            assert_eq!((clock.system_time(), clock.now()), (past, now));
            clock.sleep(Duration::from_secs(5)).await;
            assert_eq!(clock.system_time(), past + Duration::from_secs(5));
            assert_eq!(clock.now().duration_since(now), Duration::from_secs(5));
        });
    }

    #[test]
    fn a_sleep_of_years_uses_several_timers_and_ends_on_time() {
        Simulation::new(0).run(|clock| async move {
            let decade = LONGEST_TIMER * 10 + Duration::from_secs(1);
            clock.sleep(decade).await;
            assert_eq!(clock.now().duration_since(Instant::ZERO), decade);
        });
    }

    #[test]
    fn a_sleep_until_the_maximum_never_ends_and_one_until_the_past_ends_at_once() {
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
