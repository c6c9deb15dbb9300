//! The parts shared by all scenarios, from arguments to exit status.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;

use bowline_clock::Clock;

use crate::arguments::{Common, PAIRS_THAT_COUNT, Peer};
use crate::report::Report;
use crate::subject::{Progress, Subject, Work, run_pairs};

/// Name of a scenario, and its possible peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) peers: &'static [Peer],
}

/// Runs the scenario and prints its results. Returns 0 when every subject ran every workload, 2 when the arguments are
/// invalid, else 1.
pub(crate) fn run(
    scenario: Scenario,
    common: &Common,
    subjects: impl FnOnce(&BTreeSet<Peer>) -> Result<Vec<Subject>, Box<dyn Error>>,
    work: Vec<Work>,
) -> ExitCode {
    let peers = match common.peers(scenario.name, scenario.peers) {
        Ok(peers) => peers,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    if common.pairs < PAIRS_THAT_COUNT {
        eprintln!("note: a result of fewer than {PAIRS_THAT_COUNT} pairs does not count");
    }
    if cfg!(debug_assertions) {
        eprintln!("note: a result of a build without --release does not count");
    }
    match subjects(&peers).and_then(|subjects| compare(scenario.name, common, &subjects, work)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("error: not every subject ran every workload, see above");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all workloads on all subjects, and prints each workload's results at its end. Returns whether all runs
/// succeeded.
fn compare(
    scenario: &'static str,
    common: &Common,
    subjects: &[Subject],
    work: Vec<Work>,
) -> Result<bool, Box<dyn Error>> {
    let (json, pairs) = (common.json, common.pairs);
    let runs =
        |work: &Work| work.pairs(pairs) * subjects.iter().filter(|subject| work.is_of(subject.name)).count();
    let mut progress = Progress::new(work.iter().map(runs).sum());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let scope = Clock::real().scope(scenario);

    if !json {
        let names: Vec<_> = subjects.iter().map(|s| format!("{} {}", s.name, s.version)).collect();
        println!("{scenario}: {}; pairs: {pairs}", names.join(", "));
    }
    for work in work {
        let runs =
            runtime.block_on(run_pairs(subjects, &scope.spawner(), work.pairs(pairs), &work, &mut progress));
        let report = Report { scenario, rows: work.rows, runs };
        if json {
            print!("{}", report.json_lines());
        } else {
            print!("\n{}", report.table());
        }
    }
    Ok(progress.failures() == 0)
}
