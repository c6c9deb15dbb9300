//! Rules about events, applied between the watch and its client.

use std::sync::Arc;

use super::Faults;
use super::effect::Effect;
use super::filter::{Stage, Subject};
use crate::hooks::{FrameVerdict, Hook, HookFuture, RequestInfo, WatchFrame};

/// Asks the server's own hook, then the rules.
pub(super) struct FrameHook {
    pub(super) faults: Faults,
    pub(super) hook: Option<Arc<dyn Hook>>,
    /// The number of the watch's request.
    pub(super) number: u64,
    pub(super) kind: String,
}

impl Hook for FrameHook {
    fn before_frame<'a>(
        &'a self,
        call: &'a RequestInfo,
        frame: WatchFrame<'a>,
    ) -> HookFuture<'a, FrameVerdict> {
        Box::pin(async move {
            if let Some(hook) = &self.hook {
                let verdict = hook.before_frame(call, frame).await;
                if verdict != FrameVerdict::Send {
                    return verdict;
                }
            }
            self.apply(call, frame).await
        })
    }
}

impl FrameHook {
    async fn apply(&self, call: &RequestInfo, frame: WatchFrame<'_>) -> FrameVerdict {
        let faults = &self.faults;
        let subject = Subject { info: call, kind: &self.kind, event: Some(frame) };
        for rule in faults.rules() {
            if !rule.selects(Stage::Event, subject) || !rule.fire(faults) {
                continue;
            }
            faults.note(self.number, &rule);
            match &rule.effect {
                Effect::Frame(verdict) => return *verdict,
                Effect::Hold(gate) => gate.pass().await,
                Effect::Delay(delay) => {
                    if let Some(server) = faults.shared.server.get() {
                        server.clock.sleep(*delay).await;
                    }
                }
                _ => {}
            }
        }
        FrameVerdict::Send
    }
}
