//! Responses of a server or proxy: the next request, its time, and the resulting objects.

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

/// Changes of objects during a streaming list, up to its end.
fn meanwhile() -> [String; 7] {
    [
        modified("changed", 1, 5, "2"),
        deleted("gone", 1, 6, "1"),
        // It left the selection and came back.
        deleted("back", 1, 7, "1"),
        added("back", 1, 8, "2"),
        deleted("recreated", 1, 9, "1"),
        added("recreated", 2, 10, "2"),
        initial_end(10),
    ]
}

/// Responses in this order, then watches that stay open.
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
        lab.until("all events arrive", || witness.count() == 3).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2", "+b=1"]);
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
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2", "-a=2"]);
    });
}

#[test]
fn changes_during_a_streaming_list_are_part_of_it() {
    Lab::run(3, |lab| async move {
        let names = ["changed", "gone", "back", "recreated"];
        let all = names.map(|name| added(name, 1, 1, "1")).into_iter().chain(meanwhile()).collect();
        let script = in_a_row(&lab, vec![Answer::Open(all)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(values(&informer), pairs([("changed", "2"), ("back", "2"), ("recreated", "2")]));
        assert_eq!(witness.view().len(), 3, "{:?}", witness.lines());
    });
}

#[test]
fn changes_during_a_streaming_relist_are_part_of_it() {
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
        assert!(registration.wait_synced().await);
        let before = informer.indexer().get_in("default", "same");
        lab.until("all events arrive", || witness.count() == 10).await;
        let now = [("same", "1"), ("changed", "2"), ("back", "2"), ("recreated", "2")];
        assert_eq!(values(&informer), pairs(now));
        let mut lines = witness.lines().split_off(5);
        lines[2..].sort_unstable();
        assert_eq!(lines, ["-recreated=1?", "-gone=1?", "+recreated=2", "back=1>2", "changed=1>2"]);
        let after = informer.indexer().get_in("default", "same");
        assert!(before.zip(after).is_some_and(|(before, after)| Arc::ptr_eq(&before, &after)));
    });
}

#[test]
fn foreign_writes_to_the_indexer_during_a_relist_are_undone() {
    Lab::run(31, |lab| async move {
        let (sender, receiver) = unbounded();
        let first = vec![added("a", 1, 5, "1"), added("b", 1, 6, "1"), initial_end(6), error(410, "Expired")];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Live(receiver)]);
        let informer = lab.informer(&script);
        informer.start();
        informer.wait_synced().await;
        for name in ["a", "b"] {
            sender.unbounded_send(added(name, 1, if name == "a" { 5 } else { 6 }, "1")).unwrap();
        }
        lab.until("the relist is complete", || script.asked().len() == 2).await;
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
fn an_outdated_server_does_not_take_the_informer_back() {
    Lab::run(4, |lab| async move {
        // It begins with its memory, which is older than the requested version, and then catches up.
        let behind = vec![added("a", 1, 5, "1"), modified("a", 1, 8, "2"), initial_end(8)];
        let first = vec![added("a", 1, 8, "2"), initial_end(8), error(410, "Expired")];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(behind)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        lab.until("the relist is complete", || informer.stats().lists == 2).await;
        lab.sleep(Duration::from_secs(5)).await;
        assert_eq!(script.asked(), ["stream", "stream@8"]);
        assert_eq!(values(&informer), pairs([("a", "2")]));
        assert_eq!(witness.lines(), ["+a=2*"]);
    });
}

#[test]
fn repeated_frames_are_delivered_once() {
    Lab::run(5, |lab| async move {
        let replayed = vec![
            added("a", 1, 5, "1"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 7, "3"),
            // Everything is repeated.
            added("a", 1, 5, "1"),
            modified("a", 1, 6, "2"),
            modified("a", 1, 7, "3"),
            deleted("a", 1, 8, "3"),
            deleted("a", 1, 8, "3"),
            added("a", 2, 9, "4"),
            // Events of the predecessor.
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
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2", "a=2>3", "-a=3", "+a=4"]);
    });
}

#[test]
fn a_repeated_deletion_does_not_remove_a_newer_object() {
    Lab::run(51, |lab| async move {
        let (bad, good) = (raw("a", 1, 6, "5"), object("a", 2, 12, "3"));
        let replayed = vec![
            // The object had left the selection before and is back in its known version; both in one chunk.
            [deleted("a", 1, 4, "0"), added("a", 1, 5, "1")].concat(),
            deleted("a", 1, 4, "0"),
            deleted("a", 1, 11, "1"),
            line("ADDED", &good),
            // The undecodable predecessor.
            line("DELETED", &bad),
            bookmark(20),
        ];
        let script = in_a_row(&lab, vec![Answer::Open([beginning(), replayed].concat())]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("the bookmark came", || informer.last_sync_resource_version().as_deref() == Some("20"))
            .await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1", "+a=3"]);
        assert_eq!(values(&informer), pairs([("a", "3")]));
    });
}

#[test]
fn an_object_listed_twice_is_delivered_once_in_its_last_state() {
    Lab::run(52, |lab| async move {
        let all = vec![added("a", 1, 5, "1"), added("b", 1, 4, "1"), added("a", 1, 6, "2"), initial_end(6)];
        let script = in_a_row(&lab, vec![Answer::Open(all)]);
        let informer = lab.informer(&script);
        let (witness, registration) = Witness::of(&informer);
        informer.start();
        assert!(registration.wait_synced().await);
        assert_eq!(witness.lines(), ["+b=1*", "+a=2*"]);
    });
}

#[test]
fn an_incomplete_line_is_ignored() {
    Lab::run(6, |lab| async move {
        let half = &modified("a", 1, 6, "2")[..60];
        let first = [beginning(), vec![half.to_owned()]].concat();
        let script = in_a_row(&lab, vec![Answer::Cut(first), Answer::Open(vec![modified("a", 1, 6, "2")])]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all events arrive", || witness.count() == 2).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2"]);
        assert_eq!(script.asked(), ["stream", "watch@5"]);
    });
}

#[test]
fn events_before_an_invalid_line_count() {
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
            lab.until("all events arrive", || witness.count() == 3).await;
            assert_eq!(witness.lines(), ["+a=1*", "a=1>2", "a=2>3"]);
            assert_eq!(script.asked(), ["stream", "watch@6"]);
        });
    }
}

