//! Failing and hanging credential plugins, and credentials that must not be shown or sent.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_apiserver::{ApiServer, ServeOptions, ServerHandle};
use bowline_clock::Clock;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::transport::{self, CredentialsError, RequestError, TransportOptions};
use bowline_runtime::{Action, Context, Manager, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;
use kube::config::{AuthInfo, ExecConfig, KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::get;
use super::limits::request_error;
use super::server::Server;

const CREDENTIAL: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"TOKEN-OF-STDOUT","expirationTimestamp":"2020-01-01T00:00:00Z"}}"#;

/// Inputs and outputs of plugins that must stay secret.
const SECRETS: [&str; 3] = ["SECRET-OF-ENV", "SECRET-OF-ARGS", "TOKEN-OF-STDOUT"];

fn plugin(script: &str) -> AuthInfo {
    let exec = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", script, "SECRET-OF-ARGS"],
        "env": [{"name": "PASSWORD", "value": "SECRET-OF-ENV"}],
        "interactiveMode": "Never",
    });
    let exec = serde_json::from_value::<ExecConfig>(exec).expect("the test's own setup works");
    AuthInfo { exec: Some(exec), ..AuthInfo::default() }
}

/// A script with one behavior for the first runs, and another one after that.
fn first(times: usize, directory: &Path, then: &str) -> String {
    let count = directory.join("count");
    format!(
        "echo >> '{0}'; if [ $(wc -l < '{0}') -gt {times} ]; then {then}; fi; echo '{CREDENTIAL}'",
        count.display()
    )
}

/// A TLS server, and a client configuration with credentials from a script.
async fn server(auth: AuthInfo) -> (ServerHandle, Config) {
    let server = ApiServer::builder().build().expect("the test's own setup works");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the test's own setup works");
    let serving = server.serve(listener, ServeOptions::default()).expect("the test's own setup works");
    let kubeconfig =
        Kubeconfig::from_yaml(&serving.kubeconfig().to_yaml()).expect("the test's own setup works");
    let options = KubeConfigOptions::default();
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("the test's own setup works");
    config.auth_info = auth;
    (serving, config)
}

/// The text of an error with its sources.
fn shown(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(|error| format!("{error} {error:?}")).collect::<Vec<_>>().join("\n")
}

fn assert_no_secret(text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is shown: {text}");
    }
}

