//! Reconciles as a collector of traces gets them, and as they are logged.
//!
//! The environment says where traces go, and a test cannot change its own: each test runs itself again as a process, with
//! the variables that it wants, and that one is the operator.

mod protobuf;

use std::error::Error;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bowline::prelude::*;
use bowline::telemetry::{self, Format};
use bowline_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use protobuf::{Message, Span};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tracing::Instrument as _;
use tracing_log::log;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// Tells a process that it is the operator.
const OPERATOR: &str = "BOWLINE_TEST_OPERATOR";

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Two reconciles of one object: the first fails, the second does not.
async fn operate() -> Outcome {
    let options = telemetry::Options::new().level("warn,other=debug").format(Format::Json);
    let telemetry = telemetry::init(&options)?;
    assert!(telemetry.exports_traces());
    assert!(matches!(telemetry::init(&options), Err(telemetry::TelemetryError::AlreadySet)));
    log::warn!(target: "driver", "a record of the crate log");
    log::debug!(target: "driver", "one that nobody wants");
    tracing::warn!("the event after it");
    let clock = Clock::real();
    let scope = clock.scope("operator");
    let kube = kube::Client::new(ApiServer::builder().clock(clock.clone()).build()?, "default");
    // One that lasts as long as the process.
    let span = tracing::info_span!("process", replica = "a");
    let cluster = Cluster::builder(&scope.spawner(), kube).span(span).build()?;
    let has_failed = AtomicBool::new(false);
    let reconcile = move |_: Context, _: Arc<ConfigMap>| {
        let is_first = !has_failed.swap(true, Ordering::Relaxed);
        let reconcile = async move {
            tracing::info!(step = 1, "looking");
            if is_first { Err(bowline::runtime::Error::message("no luck")) } else { Ok(Action::done()) }
        };
        reconcile.instrument(tracing::info_span!("looking at it"))
    };
    let controller = cluster.controller::<ConfigMap>().named("maps").build(reconcile)?;
    let mut runs = cluster.history().subscribe();
    cluster.start();
    controller.start()?;
    controller.wait_ready().await?;
    let map =
        serde_json::from_value(serde_json::json!({"metadata": {"name": "web", "namespace": "default"}}));
    cluster.client().create::<ConfigMap>(&map?).await?;
    while runs.next().await.is_some_and(|run| run.outcome.is_failure()) {}
    let _ = controller.stop().await?;
    scope.abort();
    drop((controller, cluster, telemetry));
    Ok(())
}

/// Runs a test of this program as the operator, with variables.
fn spawn(test: &str, variables: &[(&str, &str)]) -> Outcome<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).env(OPERATOR, "1").envs(variables.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command.spawn()?)
}

fn log(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Takes one request from a listener, and answers it.
async fn receive(listener: &TcpListener) -> Outcome<(String, Vec<u8>)> {
    let (mut stream, _) = listener.accept().await?;
    let mut request = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut request).await?, 0, "the request is cut off");
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(request[..end].to_vec())?.to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or("no length")?;
        if request.len() >= end + 4 + length.parse::<usize>()? {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await?;
            return Ok((head, request.split_off(end + 4)));
        }
    }
}

#[tokio::test]
async fn a_collector_gets_a_trace_of_each_reconcile() {
    if std::env::var_os(OPERATOR).is_some() {
        return operate().await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let operator = spawn(
        "a_collector_gets_a_trace_of_each_reconcile",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer abc"),
            ("OTEL_SERVICE_NAME", "my-operator"),
            // All of it at the end, so that it is one request.
            ("OTEL_BSP_SCHEDULE_DELAY", "600000"),
        ],
    )
    .unwrap();
    let received = Clock::real().timeout(LIMIT, receive(&listener)).await;
    let output = operator.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:#?}");
    let (head, body) = received.unwrap().unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf") && head.contains("authorization: bearer abc")
    );

    let request = Message::parse(&body);
    let resource = request.inside(1).inside(1);
    assert_eq!(protobuf::attributes(&resource, 1)["service.name"], "my-operator");
    let spans = protobuf::spans(&request);
    let reconciles: Vec<_> = spans.iter().filter(|span| span.name == "reconcile").collect();
    let [failed, done] = &*reconciles else { panic!("{spans:#?}") };
    for (reconcile, attempt, outcome) in [(failed, "none", "failed"), (done, "2", "none")] {
        let attribute = |name: &str| reconcile.attributes.get(name).map_or("none", String::as_str);
        assert_eq!(attribute("controller"), "maps");
        assert_eq!(attribute("controllerKind"), "ConfigMap");
        assert_eq!((attribute("namespace"), attribute("name")), ("default", "web"));
        assert_eq!((attribute("attempt"), attribute("outcome")), (attempt, outcome));
        assert_eq!(attribute("triggers"), "ConfigMap created");
        assert!(reconcile.parent.is_empty(), "a trace of its own, and no part of one that does not end");
        let inside: Vec<_> = spans.iter().filter(|span| span.parent == reconcile.id).collect();
        let [Span { name, trace, events, .. }] = &*inside else { panic!("{spans:#?}") };
        assert_eq!(
            (&**name, trace, &**events),
            ("looking at it", &reconcile.trace, &["looking".to_owned()][..])
        );
    }
    assert_ne!(failed.trace, done.trace);
    assert_eq!(failed.status, Some((2, "failed: no luck".to_owned())));
    assert_eq!(done.status, None);

    let log = log(&output);
    assert!(log.contains(r#""level":"warn","logger":"driver","msg":"a record of the crate log"}"#), "{log}");
    assert!(!log.contains("one that nobody wants") && log.contains("the event after it"), "{log}");
    assert!(!log.contains(r#""msg":"looking""#), "an event of the trace, below the level of the log: {log}");

    // The log has the same keys, though the level is above that of the span.
    let line = log.lines().find(|line| line.contains("no luck")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let keys = ["level", "msg", "replica", "controller", "namespace", "name", "triggers", "error"];
    let values = keys.map(|key| line[key].as_str().unwrap());
    assert_eq!(
        values,
        [
            "warn",
            "reconcile failed; will retry",
            "a",
            "maps",
            "default",
            "web",
            "ConfigMap created",
            "no luck"
        ]
    );
    assert_eq!(line["attempt"], 1);
    assert_eq!(line["reconcileID"], failed.attributes["reconcileID"]);
}

#[tokio::test]
async fn a_collector_that_is_away_is_complained_about_and_ends_nothing() {
    if std::env::var_os(OPERATOR).is_some() {
        return operate().await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let test = "a_collector_that_is_away_is_complained_about_and_ends_nothing";
    let operator = spawn(test, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).unwrap();
    let output = operator.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:#?}");
    assert!(log(&output).contains("opentelemetry"), "{output:#?}");
}
