//! Faults of single events on their way to a watching client.

use std::sync::Arc;
use std::time::Duration;

use super::effect::Effect;
use super::filter::{Events, RequestFilter};
use super::gate::{Gate, GateState};
use super::rule::Rule;
use crate::hooks::FrameVerdict;

#[expect(clippy::must_use_candidate, reason = "a rule stays in force without its handle")]
impl RequestFilter<Events> {
    /// Loses the event, and the watch goes on.
    #[track_caller]
    pub fn lose(self) -> Rule {
        self.set(Effect::Frame(FrameVerdict::Skip))
    }

    /// Delays the event, and everything behind it in its watch. The watch does not end meanwhile.
    #[track_caller]
    pub fn delay(self, delay: Duration) -> Rule {
        self.set(Effect::Delay(delay))
    }

    /// Holds the event, and everything behind it in its watch, until the gate is released. The watch does not end
    /// meanwhile.
    #[track_caller]
    pub fn hold(self) -> Gate {
        let state = Arc::new(GateState::default());
        let rule = self.set(Effect::Hold(state.clone()));
        Gate::new(rule, state)
    }

    /// Cuts the connection of the watch instead of sending the event.
    #[track_caller]
    pub fn cut(self) -> Rule {
        self.set(Effect::Frame(FrameVerdict::Disconnect))
    }

    /// Ends the watch in order instead of sending the event, as when its time is over.
    #[track_caller]
    pub fn close(self) -> Rule {
        self.set(Effect::Frame(FrameVerdict::Close))
    }
}
