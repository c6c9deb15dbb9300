//! A program under measurement: started once per run, so that memory and CPU time belong to that run alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use bowline_clock::{Spawner, Task};
use clap::ValueEnum;

use crate::arguments::typed;
use crate::report::{self, Row};

/// Name of our own subject.
pub(crate) const OURS: &str = "bowline";

/// Number of stderr lines of a failed run to print.
const TAIL_LINES: usize = 20;

/// Maximum number of values shown after a run; the table shows all.
const SHOWN_VALUES: usize = 4;

/// Measurements of a run, by row key.
pub(crate) type Measured = BTreeMap<String, f64>;

/// A program that takes a workload as arguments and prints one JSON object, of metrics to numbers, on stdout.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    pub(crate) program: PathBuf,
    /// Arguments before those of the workload.
    pub(crate) arguments: Vec<String>,
}

/// One workload of a scenario, in the form that every subject runs.
#[derive(Debug)]
pub(crate) struct Work {
    /// Name in progress messages.
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    /// Keys that a run must report.
    pub(crate) rows: Vec<Row>,
    /// A run that takes longer is killed.
    pub(crate) limit: Duration,
    /// Maximum number of pairs, for long runs.
    pub(crate) most_pairs: Option<usize>,
}

impl Work {
    /// A task of a program, with numbers that it is given by name.
    pub(crate) fn of_task(
        variant: &str,
        task: &impl ValueEnum,
        arguments: &[(&str, usize)],
        rows: Vec<Row>,
        limit: Duration,
    ) -> Self {
        // Go's `flag` accepts two dashes as well.
        let mut all = vec!["--task".to_owned(), typed(task)];
        for (name, value) in arguments {
            all.extend([format!("--{name}"), value.to_string()]);
        }
        Self { name: variant.to_owned(), arguments: all, rows, limit, most_pairs: None }
    }

    /// Whether a subject has any metric of this work.
    pub(crate) fn is_of(&self, subject: &str) -> bool {
        self.rows.iter().any(|row| row.is_of(subject))
    }

    /// Number of runs for this number of pairs.
    pub(crate) fn pairs(&self, asked: usize) -> usize {
        self.most_pairs.map_or(asked, |most| most.min(asked))
    }
}

/// All runs of one workload by one subject.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) subject: &'static str,
    /// One per pair, `None` where it failed.
    pub(crate) pairs: Vec<Option<Measured>>,
}

/// Prints progress to stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    over: usize,
    failures: usize,
}

/// Runs one workload on every subject in turn, `pairs` times, so that other load on the machine affects all of them.
///
/// A run that fails, or lacks a measurement, is reported by `progress`, and the others continue.
pub(crate) async fn run_pairs(
    subjects: &[Subject],
    spawner: &Spawner,
    pairs: usize,
    work: &Work,
    progress: &mut Progress,
) -> Vec<Runs> {
    let mut runs: Vec<_> =
        subjects.iter().map(|subject| Runs { subject: subject.name, pairs: Vec::new() }).collect();
    for pair in 1..=pairs {
        for (subject, runs) in subjects.iter().zip(&mut runs).filter(|(subject, _)| work.is_of(subject.name))
        {
            let result = subject.run(spawner, work).await;
            let what = format!("{}, pair {pair}, {}", work.name, subject.name);
            progress.report(&what, &result, &work.rows);
            runs.pairs.push(result.ok());
        }
    }
    runs
}

impl Runs {
    /// Values of one row in each run, `None` where it failed.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = Option<f64>> {
        self.pairs.iter().map(move |run| run.as_ref()?.get(key).copied())
    }
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, over: 0, failures: 0 }
    }

    /// Number of failed runs so far.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    fn report(&mut self, what: &str, result: &Result<Measured, RunError>, rows: &[Row]) {
        self.over += 1;
        let outcome = match result {
            Ok(measured) => {
                let values = rows.iter().filter_map(|row| {
                    let value = report::number(Some(*measured.get(&row.key)?));
                    Some(format!("{value} {}", row.metric.unit))
                });
                let more = if measured.len() > SHOWN_VALUES { ", …" } else { "" };
                values.take(SHOWN_VALUES).collect::<Vec<_>>().join(", ") + more
            }
            Err(error) => {
                self.failures += 1;
                format!("failed: {error}")
            }
        };
        eprintln!("[{}/{}] {what}: {outcome}", self.over, self.total);
    }
}

impl Subject {
    /// Runs the subject once, to its end or until the limit of the work.
    ///
    /// # Errors
    /// When it cannot be started, does not end in time, fails, or prints invalid output.
    pub(crate) async fn run(&self, spawner: &Spawner, work: &Work) -> Result<Measured, RunError> {
        let limit = work.limit;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(&work.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| RunError::NotStarted { program: self.program.clone(), source })?;
        // Both pipes are read to the end, so that the process never blocks on a full one. Its stdout ends with it.
        let mut stdout = read_to_end(spawner, "stdout", child.stdout.take());
        let stderr = read_to_end(spawner, "stderr", child.stderr.take());
        let printed = spawner.clock().timeout(limit, &mut stdout).await;
        if printed.is_err() {
            child.kill().map_err(RunError::NotWaitedFor)?;
        }
        let status = child.wait().map_err(RunError::NotWaitedFor)?;
        let stderr = tail(&stderr.await.unwrap_or_default());
        match printed {
            Err(_) => Err(RunError::TimedOut { limit, stderr }),
            Ok(_) if !status.success() => Err(RunError::Failed { status, stderr }),
            Ok(printed) => parse(printed.unwrap_or_default()).and_then(|m| self.complete(m, &work.rows)),
        }
    }

