//! A failure of one part does not stop others.

use std::time::Duration;

use bowline_runtime::debug::DebugPage;
use bowline_runtime::{Change, ClusterBuilder, ManagerError, Runnable};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};

use crate::world::{SECOND, World, failure};

#[test]
fn a_forbidden_kind_delays_only_its_controller() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.faults.all().resource("secrets").fail(failure(
            403,
            "Forbidden",
            "secrets is forbidden: you may not",
        ));
        // Declared for the cache as well, for which others would wait.
        let manager = world.builder().cluster(ClusterBuilder::cached::<Secret>).build().unwrap();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let secrets = manager.controller::<Secret>().register(world.reconciler("secrets")).unwrap();
        let start = world.start(&manager);
        world.until("the other one reconciles", || world.record.has("maps reconciles a")).await;
        // Much longer than the sync timeout of a controller without a manager.
        world.clock.sleep(Duration::from_mins(30)).await;
        assert!(!secrets.is_ready());
        let waiting: Vec<_> = secrets.waiting_for().iter().map(ToString::to_string).collect();
        assert!(waiting[0].contains("secrets is forbidden: you may not"), "{waiting:?}");
        world.faults.remove_all();
        manager.wait_ready().await.unwrap();
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn an_explicit_sync_timeout_ends_the_manager() {
    World::run(1, |world| async move {
        world.faults.all().resource("secrets").fail(failure(
            403,
            "Forbidden",
            "secrets is forbidden: you may not",
        ));
        let manager = world.manager();
        manager
            .controller::<Secret>()
            .sync_timeout(60 * SECOND)
            .register(world.reconciler("secrets"))
            .unwrap();
        let error = manager.run().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("controller secret: the controller \"secret\" could not begin within 60s"),
            "{text}"
        );
        assert!(text.contains("secrets is forbidden"), "{text}");
    });
}

#[test]
fn a_temporary_outage_of_the_server_is_tolerated() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.faults.all().lose_request();
        let manager = world.replica("a");
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(world.record.lines(), [""; 0]);
        world.faults.remove_all();
        manager.wait_ready().await.unwrap();
        world.until("it reconciles", || world.record.has("maps reconciles a")).await;

        // Later it answers 500 for a minute: the lease cannot be renewed, and the process is to end; without a lease it would
        // go on.
        world.faults.all().fail(failure(500, "InternalError", "for a minute"));
        let error = start.await.unwrap().unwrap_err();
        assert!(error.is_leadership_lost(), "{error}");
    });
}

#[test]
fn without_an_election_a_minute_of_errors_ends_nothing() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.controller::<ConfigMap>().register(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.faults.all().fail(failure(500, "InternalError", "for a minute"));
        world.clock.sleep(Duration::from_mins(1)).await;
        world.faults.remove_all();
        world.create("after").await;
        world.until("it reconciles", || world.record.has("maps reconciles after")).await;
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn a_runnable_that_panics_stops_the_manager() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(world.noting("other").on_every_replica()).unwrap();
        let clock = world.clock.clone();
        manager
            .add(Runnable::new("brittle", move |_| async move {
                clock.sleep(SECOND).await;
                assert!(!clock.is_simulated(), "it broke");
                Ok::<_, std::io::Error>(())
            }))
            .unwrap();
        let error = manager.run().await.unwrap_err();
        assert_eq!(error.to_string(), "brittle: it panicked: it broke");
        assert_eq!(world.record.lines(), ["other begins", "other ends"]);
    });
}

#[test]
fn a_runnable_that_ends_does_not_stop_the_manager() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(Runnable::new("brief", |_| async { Ok::<_, std::io::Error>(()) })).unwrap();
        let mut start = world.start(&manager);
        manager.wait_elected().await;
        assert!(world.clock.timeout(60 * SECOND, &mut start).await.is_err());
        manager.request_stop();
        start.await.unwrap().unwrap();
        assert!(matches!(manager.run().await, Err(ManagerError::AlreadyStarted)));
    });
}

#[test]
fn a_change_that_makes_a_predicate_panic_every_time_is_named_by_readiness_and_the_debug_page() {
    World::run(40, |world| async move {
        world.create("a").await;
        world.create("poison").await;
        let manager = world.manager();
        let builder = manager.controller::<ConfigMap>().for_filter(|change: &Change<'_, ConfigMap>| {
            let is_poison = change.meta().name.as_deref() == Some("poison");
            let is_good = change.object().data.is_some();
            assert!(!is_poison || is_good, "on purpose");
            true
        });
        let controller = builder.register(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        manager.wait_ready().await.unwrap();
        world.until("the other is reconciled", || world.record.has("maps reconciles a")).await;
        assert!(manager.readiness().failing(&world.clock).await.is_empty(), "it is still tried");
        world.clock.sleep(Duration::from_mins(5)).await;
        let failing = manager.readiness().failing(&world.clock).await;
        let [(check, reason)] = &*failing else { panic!("{failing:?}") };
        assert_eq!(check, "controller-configmap-changes");
        let reason = reason.to_string();
        let begin = "the controller \"configmap\" cannot handle changes of ConfigMap default/poison (";
        assert!(reason.starts_with(begin) && reason.ends_with(" panicked 10 times)"), "{reason}");
        assert!(reason.contains("faults::a_change_that_makes_a_predicate_panic"), "{reason}");
        let (clock, one) = (world.clock.clone(), controller.clone());
        let report = DebugPage::new(&clock).controllers(move || vec![one.clone()]).report();
        assert_eq!(report.attention[0].subject, "controller configmap");
        assert!(report.attention[0].problem.contains("ConfigMap default/poison ("), "{report:?}");

        let patch = serde_json::json!({"data": {"is": "good"}});
        world.maps().patch("poison", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        world.until("it is reconciled", || world.record.has("maps reconciles poison")).await;
        assert!(manager.readiness().failing(&world.clock).await.is_empty());
        manager.request_stop();
        start.await.unwrap().unwrap();
    });
}
