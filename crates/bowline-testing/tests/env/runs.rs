//! Stops, crashes and restarts of an operator.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bowline_cache::ObjectKey;
use bowline_runtime::leader_election::LeaderElectionConfig;
use bowline_runtime::{
    Action, Context, Controller, Error, Manager, ManagerBuilder, Result, Runnable, Verb, terminal,
};
use bowline_testing::{RunError, TestEnv};
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::WatchParams;
use tokio::runtime::Handle;

use crate::website::{change_map, create_map, maps, value};

async fn look(_: Context, _: Arc<ConfigMap>) -> Result<Action> {
    Ok(Action::done())
}

/// The runs that reconciled an object of this name.
fn runs_of(env: &TestEnv, name: &str) -> Vec<u32> {
    let records = env.history().runs().into_iter().filter(|record| record.request.name() == name);
    records.map(|record| record.run).collect()
}

#[test]
fn a_restart_calls_the_operators_function_again_with_a_fresh_manager() {
    TestEnv::test(async |env| {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = calls.clone();
        let operator = move |manager: &Manager| {
            counter.fetch_add(1, Ordering::Relaxed);
            manager.controller::<ConfigMap>().register(look)
        };
        env.start(operator).await.unwrap();
        create_map(&env, "a", "1").await;
        env.wait_until("a is reconciled", async || runs_of(&env, "a") == [1]).await.unwrap();
        let first = env.manager().controllers();

        env.restart().await.unwrap();
        assert!(!first.iter().any(Controller::is_running));
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        assert_eq!(env.manager().controllers().len(), 1);
        env.wait_until("a is reconciled again", async || runs_of(&env, "a") == [1, 2]).await.unwrap();
        create_map(&env, "b", "1").await;
        env.wait_until("b is reconciled", async || runs_of(&env, "b") == [2]).await.unwrap();
        env.assert_no_failures();
    });
}

#[test]
fn all_operators_of_a_run_are_started_again_and_nothing_else() {
    TestEnv::test(async |env| {
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("one").register(look))
            .await
            .unwrap();
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("two").register(look))
            .await
            .unwrap();
        env.manager().controller::<ConfigMap>().named("by-hand").register(look).unwrap();
        env.stop().await.unwrap();
        env.restart().await.unwrap();
        let names: Vec<_> =
            env.manager().controllers().iter().map(|controller| controller.name().to_owned()).collect();
        assert_eq!(names, ["one", "two"]);
    });
}

#[test]
fn a_crash_between_two_writes_leaves_the_first_and_the_next_run_makes_the_second() {
    TestEnv::test(async |env| {
        let was_held = Arc::new(AtomicBool::new(false));
        let is_held = was_held.clone();
        let operator = move |manager: &Manager| {
            let was_held = was_held.clone();
            let reconcile = move |ctx: Context, map: Arc<ConfigMap>| {
                let was_held = was_held.clone();
                async move {
                    if !map.name_any().starts_with("web") {
                        return Ok(Action::done());
                    }
                    let mut first = Secret::default();
                    first.metadata.name = Some(format!("{}-first", map.name_any()));
                    first.metadata.namespace = map.namespace();
                    ctx.client().ensure(first.clone(), |_| ()).await?;
                    if !was_held.swap(true, Ordering::Relaxed) {
                        // The first run crashes here.
                        std::future::pending::<()>().await;
                    }
                    first.metadata.name = Some(format!("{}-second", map.name_any()));
                    ctx.client().ensure(first, |_| ()).await?;
                    Ok::<_, Error>(Action::done())
                }
            };
            manager.controller::<ConfigMap>().owns::<Secret>().register(reconcile)
        };
        env.start(operator).await.unwrap();
        create_map(&env, "web", "1").await;
        env.wait_for::<Secret>("web-first", |_| true).await.unwrap();
        env.wait_until("the first run is held", async || is_held.load(Ordering::Relaxed)).await.unwrap();

        env.crash().await.unwrap();
        let second = ObjectKey::new(env.namespace(), "web-second");
        assert!(env.client().find::<Secret>(&second).await.unwrap().is_none());

        env.restart().await.unwrap();
        env.wait_for::<Secret>("web-second", |_| true).await.unwrap();
        env.wait_until("it has converged", async || runs_of(&env, "web").contains(&2)).await.unwrap();
        // The run that crashed has no record, because its reconcile did not end.
        assert!(!runs_of(&env, "web").contains(&1));
        env.assert_no_failures();
    });
}

