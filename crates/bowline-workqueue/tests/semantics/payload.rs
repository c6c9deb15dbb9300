//! Payloads of keys.

use super::*;
use bowline_workqueue::{AddOptions, Item};

fn because(reason: &'static str) -> AddOptions<BTreeSet<&'static str>> {
    AddOptions::new(BTreeSet::from([reason]))
}

fn reasons(item: &Item<'_, &'static str, BTreeSet<&'static str>>) -> Vec<&'static str> {
    item.payload().iter().copied().collect()
}

#[test]
fn payloads_merge_while_a_key_waits_is_delayed_and_is_processed() {
    simulate(|clock| async move {
        let queue = Reasons::new(clock.clone());
        queue.add_with("a", because("1 delayed").after(SECOND));
        queue.add_with("a", because("2 delayed again").after(SECOND * 5));
        queue.add_with("a", because("3 now"));
        queue.add_with("a", because("4 waiting"));
        let item = queue.try_get().unwrap();
        assert_eq!(reasons(&item), ["1 delayed", "2 delayed again", "3 now", "4 waiting"]);

        queue.add_with("a", because("5 processing"));
        queue.add_with("a", because("6 processing, later").after(SECOND));
        item.done();
        assert_eq!(reasons(&queue.try_get().unwrap()), ["5 processing", "6 processing, later"]);
    });
}

#[test]
fn a_retry_keeps_its_payload_and_merges_later_ones() {
    simulate(|clock| async move {
        let queue = Reasons::new(clock.clone());
        queue.add_with("a", because("1 the failed run"));
        let item = queue.try_get().unwrap();
        queue.add_with("a", because("2 meanwhile").after(SECOND));
        item.requeue_rate_limited();
        queue.add_with("a", because("3 later").after(SECOND));
        clock.sleep(Duration::from_millis(5)).await;
        assert_eq!(reasons(&queue.try_get().unwrap()), ["1 the failed run", "2 meanwhile", "3 later"]);
    });
}

/// Records the order of merges.
#[derive(Default)]
struct Log(Vec<u32>);

impl Coalesce for Log {
    fn coalesce(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }
}

#[test]
fn the_payload_of_a_retry_is_older_than_payloads_added_during_its_run() {
    simulate(|clock| async move {
        let queue = WorkQueue::<&str, Log>::new(clock);
        queue.add_with("a", AddOptions::new(Log(vec![1])));
        let item = queue.try_get().unwrap();
        queue.add_with("a", AddOptions::new(Log(vec![2])));
        item.requeue_after(Duration::ZERO);
        queue.add_with("a", AddOptions::new(Log(vec![3])));
        assert_eq!(queue.try_get().unwrap().payload().0, [1, 2, 3]);
    });
}

#[test]
fn a_finished_run_drops_its_payload() {
    simulate(|clock| async move {
        let queue = Reasons::new(clock);
        queue.add_with("a", because("old"));
        queue.try_get().unwrap().done();
        queue.add("a");
        assert!(queue.try_get().unwrap().payload().is_empty());
    });
}
