//! Logs and traces of a program, set up once at the start of `main`.
//!
//! Bowline's crates emit [`tracing`] events; the program chooses the subscriber. This is a ready-made one for operators. A program
//! with its own subscriber does not need it.
//!
//! ```
//! use bowline::telemetry::{self, Format, Options};
//!
//! # fn main() -> Result<(), telemetry::TelemetryError> {
//! let telemetry = telemetry::init(&Options::new().level("info,bowline_cache=debug").format(Format::Json))?;
//! // ... until the end of `main`
//! drop(telemetry);
//! # Ok(())
//! # }
//! ```
//!
//! # Logs
//! One line for each event, to standard error. Lines from inside a reconcile carry the keys that controller-runtime's
//! logs have: `controller`, `controllerGroup`, `controllerKind`, `namespace`, `name`, `reconcileID`; `cluster`, if the object
//! is in another cluster than the controller's; and `triggers`, the causes of the reconcile. They do not depend on the level.
//!
//! [`Format::Json`] is one object a line: `ts` (RFC 3339, UTC), `level` (`trace` to `error`), `logger` (the module),
//! `msg`, then the fields of the spans around it, outermost first, then those of the event, in one flat object:
//! `jq 'select(.controller == "foo")'` finds the lines of a controller. If two fields have the same name, the inner one is
//! written; a field with the name of one of the first four is written as `fields.NAME`. A line break in a value is escaped, so
//! that a value cannot forge a line.
//!
//! [`Format::Text`] is the same for people: time, level, logger, message, then `key=value`; empty values are left out.
//!
//! Records of the crate `log` become lines too, with the same levels and their target as the logger. [`init`] sets its logger,
//! unless the program has set another one before.
#![cfg_attr(
    feature = "opentelemetry",
    doc = "
# Traces
With the feature `opentelemetry`, each reconcile is a trace that is sent to a collector by OTLP over HTTP (`http/protobuf`),
if the environment has an endpoint: `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set, or
`OTEL_TRACES_EXPORTER` is `otlp`; and neither that is `none` nor `OTEL_SDK_DISABLED` is `true`. The other standard variables
hold too: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER` and its `_ARG`, `OTEL_BSP_*` (up to 2048
spans wait; further ones are dropped), `OTEL_SPAN_*_LIMIT`, `OTEL_EXPORTER_OTLP_HEADERS` and `_TIMEOUT` (10 s).

The span is called `reconcile` and has the keys above as attributes, with `triggers`, from the second try on `attempt`, unless
it is done `outcome` and, where it failed, `error`; its status is an error then. Log lines inside it at level info or above are its events, spans that the
reconciler makes are its children."
)]

mod directives;
mod fields;
mod lines;
mod records;
#[cfg(test)]
mod tests;
#[cfg(feature = "opentelemetry")]
mod traces;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::str::FromStr;

use tracing::Dispatch;
#[cfg(feature = "args")]
use tracing::subscriber::NoSubscriber;
#[cfg(feature = "opentelemetry")]
use tracing_subscriber::Layer;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use directives::Directives;
use lines::Lines;
use records::Records;

/// Options of logs.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `init`"]
pub struct Options {
    level: String,
    format: Format,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for programs.
    Json,
}

/// Logs and traces that [`init`] set up. Keep it until the end of `main`: dropping it sends the spans that still wait.
///
/// Dropping it takes up to 5 seconds, and blocks the thread.
#[derive(Debug)]
#[must_use = "dropping this ends the export of traces: keep it until the end of `main`"]
pub struct Telemetry {
    #[cfg(feature = "opentelemetry")]
    traces: Option<traces::Traces>,
}

/// Why logs and traces cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The levels cannot be understood.
    #[error(
        "the log level {given:?} cannot be understood, because {problem}: write a level (trace, debug, info, warn, error, \
         off), or `target=level`, or several of them with commas, like \"info,bowline_cache=debug\""
    )]
    Level {
        /// The given text.
        given: String,
        /// The mistake in it.
        problem: String,
    },
    /// There is no such format.
    #[error("there is no log format {given:?}: use \"text\" or \"json\"")]
    Format {
        /// The given text.
        given: String,
    },
    /// The process has a subscriber already.
    #[error(
        "logs are set up already: a process has one place that does so, so call `init` once, and not beside another tracing \
         subscriber"
    )]
    AlreadySet,
    /// Traces cannot be exported with the settings in the environment.
    #[cfg(feature = "opentelemetry")]
    #[error("traces cannot be exported with the settings in the environment: {problem}")]
    Traces {
        /// The problem.
        problem: String,
    },
}

