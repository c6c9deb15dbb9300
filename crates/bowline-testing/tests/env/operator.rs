//! The start of an operator.

use std::sync::Arc;
use std::time::Duration;

use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{
    Action, BuildError, Cluster, ClusterBuilder, Context, Controller, Error, ErrorPredicates as _, Manager,
    ManagerBuilder, ManagerError, Result, Runnable,
};
use bowline_testing::{FinishError, RunError, TestEnv};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::Status;

use crate::website::{Website, change_map, create_map};

async fn look(_: Context, _: Arc<ConfigMap>) -> Result<Action> {
    Ok(Action::done())
}

fn maps(cluster: &Cluster) -> Result<Controller, BuildError> {
    Controller::builder(cluster).for_::<ConfigMap>().build(look)
}

fn more_maps(cluster: &Cluster) -> Result<Controller, BuildError> {
    Controller::builder(cluster).for_::<ConfigMap>().named("more").build(look)
}

fn websites(cluster: &Cluster) -> Result<Controller, BuildError> {
    let look = async |_: Context, _: Arc<Website>| Ok::<_, std::io::Error>(Action::done());
    Controller::builder(cluster).for_::<Website>().build(look)
}

#[test]
fn an_operator_runs_until_the_environment_is_finished() {
    TestEnv::test(async |env| {
        let (first, second) = (maps(&env.cluster()).unwrap(), more_maps(&env.cluster()).unwrap());
        env.start_controllers(&[first.clone(), second.clone()]).await.unwrap();
        assert!(first.is_ready() && second.is_ready());
        create_map(&env, "a", "1").await;
        change_map(&env, "a", "2").await;
        let runs = || {
            let mut runs = env.history().runs();
            runs.retain(|run| run.request.name() == "a");
            runs.iter().map(|run| run.controller.to_string()).collect::<Vec<_>>()
        };
        let both = async || runs().contains(&"configmap".to_owned()) && runs().contains(&"more".to_owned());
        env.wait_until("both have seen it", both).await.unwrap();
        env.finish().await.unwrap();
        assert!(!first.is_running() && !second.is_running());
    });
}

fn managed(manager: &Manager) -> Result<()> {
    manager.controller::<ConfigMap>().register(look)?;
    manager.controller::<ConfigMap>().named("more").register(look)?;
    Ok(())
}

#[test]
fn an_operator_of_a_manager_runs_until_the_environment_is_finished() {
    TestEnv::test(async |env| {
        env.start(managed).await.unwrap();
        let controllers = env.manager().controllers();
        assert!(controllers.len() == 2 && controllers.iter().all(Controller::is_ready));
        create_map(&env, "a", "1").await;
        let runs = || {
            let mut runs = env.history().runs();
            runs.retain(|run| run.request.name() == "a");
            runs.len()
        };
        env.wait_until("both have seen it", async || runs() == 2).await.unwrap();

        // Another one may come later, and one that does without the manager.
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("late").register(look))
            .await
            .unwrap();
        env.start(|cluster: &Cluster| cluster.controller::<ConfigMap>().named("alone").build(look))
            .await
            .unwrap();
        create_map(&env, "b", "1").await;
        let seen = || env.history().runs().iter().filter(|run| run.request.name() == "b").count();
        env.wait_until("all four have seen it", async || seen() == 4).await.unwrap();
        env.finish().await.unwrap();
        assert!(!controllers.iter().any(Controller::is_running));
    });
}

#[test]
fn a_manager_may_stand_for_election() {
    let election = |manager: bowline_runtime::ManagerBuilder| {
        manager.leader_election(LeaderElectionConfig::new("default", "test"))
    };
    TestEnv::builder().manager(election).test(async |env| {
        env.start(managed).await.unwrap();
        assert!(env.manager().elector().is_some_and(|elector| elector.fence().is_open()));
    });
}

#[test]
fn an_operator_that_ends_by_itself_is_an_error_of_the_environment() {
    TestEnv::test(async |env| {
        let fail = || Runnable::new("sweeper", |_| async { Err(Error::message("there is no broom")) });
        let _may_have_ended = env.start(move |manager: &Manager| manager.add(fail())).await;
        let error = env.finish().await.unwrap_err();
        assert!(matches!(error, FinishError::Manager(ManagerError::Ended { .. })), "{error}");
        assert_eq!(error.to_string(), "sweeper: there is no broom");
    });
}

#[test]
fn an_operator_that_cannot_be_built_is_an_error() {
    TestEnv::test(async |env| {
        env.start(maps).await.unwrap();
        let error = env.start(maps).await.unwrap_err();
        assert!(matches!(error, RunError::Build { .. }), "{error}");
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("b").register(look))
            .await
            .unwrap();
        let again =
            env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("b").register(look)).await;
        assert!(matches!(again.unwrap_err(), RunError::Build { .. }));
    });
}

