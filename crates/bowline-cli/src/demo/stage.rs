//! The output of the demo: steps, their reconciles and their results.

use std::time::Duration;

use bowline::runtime::{ReconcileRecord, ReconcileStream};
use bowline_testing::TestEnv;

use super::{DemoError, NAME};
use crate::screen::Screen;

/// Number of steps.
const STEPS: usize = 5;

/// Time without a reconcile after which a step is over.
const QUIET: Duration = Duration::from_millis(100);

/// The output, and the reconciles of the environment.
pub(super) struct DemoOutput<'a> {
    env: &'a TestEnv,
    runs: ReconcileStream,
    timeout: Duration,
}

impl<'a> DemoOutput<'a> {
    pub(super) fn new(env: &'a TestEnv, timeout: Duration) -> Self {
        Self { env, runs: env.cluster().history().subscribe(), timeout }
    }

    /// Prints the next step, after the reconciles of the last one have ended.
    pub(super) async fn begin(&mut self, number: usize, what: &str) -> Result<(), DemoError> {
        while self.env.clock().timeout(QUIET, self.runs.next()).await.is_ok_and(|run| run.is_some()) {}
        Self::step(number, what)
    }

    /// Waits for the reconcile with this trigger, and prints it.
    pub(super) async fn reconciled(&mut self, why: &str) -> Result<(), DemoError> {
        let is_it = |run: &ReconcileRecord| {
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
        let ReconcileRecord { request, triggers, took, outcome, .. } = run;
        say(&format!("      ↻ reconcile {request}, because: {triggers} ({outcome} in {took:.1?})"))
    }

    /// Prints a step.
    pub(super) fn step(number: usize, what: &str) -> Result<(), DemoError> {
        say(&format!("[{number}/{STEPS}] {what}"))
    }

    /// Prints the result of a step.
    pub(super) fn done(what: &str) -> Result<(), DemoError> {
        say(&format!("      ✓ {what}\n"))
    }

    /// Prints a text about the whole demo.
    pub(super) fn title(text: &str) -> Result<(), DemoError> {
        say(&format!("{text}\n"))
    }
}

fn say(text: &str) -> Result<(), DemoError> {
    Ok(Screen::stdout().line(text)?)
}
