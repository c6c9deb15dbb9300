//! `cache-read`: reads per second of two readers from an informer's objects, during updates.

use std::sync::Arc;
use std::time::Duration;

use super::subject::Run;
use super::{READS_PER_S, Task};
use crate::apiserver::client::{Asked, Client};
use crate::apiserver::load::Failure;
use crate::arguments::typed;
use crate::go::CONTROLLER_RUNTIME;
use crate::maker::KUBE_RS;
use crate::replay::widget;
use crate::report::{Target, row};
use crate::subject::{Measured, Work};

const READERS: usize = 2;

/// Updates a second.
const RATE: usize = 2_000;

const MILLISECONDS: usize = 3_000;

/// Number of reads between two readings of the clock, as in the Go programs.
const READS: usize = 64;

/// Distance between successive reads: neighbors would be in the processor's caches. The Go programs use the same.
const STRIDE: usize = 7_919;

/// Distance between the starts of the readers. The Go programs use the same.
const APART: usize = 1_000_003;

pub(super) fn work(n: usize) -> Vec<Work> {
    let group = n / widget::groups(n);
    let variant = |task| match task {
        Task::Index => format!("{} of={group} readers={READERS} n={n}", typed(&task)),
        _ => format!("{} readers={READERS} n={n}", typed(&task)),
    };
    let ten = (CONTROLLER_RUNTIME.name, Target::AtLeast(10.0));
    [(Task::Get, 1.0), (Task::Index, 50.0)]
        .map(|(task, kube_rs)| {
            let variant = variant(task);
            let rows = vec![row(&variant, READS_PER_S, &[ten, (KUBE_RS, Target::AtLeast(kube_rs))])];
            let arguments = [
                ("n", n),
                ("group", group),
                ("readers", READERS),
                ("rate", RATE),
                ("milliseconds", MILLISECONDS),
            ];
            super::work(&variant, task, &arguments, rows)
        })
        .into()
}

/// Sequence of reads: numbers below `many`, each eventually.
pub(super) fn pick(read: usize, many: usize) -> usize {
    // No realistic number of objects is a multiple of the stride.
    read % many * STRIDE % many
}

/// Runs the readers during updates. `read` performs the read with a given number and returns whether it found the
/// expected object; `updated` returns whether an update has arrived.
///
/// # Errors
/// When the server does not start, a read fails, or no update arrived.
#[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
pub(super) async fn measure(
    run: &Run,
    read: impl Fn(usize) -> bool + Send + Sync + 'static,
    updated: impl Fn() -> bool,
) -> Result<Measured, Failure> {
    let spawner = run.scope.spawner();
    let mut connection = Client::new(&run.endpoint, spawner.clone())?.connect().await?;
    connection.ask(Asked::post(format!("/go?rate={}", run.rate), Vec::new())).await?;
    let (read, long) = (Arc::new(read), Duration::from_millis(run.milliseconds as u64));
    let readers: Vec<_> = (0..run.readers)
        .map(|reader| {
            let (read, clock) = (read.clone(), spawner.clock().clone());
            // A separate thread, since it never waits.
            spawner.spawn_blocking("reader", move || {
                let (began, mut count) = (clock.now(), 0);
                loop {
                    let first = reader * APART + count;
                    if !(first..first + READS).all(|number| read(number)) {
                        return None;
                    }
                    count += READS;
                    let passed = clock.now().duration_since(began);
                    if passed >= long {
                        return Some(count as f64 / passed.as_secs_f64());
                    }
                }
            })
        })
        .collect();
    let mut rate = 0.0;
    for reader in readers {
        rate += reader.await?.ok_or("something was not found that is there")?;
    }
    if !updated() {
        return Err("no update was seen while reading".into());
    }
    Ok(Measured::from([(READS_PER_S.name.to_owned(), rate)]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_are_read_before_one_is_read_again() {
        for many in [7, 200, 20_000] {
            let read: BTreeSet<_> = (0..many).map(|read| pick(read, many)).collect();
            assert_eq!(read.len(), many);
        }
    }
}
