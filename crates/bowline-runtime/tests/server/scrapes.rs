//! Responses to scrapes.

use std::time::Duration;

use bowline_runtime::Metrics;
use bowline_runtime::server::{BindAddress, MetricsServer, ServerError, text};
use http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Unit;

use crate::exposition;
use crate::world::{Running, ask_on, local, scope};

/// A counter with labels that need escapes, a gauge with a unit and a help text that needs them, and others.
fn metrics() -> Metrics {
    let metrics = Metrics::new();
    metrics.with_registry(|registry| {
        let jobs = Family::<[(&str, &str); 1], Counter>::default();
        registry.register("jobs", "Jobs that were done", jobs.clone());
        jobs.get_or_create(&[("of", "a \"quoted\" # \\ line\nand more")]).inc_by(3);
        jobs.get_or_create(&[("of", "b")]).inc();
        let size = Gauge::<i64>::default();
        registry.register_with_unit(
            "cache",
            "Size of the \"cache\":\n# TYPE other \\ gauge",
            Unit::Bytes,
            size.clone(),
        );
        size.set(-1);
        registry.register("build", "What it is made of", Info::new([("version", "1")]));
        let sizes = Histogram::new([1e-5, 0.5, 1.0, 1e6]);
        sizes.observe(0.7);
        registry.register("sizes", "Sizes", sizes);
    });
    metrics
}

async fn serve(server: MetricsServer) -> Running {
    let scope = scope();
    let bound = server.bind(&scope.spawner(), &metrics()).await;
    Running::start(scope, bound)
}

fn at() -> MetricsServer {
    MetricsServer::new(local())
}

#[tokio::test]
async fn a_scrape_is_answered_in_the_text_form() {
    let server = serve(at()).await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let families = exposition::read(&answer.body);
    let jobs = &families["jobs_total"];
    assert_eq!(jobs.kind, "counter");
    assert_eq!(jobs.value(&[("of", "a \"quoted\" # \\ line\nand more")]), Some(3.0));
    assert_eq!(jobs.value(&[("of", "b")]), Some(1.0));
    assert_eq!(families["cache_bytes"].value(&[]), Some(-1.0));
    assert_eq!(families["build_info"].value(&[("version", "1")]), Some(1.0));
    assert_eq!(families["sizes"].bounds(), "1e-05,0.5,1,1e+06,+Inf");
    server.stop().await;
}

#[tokio::test]
async fn prometheus_gets_openmetrics() {
    let server = serve(at()).await;
    let accept = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                  text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let answer = server.ask("GET", "/metrics", &[("accept", accept)]).await;
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(form));
    let families = exposition::read_open(&answer.body);
    assert_eq!(families["jobs"].value(&[("of", "a \"quoted\" # \\ line\nand more")]), Some(3.0));
    assert_eq!(families["cache_bytes"].value(&[]), Some(-1.0));
    assert_eq!(families["build"].value(&[("version", "1")]), Some(1.0));
    assert_eq!(families["sizes"].bounds(), "1e-05,0.5,1.0,1e+06,+Inf");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_and_a_head_has_no_body() {
    let server = serve(at()).await;
    for path in ["/", "/metrics/", "/metricsz", "/healthz", "*"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let answer = server.ask(method, "/metrics", &[]).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(server.get("/metrics?name=jobs").await.status, 200);
    let answer = server.ask("HEAD", "/metrics", &[]).await;
    assert_eq!((answer.status, &*answer.body), (200, ""));
    assert!(answer.header("content-length").is_some_and(|length| length != "0"));
}

#[tokio::test]
async fn a_body_is_rejected_before_it_is_read() {
    let other = |_| async { text(StatusCode::OK, "") };
    for (server, other_status) in [
        (at().handler("/other", other), 413),
        (at().handler("/other", other).options(|server| server.max_body(9)), 408),
    ] {
        // The body never arrives; a server that waited for it would respond with 408.
        let server = serve(server.options(|server| server.request_timeout(Duration::ZERO))).await;
        for body in ["content-length: 9", "transfer-encoding: chunked"] {
            for (method, path, status) in
                [("GET", "/metrics", 413), ("POST", "/metrics", 405), ("POST", "/other", other_status)]
            {
                let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{body}\r\n\r\n");
                assert_eq!(server.say(&request).await.status, status, "{request}");
            }
        }
    }
}

#[tokio::test]
async fn other_handlers_share_the_server_and_connections() {
    let greeted = |request: bowline_runtime::server::Request| async move {
        text(StatusCode::ACCEPTED, format!("{} {}", request.method(), request.uri()))
    };
    let server = serve(at().handler("/greeting", greeted).handler("/debug/", greeted)).await;
    let mut stream = server.connect().await;
    for path in ["/greeting", "/debug/deep?x=1", "/greeting"] {
        let answer = ask_on(&server.clock, &mut stream, path).await;
        assert_eq!((answer.status, answer.body), (202, format!("GET {path}")));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_path_that_is_taken_or_none_is_an_error() {
    let answer = |_| async { text(StatusCode::OK, "") };
    for (path, problem) in [("/metrics", "it has one"), ("debug", "a path begins with a slash")] {
        let scope = scope();
        let bound = at().handler(path, answer).bind(&scope.spawner(), &Metrics::new()).await;
        let error = bound.expect_err("the path is wrong");
        assert!(matches!(error, ServerError::Path { .. }), "{error:?}");
        assert!(error.to_string().contains(problem) && error.to_string().contains("metrics"), "{error}");
    }
}

#[tokio::test]
async fn a_taken_port_is_named_with_what_to_do() {
    let server = serve(at()).await;
    let scope = scope();
    let again = MetricsServer::new(server.address.into()).bind(&scope.spawner(), &Metrics::new()).await;
    let text = again.expect_err("it is taken").to_string();
    let expected = format!(
        "cannot listen on {} for metrics: address in use: choose another address, or \"0\" for none",
        server.address
    );
    assert_eq!(text, expected);
    let elsewhere = MetricsServer::new("192.0.2.1:0".parse().unwrap());
    let error =
        elsewhere.bind(&scope.spawner(), &Metrics::new()).await.expect_err("the address is not local");
    assert!(matches!(&error, ServerError::Listen { .. }), "{error:?}");
}

#[tokio::test]
async fn zero_disables_the_server_and_a_port_alone_means_all_addresses() {
    let scope = scope();
    let off = MetricsServer::new(BindAddress::off()).bind(&scope.spawner(), &Metrics::new()).await;
    assert!(off.expect("it is fine").is_none());
    let mut server = serve(MetricsServer::new(BindAddress::all(0))).await;
    assert!(server.address.ip().is_unspecified());
    server.address = ([127, 0, 0, 1], server.address.port()).into();
    assert_eq!(server.get("/metrics").await.status, 200);
}
