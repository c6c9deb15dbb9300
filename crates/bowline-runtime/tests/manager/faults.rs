//! What goes wrong on one side does not stop the other.

use std::time::Duration;

use bowline_runtime::{ClusterBuilder, ManagerError, Runnable};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::world::{SECOND, World, failure};

#[test]
fn a_kind_that_may_not_be_read_delays_only_its_controller() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.gate.decide(|call| match &*call.resource {
            "secrets" => failure(403, "Forbidden", "secrets is forbidden: you may not"),
            _ => bowline_apiserver::Verdict::Proceed,
        });
        // Declared for the cache as well, for which others would wait.
        let manager = world.builder().cluster(ClusterBuilder::cached::<Secret>).build().unwrap();
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        let secrets = manager.controller::<Secret>().run(world.reconciler("secrets")).unwrap();
        let start = world.start(&manager);
        world.until("the other one reconciles", || world.record.has("maps reconciles a")).await;
        // Much longer than a controller without a manager waits.
        world.clock.sleep(Duration::from_mins(30)).await;
        assert!(!secrets.is_ready());
        let waiting: Vec<_> = secrets.waiting_for().iter().map(ToString::to_string).collect();
        assert!(waiting[0].contains("secrets is forbidden: you may not"), "{waiting:?}");
        world.gate.heal();
        manager.ready().await.unwrap();
        manager.stop();
        start.await.unwrap().unwrap();
    });
}

#[test]
fn a_limit_that_was_asked_for_ends_the_manager() {
    World::run(1, |world| async move {
        world.gate.decide(|call| match &*call.resource {
            "secrets" => failure(403, "Forbidden", "secrets is forbidden: you may not"),
            _ => bowline_apiserver::Verdict::Proceed,
        });
        let manager = world.manager();
        manager.controller::<Secret>().sync_timeout(60 * SECOND).run(world.reconciler("secrets")).unwrap();
        let error = manager.start().await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("controller secret: the controller \"secret\" could not begin within 60s"),
            "{text}"
        );
        assert!(text.contains("secrets is forbidden"), "{text}");
    });
}

#[test]
fn a_server_that_is_away_for_a_while_is_waited_for() {
    World::run(1, |world| async move {
        world.create("a").await;
        world.gate.decide(|_| bowline_apiserver::Verdict::Disconnect);
        let manager = world.replica("a");
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        world.clock.sleep(Duration::from_mins(10)).await;
        assert_eq!(world.record.lines(), [""; 0]);
        world.gate.heal();
        manager.ready().await.unwrap();
        world.until("it reconciles", || world.record.has("maps reconciles a")).await;

        // Later it answers 500 for a minute: the lease cannot be renewed, and the process is to end; without a lease it would
        // go on.
        world.gate.decide(|_| failure(500, "InternalError", "for a minute"));
        let error = start.await.unwrap().unwrap_err();
        assert!(error.is_leadership_lost(), "{error}");
    });
}

#[test]
fn without_an_election_a_minute_of_errors_ends_nothing() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.controller::<ConfigMap>().run(world.reconciler("maps")).unwrap();
        let start = world.start(&manager);
        manager.ready().await.unwrap();
        world.gate.decide(|_| failure(500, "InternalError", "for a minute"));
        world.clock.sleep(Duration::from_mins(1)).await;
        world.gate.heal();
        world.create("after").await;
        world.until("it reconciles", || world.record.has("maps reconciles after")).await;
        manager.stop();
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
        let error = manager.start().await.unwrap_err();
        assert_eq!(error.to_string(), "brittle: it panicked: it broke");
        assert_eq!(world.record.lines(), ["other begins", "other ends"]);
    });
}

#[test]
fn a_runnable_that_ends_by_itself_is_no_reason_to_stop() {
    World::run(1, |world| async move {
        let manager = world.manager();
        manager.add(Runnable::new("brief", |_| async { Ok::<_, std::io::Error>(()) })).unwrap();
        let mut start = world.start(&manager);
        manager.elected().await;
        assert!(world.clock.timeout(60 * SECOND, &mut start).await.is_err());
        manager.stop();
        start.await.unwrap().unwrap();
        assert!(matches!(manager.start().await, Err(ManagerError::AlreadyStarted)));
    });
}
