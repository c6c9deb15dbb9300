//! Selection of log events by target and level.

use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter, Layer};

use super::TelemetryError;

/// Levels for all events and for parts of the code. Spans from level info on are kept whatever the level of events is:
/// they say what an event is about.
#[derive(Clone, Debug)]
pub(super) struct Directives {
    targets: Targets,
    is_off: bool,
}

impl Directives {
    /// Whether an event is logged.
    pub(super) fn keep_event(&self, target: &str, level: Level) -> bool {
        self.targets.would_enable(target, &level)
    }

    fn keeps(&self, metadata: &Metadata<'_>) -> bool {
        self.keep_event(metadata.target(), *metadata.level())
            || (metadata.is_span() && !self.is_off && *metadata.level() <= LevelFilter::INFO)
    }

    fn interest(&self, metadata: &Metadata<'_>) -> Interest {
        if self.keeps(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level(&self) -> Option<LevelFilter> {
        let events = Filter::<Registry>::max_level_hint(&self.targets)?;
        Some(if self.is_off { events } else { events.max(LevelFilter::INFO) })
    }
}

impl FromStr for Directives {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut targets = Targets::new();
        let mut highest = LevelFilter::OFF;
        for directive in text.split(',').map(str::trim) {
            let (target, level) = match directive.split_once('=') {
                Some((target, level)) => (Some(target.trim()), level.trim()),
                // `Targets` would take a misspelled level for the name of a module.
                None => (None, directive),
            };
            let refuse = |problem: String| TelemetryError::Level { given: text.to_owned(), problem };
            let level: LevelFilter = Some(level)
                // To the parser, nothing is a level too.
                .filter(|level| !level.is_empty())
                .and_then(|level| level.parse().ok())
                .ok_or_else(|| refuse(format!("{level:?} is not a level")))?;
            highest = highest.max(level);
            targets = match target {
                Some("") => return Err(refuse(format!("{directive:?} names no target"))),
                Some(target) => targets.with_target(target, level),
                None => targets.with_default(level),
            };
        }
        Ok(Self { targets, is_off: highest == LevelFilter::OFF })
    }
}

/// For all layers.
impl<S: Subscriber> Layer<S> for Directives {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.keeps(metadata)
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.interest(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.max_level()
    }
}

/// For one layer of several, which costs more: each remembers for each span whether it is one of its own.
impl<S> Filter<S> for Directives {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.keeps(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.interest(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.max_level()
    }
}
