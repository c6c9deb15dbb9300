//! Limits repeated log lines: when a problem first occurs, and then once a minute.

use std::time::Duration;

use bowline_clock::Instant;

/// Time until the same problem is logged again.
const REPEAT: Duration = Duration::from_secs(60);

/// The text that was logged last, and when.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Option<(String, Instant)>);

impl LogThrottle {
    /// Whether to log this text now. A text that differs from the last one is always logged.
    pub(crate) fn is_news(&mut self, text: &str, now: Instant) -> bool {
        let is_known =
            self.0.as_ref().is_some_and(|(last, at)| last == text && now.duration_since(*at) < REPEAT);
        if !is_known {
            self.0 = Some((text.to_owned(), now));
        }
        !is_known
    }

    /// Whether to log now, whatever the text is: for texts with numbers that change each time.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        self.is_news("", now)
    }

    /// Forgets the last text. Returns whether there was one.
    pub(crate) fn reset(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_logged_once_a_minute_and_a_new_one_at_once() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut throttle = LogThrottle::default();
        let logged: Vec<_> =
            [(0, "no"), (2, "no"), (59, "no"), (60, "no"), (61, "never"), (62, "no"), (63, "no")]
                .into_iter()
                .filter(|(second, text)| throttle.is_news(text, at(*second)))
                .map(|(second, _)| second)
                .collect();
        assert_eq!(logged, [0, 60, 61, 62]);
        assert!(throttle.reset() && !throttle.reset());
        assert!(throttle.is_news("no", at(64)), "a new series begins");
    }
}
