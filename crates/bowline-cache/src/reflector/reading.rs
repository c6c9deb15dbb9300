//! Reads a list chunk by chunk: with few wake-ups, and with a timeout.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bowline_clock::{Clock, Instant, Sleep};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};

use crate::list_watch::{ByteStream, ListWatchError};

/// Maximum time without data of a list before the server is considered dead.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Tolerance of the timeout: resetting a timer for each chunk costs more than the chunk.
const TIMEOUT_TOLERANCE: Duration = Duration::from_secs(1);

/// Size from which a list counts as long.
const LONG_LIST: usize = 256 * 1024;

/// Pause before the next read of a long list without available data. A server sends the list object by object, and a
/// wake-up for each costs more than reading it.
const READ_PAUSE: Duration = Duration::from_millis(16);

/// Number of yields in a row without new data after which yielding is skipped.
const MAX_EMPTY_YIELDS: u8 = 3;

/// Reads one list.
pub(super) struct Reading {
    clock: Clock,
    timeout: Sleep,
    /// Start of the timeout.
    since: Instant,
    bytes: usize,
    /// Number of read bytes at which to check the clock again.
    next_clock_check: usize,
    /// Yields in a row without new data.
    empty_yields: u8,
    /// Whether chunks were available without a yield since then.
    flows: bool,
}

/// A chunk; `None` at the end.
type Next = Option<Result<Bytes, ListWatchError>>;

impl Reading {
    pub(super) fn new(clock: &Clock) -> Self {
        let since = clock.now();
        let timeout = clock.sleep_until(since + READ_TIMEOUT);
        Self {
            clock: clock.clone(),
            timeout,
            since,
            bytes: 0,
            next_clock_check: 0,
            empty_yields: 0,
            flows: false,
        }
    }

    /// Reads the next chunk; `None` at the end.
    pub(super) async fn next(&mut self, stream: &mut ByteStream) -> Result<Option<Bytes>, ListWatchError> {
        let next = if self.bytes < LONG_LIST { None } else { self.ready_soon(stream).await };
        let piece = match next {
            Some(piece) => piece,
            None => self.wait(stream).await?,
        };
        let piece = piece.transpose()?;
        self.bytes += piece.as_ref().map_or(0, Bytes::len);
        Ok(piece)
    }

    /// Whether the deadline has passed. Checked only after a pause or after many bytes: reading the clock for each
    /// chunk costs as much as splitting it into lines.
    pub(super) fn is_after(&mut self, deadline: Instant) -> bool {
        if self.bytes < self.next_clock_check {
            return false;
        }
        self.next_clock_check = self.bytes + LONG_LIST;
        self.clock.now() >= deadline
    }

    async fn wait(&mut self, stream: &mut ByteStream) -> Result<Next, ListWatchError> {
        if self.bytes >= LONG_LIST {
            self.clock.sleep(READ_PAUSE).await;
        }
        self.next_clock_check = self.bytes;
        let now = self.clock.now();
        if now.duration_since(self.since) >= TIMEOUT_TOLERANCE {
            self.since = now;
            self.timeout = self.clock.sleep_until(now + READ_TIMEOUT);
        }
        tokio::select! {
            biased;
            piece = stream.next() => Ok(piece),
            () = &mut self.timeout => Err(ListWatchError::Timeout(READ_TIMEOUT)),
        }
    }

    /// Returns the next chunk if it is available, possibly after one yield to the connection's task. If yielding has
    /// brought nothing before, skip it: it would only wake another thread.
    async fn ready_soon(&mut self, stream: &mut ByteStream) -> Option<Next> {
        if let Some(next) = stream.next().now_or_never() {
            self.flows = true;
            return Some(next);
        }
        if std::mem::take(&mut self.flows) && self.empty_yields == MAX_EMPTY_YIELDS {
            return None;
        }
        yield_to_ready_tasks().await;
        let next = stream.next().now_or_never();
        self.empty_yields = if next.is_some() { 0 } else { MAX_EMPTY_YIELDS.min(self.empty_yields + 1) };
        next
    }
}

/// Lets ready tasks of this thread run. Cheaper than tokio's `yield_now`, which polls all sockets.
pub(super) async fn yield_to_ready_tasks() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bowline_clock::Simulation;
    use futures::stream;

    use super::*;

    /// A long chunk, then pairs of chunks with a pause before each pair. Counts the polls without data.
    fn pieces(clock: &Clock, pause: Duration, waits: &Arc<AtomicUsize>) -> ByteStream {
        let (clock, waits) = (clock.clone(), waits.clone());
        let (mut count, mut sleep) = (0, clock.sleep(Duration::ZERO));
        stream::poll_fn(move |cx| {
            if Pin::new(&mut sleep).poll(cx).is_pending() {
                waits.fetch_add(1, Ordering::Relaxed);
                return Poll::Pending;
            }
            if count % 2 == 0 {
                sleep = clock.sleep(pause);
            }
            count += 1;
            let bytes = if count == 1 { LONG_LIST } else { 1 };
            Poll::Ready((count < 16).then(|| Ok(vec![0; bytes].into())))
        })
        .boxed()
    }

    #[test]
    fn yielding_stops_if_no_other_task_brings_the_list() {
        Simulation::new(1).run(|clock| async move {
            let waits = Arc::default();
            let mut stream = pieces(&clock, Duration::from_millis(20), &waits);
            let mut reading = Reading::new(&clock);
            let mut counts = Vec::new();
            while reading.next(&mut stream).await.unwrap().is_some() {
                counts.push(waits.swap(0, Ordering::Relaxed));
            }
            // Polls before and after the yield, and after the pause; later only before and after the pause.
            assert_eq!(counts, [0, 3, 0, 3, 0, 3, 0, 2, 0, 2, 0, 2, 0, 2, 0]);
        });
    }

    #[test]
    fn data_of_another_task_arrives_without_a_pause() {
        Simulation::new(2).run(|clock| async move {
            let waits = Arc::default();
            let (sender, receiver) = futures::channel::mpsc::channel(0);
            let bringing = clock.scope("test");
            let brought = pieces(&clock, Duration::ZERO, &waits).map(Ok).forward(sender);
            bringing.spawn("bringing", async move { brought.await.unwrap() });
            let (mut stream, began) = (receiver.boxed(), clock.now());
            let mut reading = Reading::new(&clock);
            while reading.next(&mut stream).await.unwrap().is_some() {}
            assert!(
                clock.now().duration_since(began) < READ_PAUSE,
                "{:?}",
                clock.now().duration_since(began)
            );
        });
    }
}