/// The error of a first request with credentials from a script.
async fn failure(script: &str) -> CredentialsError {
    let (_serving, config) = server(plugin(script)).await;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real()))
        .expect("the test's own setup works");
    let error = get(&client, "/api/v1/pods").await.expect_err("there is no credential");
    let text = shown(&error);
    assert_no_secret(&text);
    let kube::Error::Service(error) = error else { panic!("{error}") };
    *error.downcast().unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn a_plugin_that_fails_at_the_start_shows_its_name_status_and_stderr_only() {
    let script = format!("echo '{CREDENTIAL}'; echo no such account >&2; exit 1");
    let error = failure(&script).await.to_string();
    assert_eq!(error, r#"credential plugin "sh" failed (exit status: 1): no such account"#);
}

#[tokio::test]
async fn invalid_output_of_a_plugin_is_not_shown() {
    let error = failure("echo '{\"status\": [TOKEN-OF-STDOUT'").await.to_string();
    assert_eq!(error, r#"credential plugin "sh" printed no valid ExecCredential"#);
    let error = failure("echo '{\"status\": {}}'").await.to_string();
    assert_eq!(error, r#"credential plugin "sh" printed neither a token nor a client certificate"#);
}

#[tokio::test]
async fn a_plugin_that_is_not_installed_is_an_error_with_the_hint_of_the_kubeconfig() {
    let mut auth = plugin("");
    let exec = auth.exec.as_mut().unwrap();
    exec.command = Some("/nonexistent/bowline-login".to_owned());
    exec.install_hint = Some("run `install login`".to_owned());
    let (_serving, config) = server(auth).await;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    let text = shown(&get(&client, "/api/v1/pods").await.unwrap_err());
    assert_no_secret(&text);
    let start = r#"cannot start credential plugin "bowline-login": No such file or directory"#;
    assert!(text.contains(start) && text.contains("run `install login`"), "{text}");
}

/// A script that counts its runs and prints a credential with this status.
fn counted(directory: &Path, before: &str, status: &serde_json::Value) -> String {
    let credential = serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status,
    });
    let file = directory.join("credential");
    std::fs::write(&file, credential.to_string()).expect("the test's own setup works");
    format!("echo >> '{0}/count'; {before}; cat '{0}/credential'", directory.display())
}

fn runs(directory: &Path) -> usize {
    std::fs::read_to_string(directory.join("count")).map_or(0, |text| text.lines().count())
}

#[tokio::test]
async fn a_plugin_runs_once_for_all_transports_with_the_same_options_and_blocks_no_thread() {
    let directory = TempDir::new().unwrap();
    // It ends when the test continues, on the only thread.
    let ready = directory.path().join("ready");
    let wait = format!("for i in $(seq 200); do [ -e '{}' ] && break; sleep 0.05; done", ready.display());
    let (serving, mut config) = server(AuthInfo::default()).await;
    let status = serde_json::json!({"token": token(&serving)});
    config.auth_info = plugin(&format!("{wait}; {}", counted(directory.path(), "true", &status)));
    let options = TransportOptions::new(&Clock::real());
    let clients = [(); 3].map(|()| transport::client(&config, &options).unwrap());
    let mut requests = futures::future::join_all(clients.iter().map(|client| get(client, "/api/v1/pods")));
    assert!(futures::poll!(&mut requests).is_pending());
    std::fs::write(ready, "").unwrap();
    for answer in requests.await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!(get(&clients[0], "/api/v1/pods").await.unwrap().status(), 200);
    assert_eq!(runs(directory.path()), 1);
}

#[tokio::test]
async fn a_plugin_runs_once_for_all_clients_of_a_manager_from_a_configuration() {
    let directory = TempDir::new().unwrap();
    let (serving, mut config) = server(AuthInfo::default()).await;
    let status = serde_json::json!({"token": token(&serving)});
    config.auth_info = plugin(&counted(directory.path(), "true", &status));
    let scope = Clock::real().scope("test");
    let election = LeaderElectionConfig::new("default", "operator").identity("a");
    let manager = Manager::builder(&scope.spawner(), config).leader_election(election).build().unwrap();
    let reconcile = |_: Context, _: Request| async { Ok::<_, std::convert::Infallible>(Action::done()) };
    manager.controller::<ConfigMap>().register(reconcile).unwrap();
    let running = manager.clone();
    let run = scope.spawn("run", async move { running.run().await });
    manager.wait_ready().await.unwrap();
    manager.request_stop();
    run.await.unwrap().unwrap();
    assert_eq!(runs(directory.path()), 1);
}

/// The administrator's token of a server.
fn token(serving: &ServerHandle) -> String {
    serving.kubeconfig().token().expose().to_owned()
}

#[tokio::test]
async fn a_cancelled_request_does_not_end_the_plugin() {
    let directory = TempDir::new().unwrap();
    let (serving, mut config) = server(AuthInfo::default()).await;
    let status = serde_json::json!({"token": token(&serving)});
    config.auth_info = plugin(&counted(directory.path(), "sleep 1", &status));
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    let first = Clock::real().timeout(Duration::from_millis(300), get(&client, "/api/v1/pods")).await;
    assert!(first.is_err(), "it waits for the plugin");
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 200);
    assert_eq!(runs(directory.path()), 1);
}

#[tokio::test]
async fn a_plugin_ends_despite_a_process_that_it_leaves_behind() {
    let directory = TempDir::new().unwrap();
    let (serving, mut config) = server(AuthInfo::default()).await;
    let status = serde_json::json!({"token": token(&serving)});
    // The process inherits the pipes.
    config.auth_info = plugin(&counted(directory.path(), "sleep 60 &", &status).replace("&;", "&"));
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    let answer = Clock::real().timeout(Duration::from_secs(30), get(&client, "/api/v1/pods")).await;
    assert_eq!(answer.expect("it is not waited for").unwrap().status(), 200);
}

#[tokio::test]
async fn a_rejected_credential_is_replaced() {
    let directory = TempDir::new().unwrap();
    let (serving, mut config) = server(AuthInfo::default()).await;
    let right = serde_json::json!({"token": token(&serving)});
    let script = counted(directory.path(), "true", &right);
    let wrong =
        first(1, directory.path(), &script).replace(CREDENTIAL, r#"{"status": {"token": "expired"}}"#);
    // The first run prints another token. Both scripts count their runs.
    config.auth_info = plugin(&wrong.replace("fi;", "exit; fi;"));
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 401);
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 200);
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 200);
    assert_eq!(runs(directory.path()), 3);
}

