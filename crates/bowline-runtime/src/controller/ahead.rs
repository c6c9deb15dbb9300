//! What a worker sees coming, so that what its reconciler needs is at hand by then.

use std::num::NonZeroUsize;

use bowline_workqueue::WorkQueue;

use super::pending::Pending;
use crate::Request;

/// How many requests a worker looks ahead.
const AHEAD: usize = 16;

/// How far a worker has looked ahead.
pub(super) struct Ahead {
    is_of_use: bool,
    /// So many requests will come before it looks again.
    left: usize,
}

impl Ahead {
    /// Of one of so many workers. It looks only if it is alone: what one of several sees ahead, the others take.
    pub(super) fn new(is_wanted: bool, workers: NonZeroUsize) -> Self {
        Self { is_of_use: is_wanted && workers == NonZeroUsize::MIN, left: 0 }
    }

    /// A request is about to be run: those that are in line behind it, unless they were seen before.
    pub(super) fn look(&mut self, queue: &WorkQueue<Request, Pending>) -> Option<Vec<Request>> {
        if !self.is_of_use {
            return None;
        }
        let is_due = self.left == 0;
        if is_due {
            self.left = AHEAD;
        }
        self.left -= 1;
        is_due.then(|| queue.peek(AHEAD))
    }
}

#[cfg(test)]
mod tests {
    use bowline_clock::Clock;

    use super::*;

    /// What is seen while a line of requests is worked through.
    fn seen(ahead: &mut Ahead, requests: &[Request]) -> Vec<Vec<Request>> {
        let queue = WorkQueue::<_, Pending>::new(Clock::real());
        for request in requests {
            queue.add(request.clone());
        }
        let items = std::iter::from_fn(|| queue.try_get());
        items.filter_map(|_item| ahead.look(&queue)).collect()
    }

    fn requests(count: usize) -> Vec<Request> {
        (0..count).map(|number| Request::new("default", &format!("n{number}"))).collect()
    }

    #[test]
    fn each_request_of_a_line_is_seen_once_before_it_comes() {
        let requests = requests(2 * AHEAD + 5);
        let seen = seen(&mut Ahead::new(true, NonZeroUsize::MIN), &requests);
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [AHEAD, AHEAD, 4]);
        assert_eq!(seen.concat(), requests[1..]);
    }

    #[test]
    fn nobody_looks_ahead_for_nothing() {
        let two = NonZeroUsize::MIN.saturating_add(1);
        for mut ahead in [Ahead::new(true, two), Ahead::new(false, NonZeroUsize::MIN)] {
            assert!(seen(&mut ahead, &requests(2 * AHEAD)).is_empty());
        }
    }
}
