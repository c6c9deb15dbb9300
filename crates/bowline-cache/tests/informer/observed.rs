//! Counters, versions and errors of an informer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_cache::{Metrics, Namespaces};
use futures::channel::mpsc::unbounded;

use crate::script::{Answer, Lab, added, bookmark, error, initial_end, line, modified, raw};
use crate::world::Witness;

#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Noted {
    fn note(&self, text: impl Into<String>) {
        self.0.lock().expect("the lock is not poisoned").push(text.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("the lock is not poisoned"))
    }
}

impl Metrics for Noted {
    fn listed(&self, took: Duration) {
        self.note(format!("listed in {took:?}"));
    }
    fn watch_began(&self) {
        self.note("watch");
    }
    fn watch_ended(&self, lasted: Duration) {
        self.note(format!("watched for {lasted:?}"));
    }
    fn events(&self, count: usize) {
        self.note(format!("{count} events"));
    }
    fn failed(&self) {
        self.note("failed");
    }
    fn undecodable(&self) {
        self.note("undecodable");
    }
}

#[test]
fn lists_watches_and_failures_are_counted() {
    Lab::run(1, |lab| async move {
        let (sender, receiver) = unbounded();
        let mut receiver = Some(receiver);
        let script = lab.script(move |number, _| match number {
            0 => Answer::Refused(500, "InternalError", "not yet"),
            1 => Answer::Live(receiver.take().expect("asked once")),
            2 => Answer::Open(vec![added("a", 1, 9, "3"), initial_end(10)]),
            _ => Answer::Open(Vec::new()),
        });
        let noted = Noted::default();
        let errors = Noted::default();
        let hook = errors.clone();
        let informer = lab
            .builder()
            .source(Namespaces::All, script.clone())
            .metrics(noted.clone())
            .on_error(move |error| hook.note(error.to_string()))
            .build()
            .unwrap();
        let (witness, registration) = Witness::of(&informer);
        assert_eq!((informer.stats().staleness, informer.last_sync_resource_version()), (None, None));
        informer.start();
        lab.until("it asks again", || script.asked().len() == 2).await;
        lab.sleep(Duration::from_secs(2)).await;
        assert_eq!(noted.take(), ["failed", "watch"]);
        assert_eq!(errors.take(), ["not yet (500 InternalError)"]);
        let bad = line("ADDED", &raw("bad", 1, 2, "5"));
        sender.unbounded_send(added("a", 1, 1, "1") + &bad + &initial_end(4)).unwrap();
        assert!(registration.wait_synced().await);
        assert_eq!(informer.last_sync_resource_version().as_deref(), Some("4"));
        let listed = noted.take();
        assert!(listed[0] == "undecodable" && listed[1].starts_with("listed in 2"), "{listed:?}");

        sender.unbounded_send(modified("a", 1, 6, "2") + &added("b", 1, 7, "1")).unwrap();
        lab.until("the event arrives", || witness.count() == 3).await;
        assert_eq!(informer.last_sync_resource_version().as_deref(), Some("7"));
        assert_eq!(noted.take(), ["2 events"]);
        lab.sleep(Duration::from_secs(40)).await;
        assert!(informer.stats().staleness.unwrap() >= Duration::from_secs(40));
        sender.unbounded_send(bookmark(8)).unwrap();
        lab.sleep(Duration::from_secs(1)).await;
        assert_eq!(informer.last_sync_resource_version().as_deref(), Some("8"));
        assert!(informer.stats().staleness.unwrap() <= Duration::from_secs(1));
        noted.take();

        let stats = informer.stats();
        assert_eq!((stats.items, stats.events, stats.undecodable, stats.undecodable_total), (2, 3, 1, 1));
        assert_eq!((stats.lists, stats.relists, stats.watches, stats.failures), (1, 0, 1, 1));
        assert_eq!((stats.handlers, stats.backlog), (1, 0));

        sender.unbounded_send(error(410, "Expired")).unwrap();
        lab.until("the relist is complete", || informer.stats().lists == 2).await;
        lab.until("all events arrive", || witness.count() == 5).await;
        let noted = noted.take();
        assert!(noted[0].starts_with("watched for 4"), "{noted:?}");
        assert_eq!(noted[1..3], ["failed", "watch"]);
        assert!(noted[3].starts_with("listed in"), "{noted:?}");
        assert_eq!(errors.take(), ["as scripted (410 Expired)"]);
        let stats = informer.stats();
        assert_eq!((stats.items, stats.events, stats.undecodable, stats.relists), (1, 5, 0, 1));
        assert_eq!((stats.watches, stats.failures), (2, 2));
        assert_eq!(informer.last_sync_resource_version().as_deref(), Some("10"));
    });
}
