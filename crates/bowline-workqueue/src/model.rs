//! Compares the state machine with a plain model of its contract: slow, obvious, and written separately.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bowline_clock::Instant;
use proptest::prelude::*;

use crate::arena::Slot;
use crate::machine::{Added, Addition, Counts, Machine, Taken};
use crate::ready::AGING;
use crate::{Coalesce, ItemExponentialFailure, RateLimiter};

/// The number of each addition merged into it, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trail(Vec<u32>);

impl Coalesce for Trail {
    fn coalesce(&mut self, newer: Self) {
        self.0.extend(newer.0);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Add { key: u8, priority: Option<i32>, after: Option<u64> },
    AddRateLimited { key: u8 },
    Forget { key: u8 },
    Take,
    Done { which: usize },
    Requeue { which: usize, priority: Option<i32>, after: Option<u64> },
    Advance { by: u64 },
    Shutdown,
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0_u8..12;
    let priority = || prop_oneof![4 => Just(None), 1 => Just(Some(0)), 3 => (-3..4).prop_map(Some)];
    let after = || prop_oneof![2 => Just(None), 1 => (0_u64..40).prop_map(Some)];
    prop_oneof![
        40 => (key(), priority(), after()).prop_map(|(key, priority, after)| Operation::Add { key, priority, after }),
        8 => key().prop_map(|key| Operation::AddRateLimited { key }),
        4 => key().prop_map(|key| Operation::Forget { key }),
        30 => Just(Operation::Take),
        20 => any::<usize>().prop_map(|which| Operation::Done { which }),
        8 => (any::<usize>(), priority(), after())
            .prop_map(|(which, priority, after)| Operation::Requeue { which, priority, after }),
        10 => (0_u64..30).prop_map(|by| Operation::Advance { by }),
        1 => Just(Operation::Shutdown),
    ]
}

/// The state of a key's next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Ready: since when within its priority and overall, and the maximum number of dispatches before it must run.
    Ready {
        order: u64,
        age: u64,
        until: u64,
    },
    Delayed {
        due: u64,
        number: u64,
    },
    Dirty,
}

#[derive(Clone, Debug)]
struct Pending {
    waits: Waits,
    priority: i32,
    trail: Vec<u32>,
}

#[derive(Default)]
struct Model {
    now: u64,
    sequence: u64,
    hand_outs: u64,
    shut_down: bool,
    pending: BTreeMap<u8, Pending>,
    /// Priority of the run in progress.
    running: BTreeMap<u8, i32>,
    tries: BTreeMap<u8, u32>,
}

impl Model {
    /// One millisecond, doubled up to 50.
    fn limit(&mut self, key: u8) -> u64 {
        let tries = self.tries.entry(key).or_default();
        *tries += 1;
        (1 << (*tries - 1).min(10)).min(50)
    }

    fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn ready(&self) -> usize {
        self.pending.values().filter(|pending| matches!(pending.waits, Waits::Ready { .. })).count()
    }

    fn counts(&self) -> Counts {
        let delayed = self.pending.values().filter(|pending| matches!(pending.waits, Waits::Delayed { .. }));
        Counts { ready: self.ready(), delayed: delayed.count(), processing: self.running.len() }
    }

    /// The ready keys, by priority.
    fn in_line(&self) -> Vec<u8> {
        let mut ready: Vec<_> = self.pending.iter().collect();
        ready.retain(|(_, pending)| matches!(pending.waits, Waits::Ready { .. }));
        ready.sort_by_key(|(_, pending)| match pending.waits {
            Waits::Ready { order, .. } => (-pending.priority, order),
            _ => unreachable!("only those in line are left"),
        });
        ready.into_iter().map(|(key, _)| *key).collect()
    }

    /// The delayed keys with their deadlines, by deadline.
    fn delayed(&self) -> Vec<(u8, Instant)> {
        let mut delayed: Vec<_> = self
            .pending
            .iter()
            .filter_map(|(key, pending)| match pending.waits {
                Waits::Delayed { due, number } => Some((due, number, *key)),
                _ => None,
            })
            .collect();
        delayed.sort_unstable();
        delayed.into_iter().map(|(due, _, key)| (key, instant(due))).collect()
    }

