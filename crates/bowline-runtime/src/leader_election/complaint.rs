//! Something that goes wrong again and again is told when it begins, when it changes, and now and then.

use std::time::Duration;

use bowline_clock::Instant;

/// How often the same is told again.
const AGAIN: Duration = Duration::from_secs(60);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Complaint(Option<(String, Instant)>);

impl Complaint {
    /// Whether this is to be told now.
    pub(super) fn is_news(&mut self, text: &str, now: Instant) -> bool {
        let is_known = self.0.as_ref().is_some_and(|(told, at)| told == text && now.since(*at) < AGAIN);
        if !is_known {
            self.0 = Some((text.to_owned(), now));
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_told_once_a_minute_and_something_else_at_once() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut complaint = Complaint::default();
        let told: Vec<_> =
            [(0, "no"), (2, "no"), (59, "no"), (60, "no"), (61, "never"), (62, "no"), (63, "no")]
                .into_iter()
                .filter(|(second, text)| complaint.is_news(text, at(*second)))
                .map(|(second, _)| second)
                .collect();
        assert_eq!(told, [0, 60, 61, 62]);
    }
}
