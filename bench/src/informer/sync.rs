//! `informer-sync`: from the start of an informer until it has all objects, and its memory then.

use std::io;

use bowline_clock::{Clock, Instant};
use clap::ValueEnum as _;

use super::{BETWEEN_LOOKS, LIVE_BYTES_PER_OBJECT, Resource, Task};
use crate::apiserver::load::Failure;
use crate::go::CLIENT_GO;
use crate::maker::KUBE_RS;
use crate::metric::{CPU_S, RSS_PEAK_MIB, RSS_SETTLED_MIB, WALL_S};
use crate::process;
use crate::report::{Compared, Row, Target, row};
use crate::subject::{Measured, OURS, Work};

/// Key of the relist's CPU in the output of our run.
pub(super) const RELIST_CPU_S: &str = "relist: cpu_s";

fn work_of(resource: Resource, stripped: bool, n: usize) -> Work {
    let variant = if stripped { format!("{resource} stripped n={n}") } else { format!("{resource} n={n}") };
    let (client_go, kube_rs) = ((CLIENT_GO.name, Target::AtMost(0.5)), (KUBE_RS, Target::AtMost(0.5)));
    let half: &[_] = if stripped { &[] } else { &[client_go, kube_rs] };
    let no_more: &[_] = if stripped { &[(KUBE_RS, Target::AtMost(1.0))] } else { &[] };
    let above_settled = [(OURS, Target::AtMost(1.15))];
    let mut rows = vec![
        row(&variant, CPU_S, half),
        row(&variant, WALL_S, &[]),
        Row { own: Some(RSS_SETTLED_MIB.name.to_owned()), ..row(&variant, RSS_PEAK_MIB, &above_settled) },
        row(&variant, RSS_SETTLED_MIB, &[]),
        row(&variant, LIVE_BYTES_PER_OBJECT, no_more),
    ];
    if !stripped {
        rows.push(Row {
            key: RELIST_CPU_S.to_owned(),
            compared: Compared::Nothing,
            own: Some(CPU_S.name.to_owned()),
            ..row(&format!("{resource} relist n={n}"), CPU_S, &[(OURS, Target::AtMost(0.3))])
        });
    }
    let mut work = super::work(&variant, Task::Sync, &[("n", n)], rows);
    work.arguments.extend(["--resource".to_owned(), resource.to_string()]);
    if stripped {
        work.arguments.push("--strip".to_owned());
    }
    work
}

pub(super) fn work(n: usize) -> Vec<Work> {
    let resources = Resource::value_variants().iter();
    resources.flat_map(|resource| [false, true].map(|stripped| work_of(*resource, stripped, n))).collect()
}

/// Usage before the informer started.
pub(super) struct Before {
    clock: Clock,
    /// Set in a program with a counting allocator.
    allocated: Option<fn() -> usize>,
    held: usize,
    cpu: f64,
    began: Instant,
}

impl Before {
    pub(super) fn now(clock: &Clock, allocated: Option<fn() -> usize>) -> Self {
        let held = allocated.map_or(0, |allocated| allocated());
        Self { clock: clock.clone(), allocated, held, cpu: process::cpu_seconds(), began: clock.now() }
    }

    /// Measures the usage until the sync of all `n` objects, and the settled memory. A program with a counting
    /// allocator measures only that memory; others measure all else.
    #[expect(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
    pub(super) async fn synced(self, n: usize) -> Result<Measured, Failure> {
        let (cpu, wall) =
            (process::cpu_seconds() - self.cpu, self.clock.now().duration_since(self.began).as_secs_f64());
        let values = if let Some(allocated) = self.allocated {
            let live = || Ok((allocated() as f64) - self.held as f64);
            let live = process::settled(&self.clock, BETWEEN_LOOKS, live).await?;
            vec![(LIVE_BYTES_PER_OBJECT, live / n as f64)]
        } else {
            let status = |field| -> io::Result<f64> { process::status_mib_of(std::process::id(), field) };
            let settled = process::settled(&self.clock, BETWEEN_LOOKS, || status("VmRSS")).await?;
            vec![(CPU_S, cpu), (WALL_S, wall), (RSS_SETTLED_MIB, settled), (RSS_PEAK_MIB, status("VmHWM")?)]
        };
        Ok(values.into_iter().map(|(metric, value)| (metric.name.to_owned(), value)).collect())
    }
}
