//! Faults of whole watches.

use bowline_apiserver::Verb;

use super::*;

#[test]
fn open_watches_end_at_once_by_a_cut_in_order_or_expired() {
    World::run(1, async |world| {
        for (how, end) in [("cut", Next::Cut), ("close", Next::End), ("expire", event("ERROR 410"))] {
            let (mut one, mut other) = (world.watch("").await, world.watch("").await);
            // Both are idle.
            assert_eq!(world.next(&mut one, SECOND).await, Next::Nothing);
            assert_eq!(world.next(&mut other, SECOND).await, Next::Nothing);
            let begin = world.seconds();
            let client = async { world.next(&mut one, 60 * SECOND).await };
            let test = async {
                world.clock.sleep(SECOND).await;
                assert_eq!(world.faults.watches().resource("secrets").cut(), 0);
                let selected = world.faults.watches().resource("configmaps").times(1);
                match how {
                    "cut" => selected.cut(),
                    "close" => selected.close(),
                    _ => selected.expire(),
                }
            };
            assert_eq!(futures::join!(client, test), (end, 1), "{how}");
            assert_eq!(world.seconds() - begin, 1, "{how}");
            world.create(how).await;
            assert_eq!(world.next(&mut other, SECOND).await, event(&format!("ADDED {how}")));
            drop((one, other));
            assert_eq!(world.faults.watches().cut(), 0, "no watch is left open");
            world.faults.assert_all_used();
        }
    });
}

#[test]
fn a_silent_watch_goes_on_later_with_the_events_it_missed() {
    World::run(1, async |world| {
        let mut watch = world.watch("timeoutSeconds=60").await;
        let silence = world.faults.watches().resource("configmaps").silence();
        world.create("a").await;
        assert_eq!(world.next(&mut watch, 30 * SECOND).await, Next::Nothing);
        let client = async { world.next(&mut watch, 10 * SECOND).await };
        let test = async {
            world.clock.sleep(SECOND).await;
            silence.remove();
        };
        assert_eq!(futures::join!(client, test).0, event("ADDED a"));
        assert_eq!(world.seconds(), 31);
        assert_eq!((silence.applied(), silence.matched()), (1, 1));
    });
}

#[test]
fn a_silent_watch_stays_open_beyond_its_time() {
    World::run(1, async |world| {
        let mut watch = world.watch("timeoutSeconds=60&allowWatchBookmarks=true").await;
        let silence = world.faults.watches().silence();
        assert_eq!(world.next(&mut watch, 3600 * SECOND).await, Next::Nothing);
        silence.remove();
        let end = async {
            while let Some(event) = watch.next().await {
                assert_eq!(event, Ok("BOOKMARK ".to_owned()));
            }
        };
        assert_eq!(world.clock.timeout(SECOND, end).await, Ok(()), "its time is over");
    });
}

#[test]
fn a_watch_that_begins_later_is_silent_too_and_can_be_cut() {
    World::run(1, async |world| {
        let silence = world.faults.watches().times(1).silence();
        let mut silent = world.watch("").await;
        let mut other = world.watch("").await;
        world.create("a").await;
        assert_eq!(world.next(&mut silent, SECOND).await, Next::Nothing);
        assert_eq!(world.next(&mut other, SECOND).await, event("ADDED a"));
        silence.assert_used();
        assert_eq!(world.faults.watches().times(1).cut(), 1);
        assert_eq!(world.next(&mut silent, SECOND).await, Next::Cut);
        let watches = world.faults.requests().verb(Verb::Watch).list();
        assert_eq!(watches[0].faults, ["silence", "cut watch"]);
    });
}