    /// Makes a key ready.
    fn wait_now(&mut self, key: u8) -> Waits {
        if self.running.contains_key(&key) { Waits::Dirty } else { self.get_in_line() }
    }

    fn get_in_line(&mut self) -> Waits {
        let older = self.ready() as u64;
        let until = self.hand_outs + u64::from(AGING) * (older + 1);
        Waits::Ready { order: self.next(), age: self.next(), until }
    }

    fn wait(&mut self, key: u8, due: Option<u64>) -> Waits {
        match due {
            Some(due) => Waits::Delayed { due, number: self.next() },
            None => self.wait_now(key),
        }
    }

    fn add(&mut self, key: u8, priority: Option<i32>, due: Option<u64>, trail: Vec<u32>, older: bool) {
        if self.shut_down {
            return;
        }
        let Some(mut pending) = self.pending.remove(&key) else {
            let default = self.running.get(&key).copied().unwrap_or(0).max(0);
            let waits = self.wait(key, due);
            self.pending.insert(key, Pending { waits, priority: priority.unwrap_or(default), trail });
            return;
        };
        pending.trail = if older { [trail, pending.trail].concat() } else { [pending.trail, trail].concat() };
        let raised = priority.unwrap_or(0) > pending.priority;
        pending.priority = pending.priority.max(priority.unwrap_or(0));
        pending.waits = match (pending.waits, due) {
            (Waits::Delayed { .. }, None) => self.wait(key, None),
            (Waits::Delayed { due, .. }, Some(earlier)) if earlier < due => self.wait(key, Some(earlier)),
            (Waits::Ready { age, until, .. }, _) if raised => Waits::Ready { order: self.next(), age, until },
            (waits, _) => waits,
        };
        self.pending.insert(key, pending);
    }

