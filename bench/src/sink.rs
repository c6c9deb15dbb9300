//! Where subjects log to: lines are written in full, and go nowhere.

use std::{hint, io};

use bowline::telemetry::{self, Options, TelemetryError};
use clap::ValueEnum;
use tracing::Level;

/// Who writes the lines of subjects in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Logger {
    /// What an operator on Bowline has
    Bowline,
    /// What most other programs have
    TracingSubscriber,
}

impl Logger {
    /// Makes what is logged from now on, at INFO and above, lines of text that go nowhere.
    ///
    /// # Errors
    /// When something in this process listens already.
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
