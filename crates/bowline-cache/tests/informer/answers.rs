//! What a server, or what stands before it, may answer: what is asked next, when, and what becomes of the objects.

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc::unbounded;

use crate::script::{
    Answer, Asked, Lab, Script, added, bookmark, deleted, error, initial_end, line, list, modified, object,
    page, pairs, raw, values,
};
use crate::world::Witness;

/// One object at version 5.
pub(crate) fn beginning() -> Vec<String> {
    vec![added("a", 1, 5, "1"), initial_end(5)]
}

/// What happens to objects while they are streamed, up to the end of the list.
fn meanwhile() -> [String; 7] {
    [
        modified("changed", 1, 5, "2"),
        deleted("gone", 1, 6, "1"),
        // It left what is selected, and came back.
        deleted("back", 1, 7, "1"),
        added("back", 1, 8, "2"),
        deleted("recreated", 1, 9, "1"),
        added("recreated", 2, 10, "2"),
        initial_end(10),
    ]
}

/// Answers in a row, and then watches that stay open.
fn in_a_row(lab: &Lab, answers: Vec<Answer>) -> Script {
    let mut answers = answers.into_iter();
    lab.script(move |_, _| answers.next().unwrap_or_else(|| Answer::Open(Vec::new())))
}

#[test]
fn a_streaming_list_goes_on_as_a_watch() {
    Lab::run(1, |lab| async move {
        let all =
            vec![added("a", 1, 5, "1"), initial_end(7) + &modified("a", 1, 8, "2"), added("b", 1, 9, "1")];
        let script = in_a_row(&lab, vec![Answer::Open(all)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all is told", || witness.count() == 3).await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2", "+b=1"]);
        assert_eq!(script.asked(), ["stream"]);
        assert_eq!(informer.last_sync_resource_version().as_deref(), Some("9"));
    });
}

#[test]
fn frames_may_be_cut_into_any_pieces() {
    Lab::run(2, |lab| async move {
        let text = beginning().concat() + &modified("a", 1, 6, "2") + &deleted("a", 1, 7, "2") + &bookmark(9);
        let bytes = text.chars().map(String::from).collect();
        let script = in_a_row(&lab, vec![Answer::Open(bytes)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("the bookmark came", || informer.last_sync_resource_version().as_deref() == Some("9"))
            .await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2", "-a=2"]);
    });
}

#[test]
fn what_changes_while_a_list_is_streamed_is_part_of_it() {
    Lab::run(3, |lab| async move {
        let names = ["changed", "gone", "back", "recreated"];
        let all = names.map(|name| added(name, 1, 1, "1")).into_iter().chain(meanwhile()).collect();
        let script = in_a_row(&lab, vec![Answer::Open(all)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.synced().await);
        assert_eq!(values(&informer), pairs([("changed", "2"), ("back", "2"), ("recreated", "2")]));
        assert_eq!(witness.view().len(), 3, "{:?}", witness.told());
    });
}

#[test]
fn what_changes_while_everything_is_streamed_again_is_part_of_it() {
    Lab::run(30, |lab| async move {
        let known = || {
            let names = ["same", "changed", "gone", "back", "recreated"];
            names.map(|name| added(name, 1, 1, "1")).to_vec()
        };
        let mut first = known();
        first.extend([initial_end(1), error(410, "Expired")]);
        let mut again = known();
        again.extend(meanwhile());
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(again)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.synced().await);
        let before = informer.indexer().get_in("default", "same");
        lab.until("all is told", || witness.count() == 10).await;
        let now = [("same", "1"), ("changed", "2"), ("back", "2"), ("recreated", "2")];
        assert_eq!(values(&informer), pairs(now));
        let mut told = witness.told().split_off(5);
        told[2..].sort_unstable();
        assert_eq!(told, ["-recreated=1?", "-gone=1?", "+recreated=2", "back=1>2", "changed=1>2"]);
        let after = informer.indexer().get_in("default", "same");
        assert!(before.zip(after).is_some_and(|(before, after)| Arc::ptr_eq(&before, &after)));
    });
}

#[test]
fn what_somebody_else_writes_while_everything_is_listed_again_does_not_stay() {
    Lab::run(31, |lab| async move {
        let (sender, receiver) = unbounded();
        let first = vec![added("a", 1, 5, "1"), added("b", 1, 6, "1"), initial_end(6), error(410, "Expired")];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Live(receiver)]);
        let informer = lab.informer(&script);
        informer.start();
        informer.synced().await;
        for name in ["a", "b"] {
            sender.unbounded_send(added(name, 1, if name == "a" { 5 } else { 6 }, "1")).unwrap();
        }
        lab.until("it is listed again", || script.asked().len() == 2).await;
        lab.sleep(Duration::from_secs(1)).await;
        let stranger = serde_json::from_str(&object("c", 1, 1, "1")).unwrap();
        informer.indexer().add(stranger);
        informer.indexer().delete(&"default/b".parse().unwrap());
        sender.unbounded_send(initial_end(7)).unwrap();
        assert_eq!(values(&informer), pairs([("a", "1"), ("c", "1")]));
        lab.until("both are undone", || values(&informer) == pairs([("a", "1"), ("b", "1")])).await;
    });
}

