//! Writes events to the log.

use tracing::Level;

use super::{EventRecord, EventSink, EventType, SinkFuture};

const TARGET: &str = "bowline::events";

/// Writes each event as a log line with the target `bowline::events`.
#[derive(Clone, Debug)]
pub struct LogSink {
    level: Level,
}

impl LogSink {
    /// A sink with level `DEBUG`, and `WARN` for warnings.
    #[must_use]
    pub fn new() -> Self {
        Self { level: Level::DEBUG }
    }

    /// Level of normal events. Default: `DEBUG`.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    fn level_of(&self, event_type: EventType) -> Level {
        if event_type == EventType::Warning { self.level.min(Level::WARN) } else { self.level }
    }
}

impl Default for LogSink {
    fn default() -> Self {
        Self::new()
    }
}

impl EventSink for LogSink {
    fn name(&self) -> &'static str {
        "log"
    }

    fn wants(&self, event_type: EventType) -> bool {
        macro_rules! is_enabled {
            ($level:expr) => {
                tracing::event_enabled!(target: TARGET, $level)
            };
        }
        match self.level_of(event_type) {
            Level::ERROR => is_enabled!(Level::ERROR),
            Level::WARN => is_enabled!(Level::WARN),
            Level::INFO => is_enabled!(Level::INFO),
            Level::DEBUG => is_enabled!(Level::DEBUG),
            Level::TRACE => is_enabled!(Level::TRACE),
        }
    }

    fn write<'a>(&'a self, event: &'a EventRecord, _earlier: bool) -> SinkFuture<'a> {
        // In tracing, the level must be constant per call site.
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: TARGET,
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
        match self.level_of(event.event_type) {
            Level::ERROR => line!(Level::ERROR),
            Level::WARN => line!(Level::WARN),
            Level::INFO => line!(Level::INFO),
            Level::DEBUG => line!(Level::DEBUG),
            Level::TRACE => line!(Level::TRACE),
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use futures::FutureExt as _;
    use k8s_openapi::api::core::v1::ObjectReference;
    use tracing::field::{Field, Visit};
    use tracing::span;

    use super::*;

    /// Collects log lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            write!(self.0, " {field}={value:?}").expect("a string takes everything");
        }
    }

    impl tracing::Subscriber for Lines {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().expect("the lock is not poisoned").push(line.0);
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn a_warning_is_logged_as_warn_and_others_at_the_set_level() {
        let mut event = EventRecord {
            name: "a.1".to_owned(),
            namespace: "default".to_owned(),
            event_type: EventType::Warning,
            reason: "Broken".to_owned(),
            action: "Try".to_owned(),
            note: "it does not work".to_owned(),
            regarding: ObjectReference { kind: Some("Foo".to_owned()), ..ObjectReference::default() },
            related: None,
            controller: "test".to_owned(),
            instance: "test-1".to_owned(),
            first: SystemTime::UNIX_EPOCH,
            last: SystemTime::UNIX_EPOCH,
            count: 1,
        };
        let lines = Lines::default();
        assert!(!LogSink::new().wants(EventType::Normal), "the level is disabled");
        tracing::subscriber::with_default(lines.clone(), || {
            assert!(LogSink::new().wants(EventType::Normal));
            let written = LogSink::new().write(&event, false).now_or_never();
            assert!(matches!(written, Some(Ok(()))));
            event.event_type = EventType::Normal;
            let _ = LogSink::new().level(Level::INFO).write(&event, false).now_or_never();
            let _ = LogSink::new().write(&event, false).now_or_never();
        });
        let lines = lines.0.lock().unwrap();
        assert!(lines[0].starts_with("WARN message=Warning: it does not work kind=\"Foo\""), "{lines:?}");
        assert!(lines[0].contains("reason=\"Broken\""), "{lines:?}");
        assert!(lines[1].starts_with("INFO message=Normal"), "{lines:?}");
        assert!(lines[2].starts_with("DEBUG"), "{lines:?}");
    }
}
