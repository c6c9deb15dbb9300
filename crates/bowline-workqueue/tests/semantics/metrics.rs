//! Reports to the metrics.

use super::*;
use bowline_workqueue::{AddOptions, Gauges, InProgress, Metrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

/// Sums all reports.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Totals>>);

#[derive(Default)]
struct Totals {
    adds: usize,
    depth: BTreeMap<i32, i64>,
    waited: Vec<Duration>,
    worked: Vec<Duration>,
    retries: usize,
    dropped: usize,
    gauges: Option<Weak<dyn Gauges>>,
}

impl Metrics for Recorder {
    fn added(&self, priority: i32) {
        let mut totals = self.0.lock().unwrap();
        totals.adds += 1;
        *totals.depth.entry(priority).or_default() += 1;
    }

    fn raised(&self, from: i32, to: i32) {
        let mut totals = self.0.lock().unwrap();
        *totals.depth.entry(from).or_default() -= 1;
        *totals.depth.entry(to).or_default() += 1;
    }

    fn handed_out(&self, priority: i32, waited: Duration) {
        let mut totals = self.0.lock().unwrap();
        *totals.depth.entry(priority).or_default() -= 1;
        totals.waited.push(waited);
    }

    fn finished(&self, worked: Duration) {
        self.0.lock().unwrap().worked.push(worked);
    }

    fn retried(&self) {
        self.0.lock().unwrap().retries += 1;
    }

    fn dropped(&self, count: usize) {
        self.0.lock().unwrap().dropped += count;
    }

    fn attach(&self, gauges: Weak<dyn Gauges>) {
        self.0.lock().unwrap().gauges = Some(gauges);
    }
}

impl Recorder {
    fn depth(&self) -> Vec<(i32, i64)> {
        let totals = self.0.lock().unwrap();
        totals
            .depth
            .iter()
            .filter(|(_, depth)| **depth != 0)
            .map(|(priority, depth)| (*priority, *depth))
            .collect()
    }

    fn in_progress(&self) -> InProgress {
        let gauges = self.0.lock().unwrap().gauges.clone().unwrap();
        gauges.upgrade().unwrap().in_progress()
    }
}

fn observed(clock: &Clock) -> (Queue, Recorder) {
    let recorder = Recorder::default();
    (Queue::builder(clock.clone()).metrics(recorder.clone()).build(), recorder)
}

#[test]
fn adds_and_depth_count_ready_keys_by_priority() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        queue.add("a");
        queue.add("a");
        queue.add_with("b", AddOptions::default().priority(-1));
        queue.add_after("c", SECOND);
        assert_eq!(recorder.depth(), [(-1, 1), (0, 1)]);
        queue.add("b");
        assert_eq!(recorder.depth(), [(0, 2)]);

        let item = queue.try_get().unwrap();
        assert_eq!(recorder.depth(), [(0, 1)]);
        queue.add("a");
        assert_eq!(recorder.depth(), [(0, 2)], "a key that waits for its own run counts");
        item.done();
        clock.sleep(SECOND).await;
        assert_eq!(work_off(&queue).len(), 3);
        assert_eq!(recorder.depth(), []);
        assert_eq!(recorder.0.lock().unwrap().adds, 4);
    });
}

#[test]
fn durations_are_from_add_to_hand_out_and_from_hand_out_to_done() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        queue.add_after("a", SECOND);
        // The key is ready from its deadline on, though no worker checks then.
        clock.sleep(SECOND * 3).await;
        assert_eq!((recorder.in_progress().count, recorder.depth()), (0, vec![(0, 1)]));
        let item = queue.try_get().unwrap();
        queue.add("a");
        clock.sleep(SECOND * 5).await;
        item.done();
        clock.sleep(SECOND).await;
        queue.try_get().unwrap().done();
        let totals = recorder.0.lock().unwrap();
        // The delay does not count as waiting; the wait for the key's own run does.
        assert_eq!(totals.waited, [SECOND * 2, SECOND * 6]);
        assert_eq!(totals.worked, [SECOND * 5, Duration::ZERO]);
    });
}

#[test]
fn done_and_get_ends_the_run_at_the_given_time() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        queue.add("a");
        queue.add("b");
        clock.sleep(SECOND).await;
        let item = queue.get().await.unwrap();
        assert_eq!(item.started_at(), Some(clock.now()));
        clock.sleep(SECOND * 2).await;
        let ended = clock.now();
        clock.sleep(SECOND * 4).await;
        let item = item.done_and_get(ended).await.unwrap();
        assert_eq!((*item.key(), item.started_at()), ("b", Some(ended)));
        // No key is ready: the next run begins when one is added.
        let wait = item.done_and_get(clock.now());
        let scope = clock.scope("adder");
        let (adder, later) = (queue.clone(), clock.clone());
        scope.spawn("adder", async move {
            later.sleep(SECOND).await;
            adder.add("c");
        });
        assert_eq!(wait.await.unwrap().started_at(), Some(clock.now()));
        let totals = recorder.0.lock().unwrap();
        assert_eq!(totals.waited, [SECOND, SECOND * 3, Duration::ZERO]);
        assert_eq!(totals.worked, [SECOND * 2, SECOND * 4, Duration::ZERO]);
    });
}

#[test]
fn a_queue_without_metrics_has_no_start_times() {
    simulate(|clock| async move {
        let queue = Queue::new(clock);
        queue.add("a");
        assert_eq!(queue.try_get().unwrap().started_at(), None);
    });
}

#[test]
fn keys_that_are_added_together_count_one_by_one() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        let low = || AddOptions::default().priority(-1);
        queue.add_all([
            ("a", AddOptions::default()),
            ("b", AddOptions::default()),
            ("a", AddOptions::default()),
            ("c", low()),
            ("d", low()),
        ]);
        assert_eq!(recorder.depth(), [(-1, 2), (0, 2)]);
        assert_eq!(recorder.0.lock().unwrap().adds, 4);
    });
}

#[test]
fn retries_count_every_delayed_or_rate_limited_add() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        queue.add("a");
        queue.add_after("b", SECOND);
        queue.add_rate_limited("c");
        queue.try_get().unwrap().requeue_rate_limited();
        assert_eq!(recorder.0.lock().unwrap().retries, 3);
    });
}

#[test]
fn gauges_report_running_keys_and_leaks() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        assert_eq!(recorder.in_progress(), InProgress::default());
        queue.add("leaked");
        queue.add("b");
        std::mem::forget(queue.try_get().unwrap());
        clock.sleep(SECOND * 2).await;
        let item = queue.try_get().unwrap();
        clock.sleep(SECOND).await;
        let busy = InProgress { count: 2, unfinished_work: SECOND * 4, longest_running: SECOND * 3 };
        assert_eq!(recorder.in_progress(), busy);
        item.done();
        clock.sleep(SECOND * 3600).await;
        assert_eq!(recorder.in_progress().longest_running, SECOND * 3603);
    });
}

#[test]
fn keys_dropped_at_shutdown_are_reported() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        queue.add_after("a", SECOND);
        queue.add_after("b", SECOND);
        queue.shutdown();
        queue.add("c");
        assert_eq!(recorder.0.lock().unwrap().dropped, 3);
    });
}

#[test]
fn gauges_do_not_keep_a_queue_alive() {
    simulate(|clock| async move {
        let (queue, recorder) = observed(&clock);
        drop(queue);
        assert!(recorder.0.lock().unwrap().gauges.clone().unwrap().upgrade().is_none());
    });
}