#[test]
fn a_version_at_which_every_watch_breaks_leads_to_a_relist() {
    Lab::run(8, |lab| async move {
        let script = lab.script(|number, asked| match (number, asked) {
            (0, _) => Answer::Open(beginning()),
            (_, Asked::Stream { .. }) => Answer::Open(vec![added("a", 1, 9, "2"), initial_end(9)]),
            _ => Answer::Open(vec!["garbage\n".to_owned()]),
        });
        let informer = lab.informer(&script);
        informer.start();
        informer.wait_synced().await;
        // The first watch stays open and quiet until its timeout.
        lab.until("the relist is complete", || informer.stats().lists == 2).await;
        lab.sleep(Duration::from_secs(1)).await;
        assert_eq!(values(&informer), pairs([("a", "2")]));
        assert!(script.asked().len() <= 5, "{:?}", script.asked());
    });
}

#[test]
fn a_line_over_the_limit_ends_the_watch() {
    Lab::run(9, |lab| async move {
        let piece = "x".repeat(1024 * 1024);
        let first = [beginning(), vec![piece; 18]].concat();
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(vec![modified("a", 1, 6, "2")])]);
        let informer = lab.informer(&script);
        informer.start();
        lab.until("it continues", || values(&informer) == pairs([("a", "2")])).await;
        assert_eq!(script.asked(), ["stream", "watch@5"]);
    });
}

