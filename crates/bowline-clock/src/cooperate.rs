//! Giving way: how a future that is always ready lets others on its thread run.

use std::task::{Context, Poll, ready};

use tokio::task::coop::{RestoreOnPending, poll_proceed};

/// Says that a poll which [`poll_cooperate`] let through has something to show for it. Dropped without
/// [`made`](Progress::made), the poll costs its task nothing.
#[must_use = "call `made` when the poll is going to return `Ready`"]
#[derive(Debug)]
pub struct Progress(RestoreOnPending);

impl Progress {
    /// The poll returns [`Poll::Ready`]: it counts against the task's turn.
    #[inline]
    pub fn made(self) {
        self.0.made_progress();
    }
}

/// Asks whether the current task may go on. [`Poll::Pending`] means that it has had its turn and is already
/// scheduled to be polled again: return `Pending` at once, without side effects.
///
/// A future that can be ready many times in a row calls this first in its `poll`; otherwise a loop around it
/// never yields and starves whatever shares its thread. It shares the budget of tokio's own resources. Outside
/// tokio it never says `Pending`.
#[inline]
pub fn poll_cooperate(cx: &mut Context<'_>) -> Poll<Progress> {
    Poll::Ready(Progress(ready!(poll_proceed(cx))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    #[tokio::test]
    async fn a_loop_that_is_always_ready_gives_way_to_its_neighbour() {
        let scope = crate::Clock::real().scope("test");
        let neighbour = scope.spawn("neighbour", async {});
        let mut turns = 0_u32;
        poll_fn(|cx| {
            // Never returns by itself: only Pending gets us out.
            while let Poll::Ready(progress) = poll_cooperate(cx) {
                progress.made();
                turns += 1;
            }
            Poll::Ready(())
        })
        .await;
        assert!(turns > 0);
        neighbour.await.unwrap();
    }
}