/// Sets up logs (and traces) for the whole process. Call it once, at the beginning of `main`.
///
/// # Errors
/// When the options are not valid, or the process has a subscriber already.
pub fn init(options: &Options) -> Result<Telemetry, TelemetryError> {
    listen(options, dispatch(options)?)
}

/// As [`init`], with another destination than standard error: `write` gets each line with its line break and without colors, on
/// the thread of the event. It must not log, directly or indirectly.
///
/// ```standalone_crate
/// use std::sync::{Arc, Mutex};
///
/// use bowline::telemetry::{self, Options};
///
/// # fn main() -> Result<(), telemetry::TelemetryError> {
/// let lines = Arc::new(Mutex::new(String::new()));
/// let kept = lines.clone();
/// let telemetry = telemetry::init_to(&Options::new(), move |line| kept.lock().unwrap().push_str(line))?;
/// tracing::info!(answer = 42, "found");
/// assert!(lines.lock().unwrap().ends_with("found answer=42\n"));
/// # drop(telemetry);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`init`].
pub fn init_to(
    options: &Options,
    write: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Telemetry, TelemetryError> {
    listen(options, build(options, false, write)?)
}

fn listen(
    options: &Options,
    (dispatch, telemetry): (Dispatch, Telemetry),
) -> Result<Telemetry, TelemetryError> {
    tracing::dispatcher::set_global_default(dispatch).map_err(|_| TelemetryError::AlreadySet)?;
    Records::new(options.level.parse()?).install();
    Ok(telemetry)
}

/// Whether the process has a subscriber already.
#[cfg(feature = "args")]
pub(crate) fn is_set() -> bool {
    tracing::dispatcher::get_default(|listener| !listener.is::<NoSubscriber>())
}

/// As [`init`], as a value for a test or a part of a program: see [`tracing::dispatcher`].
///
/// # Errors
/// When the options are not valid.
pub fn dispatch(options: &Options) -> Result<(Dispatch, Telemetry), TelemetryError> {
    let is_colored =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    // A failure to write a log line cannot be reported, and is no reason to panic.
    build(options, is_colored, |line| drop(io::stderr().lock().write_all(line.as_bytes())))
}

fn build(
    options: &Options,
    is_colored: bool,
    write: impl Fn(&str) + Send + Sync + 'static,
) -> Result<(Dispatch, Telemetry), TelemetryError> {
    let directives = options.level.parse::<Directives>()?;
    let lines = Lines::new(options.format, is_colored, write);
    #[cfg(feature = "opentelemetry")]
    if let Some(traces) = traces::Traces::from_environment()? {
        // Two stacks, not one with an optional layer: without the layer, `tracing` calls the filters for each event that they never
        // want, and takes their answer for that about a later event.
        let subscriber = Registry::default().with(lines.with_filter(directives)).with(traces.layer());
        return Ok((Dispatch::new(subscriber), Telemetry { traces: Some(traces) }));
    }
    let telemetry = Telemetry {
        #[cfg(feature = "opentelemetry")]
        traces: None,
    };
    Ok((Dispatch::new(Registry::default().with(lines).with(directives)), telemetry))
}

#[cfg(feature = "opentelemetry")]
impl Telemetry {
    /// Whether traces are exported.
    #[must_use]
    pub fn exports_traces(&self) -> bool {
        self.traces.is_some()
    }
}

impl Options {
    /// Level `info`, as text.
    pub fn new() -> Self {
        Self { level: "info".to_owned(), format: Format::default() }
    }

    /// Minimum level of events, in the syntax of `RUST_LOG`: a level for all (`trace`, `debug`, `info`, `warn`, `error`, `off`),
    /// and others for modules by the beginning of their path: `warn,my_operator=debug,bowline_cache=info`. The longest match
    /// counts. Default: `info`.
    pub fn level(mut self, directives: impl Into<String>) -> Self {
        self.level = directives.into();
        self
    }

    /// Format of lines. Default: [`Format::Text`].
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Checks the options before logs are set up.
    ///
    /// # Errors
    /// When they are not valid, as [`init`].
    pub fn validate(&self) -> Result<(), TelemetryError> {
        self.level.parse::<Directives>().map(drop)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Format {
    /// Its name: `text` or `json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl FromStr for Format {
    type Err = TelemetryError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(TelemetryError::Format { given: name.to_owned() }),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
