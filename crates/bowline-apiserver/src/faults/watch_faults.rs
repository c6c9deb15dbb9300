//! Faults of whole watches: an end now, or silence.

use std::sync::Arc;

use super::effect::{Effect, End};
use super::filter::{RequestFilter, Stage, Watches};
use super::open_watch::OpenWatch;
use super::rule::Rule;

#[expect(clippy::must_use_candidate, reason = "a rule stays in force without its handle")]
impl RequestFilter<Watches> {
    /// Cuts the connections of the open watches that are selected, now. Returns their number. Watches that begin later are
    /// not affected.
    #[track_caller]
    #[must_use = "zero means that no watch was open: assert the number, or the test has no fault"]
    pub fn cut(self) -> usize {
        self.end(End::Cut)
    }

    /// Ends the open watches that are selected in order, now, as when their time is over. Returns their number.
    #[track_caller]
    #[must_use = "zero means that no watch was open: assert the number, or the test has no fault"]
    pub fn close(self) -> usize {
        self.end(End::Close)
    }

    /// Ends the open watches that are selected with an `ERROR` event of 410 `Expired`, now. Returns their number.
    #[track_caller]
    #[must_use = "zero means that no watch was open: assert the number, or the test has no fault"]
    pub fn expire(self) -> usize {
        self.end(End::Expire)
    }

    /// Keeps the selected watches open and silent, those that are open and those that begin later: neither events nor
    /// bookmarks come, nor the end of the watch's time, as on a connection that is half open. When the rule is removed,
    /// the watches send what they missed, or end if their time is over.
    #[track_caller]
    pub fn silence(self) -> Rule {
        let faults = self.faults.clone();
        let (rule, watches) = self.set_among_watches(Effect::Silence);
        for watch in watches {
            if rule.state.selects(Stage::Watch, watch.subject()) && rule.state.fire(&faults) {
                faults.note(watch.number, &rule.state);
                watch.silence(rule.state.clone());
            }
        }
        rule
    }

    /// Ends open watches by a rule that is removed at once.
    #[track_caller]
    fn end(self, end: End) -> usize {
        let faults = self.faults.clone();
        let (rule, watches) = self.set_among_watches(Effect::End(end));
        let selected: Vec<Arc<OpenWatch>> = watches
            .into_iter()
            .filter(|watch| rule.state.selects(Stage::Watch, watch.subject()) && rule.state.fire(&faults))
            .collect();
        for watch in &selected {
            faults.note(watch.number, &rule.state);
            watch.end(end);
        }
        rule.remove();
        // The number says whether it was used.
        faults.lock().rules.retain(|other| !Arc::ptr_eq(other, &rule.state));
        selected.len()
    }
}