#[test]
fn a_server_that_is_behind_does_not_turn_time_back() {
    Lab::run(4, |lab| async move {
        // It begins with what it remembers, which is older than what was asked for, and then catches up.
        let behind = vec![added("a", 1, 5, "1"), modified("a", 1, 8, "2"), initial_end(8)];
        let first = vec![added("a", 1, 8, "2"), initial_end(8), error(410, "Expired")];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(behind)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.synced().await);
        lab.until("it is listed again", || informer.stats().lists == 2).await;
        lab.sleep(Duration::from_secs(5)).await;
        assert_eq!(script.asked(), ["stream", "stream@8"]);
        assert_eq!(values(&informer), pairs([("a", "2")]));
        assert_eq!(witness.told(), ["+a=2*"]);
    });
}

#[test]
fn frames_that_come_twice_or_again_are_told_once() {
    Lab::run(5, |lab| async move {
        let replayed = vec![
            added("a", 1, 5, "1"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 7, "3"),
            // All over again.
            added("a", 1, 5, "1"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 7, "3"),
            deleted("a", 1, 8, "3"),
            deleted("a", 1, 8, "3"),
            added("a", 2, 9, "4"),
            // Of the one before.
            modified("a", 1, 7, "3"),
            deleted("a", 1, 8, "3"),
            bookmark(20),
        ];
        let script = in_a_row(&lab, vec![Answer::Open([beginning(), replayed].concat())]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("the bookmark came", || informer.last_sync_resource_version().as_deref() == Some("20"))
            .await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2", "a=2>3", "-a=3", "+a=4"]);
    });
}

#[test]
fn a_replayed_departure_does_not_take_away_what_came_back() {
    Lab::run(51, |lab| async move {
        let (bad, good) = (raw("a", 1, 6, "5"), object("a", 2, 12, "3"));
        let replayed = vec![
            // It had left what is selected before, and is back as it is known; both in one piece.
            [deleted("a", 1, 4, "0"), added("a", 1, 5, "1")].concat(),
            deleted("a", 1, 4, "0"),
            deleted("a", 1, 11, "1"),
            line("ADDED", &good),
            // Of its predecessor, which cannot be read.
            line("DELETED", &bad),
            bookmark(20),
        ];
        let script = in_a_row(&lab, vec![Answer::Open([beginning(), replayed].concat())]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("the bookmark came", || informer.last_sync_resource_version().as_deref() == Some("20"))
            .await;
        assert_eq!(witness.told(), ["+a=1*", "-a=1", "+a=3"]);
        assert_eq!(values(&informer), pairs([("a", "3")]));
    });
}

#[test]
fn what_is_listed_twice_is_told_once_as_it_was_listed_last() {
    Lab::run(52, |lab| async move {
        let all = vec![added("a", 1, 5, "1"), added("b", 1, 4, "1"), added("a", 1, 6, "2"), initial_end(6)];
        let script = in_a_row(&lab, vec![Answer::Open(all)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.synced().await);
        assert_eq!(witness.told(), ["+b=1*", "+a=2*"]);
    });
}

#[test]
fn half_a_line_is_nothing() {
    Lab::run(6, |lab| async move {
        let half = &modified("a", 1, 6, "2")[..60];
        let first = [beginning(), vec![half.to_owned()]].concat();
        let script = in_a_row(&lab, vec![Answer::Cut(first), Answer::Open(vec![modified("a", 1, 6, "2")])]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all is told", || witness.count() == 2).await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2"]);
        assert_eq!(script.asked(), ["stream", "watch@5"]);
    });
}

#[test]
fn what_came_before_a_line_that_makes_no_sense_counts() {
    for nonsense in [
        "garbage\n".to_owned(),
        line("EXPLODED", &object("a", 1, 7, "3")),
        "{\"type\":\"ADDED\"}\n".to_owned(),
    ] {
        Lab::run(7, |lab| async move {
            let first = [beginning(), vec![modified("a", 1, 6, "2") + &nonsense]].concat();
            let then = vec![modified("a", 1, 7, "3")];
            let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(then)]);
            let informer = lab.informer(&script);
            let (witness, _registration) = Witness::of(&informer);
            informer.start();
            lab.until("all is told", || witness.count() == 3).await;
            assert_eq!(witness.told(), ["+a=1*", "a=1>2", "a=2>3"]);
            assert_eq!(script.asked(), ["stream", "watch@6"]);
        });
    }
}

