//! Informers that are started, stopped, restarted and dropped.

use std::time::Duration;

use bowline_apiserver::Verb;
use bowline_cache::{InformerError, Kind, ReflectorPhase, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::world::{Witness, World, held};

#[test]
fn changes_during_a_stop_are_delivered_after_the_start() {
    World::run(1, |world| async move {
        for name in ["deleted", "recreated", "changed", "same"] {
            world.create(name, "1").await;
        }
        let informer = world.synced().await;
        let (witness, registration) = Witness::of(&informer);
        assert!(registration.wait_synced().await);
        witness.forget();
        assert!(informer.is_running());
        informer.stop().await;
        assert!(!informer.is_running() && informer.has_synced());
        let before = held(&informer);
        world.delete("deleted").await;
        world.delete("recreated").await;
        world.create("recreated", "2").await;
        world.update("changed", "2").await;
        world.create("created", "1").await;
        world.clock.sleep(Duration::from_secs(600)).await;
        assert_eq!((held(&informer), witness.count()), (before, 0), "everything stays as it was");
        let (late, _late) = Witness::of(&informer);
        informer.start();
        world.settled(&informer).await;
        assert_eq!(
            witness.lines(),
            ["-recreated=1?", "-deleted=1?", "changed=1>2", "+created=1", "+recreated=2"]
        );
        assert_eq!(late.view(), world.truth().await);
        world.delete("same").await;
        world.until("it continues", || witness.count() == 6).await;
        assert_eq!(witness.view(), world.truth().await);
    });
}

#[test]
fn handlers_of_a_stopped_informer_get_their_waiting_events() {
    World::run(2, |world| async move {
        world.create("a", "1").await;
        let informer = world.synced().await;
        let mut subscription = informer.subscribe();
        informer.stop().await;
        assert!(subscription.next().await.is_some());
    });
}

#[test]
fn start_and_stop_may_be_called_twice() {
    World::run(3, |world| async move {
        let informer = world.informer();
        informer.stop().await;
        informer.start();
        informer.start();
        informer.wait_synced().await;
        let running = world.tasks();
        informer.start();
        assert_eq!(world.tasks(), running);
        informer.stop().await;
        informer.stop().await;
        assert_eq!(world.tasks(), 0);
    });
}

#[test]
fn a_dropped_informer_leaves_no_tasks() {
    World::run(4, |world| async move {
        let informer = world.synced().await;
        let (_witness, registration) = Witness::of(&informer);
        let mut subscription = informer.subscribe();
        let clone = informer.clone();
        drop(informer);
        world.create("a", "1").await;
        assert!(subscription.next().await.is_some(), "a clone is the same informer");
        assert!(world.tasks() > 0);
        drop(clone);
        world.clock.sleep(Duration::from_millis(1)).await;
        assert_eq!(world.tasks(), 0);
        let end = world.clock.timeout(Duration::from_secs(1), subscription.next()).await;
        assert!(end.expect("the subscription ends").is_none());
        registration.unregister().await;
    });
}

#[test]
fn a_wait_for_a_handler_ends_when_the_informer_is_dropped() {
    World::run(5, |world| async move {
        let informer = world.informer();
        let (_witness, registration) = Witness::of(&informer);
        drop(informer);
        let synced = world.clock.timeout(Duration::from_secs(1), registration.wait_synced()).await;
        assert!(!synced.expect("it is over"));
    });
}

#[test]
fn tasks_do_not_pile_up() {
    World::run(6, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let (witness, _registration) = Witness::of(&informer);
        let mut most = 0;
        for number in 0..100 {
            informer.start();
            if number % 3 > 0 {
                informer.wait_synced().await;
                world.clock.sleep(Duration::from_secs(number)).await;
            }
            most = most.max(world.tasks());
            informer.stop().await;
            assert_eq!(world.tasks(), 1, "the handler's");
        }
        assert!(most <= 3, "{most}");
        assert_eq!(witness.lines(), ["+a=1*"]);
        drop(informer);
        world.clock.sleep(Duration::from_millis(1)).await;
        assert_eq!(world.tasks(), 0);
    });
}

#[test]
fn the_phase_can_be_read() {
    World::run(7, |world| async move {
        let informer = world.informer();
        assert_eq!(informer.not_synced()[0].phase, ReflectorPhase::Stopped);
        let error = informer.wait_for_sync(Duration::from_secs(1)).await.unwrap_err();
        assert!(error.to_string().contains("stopped"), "{error}");
        informer.start();
        informer.wait_synced().await;
        assert_eq!(informer.not_synced(), []);
    });
}

#[test]
fn an_informer_needs_a_source() {
    World::run(8, |world| async move {
        let error =
            SharedInformer::<ConfigMap>::builder(&world.spawner(), Kind::typed()).build().unwrap_err();
        assert!(matches!(error, InformerError::NoSource { .. }));
    });
}

#[test]
fn a_preloaded_object_that_is_gone_is_delivered_as_deleted() {
    World::run(9, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let mut gone = crate::world::map("gone", "1");
        gone.metadata.namespace = Some("default".to_owned());
        informer.indexer().add(gone);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+gone=1*", "-gone=1?", "+a=1*"]);
    });
}

#[test]
fn a_hook_that_panics_does_not_end_the_informer() {
    World::run(61, |world| async move {
        world.create("a", "1").await;
        world.faults.on(Verb::Watch).times(2).internal_error();
        let informer = SharedInformer::builder(&world.spawner(), Kind::<ConfigMap>::typed())
            .client(world.client.clone())
            .on_error(|error| panic!("{error} was not expected"))
            .build()
            .expect("one source");
        informer.start();
        informer.wait_for_sync(Duration::from_secs(60)).await.expect("in sync");
        assert_eq!(held(&informer), world.truth().await);
    });
}
