//! What is seen of the demo: steps, the reconciles that they lead to, and what came of it.

use std::io::{self, Write as _};
use std::time::Duration;

use bowline::runtime::{Run, Runs};
use bowline_testing::TestEnv;

use super::{DemoError, NAME};

/// How many steps there are.
const STEPS: usize = 5;

/// When nothing was reconciled for so long, the last step is over.
const QUIET: Duration = Duration::from_millis(100);

/// Where the demo is played.
pub(super) struct Stage<'a> {
    env: &'a TestEnv,
    runs: Runs,
    timeout: Duration,
}

impl<'a> Stage<'a> {
    pub(super) fn new(env: &'a TestEnv, timeout: Duration) -> Self {
        Self { env, runs: env.cluster().journal().subscribe(), timeout }
    }

    /// Says what somebody does next, when what was done before has come to rest.
    pub(super) async fn begin(&mut self, number: usize, what: &str) -> Result<(), DemoError> {
        while self.env.clock().timeout(QUIET, self.runs.next()).await.is_ok_and(|run| run.is_some()) {}
        Self::step(number, what)
    }

    /// Waits for the reconcile that this is the reason of, and shows it.
    pub(super) async fn reconciled(&mut self, why: &str) -> Result<(), DemoError> {
        let is_it = |run: &Run| {
            run.request.name() == NAME && run.triggers.iter().any(|trigger| trigger.to_string() == why)
        };
        let find = async {
            loop {
                match self.runs.next().await {
                    Some(run) if is_it(&run) => return Some(run),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        let Ok(Some(run)) = self.env.clock().timeout(self.timeout, find).await else {
            return Err(DemoError::NoReconcile { why: why.to_owned(), limit: self.timeout });
        };
        let Run { request, triggers, took, outcome, .. } = run;
        say(&format!("      ↻ reconcile {request}, because: {triggers} ({outcome} in {took:.1?})"))
    }

    /// Says what somebody does next.
    pub(super) fn step(number: usize, what: &str) -> Result<(), DemoError> {
        say(&format!("[{number}/{STEPS}] {what}"))
    }

    /// Says what came of it.
    pub(super) fn done(what: &str) -> Result<(), DemoError> {
        say(&format!("      ✓ {what}\n"))
    }

    /// Says something to all of it.
    pub(super) fn title(text: &str) -> Result<(), DemoError> {
        say(&format!("{text}\n"))
    }
}

fn say(text: &str) -> Result<(), DemoError> {
    let mut output = io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
