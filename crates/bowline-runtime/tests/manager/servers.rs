//! The manager's servers: health, metrics and debug page.

use std::net::SocketAddr;

use bowline_runtime::ClusterBuilder;
use bowline_runtime::health::HealthServer;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::server::{BindAddress, MetricsServer, Tls, text};
use http::StatusCode;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, failure};

pub(crate) fn anywhere() -> BindAddress {
    "127.0.0.1:0".parse().expect("an address")
}

/// The status and the rest of the response.
pub(crate) async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.expect("a server listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("answered");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, answer)
}

#[test]
fn readiness_names_waiting_controllers_and_their_sources() {
    World::run_in_real_time(|world| async move {
        world.faults.all().resource("secrets").fail(failure(
            403,
            "Forbidden",
            "secrets is forbidden: you may not",
        ));
        let manager = world.builder().health_server(HealthServer::new(anywhere())).build().unwrap();
        let maps = manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let secrets = manager.controller::<Secret>().register(world.reconciler("secrets")).unwrap();
        let start = world.start(&manager);
        world.until("the other is ready", || maps.is_ready() && !secrets.waiting_for().is_empty()).await;
        let address = manager.health_address().unwrap();
        assert_eq!(get(address, "/healthz").await.0, 200);
        let is_refused =
            || secrets.waiting_for().iter().any(|waiting| waiting.to_string().contains("forbidden"));
        world.until("it was refused", is_refused).await;
        let (status, text) = get(address, "/readyz?verbose").await;
        assert_eq!(status, 500);
        assert!(text.contains("[+]controller-configmap ok"), "{text}");
        assert!(text.contains("[+]manager ok"), "{text}");
        assert!(text.contains("[-]controller-secret failed"), "{text}");
        assert!(text.contains("waits for secrets (v1) in all namespaces (forbidden)"), "{text}");
        assert!(!text.contains("you may not"), "what the server says is not for everybody: {text}");
        assert_eq!(get(address, "/readyz?exclude=controller-secret").await.0, 200);
        world.faults.remove_all();
        manager.wait_ready().await.unwrap();
        assert_eq!(get(address, "/readyz").await.0, 200);
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "the server has stopped");
    });
}

#[test]
fn a_manager_without_its_server_is_alive_but_not_ready() {
    World::run_in_real_time(|world| async move {
        world.faults.all().lose_request();
        let builder = world.builder().cluster(ClusterBuilder::cached::<ConfigMap>);
        let manager = builder.health_server(HealthServer::new(anywhere())).build().unwrap();
        let start = world.start(&manager);
        world.until("it listens", || manager.health_address().is_some()).await;
        let address = manager.health_address().unwrap();
        world.until("informers have been asked for", || world.watches("configmaps") > 0).await;
        let (status, text) = get(address, "/readyz?verbose").await;
        assert_eq!((status, get(address, "/healthz").await.0), (500, 200));
        assert!(
            text.contains("[-]manager failed") && text.contains("it waits for informers: configmaps (v1)"),
            "{text}"
        );
        manager.readiness().add("mine", || async { Err::<(), _>("a secret reason") });
        let (_, text) = get(address, "/readyz?verbose").await;
        assert!(text.contains("[-]mine failed: reason withheld"), "{text}");
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn metrics_contain_controllers_and_leadership() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let election = LeaderElectionConfig::new("default", "operator");
        let builder =
            world.builder().metrics_server(MetricsServer::new(anywhere())).leader_election(election);
        let manager = builder.build().unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.until("it reconciled", || world.record.has("maps reconciles a")).await;
        let (status, text) = get(manager.metrics_address().unwrap(), "/metrics").await;
        assert_eq!(status, 200);
        assert!(text.contains("controller_runtime_reconcile_total{controller=\"configmap\""), "{text}");
        let leads = "leader_election_master_status{name=\"operator\"}";
        assert!(text.contains(&format!("{leads} 1")), "{text}");
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(manager.metrics().encode_text().contains(&format!("{leads} 0")));
    });
}

#[test]
fn the_debug_page_is_served_on_request() {
    World::run_in_real_time(|world| async move {
        world.create("a").await;
        let election = LeaderElectionConfig::new("default", "operator").identity("me");
        let builder =
            world.builder().metrics_server(MetricsServer::new(anywhere())).leader_election(election);
        let manager = builder.debug(true).build().unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        manager.add(world.noting("sweeper")).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.until("it reconciled", || world.record.has("maps reconciles a")).await;
        let (status, text) = get(manager.metrics_address().unwrap(), "/debug?format=json").await;
        assert_eq!(status, 200);
        let report: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(report["manager"]["identity"], "me");
        assert_eq!(report["manager"]["leadership"], "leading");
        let runnables = report["manager"]["runnables"].as_array().unwrap();
        let names: Vec<_> = runnables.iter().map(|runnable| runnable["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["metrics server", "controller configmap", "sweeper"]);
        assert_eq!(report["controllers"][0]["name"], "configmap");
        assert_eq!(report["reconciles"][0]["object"], "default/a");
        manager.request_stop();
        start.await.unwrap().unwrap();

        let manager = world.builder().metrics_server(MetricsServer::new(anywhere())).build().unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        assert_eq!(get(manager.metrics_address().unwrap(), "/debug").await.0, 404);
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

/// The status for a `Host`.
async fn get_as(address: SocketAddr, path: &str, host: &str) -> u16 {
    let mut socket = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("answered");
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status")
}

#[test]
fn the_debug_page_on_loopback_is_hidden_from_dns_rebinding() {
    World::run_in_real_time(|world| async move {
        let server = MetricsServer::new(anywhere()).handler("/own", |_| async { text(StatusCode::OK, "") });
        let manager = world.builder().metrics_server(server).debug(true).build().unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        let address = manager.metrics_address().unwrap();
        for host in
            [address.to_string(), "localhost".to_owned(), "LocalHost:1".to_owned(), "[::1]:80".to_owned()]
        {
            assert_eq!(get_as(address, "/debug", &host).await, 200, "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            assert_eq!(get_as(address, "/debug", host).await, 403, "{host}");
            assert_eq!(get_as(address, "/debug?format=json", host).await, 403, "{host}");
            assert_eq!(get_as(address, "/metrics", host).await, 200, "scrapes by name go on");
            assert_eq!(get_as(address, "/own", host).await, 200, "other handlers are not affected");
        }
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn the_debug_page_is_refused_on_plain_http_beyond_loopback() {
    World::run_in_real_time(|world| async move {
        let build = |server| world.builder().metrics_server(server).debug(true).build();
        for address in [":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let error = build(MetricsServer::new(address.parse().unwrap())).unwrap_err().to_string();
            assert!(error.contains("/debug") && error.contains("listen on 127.0.0.1, or use TLS"), "{error}");
            build(MetricsServer::new(address.parse().unwrap()).tls(Tls::self_signed())).unwrap();
        }
        for address in ["0", "127.0.0.1:0", "[::1]:0", "localhost:0"] {
            build(MetricsServer::new(address.parse().unwrap())).unwrap();
        }
    });
}

#[test]
fn a_taken_port_is_reported_and_everything_stops() {
    World::run_in_real_time(|world| async move {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = taken.local_addr().unwrap();
        let server = MetricsServer::new(address.to_string().parse().unwrap());
        let manager = world.builder().metrics_server(server).build().unwrap();
        manager.add(world.noting("elected")).unwrap();
        let error = manager.run().await.unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("metrics"), "{error}");
        assert_eq!(world.record.lines(), [""; 0]);
    });
}
