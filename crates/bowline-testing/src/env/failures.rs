//! The check that no reconcile failed.

use bowline_runtime::FailedRuns;

use super::TestEnv;
use super::report::line;

impl TestEnv {
    /// Checks that no reconcile failed in any run of the operator: ended with an error (a
    /// [terminal](bowline_runtime::terminal) one too), with a panic, or by its timeout. Controllers of all clusters of the
    /// [managers](Self::manager) count, stopped ones too.
    ///
    /// Every failed attempt counts, also a conflict that the next attempt resolved. A test that expects failures reads
    /// [`ReconcileHistory::failures`](bowline_runtime::ReconcileHistory::failures) of the [history](Self::history) instead.
    ///
    /// A running reconcile has not failed. Call this at the end of a test or after [`finish`](Self::finish), which waits for
    /// running ones. A reconcile that a [crash](Self::crash) aborted did not fail.
    ///
    /// # Panics
    /// If a reconcile failed. The message has the number of failures, and for each of the last 64 the run (if there were
    /// several), the controller, the object, the triggers, the attempt (from the second on) and the error.
    #[track_caller]
    pub fn assert_no_failures(&self) {
        let FailedRuns { total, last, .. } = self.history().failures();
        if total == 0 {
            return;
        }
        let (now, has_runs) = (self.clock().system_time(), self.has_runs());
        let lines: Vec<_> =
            last.iter().map(|record| format!("\n  {}", line(record, now, has_runs))).collect();
        let all = if total > last.len() as u64 {
            format!("{total} reconciles failed; the last {}", last.len())
        } else {
            format!("{total} {} failed", if total == 1 { "reconcile" } else { "reconciles" })
        };
        panic!("{all}:{}", lines.concat());
    }

    /// Whether the operator was started more than once.
    pub(super) fn has_runs(&self) -> bool {
        self.inner.lock().run.number > 1
    }
}
