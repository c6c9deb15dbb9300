//! Cooperative yielding for futures that are always ready.

use std::task::{Context, Poll, ready};

use tokio::task::coop::{RestoreOnPending, poll_proceed};

/// A poll that [`poll_cooperate`] allowed. Call [`made_progress`](Progress::made_progress) if the poll is ready;
/// dropped without it, the poll uses no budget.
#[must_use = "call `made` when the poll is going to return `Ready`"]
#[derive(Debug)]
pub struct Progress(RestoreOnPending);

impl Progress {
    /// The poll returns [`Poll::Ready`], and uses one unit of the task's budget.
    #[inline]
    pub fn made_progress(self) {
        self.0.made_progress();
    }
}

/// Checks whether the current task may continue. [`Poll::Pending`] means that its budget is used up and that it is
/// already scheduled to be polled again: return `Pending` at once, without side effects.
///
/// A future that can be ready many times in a row calls this first in its `poll`; otherwise a loop around it never
/// yields and starves other tasks on its thread. It shares the budget of tokio's own resources. Outside tokio it never
/// returns `Pending`.
#[inline]
pub fn poll_cooperate(cx: &mut Context<'_>) -> Poll<Progress> {
    Poll::Ready(Progress(ready!(poll_proceed(cx))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_loop_that_is_always_ready_yields_to_other_tasks() {
        let scope = crate::Clock::real().scope("test");
        let neighbour = scope.spawn("neighbour", async {});
        let mut turns = 0_u32;
        poll_fn(|cx| {
            // Only `Pending` ends this loop.
            while let Poll::Ready(progress) = poll_cooperate(cx) {
                progress.made_progress();
                turns += 1;
            }
            Poll::Ready(())
        })
        .await;
        assert!(turns > 0);
        neighbour.await.unwrap();
    }
}