#[test]
fn a_place_that_no_watch_gets_past_is_left_by_a_list() {
    Lab::run(8, |lab| async move {
        let script = lab.script(|number, asked| match (number, asked) {
            (0, _) => Answer::Open(beginning()),
            (_, Asked::Stream { .. }) => Answer::Open(vec![added("a", 1, 9, "2"), initial_end(9)]),
            _ => Answer::Open(vec!["garbage\n".to_owned()]),
        });
        let informer = lab.informer(&script);
        informer.start();
        informer.synced().await;
        // The first watch is still open, and quiet; it takes a while to be given up.
        lab.until("it is listed again", || informer.stats().lists == 2).await;
        lab.sleep(Duration::from_secs(1)).await;
        assert_eq!(values(&informer), pairs([("a", "2")]));
        assert!(script.asked().len() <= 5, "{:?}", script.asked());
    });
}

#[test]
fn an_endless_line_is_given_up() {
    Lab::run(9, |lab| async move {
        let piece = "x".repeat(1024 * 1024);
        let first = [beginning(), vec![piece; 18]].concat();
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(vec![modified("a", 1, 6, "2")])]);
        let informer = lab.informer(&script);
        informer.start();
        lab.until("it goes on", || values(&informer) == pairs([("a", "2")])).await;
        assert_eq!(script.asked(), ["stream", "watch@5"]);
    });
}

#[test]
fn a_watch_that_says_410_is_followed_by_a_list_at_what_is_known() {
    Lab::run(10, |lab| async move {
        let first = [beginning(), vec![modified("a", 1, 6, "2"), error(410, "Expired")]].concat();
        let again = vec![added("a", 1, 8, "3"), initial_end(9)];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(again)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all is told", || witness.count() == 3).await;
        assert_eq!(witness.told(), ["+a=1*", "a=1>2", "a=2>3"]);
        assert_eq!(script.asked(), ["stream", "stream@6"]);
    });
}

#[test]
fn an_error_that_comes_along_with_the_end_of_a_list_does_not_undo_the_list() {
    for (code, then) in [(410, "stream@5"), (500, "watch@5")] {
        Lab::run(28, |lab| async move {
            let first = beginning().concat() + &error(code, "AsItIs");
            let script = in_a_row(&lab, vec![Answer::Open(vec![first]), Answer::Open(vec![initial_end(9)])]);
            let informer = lab.informer(&script);
            informer.start();
            lab.until("it asks again", || script.asked().len() == 2).await;
            assert_eq!(script.asked(), ["stream", then]);
            assert!(informer.has_synced());
            assert!(informer.stats().lists >= 1, "it was listed all the same");
        });
    }
}

