//! Faults of single events.

use super::*;

#[test]
fn a_lost_event_is_skipped_and_the_watch_goes_on() {
    World::run(1, async |world| {
        let lost = world.faults.events().resource("configmaps").name("b").event_type("ADDED").lose();
        let mut watch = world.watch("").await;
        for name in ["a", "b", "c"] {
            world.create(name).await;
        }
        world.touch("b", "1").await;
        for expected in ["ADDED a", "ADDED c", "MODIFIED b"] {
            assert_eq!(world.next(&mut watch, SECOND).await, event(expected));
        }
        assert_eq!(lost.applied(), 1);
        assert_eq!(world.names().await, ["a", "b", "c"]);
    });
}

#[test]
fn an_event_can_be_late_and_so_is_what_follows_it() {
    World::run(1, async |world| {
        world.faults.events().name("a").times(1).delay(10 * SECOND);
        let mut watch = world.watch("").await;
        world.create("a").await;
        world.create("b").await;
        assert_eq!(world.next(&mut watch, 9 * SECOND).await, Next::Nothing);
        assert_eq!(world.next(&mut watch, 2 * SECOND).await, event("ADDED a"));
        assert_eq!(world.next(&mut watch, SECOND).await, event("ADDED b"));
        assert_eq!(world.seconds(), 10);
    });
}

#[test]
fn events_can_be_held() {
    World::run(1, async |world| {
        let gate = world.faults.events().kind("ConfigMap").namespace("default").hold();
        let mut watch = world.watch("timeoutSeconds=5").await;
        world.create("a").await;
        let client = async { world.next(&mut watch, 60 * SECOND).await };
        let test = async {
            gate.wait_reached().await;
            // The time of the watch passes.
            world.clock.sleep(30 * SECOND).await;
            gate.release();
        };
        assert_eq!(futures::join!(client, test).0, event("ADDED a"));
        assert_eq!(world.next(&mut watch, SECOND).await, Next::End);
    });
}

#[test]
fn an_event_can_cut_or_end_its_watch() {
    World::run(1, async |world| {
        for (is_cut, end) in [(true, Next::Cut), (false, Next::End)] {
            let events = world.faults.events().name("a").skip(1).times(1);
            let rule = if is_cut { events.cut() } else { events.close() };
            let mut watch = world.watch("").await;
            world.create("a").await;
            world.delete("a").await;
            assert_eq!(world.next(&mut watch, SECOND).await, event("ADDED a"));
            assert_eq!(world.next(&mut watch, SECOND).await, end);
            rule.assert_used();
        }
    });
}

#[test]
fn a_watch_with_more_to_send_than_time_ends_in_time() {
    World::run(1, async |world| {
        world.faults.events().delay(SECOND);
        let mut watch = world.watch("timeoutSeconds=10").await;
        for number in 0..30 {
            world.create(&format!("a{number}")).await;
        }
        let mut events = 0;
        while watch.next().await.is_some() {
            events += 1;
        }
        assert_eq!((events, world.seconds()), (10, 10));
    });
}
