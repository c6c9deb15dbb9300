//! The arm `existing`: a cluster that tests share with its other users.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bowline_apiserver::{
    ApiServer, ApiServerBuilder, Hook, HookFuture, RequestInfo, ServeOptions, ServerHandle,
    TemporaryKubeconfig, Verdict,
};
use bowline_runtime::{Action, Context, DefinitionError, Error, Manager};
use bowline_testing::{Arm, EnvError, InstallError, TestEnv, TestEnvBuilder};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use kube::{Api, Client, CustomResourceExt as _};
use serde_json::json;
use tokio::net::TcpListener;

use crate::website::{LongWebsite, Website, create_map};

/// A cluster on a socket that has the CRD of Website.
struct Cluster {
    server: ApiServer,
    kubeconfig: TemporaryKubeconfig,
    serving: ServerHandle,
}

/// The user agents of requests for config maps, with their verbs.
#[derive(Clone, Default)]
struct Agents(Arc<Mutex<BTreeSet<(&'static str, String)>>>);

impl Hook for Agents {
    fn before_request<'a>(&'a self, call: &'a RequestInfo) -> HookFuture<'a, Verdict> {
        if call.resource == "configmaps" {
            self.0.lock().expect("no test panicked").insert((call.verb.as_str(), call.user_agent.clone()));
        }
        Box::pin(std::future::ready(Verdict::Proceed))
    }
}

impl Cluster {
    async fn start() -> Self {
        Self::start_with(ApiServer::builder()).await
    }

    async fn start_with(server: ApiServerBuilder) -> Self {
        let server = server.build().expect("the test's own setup works");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the test's own setup works");
        let serving = server.serve(listener, ServeOptions::default()).expect("the test's own setup works");
        let kubeconfig =
            serving.kubeconfig().write_temporary("bowline-testing").expect("the test's own setup works");
        let cluster = Self { server, kubeconfig, serving };
        cluster
            .definitions()
            .create(&PostParams::default(), &Website::crd())
            .await
            .expect("the test's own setup works");
        cluster
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(Client::new(self.server.clone(), "default"))
    }

    fn env(&self) -> TestEnvBuilder {
        TestEnv::builder().arm(Arm::Existing).kubeconfig(self.kubeconfig.path())
    }
}

#[tokio::test]
async fn a_context_must_be_named() {
    let cluster = Cluster::start().await;
    // In an environment that names none, as in CI.
    if std::env::var_os("BOWLINE_TEST_CONTEXT").is_none() {
        let error = cluster.env().start().await.unwrap_err();
        assert!(matches!(error, EnvError::NoContext), "{error}");
        assert!(error.to_string().starts_with("the arm existing needs BOWLINE_TEST_CONTEXT"), "{error}");
    }
    let error = cluster.env().context("production").start().await.unwrap_err();
    assert!(error.to_string().contains(r#"no context "production""#), "{error}");
    cluster.env().context("bowline").start().await.unwrap().finish().await.unwrap();
}

#[tokio::test]
async fn a_definition_that_no_test_created_is_not_replaced_unless_that_is_allowed() {
    let cluster = Cluster::start().await;
    let env = cluster.env().context("bowline").start().await.unwrap();
    env.install::<Website>().await.expect("it is the same");
    let before = cluster.definitions().get(Website::crd_name()).await.unwrap();
    let Err(error) = env.install::<LongWebsite>().await else { panic!("it is replaced") };
    let InstallError::Definition(DefinitionError::Foreign { name }) = &error else { panic!("{error}") };
    assert_eq!(name, Website::crd_name());
    assert!(error.to_string().contains("TestEnvBuilder::replace_definitions"), "{error}");
    assert_eq!(cluster.definitions().get(Website::crd_name()).await.unwrap(), before);
    env.finish().await.unwrap();

    let env = cluster.env().context("bowline").replace_definitions().start().await.unwrap();
    env.install::<LongWebsite>().await.unwrap();
    env.finish().await.unwrap();
}

#[tokio::test]
async fn a_manager_that_installs_its_definitions_does_not_replace_those_of_others() {
    let cluster = Cluster::start().await;
    let before = cluster.definitions().get(Website::crd_name()).await.unwrap();
    for may_replace in [false, true] {
        let env = cluster.env().context("bowline").manager(|manager| manager.install_crds(true));
        let env = if may_replace { env.replace_definitions() } else { env };
        let env = env.start().await.unwrap();
        let manager = env.manager();
        manager.crd::<LongWebsite>();
        let running = manager.clone();
        let run = env.spawner().spawn("run", async move { running.run().await });
        manager.wait_ready().await.unwrap();
        manager.request_stop();
        run.await.unwrap().unwrap();
        env.finish().await.unwrap();
        let now = cluster.definitions().get(Website::crd_name()).await.unwrap();
        assert_eq!(now.spec != before.spec, may_replace);
    }
}

#[tokio::test]
async fn a_definition_that_a_test_created_is_replaced() {
    let cluster = Cluster::start().await;
    cluster.definitions().delete(Website::crd_name(), &kube::api::DeleteParams::default()).await.unwrap();
    let first = cluster.env().context("bowline").start().await.unwrap();
    first.install::<Website>().await.unwrap();
    first.finish().await.unwrap();
    let second = cluster.env().context("bowline").start().await.unwrap();
    second.install::<LongWebsite>().await.unwrap();
    second.finish().await.unwrap();
}

#[tokio::test]
async fn the_operator_has_a_user_agent_of_its_own_and_its_calls_are_recorded() {
    let agents = Agents::default();
    let cluster = Cluster::start_with(ApiServer::builder().hook(agents.clone())).await;
    let env = cluster.env().context("bowline").start().await.unwrap();
    let look = async |_: Context, _: Arc<ConfigMap>| Ok::<_, Error>(Action::done());
    env.start(move |manager: &Manager| manager.controller::<ConfigMap>().register(look)).await.unwrap();
    create_map(&env, "a", "1").await;
    let expected = format!("watch configmaps in {}", env.namespace());
    assert!(env.calls().iter().any(|(call, _)| call.to_string() == expected), "{}", env.calls());
    env.crash().await.unwrap();
    env.restart().await.unwrap();
    env.finish().await.unwrap();
    let seen = agents.0.lock().unwrap().clone();
    assert!(seen.contains(&("watch", "bowline-testing-operator".to_owned())), "{seen:?}");
    let creators: Vec<_> = seen.iter().filter(|(verb, _)| *verb == "create").collect();
    assert!(matches!(creators[..], [(_, agent)] if !agent.contains("operator")), "{seen:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_runs_once_for_a_test_and_its_operator() {
    let cluster = Cluster::start().await;
    let beside = |name: &str| cluster.kubeconfig.path().with_file_name(name);
    let (config, count) = (beside("config-with-plugin"), beside("count"));
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": cluster.serving.kubeconfig().token().expose()},
    });
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig.path()).unwrap();
    let auth = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": ["-c", format!("echo >> '{}'; echo '{credential}'", count.display())],
        "interactiveMode": "Never",
    }});
    kubeconfig.auth_infos[0].auth_info = Some(serde_json::from_value(auth).unwrap());
    std::fs::write(&config, serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
    let env = TestEnv::builder().arm(Arm::Existing).kubeconfig(&config).context("bowline");
    let env = env.start().await.unwrap();
    let look = async |_: Context, _: Arc<ConfigMap>| Ok::<_, Error>(Action::done());
    env.start(move |manager: &Manager| manager.controller::<ConfigMap>().register(look)).await.unwrap();
    env.finish().await.unwrap();
    let runs = std::fs::read_to_string(&count).unwrap();
    let removed = [config, count].map(std::fs::remove_file);
    assert!(removed.iter().all(Result::is_ok) && runs.lines().count() == 1, "{runs:?}");
}
