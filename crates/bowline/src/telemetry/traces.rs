//! OpenTelemetry traces: the spans that become one, and their export.

use std::env;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use bowline_clock::Clock;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::TelemetryError;

/// Time limit of an export, from the specification.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of the last export.
const FLUSH: Duration = Duration::from_secs(5);

/// Maximum size of a collector's answer.
const ANSWER: usize = 1 << 20;

/// Sends traces until it is dropped.
#[derive(Debug)]
pub(super) struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// The settings in the environment, if there are some.
    pub(super) fn from_environment() -> Result<Option<Self>, TelemetryError> {
        if !is_wanted(|name| env::var(name).ok())? {
            return Ok(None);
        }
        let exporter = SpanExporter::builder().with_http().with_http_client(Sender::new()?);
        let exporter = exporter.build().map_err(|error| refuse(error.to_string()))?;
        // Name, attributes, sampler, limits and the queue of what waits to be sent are read from the environment.
        let resource = Resource::builder().build();
        let provider =
            SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        Ok(Some(Self { provider }))
    }

    /// The layer that turns spans into traces.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("bowline"));
        Reconciles { layer: layer.with_threads(false).with_location(false).with_target(true) }
            .with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::INFO))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!(%error, "not all traces were sent");
        }
    }
}

/// Whether the environment enables traces.
fn is_wanted(variable: impl Fn(&str) -> Option<String>) -> Result<bool, TelemetryError> {
    // To the specification, what is empty is not there.
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    let is_wanted = match variable("OTEL_TRACES_EXPORTER").as_deref() {
        Some("none") => false,
        Some("otlp") => true,
        Some(other) => {
            return Err(refuse(format!(
                "there is no OTEL_TRACES_EXPORTER {other:?}: use \"otlp\" or \"none\""
            )));
        }
        None => ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
            .into_iter()
            .any(|name| variable(name).is_some()),
    };
    let protocol =
        variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
    match protocol.filter(|protocol| is_wanted && protocol != "http/protobuf") {
        Some(protocol) => Err(refuse(format!(
            "the protocol {protocol:?} is not spoken: set OTEL_EXPORTER_OTLP_PROTOCOL to \"http/protobuf\", and the endpoint \
             to the collector's port for that, mostly 4318"
        ))),
        None => Ok(is_wanted),
    }
}

fn refuse(problem: String) -> TelemetryError {
    TelemetryError::Traces { problem }
}

/// Whether something is part of a trace. Informers have spans that last as long as the process.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= LevelFilter::INFO
        && !(metadata.is_span() && metadata.target().starts_with("bowline_cache"))
}

/// Makes each reconcile a trace of its own, in whatever span its worker runs: one around the whole process would be a trace
/// that does not end.
struct Reconciles<S> {
    layer: OpenTelemetryLayer<S, SdkTracer>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Reconciles<S> {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if metadata.name() == "reconcile" && metadata.target().starts_with("bowline_runtime") {
            self.layer.on_new_span(&Attributes::new_root(metadata, attributes.values()), id, context);
        } else {
            self.layer.on_new_span(attributes, id, context);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.layer.on_record(id, values, context);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        self.layer.on_follows_from(id, follows, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        self.layer.on_event(event, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.layer.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.layer.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.layer.on_close(id, context);
    }
}

/// Sends requests, on a runtime of its own: traces are exported from a thread that belongs to the exporter, also when the
/// program's runtime is gone or blocked.
struct Sender {
    /// Taken out when the sender is dropped, which may happen where a runtime may not be.
    runtime: Mutex<Option<tokio::runtime::Runtime>>,
    clock: Clock,
    timeout: Duration,
}

impl Sender {
    fn new() -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refuse(format!("no runtime could be made for it: {error}")))?;
        let variables = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        let timeout = variables.into_iter().find_map(|name| env::var(name).ok()?.parse().ok());
        let timeout = timeout.map_or(TIMEOUT, Duration::from_millis);
        Ok(Self { runtime: Mutex::new(Some(runtime)), clock: Clock::real(), timeout })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut connector = HttpConnector::new();
        if request.uri().scheme() == Some(&http::uri::Scheme::HTTPS) {
            connector.enforce_http(false);
            let config = kube::Config::new(request.uri().clone());
            return exchange(config.rustls_https_connector_with_connector(connector)?, request).await;
        }
        exchange(connector, request).await
    }
}

async fn exchange<C>(connector: C, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    // There is one export every few seconds, and the runtime stands still in between: no connection is kept.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

impl HttpClient for Sender {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let runtime = self.runtime.lock().map_err(|_| "an export panicked")?;
            let runtime = runtime.as_ref().ok_or("the exporter has ended")?;
            // The thread that polls this has nothing else to do.
            runtime.block_on(self.clock.timeout(self.timeout, self.send(request)))?
        })
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Ok(mut runtime) = self.runtime.lock()
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(variables: &[(&str, &str)]) -> Result<bool, String> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        is_wanted(variable).map_err(|error| error.to_string())
    }

    #[test]
    fn traces_are_exported_only_if_the_environment_says_so() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        assert_eq!(wanted(&[]), Ok(false));
        assert_eq!(wanted(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok(false));
        assert_eq!(wanted(&[endpoint]), Ok(true));
        assert_eq!(
            wanted(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces")]),
            Ok(true)
        );
        assert_eq!(wanted(&[("OTEL_TRACES_EXPORTER", "otlp")]), Ok(true));
        assert_eq!(wanted(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]), Ok(false));
        assert_eq!(wanted(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]), Ok(false));
    }

    #[test]
    fn what_is_not_spoken_is_refused_with_what_to_do() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        let refused = wanted(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).unwrap_err();
        assert!(refused.contains("\"grpc\" is not spoken: set OTEL_EXPORTER_OTLP_PROTOCOL"), "{refused}");
        assert!(
            wanted(&[("OTEL_TRACES_EXPORTER", "zipkin")]).unwrap_err().contains("use \"otlp\" or \"none\"")
        );
        assert_eq!(wanted(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]), Ok(false), "no endpoint is set");
    }
}