#[test]
fn nothing_of_a_crashed_operator_acts_any_more() {
    TestEnv::test(async |env| {
        create_map(&env, "a", "0").await;
        let key = ObjectKey::new(env.namespace(), "a");
        let operator = move |manager: &Manager| {
            let (client, clock, key) = (manager.client().clone(), manager.clock().clone(), key.clone());
            // The test watches with the operator's client.
            manager.writes::<ConfigMap>([Verb::Patch, Verb::Watch]);
            manager.add(Runnable::new("writer", move |_| async move {
                for number in 1_u64.. {
                    let patch = serde_json::json!({"data": {"value": number.to_string()}});
                    let patch = bowline_runtime::Patch::merge(&patch)?;
                    client.patch::<ConfigMap>(&key, &patch).await?;
                    clock.sleep(Duration::from_millis(1)).await;
                }
                Ok::<_, Error>(())
            }))
        };
        env.start(operator).await.unwrap();
        env.wait_for::<ConfigMap>("a", |map| value(map).parse::<u64>().unwrap() > 3).await.unwrap();
        // The operator's client and an open watch, outside the operator's tasks.
        let operators_client = env.cluster().kube_client().clone();
        let operators_maps = kube::Api::<ConfigMap>::default_namespaced(operators_client);
        let params = WatchParams::default().timeout(250);
        let mut watch = Box::pin(operators_maps.watch(&params, "0").await.unwrap());
        watch.next().await.expect("it begins").unwrap();

        env.crash().await.unwrap();
        let before = maps(&env).get("a").await.unwrap().resource_version();
        env.clock().sleep(Duration::from_millis(200)).await;
        assert_eq!(maps(&env).get("a").await.unwrap().resource_version(), before);
        let error = operators_maps.get("a").await.unwrap_err().to_string();
        assert!(error.contains("this run of the operator has ended"), "{error}");
        let rest = watch.collect::<Vec<_>>().await;
        assert!(rest.last().is_some_and(Result::is_err), "{rest:?}");
        // A run that was killed did not end with an error.
        env.finish().await.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconcile_that_a_crash_interrupts_in_the_middle_of_a_poll_is_no_failure() {
    let env = TestEnv::embedded().await.unwrap();
    create_map(&env, "web", "1").await;
    let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = mpsc::channel();
    let released = Arc::new(Mutex::new(released));
    env.start(move |manager: &Manager| {
        let (begin, released) = (begin.clone(), released.clone());
        manager.controller::<ConfigMap>().register(move |ctx: Context, map: Arc<ConfigMap>| {
            let (begin, released) = (begin.clone(), released.clone());
            async move {
                if map.name_any() == "web" {
                    // All of this is one poll.
                    begin.send(()).expect("the test waits");
                    released.lock().expect("no reconcile panics").recv().expect("it is released");
                    let key = ObjectKey::new(&map.namespace().unwrap_or_default(), "web");
                    let client = ctx.client().live();
                    let get = client.get::<ConfigMap>(&key);
                    tokio::task::block_in_place(|| Handle::current().block_on(get))?;
                }
                Ok::<_, Error>(Action::done())
            }
        })
    })
    .await
    .unwrap();
    begun.recv().await.expect("the reconcile begins");

    let mut crash = Box::pin(env.crash());
    // From here on, the requests of the run fail, and the end of the reconcile is awaited.
    assert!(futures::poll!(&mut crash).is_pending());
    release.send(()).unwrap();
    crash.await.unwrap();
    assert_eq!(runs_of(&env, "web"), [] as [u32; 0]);
    env.assert_no_failures();
    env.finish().await.unwrap();
}

#[tokio::test]
async fn a_crash_waits_for_blocking_work() {
    let env = TestEnv::embedded().await.unwrap();
    env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(look)).await.unwrap();
    let (release, released) = mpsc::channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = is_over.clone();
    let _task = env.cluster().spawner().spawn_blocking("work", move || {
        released.recv().expect("it is released");
        flag.store(true, Ordering::SeqCst);
    });
    let crash = async {
        env.crash().await.unwrap();
        assert!(is_over.load(Ordering::SeqCst));
    };
    let later = async {
        env.clock().sleep(Duration::from_millis(50)).await;
        release.send(()).unwrap();
    };
    tokio::join!(crash, later);
    env.finish().await.unwrap();
}

#[test]
fn a_wait_of_the_test_goes_on_through_a_crash() {
    TestEnv::test(async |env| {
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(look)).await.unwrap();
        create_map(&env, "a", "1").await;
        let wait = env.wait_for::<ConfigMap>("a", |map| value(map) == "2");
        let crash = async {
            env.clock().sleep(Duration::from_millis(100)).await;
            env.crash().await.unwrap();
            change_map(&env, "a", "2").await;
        };
        let (map, ()) = tokio::join!(wait, crash);
        assert_eq!(value(&map.unwrap()), "2");
    });
}

#[test]
fn a_crash_keeps_the_lease_and_a_stop_releases_it() {
    let election =
        |manager: ManagerBuilder| manager.leader_election(LeaderElectionConfig::new("default", "operator"));
    TestEnv::builder().manager(election).test(async |env| {
        let holder = async || {
            let leases = kube::Api::<Lease>::namespaced(env.kube_client().clone(), "default");
            let lease = leases.get("operator").await.unwrap();
            lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
        };
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(look)).await.unwrap();
        let first = holder().await;
        assert_ne!(first, "");
        env.crash().await.unwrap();
        assert_eq!(holder().await, first);

        let crashed = env.clock().now();
        env.within(Duration::from_secs(60)).restart().await.unwrap();
        let took = env.clock().now().duration_since(crashed);
        assert!(took > Duration::from_secs(5), "the lease expires first: {took:?}");
        assert_ne!(holder().await, first);
        env.stop().await.unwrap();
        assert_eq!(holder().await, "");

        let stopped = env.clock().now();
        env.restart().await.unwrap();
        assert!(env.clock().now().duration_since(stopped) < Duration::from_secs(5));
    });
}