#[test]
fn the_cause_of_an_operator_that_cannot_be_built_is_kept() {
    TestEnv::test(async |env| {
        let missing = || Status::failure("configmaps \"options\" not found", "NotFound").with_code(404);
        let operator = move |_: &Manager| -> Result<()> {
            let error = kube::Error::Api(missing().boxed());
            Err(Error::from(error).context("cannot read the options"))
        };
        let error = env.start(operator).await.unwrap_err();
        assert!(error.is_not_found() && !error.is_conflict());
        let text = Error::from(error).to_string();
        assert!(text.starts_with("cannot build the operator: cannot read the options: "), "{text}");
        assert_eq!(text.matches("cannot read the options").count(), 1, "{text}");
    });
}

#[test]
fn a_controller_that_sees_nothing_says_what_it_waits_for() {
    TestEnv::builder().test(async |env| {
        let error = env.within(Duration::from_secs(3)).start(websites).await.unwrap_err();
        insta::assert_snapshot!(error, @"controller website is not ready after 3s: it waits for websites.demo.example.com/v1 in namespace test (waiting for retry: 404 page not found (404 Not Found); is its CRD installed?)");
        let look = async |_: Context, _: Arc<Website>| Ok::<_, std::io::Error>(Action::done());
        let managed = move |manager: &Manager| manager.controller::<Website>().named("managed").register(look);
        let error = env.within(Duration::from_secs(3)).start(managed).await.unwrap_err();
        insta::assert_snapshot!(error, @"controller managed is not ready after 3s: it waits for websites.demo.example.com/v1 in namespace test (waiting for retry: 404 page not found (404 Not Found); is its CRD installed?)");
    });
}

#[test]
fn all_controllers_together_have_one_limit() {
    // There are no websites: each of those that watch them is late.
    TestEnv::builder().test(async |env| {
        let late = |cluster: &Cluster, name: &str| {
            let look = async |_: Context, _: Arc<Website>| Ok::<_, std::io::Error>(Action::done());
            cluster.controller::<Website>().named(name).build(look)
        };
        let alone = move |cluster: &Cluster| {
            Ok::<_, BuildError>(vec![maps(cluster)?, late(cluster, "first")?, late(cluster, "second")?])
        };
        let began = env.clock().now();
        let error = env.within(Duration::from_secs(3)).start(alone).await.unwrap_err();
        assert_eq!(env.clock().now().duration_since(began), Duration::from_secs(3));
        insta::assert_snapshot!(error, @"controller first is not ready after 3s: it waits for websites.demo.example.com/v1 in namespace test (waiting for retry: 404 page not found (404 Not Found); is its CRD installed?)");

        let managed = move |manager: &Manager| {
            manager.add(late(manager.cluster(), "third")?)?;
            manager.add(late(manager.cluster(), "fourth")?)?;
            Ok::<_, ManagerError>(())
        };
        let began = env.clock().now();
        let error = env.within(Duration::from_secs(3)).start(managed).await.unwrap_err();
        assert_eq!(env.clock().now().duration_since(began), Duration::from_secs(3));
        insta::assert_snapshot!(error, @"controller third is not ready after 3s: it waits for websites.demo.example.com/v1 in namespace test (waiting for retry: 404 page not found (404 Not Found); is its CRD installed?)");
    });
}

#[test]
fn a_manager_that_waits_for_its_informers_says_so() {
    let cached = |manager: ManagerBuilder| manager.cluster(ClusterBuilder::cached::<Secret>);
    // A server that is out of order is waited for by everybody.
    TestEnv::builder().manager(cached).test(async |env| {
        let away = env.faults().unwrap().all().resource("secrets").lose_request();
        let error = env.within(Duration::from_secs(3)).start(managed).await.unwrap_err();
        let begins = "the manager has not started its controllers after 3s: it waits for informers: secrets (v1) in namespace test";
        assert!(error.to_string().starts_with(begins), "{error}");
        assert!(matches!(error, RunError::NotStarted { .. }));
        away.assert_used();
    });
}

#[test]
fn a_manager_that_only_waits_for_leadership_says_so() {
    let election = |identity: &str| LeaderElectionConfig::new("default", "test").identity(identity);
    let candidate = election("me");
    TestEnv::builder().manager(move |manager| manager.leader_election(candidate.clone())).test(async |env| {
        let other = election("other").build(env.clock(), env.kube_client().clone()).unwrap();
        let leadership = other.acquire().await;
        let error = env.within(Duration::from_secs(3)).start(managed).await.unwrap_err();
        insta::assert_snapshot!(error, @"the manager does not lead after 3s: it waits for leadership, which other has");
        // The manager goes on when the lease is released.
        leadership.release().await;
        env.start_manager().await.unwrap();
        assert!(env.manager().controllers().iter().all(Controller::is_ready));
    });
}
