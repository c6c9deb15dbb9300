//! A point in monotonic time, as a plain number: comparable, printable, and safe to do arithmetic with.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in the monotonic time of one [`Clock`](crate::Clock): nanoseconds since that clock was made.
///
/// Unlike [`std::time::Instant`] it is eight bytes, starts from zero (so a simulation prints the same instants
/// every time), and its arithmetic saturates instead of panicking: adding [`Duration::MAX`] gives
/// [`Instant::MAX`], about 584 years on, which stands for "never". Instants of different clocks must not be
/// compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The creation of the clock.
    pub const ZERO: Self = Self(0);
    /// The latest instant, where arithmetic saturates.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant this many nanoseconds after the clock was made.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock was made.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The duration since `earlier`; zero if that is later.
    #[must_use]
    pub const fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::MAX`].
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// Saturates at [`Instant::ZERO`].
    fn sub(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_panicking() {
        let second = Duration::from_secs(1);
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
        assert_eq!(Instant::MAX + second, Instant::MAX);
        assert_eq!(Instant::ZERO - second, Instant::ZERO);
        assert_eq!((Instant::ZERO + second) - Duration::MAX, Instant::ZERO);
    }

    #[test]
    fn since_is_zero_for_an_instant_that_is_not_later() {
        let later = Instant::from_nanos(5);
        assert_eq!(later.duration_since(Instant::ZERO), Duration::from_nanos(5));
        assert_eq!(Instant::ZERO.duration_since(later), Duration::ZERO);
    }

    #[test]
    fn debug_shows_the_time_since_the_clock_was_made() {
        assert_eq!(format!("{:?}", Instant::ZERO + Duration::from_millis(1500)), "+1.5s");
    }
}
