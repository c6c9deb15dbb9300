//! The last reconciles: why they ran and how they ended. For tests that fail, for a page to look at, for people on call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::{Request, Triggers};

/// How many reconciles are kept.
const KEPT: usize = 256;

/// The last reconciles of all controllers of a cluster. A clone is the same journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    runs: Arc<Mutex<VecDeque<Run>>>,
}

/// One reconcile that is over.
#[derive(Clone, Debug)]
pub struct Run {
    /// The controller's name.
    pub controller: Arc<str>,
    /// What was reconciled.
    pub request: Request,
    /// Why.
    pub triggers: Triggers,
    /// The how many-th try it was, from 1.
    pub attempt: u32,
    /// When it began.
    pub started: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// There is nothing more to do.
    Done,
    /// It wants to be run again after a time.
    RequeueAfter(Duration),
    /// It wants to be run again, backing off.
    BackOff,
    /// It failed, and is tried again.
    Failed(String),
    /// It failed, and is not tried again: the error is terminal.
    Terminal(String),
    /// It failed once too often, and is not tried again.
    GaveUp(String),
    /// It panicked, and is tried again.
    Panicked(String),
    /// It took too long, and is tried again.
    TimedOut,
}

impl Journal {
    /// The last reconciles, oldest first.
    #[must_use]
    pub fn runs(&self) -> Vec<Run> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn add(&self, run: Run) {
        let mut runs = self.lock();
        if runs.len() == KEPT {
            runs.pop_front();
        }
        runs.push_back(run);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
