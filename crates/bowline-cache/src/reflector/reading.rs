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
const NAP: Duration = Duration::from_millis(8);

/// Reads one list.
pub(super) struct Reading {
    clock: Clock,
    silence: Sleep,
    /// From when the silence is counted.
    since: Instant,
    bytes: usize,
}

impl Reading {
    pub(super) fn new(clock: &Clock) -> Self {
        let since = clock.now();
        let silence = clock.sleep_until(since + SILENCE);
        Self { clock: clock.clone(), silence, since, bytes: 0 }
    }

    /// The next piece; none at the end.
    pub(super) async fn next(&mut self, stream: &mut ByteStream) -> Result<Option<Bytes>, ListWatchError> {
        let next = if self.bytes < LONG { None } else { ready_soon(stream).await };
        let piece = match next {
            Some(piece) => piece,
            None => self.wait(stream).await?,
        };
        let piece = piece.transpose()?;
        self.bytes += piece.as_ref().map_or(0, Bytes::len);
        Ok(piece)
    }

    async fn wait(
        &mut self,
        stream: &mut ByteStream,
    ) -> Result<Option<Result<Bytes, ListWatchError>>, ListWatchError> {
        if self.bytes >= LONG {
            self.clock.sleep(NAP).await;
        }
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
}

/// What comes next, if it is there, or if whoever brings it from the socket only has to get a turn.
async fn ready_soon(stream: &mut ByteStream) -> Option<Option<Result<Bytes, ListWatchError>>> {
    if let Some(next) = stream.next().now_or_never() {
        return Some(next);
    }
    give_way().await;
    stream.next().now_or_never()
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
