//! Reading a list piece by piece, without being woken for each, and not for ever if nothing comes.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bowline_clock::{Clock, Instant, Sleep};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};

use crate::list_watch::{ByteStream, ListWatchError};

/// A server that has sent nothing more of a list for so long is not believed to be there any more.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// The time of silence may be shorter by so much: a timer that is moved for each piece costs more than the piece.
const PRECISION: Duration = Duration::from_secs(1);

/// A list is long when so many bytes of it were read.
const LONG: usize = 256 * 1024;

/// A long list that had nothing more to read is left alone for so long. A server sends it object by object, and being woken
/// for each costs more than reading it.
const NAP: Duration = Duration::from_millis(16);

/// So often in a row giving way may bring nothing before it is taken that nobody else brings the list.
const IN_VAIN: u8 = 3;

/// Reads one list.
pub(super) struct Reading {
    clock: Clock,
    silence: Sleep,
    /// From when the silence is counted.
    since: Instant,
    bytes: usize,
    /// When so many bytes were read, it is time to look at the clock.
    next_look: usize,
    /// How often in a row giving way brought nothing,
    in_vain: u8,
    /// and whether pieces came without that since.
    flows: bool,
}

/// A piece; none at the end.
type Next = Option<Result<Bytes, ListWatchError>>;

impl Reading {
    pub(super) fn new(clock: &Clock) -> Self {
        let since = clock.now();
        let silence = clock.sleep_until(since + SILENCE);
        Self { clock: clock.clone(), silence, since, bytes: 0, next_look: 0, in_vain: 0, flows: false }
    }

    /// The next piece; none at the end.
    pub(super) async fn next(&mut self, stream: &mut ByteStream) -> Result<Option<Bytes>, ListWatchError> {
        let next = if self.bytes < LONG { None } else { self.ready_soon(stream).await };
        let piece = match next {
            Some(piece) => piece,
            None => self.wait(stream).await?,
        };
        let piece = piece.transpose()?;
        self.bytes += piece.as_ref().map_or(0, Bytes::len);
        Ok(piece)
    }

    /// Whether it is so late, told when nothing was there for a while or much was: looking at the clock for each piece costs as
    /// much as splitting it into lines.
    pub(super) fn is_after(&mut self, deadline: Instant) -> bool {
        if self.bytes < self.next_look {
            return false;
        }
        self.next_look = self.bytes + LONG;
        self.clock.now() >= deadline
    }

    async fn wait(&mut self, stream: &mut ByteStream) -> Result<Next, ListWatchError> {
        if self.bytes >= LONG {
            self.clock.sleep(NAP).await;
        }
        self.next_look = self.bytes;
        let now = self.clock.now();
        if now.since(self.since) >= PRECISION {
            self.since = now;
            self.silence = self.clock.sleep_until(now + SILENCE);
        }
        tokio::select! {
            biased;
            piece = stream.next() => Ok(piece),
            () = &mut self.silence => Err(ListWatchError::Silent(SILENCE)),
        }
    }

    /// What comes next, if it is there, or if whoever brings it from the socket only has to get a turn. Where nobody does,
    /// giving way would only wake another thread.
    async fn ready_soon(&mut self, stream: &mut ByteStream) -> Option<Next> {
        if let Some(next) = stream.next().now_or_never() {
            self.flows = true;
            return Some(next);
        }
        if std::mem::take(&mut self.flows) && self.in_vain == IN_VAIN {
            return None;
        }
        give_way().await;
        let next = stream.next().now_or_never();
        self.in_vain = if next.is_some() { 0 } else { IN_VAIN.min(self.in_vain + 1) };
        next
    }
}

/// Lets the tasks run that are ready on this thread. Cheaper than tokio's own way, which looks for news of all sockets.
pub(super) async fn give_way() {
    let mut has_given_way = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_given_way, true) {
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

    /// What makes a list long, then pairs of pieces, each pair so long after the one before. Counts how often somebody had to
    /// wait.
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
            let bytes = if count == 1 { LONG } else { 1 };
            Poll::Ready((count < 16).then(|| Ok(vec![0; bytes].into())))
        })
        .boxed()
    }

    #[test]
    fn where_nobody_else_brings_the_list_nobody_is_given_a_turn() {
        Simulation::new(1).run(|clock| async move {
            let waits = Arc::default();
            let mut stream = pieces(&clock, Duration::from_millis(20), &waits);
            let mut reading = Reading::new(&clock);
            let mut counts = Vec::new();
            while reading.next(&mut stream).await.unwrap().is_some() {
                counts.push(waits.swap(0, Ordering::Relaxed));
            }
            // Before giving way, after it, and after a nap; from then on before a nap and after it.
            assert_eq!(counts, [0, 3, 0, 3, 0, 3, 0, 2, 0, 2, 0, 2, 0, 2, 0]);
        });
    }

    #[test]
    fn what_another_task_brings_is_not_waited_for() {
        Simulation::new(2).run(|clock| async move {
            let waits = Arc::default();
            let (sender, receiver) = futures::channel::mpsc::channel(0);
            let bringing = clock.scope("test");
            let brought = pieces(&clock, Duration::ZERO, &waits).map(Ok).forward(sender);
            bringing.spawn("bringing", async move { brought.await.unwrap() });
            let (mut stream, began) = (receiver.boxed(), clock.now());
            let mut reading = Reading::new(&clock);
            while reading.next(&mut stream).await.unwrap().is_some() {}
            assert!(clock.now().since(began) < NAP, "{:?}", clock.now().since(began));
        });
    }
}
