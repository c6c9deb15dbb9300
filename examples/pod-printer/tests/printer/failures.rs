//! Keys that fail: retries, and their end.

use crate::world::World;

const BAD: &str = "Sync/Add/Update for Pod bad";

#[test]
fn a_failing_key_is_tried_again_five_times_ever_later_and_then_dropped_with_a_report() {
    World::run(|world| async move {
        world.paper.prints_if(|line| line != BAD);
        let (_stop, _running) = world.start();
        world.create("bad").await;
        world.settle().await;
        assert_eq!(world.paper.delays(BAD), [5, 10, 20, 40, 80]);
        let logged = world.logged();
        assert_eq!(logged.matches("failed, will try again").count(), 5, "{logged}");
        let report = logged.lines().filter(|line| line.contains("ERROR")).collect::<Vec<_>>();
        assert_eq!(
            report,
            [
                r#"ERROR dropped out of the queue key="default/bad" attempts=6 error=cannot print a line: no ink"#
            ]
        );
        world.clock.sleep(std::time::Duration::from_secs(3600)).await;
        assert_eq!(world.paper.delays(BAD), [] as [u128; 0], "it is not tried again");

        // The next event is a new reason, with all its retries.
        world.change("bad").await;
        world.settle().await;
        assert_eq!(world.paper.delays(BAD), [5, 10, 20, 40, 80]);
    });
}

#[test]
fn other_keys_do_not_feel_a_failing_one() {
    World::run(|world| async move {
        world.paper.prints_if(|line| line != BAD);
        let (_stop, _running) = world.start();
        world.create("bad").await;
        world.clock.sleep(std::time::Duration::from_millis(40)).await;
        world.create("good").await;
        world.clock.sleep(std::time::Duration::from_millis(20)).await;
        assert_eq!(world.paper.printed(), ["Sync/Add/Update for Pod good"]);
        assert!(!world.logged().contains("ERROR"), "the other one is still being tried");
        world.settle().await;
        assert_eq!(world.paper.delays(BAD).len(), 5);
    });
}

#[test]
fn success_forgets_what_failed_before() {
    World::run(|world| async move {
        let mut failures = 3;
        world.paper.prints_if(move |_| {
            failures -= i32::from(failures > 0);
            failures == 0
        });
        let (_stop, _running) = world.start();
        world.create("bad").await;
        world.settle().await;
        assert_eq!(world.paper.printed(), [BAD]);
        assert_eq!(world.paper.delays(BAD), [5, 10], "two failures and a success");
        assert_eq!(world.controller.queue().num_requeues(&"default/bad".to_owned()), 0);

        world.paper.prints_if(|_| false);
        world.change("bad").await;
        world.settle().await;
        assert_eq!(world.paper.delays(BAD), [5, 10, 20, 40, 80], "its next failure is a first one");
    });
}

#[test]
fn a_malformed_key_is_reported_and_not_tried_again() {
    World::run(|world| async move {
        let (_stop, _running) = world.start();
        world.settle().await;
        world.logged();
        world.controller.queue().add("a/b/c".to_owned());
        world.controller.queue().add("default/good".to_owned());
        world.settle().await;
        assert_eq!(
            world.logged(),
            "ERROR dropped out of the queue key=\"a/b/c\" attempts=1 error=unexpected key format: \"a/b/c\"\n"
        );
        assert_eq!(world.paper.printed(), ["Pod default/good does not exist anymore"]);
        assert_eq!(world.controller.queue().num_requeues(&"a/b/c".to_owned()), 0);
    });
}