    fn complete(&self, measured: Measured, rows: &[Row]) -> Result<Measured, RunError> {
        let mut asked = rows.iter().filter(|row| row.is_of(self.name));
        match asked.find(|row| !measured.contains_key(&row.key)) {
            Some(row) => Err(RunError::NotMeasured { key: row.key.clone() }),
            None => Ok(measured),
        }
    }
}

fn read_to_end(spawner: &Spawner, name: &str, pipe: Option<impl Read + Send + 'static>) -> Task<String> {
    spawner.spawn_blocking(name, move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // Output before an error is still useful, and the exit status reports the rest.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn parse(printed: String) -> Result<Measured, RunError> {
    serde_json::from_str(&printed).map_err(|source| RunError::Unreadable { printed, source })
}

/// A run failed.
#[derive(Debug)]
pub(crate) enum RunError {
    NotStarted { program: PathBuf, source: io::Error },
    NotWaitedFor(io::Error),
    TimedOut { limit: Duration, stderr: String },
    Failed { status: ExitStatus, stderr: String },
    Unreadable { printed: String, source: serde_json::Error },
    NotMeasured { key: String },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted { program, source } => write!(f, "cannot start {}: {source}", program.display()),
            Self::NotWaitedFor(source) => write!(f, "cannot end or wait for the process: {source}"),
            Self::TimedOut { limit, stderr } => write!(f, "killed after {limit:?}{}", indented(stderr)),
            Self::Failed { status, stderr } => write!(f, "{status}{}", indented(stderr)),
            Self::Unreadable { printed, source } => {
                write!(f, "printed no JSON object of numbers ({source}){}", indented(&tail(printed)))
            }
            Self::NotMeasured { key } => write!(f, "did not measure {key}"),
        }
    }
}

impl std::error::Error for RunError {}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["\n    ", line]).collect()
}

#[cfg(test)]
mod tests {
    use bowline_clock::Clock;

    use super::*;
    use crate::report::{Compared, Metric, row};

    const LIMIT: Duration = Duration::from_secs(180);

    fn work(rows: Vec<Row>, limit: Duration) -> Work {
        Work { name: "test".to_owned(), arguments: Vec::new(), rows, limit, most_pairs: None }
    }

    fn cpu() -> Row {
        row("test", Metric { name: "cpu_s", unit: "s" }, &[])
    }

    fn shell(script: &str) -> Subject {
        Subject {
            name: "shell",
            version: String::new(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
        }
    }

    fn block_on<T>(work: impl AsyncFnOnce(Spawner) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let scope = Clock::real().scope("test");
        runtime.block_on(work(scope.spawner()))
    }

    fn run(script: &str, limit: Duration) -> Result<Measured, RunError> {
        block_on(async |spawner| shell(script).run(&spawner, &work(Vec::new(), limit)).await)
    }

    #[test]
    fn a_run_gives_the_metrics_it_prints() {
        let measured = run(r#"echo '{"cpu_s":0.5,"keys_per_s":12}'"#, LIMIT).unwrap();
        assert_eq!(measured, BTreeMap::from([("cpu_s".to_owned(), 0.5), ("keys_per_s".to_owned(), 12.0)]));
    }

    #[test]
    fn a_failed_run_tells_its_status_and_the_end_of_its_stderr() {
        let error = run("seq 1 100 >&2; exit 3", LIMIT).unwrap_err().to_string();
        assert!(error.starts_with("exit status: 3\n    81\n"), "{error}");
        assert!(error.ends_with("\n    100"), "{error}");
    }

    #[test]
    fn a_run_that_does_not_end_is_killed() {
        let error = run("echo stuck >&2; exec sleep 600", Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.to_string(), "killed after 200ms\n    stuck");
    }

    #[test]
    fn what_is_not_an_object_of_numbers_is_an_error() {
        let error = run("echo hello", LIMIT).unwrap_err().to_string();
        assert!(error.starts_with("printed no JSON object of numbers ("), "{error}");
        assert!(error.ends_with("\n    hello"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let missing = Subject { program: "/nonexistent/program".into(), ..shell("") };
        let error = block_on(async |spawner| missing.run(&spawner, &work(Vec::new(), LIMIT)).await)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot start /nonexistent/program: "), "{error}");
    }

    #[test]
    fn a_failed_run_leaves_a_gap_and_the_others_go_on() {
        let subjects = [shell(r#"echo '{"cpu_s":1}'"#), shell("exit 1"), shell(r#"echo '{"wall_s":1}'"#)];
        let mut progress = Progress::new(6);
        let work = work(vec![cpu()], LIMIT);
        let runs = block_on(async |spawner| run_pairs(&subjects, &spawner, 2, &work, &mut progress).await);
        let values: Vec<Vec<_>> = runs.iter().map(|runs| runs.values("cpu_s").collect()).collect();
        assert_eq!(values, [[Some(1.0), Some(1.0)], [None, None], [None, None]]);
        assert_eq!(progress.failures(), 4);
    }

    #[test]
    fn a_peer_need_not_measure_what_only_ours_has() {
        let row = Row { compared: Compared::With("other".to_owned()), ..cpu() };
        let run = |name| {
            let subject = Subject { name, ..shell("echo '{}'") };
            let work = work(vec![row.clone()], LIMIT);
            block_on(async |spawner| subject.run(&spawner, &work).await).map_err(|error| error.to_string())
        };
        assert_eq!(run("kube-apiserver"), Ok(Measured::new()));
        assert_eq!(run(OURS), Err("did not measure cpu_s".to_owned()));
    }
}
