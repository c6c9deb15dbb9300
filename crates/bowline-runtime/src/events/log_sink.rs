//! Events in the log.

use tracing::Level;

use super::{EventRecord, EventType, Sink, SinkFuture};

/// Events as log lines, each by itself.
#[derive(Clone, Debug)]
pub struct LogSink {
    level: Level,
}

impl LogSink {
    /// Lines of level `DEBUG`, and `WARN` for warnings.
    #[must_use]
    pub fn new() -> Self {
        Self { level: Level::DEBUG }
    }

    /// The level of what is no warning. Default: `DEBUG`.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }
}

impl Default for LogSink {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for LogSink {
    fn name(&self) -> &'static str {
        "log"
    }

    fn write<'a>(&'a self, event: &'a EventRecord, _earlier: bool) -> SinkFuture<'a> {
        // The level of a tracing event is a constant of its call site.
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "bowline::events",
                    $level,
                    kind = event.regarding.kind.as_deref(),
                    namespace = event.regarding.namespace.as_deref(),
                    name = event.regarding.name.as_deref(),
                    reason = event.reason.as_str(),
                    action = event.action.as_str(),
                    controller = event.controller.as_str(),
                    "{}: {}",
                    event.event_type,
                    event.note
                )
            };
        }
        let level =
            if event.event_type == EventType::Warning { self.level.min(Level::WARN) } else { self.level };
        match level {
            Level::ERROR => line!(Level::ERROR),
            Level::WARN => line!(Level::WARN),
            Level::INFO => line!(Level::INFO),
            Level::DEBUG => line!(Level::DEBUG),
            Level::TRACE => line!(Level::TRACE),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
