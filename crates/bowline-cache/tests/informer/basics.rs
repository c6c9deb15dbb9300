//! With nothing in the way.

use crate::world::{Witness, World, held};

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