#[test]
fn after_a_crash_another_operator_may_start_in_place_of_the_first() {
    TestEnv::test(async |env| {
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("v1").register(look))
            .await
            .unwrap();
        env.crash().await.unwrap();
        env.crash().await.unwrap();
        let error = env.start_manager().await.unwrap_err();
        assert!(matches!(error, RunError::Ended { run: 1, .. }));
        assert_eq!(
            error.to_string(),
            "run 1 of the operator has crashed; call `restart`, or `start` with an operator"
        );
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().named("v2").register(look))
            .await
            .unwrap();
        env.restart().await.unwrap();
        let controllers = env.manager().controllers();
        assert_eq!(controllers.iter().map(Controller::name).collect::<Vec<_>>(), ["v2"]);

        env.finish().await.unwrap();
        assert!(matches!(env.restart().await.unwrap_err(), RunError::Finished));
    });
}

#[test]
fn a_restart_without_an_operator_gives_a_fresh_cluster_for_controllers_that_are_built_by_hand() {
    TestEnv::test(async |env| {
        for run in 1..=3 {
            let controller = Controller::builder(&env.cluster()).for_::<ConfigMap>().build(look).unwrap();
            env.start_controllers(&controller).await.unwrap();
            let name = format!("in-{run}");
            create_map(&env, &name, "1").await;
            env.wait_until("it is reconciled", async || runs_of(&env, &name).contains(&run)).await.unwrap();
            env.restart().await.unwrap();
            assert!(!controller.is_running());
        }
    });
}

#[test]
fn reports_name_the_run_of_each_reconcile_and_how_the_last_one_ended() {
    async fn fail_at_first(ctx: Context, _: Arc<ConfigMap>) -> Result<Action> {
        if ctx.attempt() == 1 { Err(terminal("there is no cheese")) } else { Ok(Action::done()) }
    }
    TestEnv::builder().test(async |env| {
        create_map(&env, "a", "1").await;
        env.start(|manager: &Manager| manager.controller::<ConfigMap>().register(fail_at_first))
            .await
            .unwrap();
        env.clock().sleep(Duration::from_secs(1)).await;
        env.restart().await.unwrap();
        env.clock().sleep(Duration::from_secs(1)).await;
        env.crash().await.unwrap();
        let short = env.within(Duration::from_secs(1));
        let error = short.wait_for::<ConfigMap>("a", |_| false).await.unwrap_err().to_string();
        let end = &error[error.find("the operator").expect("it is down")..];
        insta::assert_snapshot!(end, @"
        the operator is not running: run 2 has crashed

        there are no events in namespace test

        last reconciles for ConfigMap test/a:
              3s ago  run 1, configmap test/a (ConfigMap initial), 0.0ns: failed for good: there is no cheese
              2s ago  run 2, configmap test/a (ConfigMap initial), 0.0ns: failed for good: there is no cheese
        ");
        let check = std::panic::AssertUnwindSafe(|| env.assert_no_failures());
        let panic = std::panic::catch_unwind(check).unwrap_err();
        insta::assert_snapshot!(panic.downcast_ref::<String>().unwrap(), @"
        2 reconciles failed:
              3s ago  run 1, configmap test/a (ConfigMap initial), 0.0ns: failed for good: there is no cheese
              2s ago  run 2, configmap test/a (ConfigMap initial), 0.0ns: failed for good: there is no cheese
        ");
    });
}