#[test]
fn a_watch_that_says_anything_else_is_opened_again() {
    for (code, reason) in [(500, "InternalError"), (429, "TooManyRequests"), (504, "Timeout")] {
        Lab::run(11, |lab| async move {
            let first = [beginning(), vec![modified("a", 1, 6, "2"), error(code, reason)]].concat();
            let script = in_a_row(&lab, vec![Answer::Open(first)]);
            let informer = lab.informer(&script);
            informer.start();
            informer.synced().await;
            lab.until("it asks again", || script.asked().len() == 2).await;
            assert_eq!(script.asked(), ["stream", "watch@6"]);
        });
    }
}

#[test]
fn nobody_there_is_no_reason_to_list() {
    Lab::run(12, |lab| async move {
        let script = lab.script(|number, _| match number {
            0 => Answer::Ended(beginning()),
            1..5 => Answer::Unreachable,
            5..8 => Answer::Refused(429, "TooManyRequests", "slow down"),
            _ => Answer::Open(vec![modified("a", 1, 6, "2")]),
        });
        let informer = lab.informer(&script);
        informer.start();
        lab.until("it goes on", || values(&informer) == pairs([("a", "2")])).await;
        let asked = script.asked();
        assert_eq!(asked.len(), 9);
        assert!(asked[1..].iter().all(|asked| asked == "watch@5"), "{asked:?}");
    });
}

#[test]
fn a_watch_that_is_refused_for_what_it_asks_is_not_asked_for_ever() {
    for code in [400, 403, 404, 410, 422] {
        Lab::run(13, |lab| async move {
            let script = lab.script(move |_, asked| match asked {
                Asked::Watch { version: Some(version) } if version == "5" => {
                    Answer::Refused(code, "BadRequest", "not this version")
                }
                Asked::Watch { .. } => Answer::Open(Vec::new()),
                Asked::List { version: None, .. } | Asked::Stream { version: None } => {
                    Answer::Ended(beginning())
                }
                _ => Answer::Ended(vec![added("a", 1, 7, "2"), initial_end(7)]),
            });
            let informer = lab.informer(&script);
            informer.start();
            lab.until("it lists again", || values(&informer) == pairs([("a", "2")])).await;
        });
    }
}

