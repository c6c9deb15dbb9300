//! The program, from its start to its end.

use bowline::kube::Api;
use bowline::kube::api::{DeleteParams, PostParams};
use bowline::prelude::*;
use bowline::runtime::transport::{self, TransportOptions};
use bowline_testing::TestEnv;
use k8s_openapi::api::apps::v1::Deployment;
use sample_controller::Foo;

use crate::process::{Plane, Running, error_of, sample_controller};
use crate::world::foo;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn with_a_kubeconfig_it_runs_on_that_cluster_in_the_namespaces_that_are_named() -> Result<()> {
    let env = TestEnv::from_env().await?;
    env.install::<Foo>().await?;
    let plane = Plane::of(&env).await?;
    // Others may use the server, but no namespace of this test.
    let elsewhere = foo(env.namespace(), Some(2));
    let foos = Api::<Foo>::namespaced(env.kube_client().clone(), "default");
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
    assert_eq!(foos.get(env.namespace()).await?.status, None, "this namespace is not among the named ones");
    foos.delete(env.namespace(), &DeleteParams::default()).await?;
    patient.wait_for::<Deployment>("web", |_| true).await?;
    let logged = program.end("TERM");
    assert!(logged.contains("reconciled"), "{logged}");
    let selected =
        logged.lines().find(|line| line.contains("cluster selected server=")).expect("one line names it");
    assert!(selected.contains("origin=\"context "), "{selected}");
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

    // By default metrics are for users of the cluster.
    let program = open("--metrics-secure");
    let metrics = program.address(&env, "metrics").await?;
    let refused = get(format!("https://{metrics}"), "/metrics").await.unwrap_err();
    assert!(matches!(&refused, bowline::kube::Error::Api(status) if status.code == 401), "{refused}");
    program.end("TERM");
    env.finish().await?;
    Ok(())
}

/// The answer of a server at a path, with any certificate.
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

#[test]
fn a_failure_to_start_is_reported_in_one_line() {
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
        (&["--metrics-bind-address", "99999"], 2, "is not a listen address"),
        (&["--health-probe-bind-address", ":http"], 2, "is not a listen address"),
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
        let error = error_of(arguments, status);
        assert!(error.contains(answer), "{arguments:?}: {error}");
    }
}

#[test]
fn the_help_lists_all_flags() {
    let output = sample_controller().arg("-h").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (own, ready_made) = help.split_once("\nCluster:\n").unwrap();
    insta::assert_snapshot!(own, @"
    Gives every Foo the Deployment that it names: Kubernetes' sample-controller, written with Bowline

    Usage: sample-controller [OPTIONS]

    Options:
          --crd      Print the definition of the kind Foo, which a cluster needs, and end
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version
    ");
    for default in [
        "unless it sets its own number\n          [default: 2]",
        "info,bowline_runtime::controller=debug]",
        "[default: sample-controller]",
        "[default: :8081 in a pod",
    ] {
        assert!(ready_made.contains(default), "{default}: {ready_made}");
    }
    let output = sample_controller().arg("--version").output().unwrap();
    assert_eq!(output.stdout, format!("sample-controller {}\n", env!("CARGO_PKG_VERSION")).into_bytes());
}
