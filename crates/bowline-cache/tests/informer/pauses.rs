//! Delays between the requests of an informer to a failing server.

use std::time::Duration;

use futures::channel::mpsc::unbounded;

use crate::answers::beginning;
use crate::script::{Answer, Asked, Lab, Script, error, list, object};

/// Delays between the requests, in milliseconds.
fn waits(script: &Script) -> Vec<u128> {
    script.times().windows(2).map(|pair| pair[1].duration_since(pair[0]).as_millis()).collect()
}

/// Checks that delays begin short, grow and stay below a limit.
fn grow_and_are_bounded(waits: &[u128]) {
    assert!(waits.len() >= 10, "{waits:?}");
    assert!((800..=1600).contains(&waits[0]), "{waits:?}");
    for (number, wait) in waits.iter().enumerate() {
        let least = (800_u128 << number.min(20)).min(30_000);
        assert!((least..=2 * least + 1).contains(wait), "wait {number} of {waits:?}");
    }
}

#[test]
fn failed_lists_are_retried_less_and_less_often() {
    Lab::run(23, |lab| async move {
        let script = lab.script(|_, _| Answer::Refused(500, "InternalError", "no"));
        let informer = lab.informer(&script);
        informer.start();
        lab.sleep(Duration::from_secs(600)).await;
        grow_and_are_bounded(&waits(&script));
    });
}

#[test]
fn failed_watches_are_retried_less_and_less_often() {
    Lab::run(24, |lab| async move {
        let script = lab.script(|number, _| match number {
            0 => Answer::Open([beginning(), vec![error(500, "InternalError")]].concat()),
            _ => Answer::Unreachable,
        });
        let informer = lab.informer(&script);
        informer.start();
        lab.sleep(Duration::from_secs(600)).await;
        grow_and_are_bounded(&waits(&script));
    });
}

#[test]
fn watches_that_end_at_once_are_opened_less_and_less_often() {
    Lab::run(25, |lab| async move {
        let script = lab.script(|number, _| match number {
            0 => Answer::Ended(beginning()),
            _ => Answer::Ended(Vec::new()),
        });
        let informer = lab.informer(&script);
        informer.start();
        lab.sleep(Duration::from_secs(600)).await;
        grow_and_are_bounded(&waits(&script));
        assert_eq!(informer.stats().lists, 1);
    });
}

#[test]
fn versions_that_always_expire_do_not_cause_a_storm_of_lists() {
    for streaming in [true, false] {
        Lab::run(26, |lab| async move {
            let script = lab.script(|_, asked| match asked {
                Asked::Stream { .. } => Answer::Open([beginning(), vec![error(410, "Expired")]].concat()),
                Asked::List { .. } => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
                Asked::Watch { .. } => Answer::Refused(410, "Expired", "too old"),
            });
            let informer = lab
                .builder()
                .streaming_lists(streaming)
                .source(bowline_cache::Namespaces::All, script.clone())
                .build()
                .unwrap();
            informer.start();
            let soon = lab
                .clock
                .timeout(Duration::from_secs(300), lab.until("a storm", || script.asked().len() > 60));
            assert!(soon.await.is_err(), "{} requests", script.asked().len());
            assert!(informer.stats().lists > 5, "but it continues");
        });
    }
}

#[test]
fn a_watch_that_ended_normally_is_reopened_at_once() {
    Lab::run(27, |lab| async move {
        let (sender, receiver) = unbounded();
        let mut receiver = Some(receiver);
        let script = lab.script(move |_, _| receiver.take().map_or(Answer::Open(Vec::new()), Answer::Live));
        let informer = lab.informer(&script);
        informer.start();
        sender.unbounded_send(beginning().concat()).unwrap();
        informer.wait_synced().await;
        lab.sleep(Duration::from_secs(200)).await;
        let before = lab.clock.now();
        drop(sender);
        lab.until("it asks again", || script.asked().len() == 2).await;
        assert!(script.times()[1].duration_since(before) < Duration::from_millis(10));
        assert_eq!(script.asked()[1], "watch@5");
        assert_eq!(informer.stats().failures, 0);
    });
}
