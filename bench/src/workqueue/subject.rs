//! The workloads on Bowline's queue, one per process. `peers/go/harness` does the same work in Go.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_clock::{Clock, Instant, Scope};
use bowline_workqueue::{AddOptions, WorkQueue};
use compact_str::CompactString;

use super::{DUPLICATE_KEYS, FRAME, KEYS_PER_S, Workload};
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB};
use crate::process;

const ADDERS: usize = 2;
const WORKERS: usize = 2;
const NAMESPACES: usize = 100;

type Metrics = BTreeMap<&'static str, f64>;

/// A namespace of 12 characters and a name of 24, which a `CompactString` holds without an allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    namespace: CompactString,
    name: CompactString,
}

/// The calls of an adder.
#[derive(Clone)]
enum Adding {
    /// One call a key.
    Each(fn(&WorkQueue<Key>, Key)),
    /// One call a frame.
    Frames(AddOptions),
}

/// Runs one workload and prints its metrics, as one line of JSON.
pub(crate) fn main(workload: Workload, n: usize) -> ExitCode {
    let metrics = run(workload, n);
    println!("{}", serde_json::to_string(&metrics).expect("strings and numbers are always JSON"));
    ExitCode::SUCCESS
}

fn run(workload: Workload, n: usize) -> Metrics {
    let clock = Clock::real();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_time()
        .build()
        .expect("a runtime can be made");
    let queue = WorkQueue::new(clock.clone());
    let scope = clock.scope("workqueue");
    let all = |_: &WorkQueue<Key>, handled| handled == n;
    let none_left = |queue: &WorkQueue<Key>, _| queue.is_empty();
    let (distinct, duplicates) = (|| keys(n, n), || keys(n, DUPLICATE_KEYS));
    let limited = Adding::Frames(AddOptions::default().rate_limited());
    let work = async {
        match workload {
            Workload::PingPong => ping_pong(&clock, &queue, n).await,
            Workload::Distinct => {
                concurrently(&scope, &queue, distinct(), Adding::Each(WorkQueue::add), all).await
            }
            Workload::Duplicates => {
                concurrently(&scope, &queue, duplicates(), Adding::Each(WorkQueue::add), none_left).await
            }
            Workload::RateLimited => {
                let each = Adding::Each(WorkQueue::add_rate_limited);
                concurrently(&scope, &queue, distinct(), each, all).await
            }
            Workload::DistinctFrames => {
                concurrently(&scope, &queue, distinct(), Adding::Frames(AddOptions::default()), all).await
            }
            Workload::DuplicatesFrames => {
                concurrently(&scope, &queue, duplicates(), Adding::Frames(AddOptions::default()), none_left)
                    .await
            }
            Workload::RateLimitedFrames => concurrently(&scope, &queue, distinct(), limited, all).await,
            Workload::Waiting => waiting(&queue, n),
        }
    };
    runtime.block_on(work)
}

async fn ping_pong(clock: &Clock, queue: &WorkQueue<Key>, n: usize) -> Metrics {
    let mut keys = keys(n, 1000).collect::<Vec<_>>().into_iter();
    let stopwatch = Stopwatch::start(clock);
    // By reference, so that freeing their memory is not timed: Go's collector would not free it either.
    for key in keys.by_ref() {
        queue.add(key);
        let _item = queue.get().await;
    }
    stopwatch.stop(n)
}