#[tokio::test]
async fn a_plugin_pauses_between_runs_whose_credentials_are_rejected_or_expired() {
    for expires in [None, Some("2020-01-01T00:00:00Z")] {
        let directory = TempDir::new().unwrap();
        let status = serde_json::json!({"token": "unknown", "expirationTimestamp": expires});
        let (_serving, config) = server(plugin(&counted(directory.path(), "true", &status))).await;
        let clock = Clock::real();
        let client = transport::client(&config, &TransportOptions::new(&clock)).unwrap();
        let began = clock.now();
        for _ in 0..2 {
            assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 401);
        }
        let took = clock.now().duration_since(began);
        assert!(runs(directory.path()) == 2 && took >= Duration::from_secs(1), "{expires:?}: {took:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_of_a_plugin_is_used() {
    let directory = TempDir::new().unwrap();
    let (serving, mut config) = server(AuthInfo::default()).await;
    let kubeconfig: serde_json::Value = serde_saphyr::from_str(&serving.kubeconfig().to_yaml()).unwrap();
    let pem = |field: &str| {
        let data = kubeconfig["users"][0]["user"][field].as_str().unwrap();
        String::from_utf8(STANDARD.decode(data).unwrap()).unwrap()
    };
    let status = serde_json::json!({
        "clientCertificateData": pem("client-certificate-data"),
        "clientKeyData": pem("client-key-data"),
    });
    config.auth_info = plugin(&counted(directory.path(), "true", &status));
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 200);
    assert_eq!(runs(directory.path()), 1);
}

#[tokio::test]
async fn a_plugin_that_fails_on_refresh_shows_its_name_status_and_stderr_only() {
    let directory = TempDir::new().unwrap();
    // The credential is about to expire, so that each request needs a new one.
    let script = first(1, directory.path(), "echo TOKEN-OF-STDOUT; echo account locked >&2; exit 3");
    let (_serving, config) = server(plugin(&script)).await;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).unwrap();
    assert_eq!(get(&client, "/api/v1/pods").await.unwrap().status(), 401);
    let error = get(&client, "/api/v1/pods").await.unwrap_err();
    let text = shown(&error);
    assert_no_secret(&text);
    assert!(text.contains(r#"credential plugin "sh" failed (exit status: 3): account locked"#), "{text}");
    let kube::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.is::<CredentialsError>(), "{error}");
}

#[tokio::test]
async fn waiting_for_credentials_times_out() {
    let directory = TempDir::new().unwrap();
    let script = first(0, directory.path(), "sleep 1");
    let (_serving, config) = server(plugin(&script)).await;
    let options = TransportOptions::new(&Clock::real()).response_timeout(Duration::from_millis(100));
    let client = transport::client(&config, &options).unwrap();
    for target in ["/api/v1/pods", "/api/v1/pods?watch=true"] {
        let error = request_error(get(&client, target).await.unwrap_err());
        assert!(matches!(error, RequestError::Credentials { .. }), "{error}");
    }
}

#[tokio::test]
async fn tokens_and_passwords_are_not_sent_to_a_server_without_tls() {
    let token = AuthInfo { token: Some("SECRET-TOKEN".to_owned().into()), ..AuthInfo::default() };
    let password = AuthInfo {
        username: Some("user".to_owned()),
        password: Some("SECRET-PASSWORD".to_owned().into()),
        ..AuthInfo::default()
    };
    let server = Server::start([super::ok(), super::ok(), super::ok()]).await;
    for auth_info in [token, password, plugin(&format!("echo '{CREDENTIAL}'"))] {
        let mut config = server.config();
        config.auth_info = auth_info;
        let client = transport::client(&config, &TransportOptions::new(server.clock())).unwrap();
        assert_eq!(super::text(get(&client, "/api/v1/pods").await.unwrap()).await, "fine");
    }
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    for (_, request) in asked.iter() {
        assert!(!request.to_ascii_lowercase().contains("authorization:"), "{request}");
    }
}

#[tokio::test]
async fn a_plugin_does_not_run_for_a_server_without_tls() {
    let server = Server::start([super::ok()]).await;
    let mut config = server.config();
    config.auth_info = plugin("exit 1");
    let client = transport::client(&config, &TransportOptions::new(server.clock())).unwrap();
    assert_eq!(super::text(get(&client, "/api/v1/pods").await.unwrap()).await, "fine");
}
