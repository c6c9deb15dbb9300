//! The program, from its start to its end.

use std::path::PathBuf;

use bowline::kube::Api;
use bowline::kube::api::{DeleteParams, PostParams};
use bowline::prelude::*;
use bowline::runtime::transport::{self, TransportOptions};
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::Foo;

use crate::process::{Plane, Running, sample_controller};
use crate::world::foo;

#[cfg(unix)]
#[tokio::test]
async fn without_arguments_it_runs_on_a_server_of_its_own_that_kubectl_can_see() -> Result<()> {
    let mut program = Running::start(&[]);
    let export = program.line_with("  export KUBECONFIG=");
    let kubeconfig = PathBuf::from(export.trim_start().trim_start_matches("export KUBECONFIG="));
    let config = transport::config(Some(&kubeconfig)).await?;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real()))?;
    let deployments = Api::<Deployment>::namespaced(client, "default");
    let clock = Clock::real();
    let there = async {
        while deployments.get_opt("example-foo").await?.is_none() {
            clock.sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, Error>(())
    };
    clock.timeout(Duration::from_secs(60), there).await??;
    assert!(program.end("INT").contains("reconciled"));
    assert!(!kubeconfig.exists(), "{}", kubeconfig.display());
    Ok(())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn with_a_kubeconfig_it_runs_on_that_cluster_in_the_namespaces_that_are_named() -> Result<()> {
    let env = TestEnv::from_env().await?;
    env.install::<Foo>().await?;
    let plane = Plane::of(&env).await?;
    // Others may use the server, but no namespace of this test.
    let elsewhere = foo(env.namespace(), Some(2));
    let foos = Api::<Foo>::namespaced(env.kube().clone(), "default");
    foos.create(&PostParams::default(), &elsewhere).await?;
    let program = Running::start(
        [
            ["--kubeconfig", plane.kubeconfig()],
            ["--namespace", env.namespace()],
            ["--health-probe-bind-address", "0"],
        ]
        .as_flattened(),
    );
    env.client().create(&foo("web", Some(2))).await?;
    let patient = env.within(Duration::from_secs(60));
    patient.wait_for::<Foo>("web", |foo| foo.status.is_some()).await?;
    assert_eq!(foos.get(env.namespace()).await?.status, None, "it was not asked to look there");
    foos.delete(env.namespace(), &DeleteParams::default()).await?;
    patient.wait_for::<Deployment>("web", |_| true).await?;
    assert!(program.end("TERM").contains("reconciled"));
    env.finish().await?;
    Ok(())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_probes_are_served_where_the_flags_say() -> Result<()> {
    let env = TestEnv::from_env().await?.within(Duration::from_secs(60));
    env.install::<Foo>().await?;
    let plane = Plane::of(&env).await?;
    let open = |secure| {
        Running::start(
            [
                ["--kubeconfig", plane.kubeconfig()],
                ["--namespace", env.namespace()],
                ["--metrics-bind-address", "127.0.0.1:0"],
                ["--health-probe-bind-address=127.0.0.1:0", "--enable-debug"],
                ["--leader-elect=false", secure],
            ]
            .as_flattened(),
        )
    };
    let program = open("--metrics-secure=false");
    let health = program.address(&env, "health probes").await?;
    let is_ready = async || get(format!("http://{health}"), "/readyz").await.is_ok_and(|text| text == "ok");
    env.wait_until("it says that it is ready", is_ready).await?;
    let metrics = get(format!("http://{}", program.address(&env, "metrics").await?), "/metrics").await?;
    assert!(
        metrics.contains(r#"controller_runtime_max_concurrent_reconciles{controller="foo"} 2"#),
        "{metrics}"
    );
    let debug = get(format!("http://{}", program.address(&env, "metrics").await?), "/debug").await?;
    assert!(debug.contains("foos.samplecontroller.k8s.io"), "{debug}");
    program.end("TERM");

    // Metrics are for those whom the cluster knows, unless it is said otherwise.
    let program = open("--metrics-secure");
    let metrics = program.address(&env, "metrics").await?;
    let refused = get(format!("https://{metrics}"), "/metrics").await.unwrap_err();
    assert!(matches!(&refused, bowline::kube::Error::Api(status) if status.code == 401), "{refused}");
    program.end("TERM");
    env.finish().await?;
    Ok(())
}

/// What a server says at a path, whoever's certificate it shows.
#[cfg(unix)]
async fn get(server: String, path: &str) -> bowline::kube::Result<String> {
    let mut config = bowline::kube::Config::new(server.parse().expect("an address"));
    config.accept_invalid_certs = true;
    let client = transport::client(&config, &TransportOptions::new(&Clock::real())).expect("a client");
    client.request_text(http::Request::get(path).body(Vec::new()).expect("a request")).await
}

#[test]
fn the_definition_is_printed_for_kubectl() {
    let output = sample_controller().arg("--crd").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let definition: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(definition, serde_json::to_value(Foo::crd()).unwrap());
}

/// What is said when it cannot begin. It may have logged something before.
fn told(arguments: &[&str], status: i32) -> String {
    let output = sample_controller().args(arguments).output().expect("it can be started");
    let told = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(status), "{told}");
    assert!(output.stdout.is_empty() && !told.contains("panicked"), "{told}");
    let is_it = |line: &&str| line.to_lowercase().starts_with("error: ");
    told.lines().find(is_it).unwrap_or_else(|| panic!("no error: {told}")).to_owned()
}

#[test]
fn what_it_cannot_begin_with_is_told_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("config");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                contexts: [{name: a, context: {cluster: a}}]\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (arguments, status, answer) in [
        (&["--kubeconfig", "/nowhere/config"][..], 1, "/nowhere/config"),
        (
            &["--kubeconfig", kubeconfig, "--context", "b"],
            1,
            r#"Error: the kubeconfig has no context "b"; it has: a"#,
        ),
        (&["--kubeconfig", kubeconfig, "--leader-elect"], 1, "set --leader-election-namespace"),
        (&["--kubeconfig", kubeconfig, "--health-probe-bind-address", &taken], 1, "address in use"),
        (
            &["--kubeconfig", kubeconfig, "--health-probe-bind-address=0", "--metrics-bind-address", &taken],
            1,
            "address in use",
        ),
        (&["--enable-debug"], 2, "there is none: set --metrics-bind-address"),
        (&["--metrics-secure"], 2, "needs a cluster that tells whose a token is"),
        (&["--metrics-bind-address", "99999"], 2, "is no address to listen on"),
        (&["--health-probe-bind-address", ":http"], 2, "is no address to listen on"),
        (
            &["--leader-elect", "--leader-election-lease-duration", "soon"],
            2,
            "a duration is like 500ms, 15s, 1m30s or 1.5h",
        ),
        (
            &["--leader-elect", "--leader-election-lease-duration", "5s"],
            2,
            "--leader-election-lease-duration (5s) must be longer than --leader-election-renew-deadline (10s)",
        ),
        (&["--log-level", "loud"], 2, r#""loud" is not a level"#),
        (&["--log-format", "yaml"], 2, r#"there is no log format "yaml""#),
    ] {
        let told = told(arguments, status);
        assert!(told.contains(answer), "{arguments:?}: {told}");
    }
}

#[test]
fn the_help_tells_what_can_be_done() {
    let output = sample_controller().arg("-h").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (own, ready_made) = help.split_once("\nCluster:\n").unwrap();
    insta::assert_snapshot!(own, @"
    Gives every Foo the Deployment that it names: the operator that everybody knows, written with
    Bowline

    Usage: sample-controller [OPTIONS]

    Options:
          --crd      Print the definition of the kind Foo, which a real cluster needs, and end
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    ");
    for default in [
        "unless it says so itself [default: 2]",
        "info,bowline_runtime::controller=debug]",
        "[default: sample-controller]",
        ":8081]",
    ] {
        assert!(ready_made.contains(default), "{default}: {ready_made}");
    }
    let output = sample_controller().arg("--version").output().unwrap();
    assert_eq!(output.stdout, format!("sample-controller {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
}