#[test]
fn a_watch_with_410_is_followed_by_a_list_at_the_known_version() {
    Lab::run(10, |lab| async move {
        let first = [beginning(), vec![modified("a", 1, 6, "2"), error(410, "Expired")]].concat();
        let again = vec![added("a", 1, 8, "3"), initial_end(9)];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Open(again)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all events arrive", || witness.count() == 3).await;
        assert_eq!(witness.lines(), ["+a=1*", "a=1>2", "a=2>3"]);
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
fn a_watch_with_any_other_error_is_opened_again() {
    for (code, reason) in [(500, "InternalError"), (429, "TooManyRequests"), (504, "Timeout")] {
        Lab::run(11, |lab| async move {
            let first = [beginning(), vec![modified("a", 1, 6, "2"), error(code, reason)]].concat();
            let script = in_a_row(&lab, vec![Answer::Open(first)]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_synced().await;
            lab.until("it asks again", || script.asked().len() == 2).await;
            assert_eq!(script.asked(), ["stream", "watch@6"]);
        });
    }
}

#[test]
fn an_unreachable_server_is_no_reason_for_a_relist() {
    Lab::run(12, |lab| async move {
        let script = lab.script(|number, _| match number {
            0 => Answer::Ended(beginning()),
            1..5 => Answer::Unreachable,
            5..8 => Answer::Refused(429, "TooManyRequests", "slow down"),
            _ => Answer::Open(vec![modified("a", 1, 6, "2")]),
        });
        let informer = lab.informer(&script);
        informer.start();
        lab.until("it continues", || values(&informer) == pairs([("a", "2")])).await;
        let asked = script.asked();
        assert_eq!(asked.len(), 9);
        assert!(asked[1..].iter().all(|asked| asked == "watch@5"), "{asked:?}");
    });
}

#[test]
fn a_rejected_watch_request_is_not_repeated_for_ever() {
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
fn a_rejected_streaming_list_falls_back_to_a_list() {
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
            // A server without streaming lists is no failure; 403 and 404 are.
            assert_eq!(informer.stats().failures, u64::from(matches!(code, 403 | 404)));
        });
    }
}

#[test]
fn a_busy_server_gets_a_streaming_list_again() {
    for code in [429, 500, 503] {
        Lab::run(15, |lab| async move {
            let script = in_a_row(&lab, vec![Answer::Refused(code, "Busy", "no"), Answer::Open(beginning())]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_for_sync(Duration::from_secs(10)).await.unwrap();
            assert_eq!(script.asked(), ["stream", "stream"]);
            let times = script.times();
            assert!(times[1].duration_since(times[0]) >= Duration::from_millis(800));
        });
    }
}

#[test]
fn retry_after_is_honored_up_to_a_limit() {
    for (asks, waits) in [(45, 45), (3600, 120)] {
        Lab::run(15, |lab| async move {
            let script = in_a_row(&lab, vec![Answer::Later(asks), Answer::Open(beginning())]);
            let informer = lab.informer(&script);
            informer.start();
            informer.wait_for_sync(Duration::from_secs(200)).await.unwrap();
            let times = script.times();
            assert_eq!(times[1].duration_since(times[0]).as_secs(), waits);
        });
    }
}

#[test]
fn a_server_without_streaming_lists_gets_a_list_request() {
    // It opens an ordinary watch: the existing objects, and no end of the list.
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
fn a_streaming_list_without_an_end_times_out() {
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
fn an_html_page_of_a_proxy_is_not_a_list() {
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
        assert!(failed.contains("cannot decode the response"), "{failed}");
        informer.wait_for_sync(Duration::from_secs(120)).await.unwrap();
        assert_eq!(values(&informer), pairs([("a", "1")]));
    });
}

#[test]
fn an_incomplete_list_changes_nothing() {
    Lab::run(19, |lab| async move {
        let whole = list(9, &[object("b", 1, 8, "1"), object("c", 1, 9, "1")]);
        let half = whole[..whole.len() - 40].to_owned();
        let script = lab.script(move |number, asked| match (number, asked) {
            (0, _) => Answer::Ended(vec![list(5, &[object("a", 1, 5, "1")])]),
            (1, _) => Answer::Open(vec![error(410, "Expired")]),
            (2, _) => Answer::Cut(vec![half.clone()]),
            // The connection ends; the length was not announced.
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
        lab.until("all events arrive", || witness.count() == 4).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1?", "+b=1", "+c=1"]);
        assert_eq!(script.asked()[..5], ["list@0", "watch@5", "list@5", "list@5", "list@5"]);
    });
}

#[test]
fn an_incomplete_streaming_list_changes_nothing() {
    Lab::run(20, |lab| async move {
        let first = [beginning(), vec![error(410, "Expired")]].concat();
        let half = vec![added("b", 1, 8, "1")];
        let whole = vec![added("b", 1, 8, "1"), added("c", 1, 9, "1"), initial_end(9)];
        let script = in_a_row(&lab, vec![Answer::Open(first), Answer::Cut(half), Answer::Open(whole)]);
        let informer = lab.informer(&script);
        let (witness, _registration) = Witness::of(&informer);
        informer.start();
        lab.until("all events arrive", || witness.count() == 4).await;
        assert_eq!(witness.lines(), ["+a=1*", "-a=1?", "+b=1", "+c=1"]);
        assert_eq!(script.asked(), ["stream", "stream@5", "stream@5"]);
    });
}

#[test]
fn a_server_behind_the_known_version_gets_a_paged_list_of_the_newest_state() {
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
fn an_expired_continue_token_leads_to_an_unpaged_list() {
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
        lab.until("all events arrive", || witness.count() == 1).await;
        assert_eq!(witness.lines(), ["+new=1*"]);
    });
}

#[test]
fn a_restart_requests_at_least_the_known_version() {
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
