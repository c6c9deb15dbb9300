//! The operators of `foo-converge` in Rust, on our own API server; and the command line of the scenario. The counting
//! of requests needs kube-apiserver and is not tested here.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use bowline_clock::Clock;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bowline-bench");
const BOWLINE: &str = env!("CARGO_BIN_EXE_bowline-foo");
const KUBE_RS: &str = env!("CARGO_BIN_EXE_kube-rs-foo");
const FOOS: usize = 5;
const NAMESPACE: &str = "default";
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A program that ends with its stdin.
struct Running(Child);

impl Running {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let started = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it can be started");
        Self(started)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it tells something");
        line
    }

    /// Stops it and returns its output.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        self.line()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().is_ok_and(|status| status.success()));
    }
}

/// A client of the server with this endpoint.
fn client(endpoint: &Value) -> Client {
    let text = |key: &str| endpoint[key].as_str().expect("it is text").to_owned();
    let mut config = Config::new(text("server").parse().expect("it is an address"));
    // Trust is not tested here.
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(text("token").into());
    Client::try_from(config).expect("it is a configuration")
}

async fn make_foos(client: &Client, clock: &Clock) -> Api<DynamicObject> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "foos.samplecontroller.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, experimental-only"},
        },
        "spec": {
            "group": "samplecontroller.k8s.io",
            "names": {"kind": "Foo", "plural": "foos"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    });
    let definitions = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let definition: DynamicObject = serde_json::from_value(definition).expect("an object");
    let definitions = Api::<DynamicObject>::all_with(client.clone(), &definitions);
    definitions.create(&PostParams::default(), &definition).await.expect("a definition");
    let resource =
        ApiResource::from_gvk(&GroupVersionKind::gvk("samplecontroller.k8s.io", "v1alpha1", "Foo"));
    let foos = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &resource);
    eventually(clock, "foos are served", async || foos.list(&ListParams::default()).await.is_ok()).await;
    for number in 0..FOOS {
        let name = format!("foo-{number}");
        let object = json!({
            "apiVersion": "samplecontroller.k8s.io/v1alpha1",
            "kind": "Foo",
            "metadata": {"name": name},
            "spec": {"deploymentName": format!("{name}-web"), "replicas": 1},
        });
        let object = serde_json::from_value(object).expect("an object");
        foos.create(&PostParams::default(), &object).await.expect("a foo");
        let stale = Patch::Merge(json!({"status": {"availableReplicas": 1}}));
        foos.patch_status(&name, &PatchParams::default(), &stale).await.expect("a status");
    }
    foos
}

async fn eventually(clock: &Clock, what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            clock.sleep(BETWEEN_LOOKS).await;
        }
    };
    assert!(clock.timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}

fn operator_does_what_it_should(program: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let mut server = Running::start(PROGRAM, &["apiserver-subject", "--task", "serve"]);
    let line = server.line();
    let mut file = NamedTempFile::new().expect("there is a directory for such files");
    file.write_all(line.as_bytes()).expect("it can be written");
    let endpoint = file.path().to_str().expect("the path is text");
    runtime.block_on(async {
        let clock = Clock::real();
        let client = client(&serde_json::from_str(&line).expect("it is JSON"));
        let foos = make_foos(&client, &clock).await;
        let operator = Running::start(program, &["--endpoint", endpoint, "--workers", "2"]);
        eventually(&clock, "every foo has the right status", async || {
            let found = foos.list(&ListParams::default()).await.expect("a list");
            found.iter().all(|owner| owner.data["status"]["availableReplicas"] == 0)
        })
        .await;
        let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
        let deployments = deployments.list(&ListParams::default()).await.expect("a list");
        let names: Vec<_> = deployments.iter().map(kube::ResourceExt::name_any).collect();
        assert_eq!(names, (0..FOOS).map(|number| format!("foo-{number}-web")).collect::<Vec<_>>());
        for deployment in &deployments {
            let owner = &deployment.owner_references()[0];
            assert_eq!((owner.kind.as_str(), owner.controller), ("Foo", Some(true)));
            assert_eq!(format!("{}-web", owner.name), deployment.name_any());
        }
        let events = Api::<Event>::namespaced(client.clone(), NAMESPACE);
        eventually(&clock, "every foo has an event", async || {
            let events = events.list(&ListParams::default()).await.expect("a list");
            let synced = events.iter().filter(|event| event.reason.as_deref() == Some("Synced"));
            let reported: Vec<_> =
                synced.filter_map(|event| event.regarding.as_ref()?.name.clone()).collect();
            (0..FOOS).all(|number| reported.contains(&format!("foo-{number}")))
        })
        .await;
        let used: Value = serde_json::from_str(&operator.end()).expect("it tells what it used");
        for metric in ["cpu_s", "rss_peak_mib", "rss_settled_mib"] {
            assert!(used[metric].as_f64().is_some_and(|value| value > 0.0), "{used}");
        }
    });
}

#[test]
fn our_operator_makes_deployments_and_writes_what_differs() {
    operator_does_what_it_should(BOWLINE);
}

#[test]
fn the_operator_on_kube_rs_makes_deployments_and_writes_what_differs() {
    operator_does_what_it_should(KUBE_RS);
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("it can be started")
}

#[test]
fn another_peer_is_refused() {
    let output = bench(&["foo-converge", "--peer", "kube-apiserver"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: foo-converge has no subject for the peer kube-apiserver; it has: go, kube-rs\n"
    );
}
