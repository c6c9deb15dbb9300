//! The log sink of subjects: lines are formatted in full and discarded.

use std::{hint, io};

use bowline::telemetry::{self, Options, TelemetryError};
use clap::ValueEnum;
use tracing::Level;

/// Logger of subjects in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Logger {
    /// The logger of an operator on Bowline
    Bowline,
    /// The logger of most other programs
    TracingSubscriber,
}

impl Logger {
    /// Formats and discards all log lines at INFO and above from now on.
    ///
    /// # Errors
    /// When this process already has a logger.
    pub(crate) fn start(self) -> Result<(), TelemetryError> {
        match self {
            Self::Bowline => {
                let write = |line: &str| {
                    hint::black_box(line);
                };
                telemetry::init_to(&Options::new(), write).map(drop)
            }
            Self::TracingSubscriber => tracing_subscriber::fmt()
                .with_max_level(Level::INFO)
                .with_writer(io::sink)
                .try_init()
                .map_err(|_| TelemetryError::AlreadySet),
        }
    }
}