#[test]
fn a_list_that_is_refused_as_a_stream_is_asked_for_whole() {
    for code in [400, 403, 404, 405, 415, 422] {
        Lab::run(14, |lab| async move {
            let all = list(5, &[object("a", 1, 5, "1")]);
            let script =
                in_a_row(&lab, vec![Answer::Refused(code, "Invalid", "no"), Answer::Ended(vec![all])]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_for_sync(Duration::from_millis(1)).await.unwrap();
            lab.until("it watches", || script.asked().len() == 3).await;
            assert_eq!(script.asked(), ["stream", "list@0", "watch@5"]);
            assert_eq!(values(&informer), pairs([("a", "1")]));
            // A server that is too old for streams does nothing wrong; one that forbids or has nothing does.
            assert_eq!(informer.stats().failures, u64::from(matches!(code, 403 | 404)));
        });
    }
}

#[test]
fn a_busy_server_is_asked_for_a_stream_again() {
    for code in [429, 500, 503] {
        Lab::run(15, |lab| async move {
            let script = in_a_row(&lab, vec![Answer::Refused(code, "Busy", "no"), Answer::Open(beginning())]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
            assert_eq!(script.asked(), ["stream", "stream"]);
            let times = script.times();
            assert!(times[1].since(times[0]) >= Duration::from_millis(800));
        });
    }
}

#[test]
fn a_server_that_asks_to_be_left_alone_is_left_alone() {
    for (asks, waits) in [(45, 45), (3600, 120)] {
        Lab::run(15, |lab| async move {
            let script = in_a_row(&lab, vec![Answer::Later(asks), Answer::Open(beginning())]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_for_sync(Duration::from_secs(200)).await.unwrap();
            let times = script.times();
            assert_eq!(times[1].since(times[0]).as_secs(), waits);
        });
    }
}

#[test]
fn a_server_that_does_not_know_streams_is_asked_for_a_list() {
    // It takes the request for an ordinary watch: what there is, and no end of it.
    Lab::run(16, |lab| async move {
        let script = lab.script(|_, asked| match asked {
            Asked::Stream { .. } => Answer::Open(vec![added("a", 1, 5, "1")]),
            Asked::List { .. } => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
            Asked::Watch { .. } => Answer::Open(Vec::new()),
        });
        let informer = lab.informer(&script);
        informer.start();
        informer.wait_for_sync(Duration::from_secs(120)).await.unwrap();
        assert_eq!(script.asked()[..2], ["stream", "list@0"]);
    });
}

#[test]
fn a_stream_that_goes_on_and_never_ends_its_beginning_is_given_up() {
    Lab::run(17, |lab| async move {
        let (sender, receiver) = unbounded();
        let mut receiver = Some(receiver);
        let script = lab.script(move |_, asked| match asked {
            Asked::Stream { .. } => match receiver.take() {
                Some(receiver) => Answer::Live(receiver),
                None => Answer::Open(Vec::new()),
            },
            Asked::List { .. } => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
            Asked::Watch { .. } => Answer::Open(Vec::new()),
        });
        let informer = lab.informer(&script);
        informer.start();
        for version in 5..50 {
            let _ = sender.unbounded_send(added("a", 1, version, "1") + &bookmark(version));
            lab.sleep(Duration::from_secs(30)).await;
        }
        assert!(informer.has_synced(), "{:?}", script.asked());
    });
}

#[test]
fn a_page_of_a_proxy_is_not_a_list() {
    Lab::run(18, |lab| async move {
        let html = || vec!["<html><body>Please log in</body></html>\n".to_owned()];
        let script = lab.script(move |number, asked| match (number, asked) {
            (0..6, _) => Answer::Ended(html()),
            (_, Asked::List { .. }) => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
            (_, Asked::Stream { .. }) => Answer::Open(beginning()),
            _ => Answer::Open(Vec::new()),
        });
        let informer = lab.informer(&script);
        informer.start();
        let failed = informer.wait_for_sync(Duration::from_secs(5)).await.unwrap_err().to_string();
        assert!(failed.contains("the answer cannot be read"), "{failed}");
        informer.wait_for_sync(Duration::from_secs(120)).await.unwrap();
        assert_eq!(values(&informer), pairs([("a", "1")]));
    });
}

#[test]
fn half_a_list_changes_nothing() {
    Lab::run(19, |lab| async move {
        let whole = list(9, &[object("b", 1, 8, "1"), object("c", 1, 9, "1")]);
        let half = whole[..whole.len() - 40].to_owned();
        let script = lab.script(move |number, asked| match (number, asked) {
            (0, _) => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
            (1, _) => Answer::Open(vec![error(410, "Expired")]),
            (2, _) => Answer::Cut(vec![half.clone()]),
            // The length was not announced, and the connection just ends.
            (3, _) => Answer::Ended(vec![half.clone()]),
            (_, Asked::List { .. }) => Answer::Ended(vec![whole.clone()]),
            _ => Answer::Open(Vec::new()),
        });
        let informer = lab
            .builder()
            .streaming_lists(false)
            .source(bowline_cache::Namespaces::All, script.clone())
            .build()
            .unwrap();
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("both halves came", || script.asked().len() == 4).await;
        assert_eq!(values(&informer), pairs([("a", "1")]));
        lab.until("all is told", || witness.count() == 4).await;
        assert_eq!(witness.told(), ["+a=1*", "-a=1?", "+b=1", "+c=1"]);
        assert_eq!(script.asked()[..5], ["list@0", "watch@5", "list@5", "list@5", "list@5"]);
    });
}

#[test]
fn half_a_stream_changes_nothing() {
    Lab::run(20, |lab| async move {
        let first = [beginning(), vec![error(410, "Expired")]].concat();
        let half = vec![added("b", 1, 8, "1")];
        let whole = vec![added("b", 1, 8, "1"), added("c", 1, 9, "1"), initial_end(9)];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Cut(half), Answer::Open(whole)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all is told", || witness.count() == 4).await;
        assert_eq!(witness.told(), ["+a=1*", "-a=1?", "+b=1", "+c=1"]);
        assert_eq!(script.asked(), ["stream", "stream@5", "stream@5"]);
    });
}

#[test]
fn a_server_that_is_not_as_far_is_asked_for_the_newest_in_pages() {
    Lab::run(21, |lab| async move {
        let too_large = || Answer::Refused(504, "Timeout", "Too large resource version: 5, current: 3");
        let script = in_a_row(
            &lab,
            vec![
                Answer::Ended(vec![list(5, &[object("z", 1, 5, "1")])]),
                Answer::Refused(410, "Expired", "too old"),
                too_large(),
                Answer::Ended(vec![page(3, "two", &[object("a", 1, 1, "1"), object("b", 1, 2, "1")])]),
                Answer::Ended(vec![page(3, "", &[object("c", 1, 3, "1")])]),
            ],
        );
        let informer = lab
            .builder()
            .streaming_lists(false)
            .page_size(2.try_into().unwrap())
            .source(bowline_cache::Namespaces::All, script.clone())
            .build()
            .unwrap();
        informer.start();
        lab.until("it watches", || script.asked().len() == 6).await;
        assert_eq!(
            script.asked(),
            ["list@0", "watch@5", "list@5", "list limit 2", "list limit 2 after two", "watch@3"]
        );
        assert_eq!(values(&informer), pairs([("a", "1"), ("b", "1"), ("c", "1")]));
    });
}

#[test]
fn pages_that_expire_while_they_are_read_are_asked_for_whole() {
    Lab::run(22, |lab| async move {
        let expired = || Answer::Refused(410, "Expired", "the continue token is too old");
        let script = in_a_row(
            &lab,
            vec![
                expired(),
                Answer::Ended(vec![page(3, "two", &[object("old", 1, 1, "1")])]),
                expired(),
                Answer::Ended(vec![list(8, &[object("new", 1, 8, "1")])]),
            ],
        );
        let informer = lab
            .builder()
            .streaming_lists(false)
            .source(bowline_cache::Namespaces::All, script.clone())
            .build()
            .unwrap();
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("it watches", || script.asked().len() == 5).await;
        assert_eq!(
            script.asked(),
            ["list@0", "list limit 500", "list limit 500 after two", "list", "watch@8"]
        );
        lab.until("all is told", || witness.count() == 1).await;
        assert_eq!(witness.told(), ["+new=1*"]);
    });
}

#[test]
fn a_restart_asks_for_nothing_older_than_what_is_known() {
    for (streaming, asked) in
        [(true, ["stream", "stream@6"].as_slice()), (false, ["list@0", "watch@5", "list@6"].as_slice())]
    {
        Lab::run(29, |lab| async move {
            let all = list(5, &[object("a", 1, 5, "1")]);
            let script = lab.script(move |_, asked| match asked {
                Asked::Stream { .. } => Answer::Open([beginning(), vec![modified("a", 1, 6, "2")]].concat()),
                Asked::List { .. } => Answer::Ended(vec![all.clone()]),
                Asked::Watch { .. } => Answer::Open(vec![modified("a", 1, 6, "2")]),
            });
            let builder = lab.builder().streaming_lists(streaming);
            let informer = builder.source(bowline_cache::Namespaces::All, script.clone()).build().unwrap();
            informer.start();
            lab.until("it is there", || values(&informer) == pairs([("a", "2")])).await;
            informer.stop().await;
            informer.start();
            lab.sleep(Duration::from_millis(10)).await;
            assert_eq!(script.asked()[..asked.len()], *asked);
        });
    }
}
