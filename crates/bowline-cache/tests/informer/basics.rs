//! With nothing in the way.

use crate::world::{Witness, World, held, version};

#[test]
fn an_informer_holds_what_the_server_has_and_tells_what_happens() {
    World::run(1, |world| async move {
        world.create("a", "1").await;
        let informer = world.informer();
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.synced().await);
        assert_eq!(witness.told(), ["+a=1*"]);
        world.create("b", "1").await;
        world.update("a", "2").await;
        world.delete("b").await;
        world.until("all is told", || witness.count() == 4).await;
        assert_eq!(witness.told(), ["+a=1*", "+b=1", "a=1>2", "-b=1"]);
        assert_eq!(held(&informer), world.truth().await);
        assert_eq!(witness.view(), world.truth().await);
    });
}

#[test]
fn who_waits_for_a_version_is_told_when_it_is_there() {
    World::run(1, |world| async move {
        let informer = world.synced().await;
        let created = world.create("a", "1").await;
        let number: u64 = version(&created).1.parse().unwrap();
        let key = bowline_cache::object_key(&created);
        while !informer.has_reached(&key, number) {
            let changed = informer.changed();
            if !informer.has_reached(&key, number) {
                world.clock.timeout(std::time::Duration::from_secs(60), changed).await.expect("it is told");
            }
        }
        assert_eq!(held(&informer), world.truth().await);
        assert!(!informer.has_reached(&key, number + 1000));
    });
}

#[test]
fn a_change_that_came_before_anybody_waited_is_told_all_the_same() {
    World::run(1, |world| async move {
        let informer = world.synced().await;
        let changed = informer.changed();
        world.create("a", "1").await;
        world.until("it is there", || held(&informer).len() == 1).await;
        world.clock.timeout(std::time::Duration::from_secs(1), changed).await.expect("it was told");
    });
}
