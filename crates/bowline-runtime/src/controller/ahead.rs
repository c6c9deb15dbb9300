//! The next requests of a worker, so that their objects can be prefetched.

use std::num::NonZeroUsize;

use bowline_workqueue::WorkQueue;

use super::queue_payload::QueuePayload;
use crate::Request;

/// Number of requests that a worker looks ahead.
const AHEAD: usize = 16;

/// Progress of a worker's look-ahead.
pub(super) struct Ahead {
    is_of_use: bool,
    /// Requests until the next look-ahead.
    left: usize,
}

impl Ahead {
    /// The look-ahead of one of several workers. Enabled for a single worker only: otherwise others take the requests.
    pub(super) fn new(is_wanted: bool, workers: NonZeroUsize) -> Self {
        Self { is_of_use: is_wanted && workers == NonZeroUsize::MIN, left: 0 }
    }

    /// Called before each run. Returns the next requests in the queue, unless they were returned before.
    pub(super) fn look(&mut self, queue: &WorkQueue<Request, QueuePayload>) -> Option<Vec<Request>> {
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

    /// The look-aheads while the queue is processed.
    fn seen(ahead: &mut Ahead, requests: &[Request]) -> Vec<Vec<Request>> {
        let queue = WorkQueue::<_, QueuePayload>::new(Clock::real());
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
