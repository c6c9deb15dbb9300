//! Informers without faults.

use crate::world::{Witness, World, held, version};

#[test]
fn an_informer_has_the_servers_objects_and_delivers_changes() {
    World::run(1, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+a=1*"]);
        world.create("b", "1").await;
        world.update("a", "2").await;
        world.delete("b").await;
        world.until("all events arrive", || witness.count() == 4).await;
        assert_eq!(witness.lines(), ["+a=1*", "+b=1", "a=1>2", "-b=1"]);
        assert_eq!(held(&informer), world.truth().await);
        assert_eq!(witness.view(), world.truth().await);
    });
}

#[test]
fn a_wait_for_a_version_ends_when_it_is_reached() {
    World::run(1, |world| async move {
        let informer = world.synced().await;
        let created = world.create("a", "1").await;
        let number: u64 = version(&created).1.parse().unwrap();
        let key = bowline_cache::object_key(&created);
        while !informer.has_reached(&key, number) {
            let changed = informer.changed();
            if !informer.has_reached(&key, number) {
                world
                    .clock
                    .timeout(std::time::Duration::from_secs(60), changed)
                    .await
                    .expect("the event arrives");
            }
        }
        assert_eq!(held(&informer), world.truth().await);
        assert!(!informer.has_reached(&key, number + 1000));
    });
}

#[test]
fn a_change_before_the_first_poll_ends_the_wait() {
    World::run(1, |world| async move {
        let informer = world.synced().await;
        let changed = informer.changed();
        world.create("a", "1").await;
        world.until("it is there", || held(&informer).len() == 1).await;
        world.clock.timeout(std::time::Duration::from_secs(1), changed).await.expect("the change was seen");
    });
}