/// Runs the adders and the workers concurrently, and measures from the first add until `over` reports the last finished
/// key.
async fn concurrently(
    scope: &Scope,
    queue: &WorkQueue<Key>,
    keys: impl ExactSizeIterator<Item = Key>,
    adding: Adding,
    over: impl Fn(&WorkQueue<Key>, usize) -> bool,
) -> Metrics {
    let spawner = scope.spawner();
    let clock = spawner.clock();
    let n = keys.len();
    let shares = deal(keys);
    let handled = Arc::new(AtomicUsize::new(0));
    let stopwatch = Stopwatch::start(clock);
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (queue, handled) = (queue.clone(), handled.clone());
            spawner.spawn("worker", async move {
                while let Some(item) = queue.get().await {
                    item.done();
                    handled.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    // Adders have threads of their own, so they are preempted, as goroutines are.
    let adders: Vec<_> = shares
        .into_iter()
        .map(|share| {
            let (queue, adding) = (queue.clone(), adding.clone());
            spawner.spawn_blocking("adder", move || {
                let mut keys = share.into_iter();
                match adding {
                    Adding::Each(add) => keys.for_each(|key| add(&queue, key)),
                    Adding::Frames(add) => {
                        while keys.len() > 0 {
                            queue.add_all(keys.by_ref().take(FRAME).map(|key| (key, add.clone())));
                        }
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.expect("an adder does not panic");
    }
    while !over(queue, handled.load(Ordering::Relaxed)) {
        clock.sleep(Duration::from_micros(100)).await;
    }
    queue.shutdown();
    for worker in workers {
        worker.await.expect("a worker does not panic");
    }
    stopwatch.stop(n)
}

fn waiting(queue: &WorkQueue<Key>, n: usize) -> Metrics {
    for key in keys(n, n) {
        queue.add(key);
    }
    assert_eq!(queue.len(), n, "every key waits");
    Metrics::from([
        (RSS_SETTLED_MIB.name, process::status_mib("VmRSS")),
        (RSS_PEAK_MIB.name, process::status_mib("VmHWM")),
    ])
}

/// `n` keys with `distinct` different ones.
fn keys(n: usize, distinct: usize) -> impl ExactSizeIterator<Item = Key> {
    let namespaces: Vec<_> =
        (0..NAMESPACES).map(|i| CompactString::from(format!("namespace-{i:02}"))).collect();
    (0..n).map(move |i| {
        let i = i % distinct;
        let mut name = CompactString::default();
        write!(name, "deployment-web-{i:09}").expect("writing to a string cannot fail");
        Key { namespace: namespaces[i % NAMESPACES].clone(), name }
    })
}

/// The keys of each adder, with frames distributed in turn.
///
/// An adder holds its frames in one allocation, so that none is freed during the measurement.
fn deal(keys: impl ExactSizeIterator<Item = Key>) -> Vec<Vec<Key>> {
    let mut shares: Vec<_> = (0..ADDERS).map(|_| Vec::with_capacity(keys.len() / ADDERS + FRAME)).collect();
    for (i, key) in keys.enumerate() {
        shares[i / FRAME % ADDERS].push(key);
    }
    shares
}

struct Stopwatch<'a> {
    clock: &'a Clock,
    started: Instant,
    cpu: f64,
}

impl<'a> Stopwatch<'a> {
    fn start(clock: &'a Clock) -> Self {
        Self { clock, started: clock.now(), cpu: process::cpu_seconds() }
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
    fn stop(self, n: usize) -> Metrics {
        let wall = self.clock.now().duration_since(self.started).as_secs_f64();
        let cpu = process::cpu_seconds() - self.cpu;
        Metrics::from([(KEYS_PER_S.name, n as f64 / wall), (CPU_S.name, cpu)])
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_workload_measures_what_it_says() {
        for workload in Workload::value_variants() {
            let measured = run(*workload, 2_100);
            let names: Vec<_> = workload.metrics().iter().map(|metric| metric.name).collect();
            assert_eq!(measured.len(), names.len());
            assert!(names.iter().all(|name| measured[name] > 0.0), "{workload:?}: {measured:?}");
        }
    }

    #[test]
    fn keys_have_the_agreed_length_and_are_held_inline() {
        for key in keys(1_000, 1_000) {
            assert_eq!((key.namespace.len(), key.name.len()), (12, 24));
            assert!(!key.namespace.is_heap_allocated() && !key.name.is_heap_allocated());
        }
    }

    #[test]
    fn adders_get_frames_by_turns_until_no_key_is_left() {
        let all: Vec<_> = keys(3 * FRAME + 1, usize::MAX).collect();
        let frames: Vec<_> = all.chunks(FRAME).collect();
        let shares = deal(all.iter().cloned());
        assert!(shares == [[frames[0], frames[2]].concat(), [frames[1], frames[3]].concat()]);
    }
}