    fn promote(&mut self) {
        let mut due: Vec<_> = self
            .pending
            .iter()
            .filter_map(|(key, pending)| match pending.waits {
                Waits::Delayed { due, number } if due <= self.now => Some((due, number, *key)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        for (_, _, key) in due {
            let mut pending = self.pending.remove(&key).unwrap();
            pending.waits = self.wait_now(key);
            self.pending.insert(key, pending);
        }
    }

    fn take(&mut self) -> Option<(u8, i32, Vec<u32>)> {
        let ready = self.pending.iter().filter_map(|(key, pending)| match pending.waits {
            Waits::Ready { order, age, until } => Some((*key, pending.priority, order, age, until)),
            _ => None,
        });
        let oldest_first = (self.hand_outs + 1).is_multiple_of(u64::from(AGING));
        let (key, .., until) = if oldest_first {
            ready.min_by_key(|(_, _, _, age, _)| *age)?
        } else {
            ready.min_by_key(|(_, priority, order, ..)| (-priority, *order))?
        };
        self.hand_outs += 1;
        assert!(self.hand_outs <= until, "key {key} waited for too many hand-outs");
        let pending = self.pending.remove(&key).unwrap();
        assert_eq!(self.running.insert(key, pending.priority), None, "key {key} is with two workers");
        Some((key, pending.priority, pending.trail))
    }

    fn done(&mut self, key: u8) {
        self.running.remove(&key).unwrap();
        if self.pending.get(&key).is_some_and(|pending| pending.waits == Waits::Dirty) {
            let mut pending = self.pending.remove(&key).unwrap();
            pending.waits = self.get_in_line();
            self.pending.insert(key, pending);
        }
    }

    fn shutdown(&mut self) {
        self.shut_down = true;
        self.pending.retain(|_, pending| !matches!(pending.waits, Waits::Delayed { .. }));
    }
}

/// Machine and model, side by side.
struct Pair {
    model: Model,
    machine: Machine<u8, Trail>,
    limiter: ItemExponentialFailure<u8>,
    held: Vec<Taken<u8, Trail>>,
    adds: u32,
}

impl Pair {
    fn new() -> Self {
        Self {
            model: Model::default(),
            machine: Machine::new(true),
            limiter: ItemExponentialFailure::new(Duration::from_millis(1), Duration::from_millis(50)),
            held: Vec::new(),
            adds: 0,
        }
    }

    fn now(&self) -> Instant {
        instant(self.model.now)
    }

    fn step(&mut self, operation: &Operation) {
        // As in the shell, due keys come first.
        self.machine.promote(self.now(), |_| {});
        self.model.promote();
        match *operation {
            Operation::AddRateLimited { key } => {
                let delay = self.limiter.when(&key, self.now());
                let expected = self.model.limit(key);
                assert_eq!(delay, Duration::from_millis(expected));
                self.step(&Operation::Add { key, priority: None, after: Some(expected) });
            }
            Operation::Forget { key } => {
                self.limiter.forget(&key);
                self.model.tries.remove(&key);
            }
            Operation::Add { key, priority, after } => {
                self.adds += 1;
                let trail = vec![self.adds];
                let due = after.filter(|after| *after > 0).map(|after| self.model.now + after);
                if !self.machine.is_shutting_down() {
                    let before = self.machine.next_deadline();
                    let added =
                        self.machine.add(key, Trail(trail.clone()), self.addition(key, priority, due));
                    if let Added::Delayed { earliest } = added {
                        assert_eq!(earliest, before.is_none_or(|before| due.map(instant).unwrap() <= before));
                    }
                }
                self.model.add(key, priority, due, trail, false);
            }
            Operation::Take => {
                let now = self.now();
                let taken = self.machine.next().map(|slot| self.machine.take(slot));
                if let Some(taken) = &taken {
                    assert!(self.machine.started(taken.slot, now).is_some_and(|queued_at| queued_at <= now));
                }
                let seen = taken.as_ref().map(|taken| {
                    (taken.key, taken.priority, taken.payload.clone().expect("there is a payload").0)
                });
                assert_eq!(seen, self.model.take());
                self.held.extend(taken);
            }
            Operation::Done { which } => {
                if let Some(taken) = self.release(which) {
                    self.done(taken.slot);
                    self.model.done(taken.key);
                }
            }
            Operation::Requeue { which, priority, after } => {
                if let Some(taken) = self.release(which) {
                    let due = after.filter(|after| *after > 0).map(|after| self.model.now + after);
                    let priority = priority.unwrap_or(taken.priority);
                    let payload = taken.payload.clone().unwrap();
                    if !self.machine.is_shutting_down() {
                        let addition = self.addition(taken.key, Some(priority), due);
                        self.machine.requeue(taken.slot, payload.clone(), addition);
                    }
                    self.model.add(taken.key, Some(priority), due, payload.0, true);
                    self.done(taken.slot);
                    self.model.done(taken.key);
                }
            }
            Operation::Advance { by } => self.model.now += by,
            Operation::Shutdown => {
                let delayed = self.model.counts().delayed;
                if !self.model.shut_down {
                    assert_eq!(self.machine.shutdown().len(), delayed);
                }
                self.model.shutdown();
            }
        }
        for key in 0..12 {
            assert_eq!(self.limiter.num_requeues(&key), self.model.tries.get(&key).copied().unwrap_or(0));
        }
        assert_eq!(self.machine.counts(), self.model.counts());
        assert_eq!(self.machine.in_line().copied().collect::<Vec<_>>(), self.model.in_line());
        let delayed = self.model.delayed();
        for count in [0, 1, 3, usize::MAX] {
            let next: Vec<_> =
                self.machine.delayed(count).into_iter().map(|(key, due)| (*key, due)).collect();
            assert_eq!(next, delayed[..count.min(delayed.len())]);
        }
        assert_eq!(self.machine.in_progress(self.now()).count, self.held.len());
    }

    fn done(&mut self, slot: Slot) {
        assert!(self.machine.finished(slot).is_some());
        self.machine.done(slot);
    }

    fn addition(&self, key: u8, priority: Option<i32>, due: Option<u64>) -> Addition {
        // Few different hashes, so that keys collide.
        let hash = u64::from(key % 3);
        Addition { hash, priority, due: due.map(instant), now: self.now(), retry: false }
    }

    fn release(&mut self, which: usize) -> Option<Taken<u8, Trail>> {
        if self.held.is_empty() { None } else { Some(self.held.swap_remove(which % self.held.len())) }
    }

    /// Ends all runs, lets all delays pass, and works off the rest.
    fn finish(&mut self) {
        self.step(&Operation::Advance { by: 1000 });
        loop {
            while !self.held.is_empty() {
                self.step(&Operation::Done { which: 0 });
            }
            self.step(&Operation::Take);
            if self.held.is_empty() {
                break;
            }
        }
        let empty = Counts { ready: 0, delayed: 0, processing: 0 };
        assert_eq!(self.machine.counts(), empty, "nothing is left behind");
    }
}

fn instant(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Never twice at once, nothing lost, payloads merged in order, priorities and FIFO within one, earliest deadline,
    /// the bound of aging, and shutdown.
    #[test]
    fn the_machine_behaves_like_the_model(operations in prop::collection::vec(operation(), 1..150)) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.step(operation);
        }
        pair.finish();
    }
}

#[test]
fn an_entry_with_a_key_of_48_bytes_takes_80() {
    let entry = size_of::<crate::machine::Entry<[u64; 6], ()>>();
    assert_eq!(entry, 80, "a million waiting keys are to stay below 95 MiB");
}

#[test]
fn outdated_deadlines_do_not_pile_up() {
    let mut pair = Pair::new();
    // Looking at the earliest deadline does not reach outdated records behind a valid one.
    pair.step(&Operation::Add { key: 2, priority: None, after: Some(1_000_000) });
    for _ in 0..100_000 {
        pair.step(&Operation::Add { key: 1, priority: None, after: None });
        pair.step(&Operation::Take);
        // An hour later; by then the key has long run again.
        pair.step(&Operation::Requeue { which: 0, priority: None, after: Some(3_600_000) });
    }
    assert!(pair.machine.records() < 1000, "{} records for two keys", pair.machine.records());
}

/// Adds keys, every other one delayed, some of them first with a much longer delay, and hands out each once.
fn burst(machine: &mut Machine<u32, ()>, keys: Range<u32>) {
    let now = Instant::ZERO;
    for key in keys.clone() {
        let hash = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let priority = (key % 5 == 0).then_some(1);
        let mut add = |due| machine.add(key, (), Addition { hash, priority, due, now, retry: false });
        if key % 7 == 0 {
            // Its record is outdated when it is due, and still exists when the queue is empty.
            add(Some(instant(1_000_000)));
        }
        add((key % 2 == 0).then_some(instant(1)));
    }
    machine.promote(instant(1), |_| {});
    let mut handed_out: Vec<_> = std::iter::from_fn(|| {
        let taken = machine.next().map(|slot| machine.take(slot))?;
        assert_eq!(
            machine.started(taken.slot, instant(2)).map(|queued_at| queued_at <= instant(1)),
            Some(true)
        );
        assert_eq!(machine.finished(taken.slot), Some(instant(2)));
        machine.done(taken.slot);
        Some(taken.key)
    })
    .collect();
    handed_out.sort_unstable();
    assert!(handed_out.into_iter().eq(keys));
    assert_eq!(machine.counts(), Counts::default());
}

#[test]
fn memory_of_a_burst_is_freed_when_the_queue_is_empty() {
    let mut machine = Machine::<u32, ()>::new(true);
    burst(&mut machine, 0..100_000);
    assert_eq!(machine.capacity(), 0);
}

#[test]
fn memory_of_a_smaller_burst_is_kept_until_the_queue_is_empty_without_using_it() {
    let mut machine = Machine::<u32, ()>::new(true);
    burst(&mut machine, 0..28_000);
    let capacity = machine.capacity();
    assert!(capacity >= 28_000, "{capacity}");
    // Enough other keys to fill the table: the earlier ones must not have left marks of removed entries.
    burst(&mut machine, 28_000..56_000);
    assert_eq!(machine.capacity(), capacity, "the next one needs no more");
    burst(&mut machine, 0..1);
    assert_eq!(machine.capacity(), 0);
}

#[test]
fn memory_is_not_kept_after_a_shutdown() {
    let mut machine = Machine::<u32, ()>::new(true);
    for key in 0..20_000 {
        let addition =
            Addition { hash: u64::from(key), priority: None, due: None, now: Instant::ZERO, retry: false };
        machine.add(key, (), addition);
    }
    machine.shutdown();
    while let Some(slot) = machine.next() {
        let taken = machine.take(slot);
        machine.done(taken.slot);
    }
    assert_eq!(machine.capacity(), 0);
}
