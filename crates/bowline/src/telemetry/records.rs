//! Records of the crate `log`, handed on to `tracing`.

use tracing::level_filters::LevelFilter;
use tracing_log::log::{self, Log, Metadata, Record};
use tracing_log::{AsLog as _, AsTrace as _};

use super::directives::Directives;

/// The logger of the crate `log`.
///
/// It asks the directives and not the subscriber whether a record is wanted: filters of layers remember what they answered
/// until an event comes, which is another one if this is none.
pub(super) struct Records {
    directives: Directives,
}

impl Records {
    pub(super) fn new(directives: Directives) -> Self {
        Self { directives }
    }

    /// Makes it the logger of this process, unless that has one, which then is left alone.
    pub(super) fn install(self) {
        if log::set_boxed_logger(Box::new(self)).is_ok() {
            log::set_max_level(LevelFilter::current().as_log());
        }
    }
}

impl Log for Records {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.directives.keep_event(metadata.target(), metadata.level().as_trace())
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            // It never fails.
            let _ = tracing_log::format_trace(record);
        }
    }

    fn flush(&self) {}
}
