//! Keeps up with one source of lists and watches, whatever happens between it and here, and puts what it learns into a
//! [`DeltaFifo`]. Owns when to list, when to watch and when to wait; what bytes mean is `decode`'s, and what a delta changes
//! is the informer's.

mod decoder;
mod health;
mod reading;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Clock, Instant, Spawner};
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use kube::Resource;

use crate::backoff::Backoff;
use crate::decode::{Frames, ListReader, WatchFrame};
use crate::delta_fifo::{Delta, DeltaFifo, Replaced};
use crate::list_watch::{ByteStream, ListOptions, ListWatch, ListWatchError, WatchOptions};
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::set_aside::SetAside;
use bowline_machinery::ObjectKey;
pub(crate) use decoder::{Decoded, Decoder, Transform};
use decoder::{Late, Listed, Whole};
pub(crate) use health::Health;
pub use health::Phase;
use reading::{Reading, SILENCE, give_way};

/// A watch lasts at least this long by the server's clock, and up to twice this.
const WATCH: Duration = Duration::from_secs(300);

/// So long after the server should have ended a watch, nobody is believed to be there any more.
const GRACE: Duration = Duration::from_secs(30);

/// A watch that ended earlier than this and had nothing to say is a failure.
const SHORT: Duration = Duration::from_secs(1);

/// So often in a row a watch may be broken off at the same place before everything is listed again.
const BROKEN_OFF: u32 = 3;

/// If a watch cannot go on so soon after a list, another list at once would not help either.
const LIST_PAYS: Duration = Duration::from_secs(30);

/// A server that asks to be left alone for longer than this is asked again all the same.
const ASKED: Duration = Duration::from_secs(120);

/// So many events of a watch are gathered before somebody is told of them, if they are there at once. Less than what makes
/// a handler that is busy with some count as one that falls behind.
const GATHERED: usize = 256;

/// What a reflector is told about errors.
pub(crate) type ErrorHook = Arc<dyn Fn(&ListWatchError) + Send + Sync>;

/// Keeps up with one part of what an informer covers.
pub(crate) struct Reflector<K> {
    part: usize,
    namespaces: Namespaces,
    list_watch: Arc<dyn ListWatch>,
    decoder: Arc<Decoder<K>>,
    fifo: Arc<DeltaFifo<K>>,
    health: Arc<Health>,
    metrics: Arc<dyn Metrics>,
    on_error: Option<ErrorHook>,
    settings: Settings,
    spawner: Spawner,
    backoff: Backoff,
    /// The version that is known here: that of the last object that was seen, readable or not, or of a bookmark.
    version: Option<String>,
    scratch: Vec<u8>,
    /// When everything was listed last.
    listed: Option<Instant>,
    /// How often in a row the watch from this version was broken off without having told anything.
    broken_off: u32,
}

/// How lists are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether a list is asked for as a watch first.
    pub(crate) streaming: bool,
    /// So many items on one page, where pages are needed.
    pub(crate) page: u32,
}

/// What a reflector is at.
enum State {
    /// Everything is to be listed.
    List(Way),
    /// Everything up to a version is known, and a watch is to be opened from there.
    Watch { version: String },
    /// A watch is open.
    Follow(Box<Following>),
    /// Something failed; after a while it goes on.
    Wait { pause: Duration, then: Box<State> },
}

/// How everything is listed: each way is tried when the one before was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As a watch that begins with what is there.
    Streaming,
    /// Whole, no older than what is known: from a real server's memory.
    AtLeast,
    /// The newest there is, in pages.
    Pages,
    /// The newest there is, whole: pages can expire while they are read.
    Whole,
}

/// An open watch.
struct Following {
    stream: ByteStream,
    frames: Frames,
    opened: Instant,
    deadline: Instant,
    /// Whether it had anything to say.
    has_told: bool,
    clock: Clock,
    metrics: Arc<dyn Metrics>,
}

impl Following {
    /// Takes another piece; whether it was the end.
    fn push(&mut self, piece: Option<Result<Bytes, ListWatchError>>) -> Option<End> {
        match piece {
            Some(Ok(piece)) => {
                self.frames.push(piece);
                None
            }
            Some(Err(error)) => Some(End::Broken(error)),
            None => Some(End::Over),
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.metrics.watch_ended(self.clock.now().since(self.opened));
    }
}

/// Why an open watch is followed no longer.
enum End {
    Over,
    Broken(ListWatchError),
}

impl<K: Resource + Send + Sync + 'static> Reflector<K> {
    #[expect(clippy::too_many_arguments, reason = "made in one place, from what an informer holds")]
    pub(crate) fn new(
        part: usize,
        namespaces: Namespaces,
        list_watch: Arc<dyn ListWatch>,
        decoder: Arc<Decoder<K>>,
        fifo: Arc<DeltaFifo<K>>,
        health: Arc<Health>,
        metrics: Arc<dyn Metrics>,
        on_error: Option<ErrorHook>,
        settings: Settings,
        spawner: Spawner,
    ) -> Self {
        let backoff = Backoff::new(spawner.clock().clone());
        Self {
            part,
            namespaces,
            list_watch,
            decoder,
            fifo,
            health,
            metrics,
            on_error,
            settings,
            spawner,
            backoff,
            version: None,
            scratch: Vec::new(),
            listed: None,
            broken_off: 0,
        }
    }

    /// Does not go back behind a version that is known here already: a server that is behind others may be asked.
    pub(crate) fn since(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut state = State::List(self.first_way());
        loop {
            state = self.step(state).await;
        }
    }

    async fn step(&mut self, state: State) -> State {
        match state {
            State::List(way) => {
                self.health.enter(Phase::Listing);
                let began = self.clock().now();
                let listed =
                    if way == Way::Streaming { self.stream_list().await } else { self.list(way).await };
                match listed {
                    Ok(next) => {
                        self.broken_off = 0;
                        let now = self.clock().now();
                        self.listed = Some(now);
                        tracing::debug!(took = ?now.since(began), version = self.version, "listed");
                        self.metrics.listed(now.since(began));
                        self.health.listed();
                        next
                    }
                    Err(error) => self.list_failed(way, &error),
                }
            }
            State::Watch { version } => {
                let timeout = self.draw_timeout();
                let options = WatchOptions {
                    resource_version: Some(version.clone()),
                    send_initial_events: false,
                    timeout,
                };
                match self.open(&options).await {
                    Ok(following) => {
                        self.health.enter(Phase::Watching);
                        State::Follow(following)
                    }
                    Err(error) => self.watch_failed(version, &error),
                }
            }
            State::Follow(mut following) => {
                let end = self.follow(&mut following).await;
                let (lasted, has_told) = (self.clock().now().since(following.opened), following.has_told);
                drop(following);
                self.watch_over(end, has_told, lasted)
            }
            State::Wait { pause, then } => {
                self.health.enter(Phase::Waiting);
                self.clock().sleep(pause).await;
                *then
            }
        }
    }

    fn first_way(&self) -> Way {
        if self.settings.streaming { Way::Streaming } else { Way::AtLeast }
    }

    fn clock(&self) -> &Clock {
        self.spawner.clock()
    }

    fn draw_timeout(&self) -> Duration {
        self.clock().rng().jitter(WATCH, 1.0)
    }

    /// What to do when a list failed.
    fn list_failed(&mut self, way: Way, error: &ListWatchError) -> State {
        let is_of_version = error.is_expired() || error.is_too_large_version();
        let is_unknown = matches!(error.code(), Some(400 | 405 | 406 | 415 | 422)) && !is_of_version;
        if way == Way::Streaming && is_unknown {
            // Nothing is wrong with a server that is older than this way to list.
            tracing::debug!(%error, "the server does not stream lists; asking for one");
        } else {
            self.report(error);
        }
        let next = match way {
            // Not every server knows this, and not everybody who may list may watch.
            Way::Streaming if error.is_about_request() => {
                if is_of_version {
                    // The newest there is: a server that is behind could be further behind than what is known here.
                    self.version = None;
                    return State::List(Way::Pages);
                }
                if is_unknown {
                    // It will not know it next time either.
                    self.settings.streaming = false;
                }
                Some(Way::AtLeast)
            }
            Way::AtLeast if is_of_version => Some(Way::Pages),
            Way::Pages if error.is_expired() => Some(Way::Whole),
            _ => None,
        };
        if let Some(next) = next {
            return State::List(next);
        }
        if is_of_version {
            self.version = None;
        }
        let again = match (way, error) {
            // A server that is too old to know this takes it for an ordinary watch, and never says that all was told.
            (Way::Streaming, ListWatchError::Silent(_) | ListWatchError::Malformed(_)) => Way::AtLeast,
            _ => self.first_way(),
        };
        State::Wait { pause: self.pause(error), then: Box::new(State::List(again)) }
    }

    /// How long to wait after a failure: as long as the server asks for, if that is longer than it would be anyway.
    fn pause(&mut self, error: &ListWatchError) -> Duration {
        self.backoff.next().max(error.retry_after().min(ASKED))
    }

    /// What to do when a watch could not be opened.
    fn watch_failed(&mut self, version: String, error: &ListWatchError) -> State {
        self.report(error);
        if error.is_expired() {
            return self.list_expired();
        }
        let again = if error.is_about_request() || error.is_too_large_version() {
            // What is denied now may be another thing when it is allowed again.
            State::List(self.first_way())
        } else {
            State::Watch { version }
        };
        State::Wait { pause: self.pause(error), then: Box::new(again) }
    }

    /// What to do when an open watch is over.
    fn watch_over(&mut self, end: End, has_told: bool, lasted: Duration) -> State {
        let Some(version) = self.version.clone() else { return State::List(self.first_way()) };
        let again = State::Watch { version };
        if has_told {
            self.broken_off = 0;
        }
        match end {
            End::Over if has_told || lasted >= SHORT => again,
            End::Over => {
                let error =
                    ListWatchError::Malformed(format!("a watch ended after {lasted:?} and had told nothing"));
                self.report(&error);
                State::Wait { pause: self.backoff.next(), then: Box::new(again) }
            }
            End::Broken(error) => {
                self.report(&error);
                if error.is_expired() {
                    return self.list_expired();
                }
                self.broken_off += 1;
                let again = if self.broken_off >= BROKEN_OFF { State::List(self.first_way()) } else { again };
                State::Wait { pause: self.pause(&error), then: Box::new(again) }
            }
        }
    }

    /// What to do when the server's history does not reach back to what is known: at once, unless a list was of no use just
    /// now.
    fn list_expired(&mut self) -> State {
        let list = State::List(self.first_way());
        if self.listed.is_some_and(|listed| self.clock().now().since(listed) < LIST_PAYS) {
            return State::Wait { pause: self.backoff.next(), then: Box::new(list) };
        }
        list
    }

    fn report(&self, error: &ListWatchError) {
        // The span says it too, but whoever wants only warnings does not see that.
        let kind = &self.decoder.kind;
        // A server that is away for an hour is not worth a line for each attempt.
        if self.health.failed(error) {
            tracing::warn!(%kind, %error, "cannot list or watch; will try again");
        } else {
            tracing::debug!(%kind, %error, "still cannot list or watch");
        }
        self.metrics.failed();
        if let Some(hook) = &self.on_error {
            hook(error);
        }
    }

    async fn open(&self, options: &WatchOptions) -> Result<Box<Following>, ListWatchError> {
        let opened = self.clock().now();
        let stream = self.in_time(SILENCE, self.list_watch.watch(options)).await??;
        self.metrics.watch_began();
        let deadline = opened + options.timeout + GRACE;
        let (clock, metrics) = (self.clock().clone(), self.metrics.clone());
        let frames = Frames::default();
        Ok(Box::new(Following { stream, frames, opened, deadline, has_told: false, clock, metrics }))
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, ListWatchError> {
        self.clock().timeout(limit, future).await.map_err(|_| ListWatchError::Silent(limit))
    }

    /// Lists by a watch that begins with what is there, and goes on with it.
    async fn stream_list(&mut self) -> Result<State, ListWatchError> {
        let timeout = self.draw_timeout();
        let options =
            WatchOptions { resource_version: self.version.clone(), send_initial_events: true, timeout };
        let mut following = self.open(&options).await?;
        let mut listed = Listed::new(self.decoder.clone(), self.spawner.clone());
        // What changed while the server was still telling what there is; from then on, all.
        let mut late = Vec::new();
        let mut reading = Reading::new(self.clock());
        loop {
            let piece = reading.next(&mut following.stream).await?;
            if reading.is_after(following.deadline) {
                return Err(ListWatchError::Silent(following.deadline.since(following.opened)));
            }
            let Some(piece) = piece else {
                return Err(ListWatchError::Malformed("a list ended before it was whole".to_owned()));
            };
            following.frames.push(piece);
            while let Some(line) = following.frames.next_line().map_err(malformed)? {
                match WatchFrame::parse(line).map_err(malformed)? {
                    WatchFrame::Added(object) if late.is_empty() => listed.offer(object),
                    WatchFrame::Bookmark { resource_version, initial_events_end: true } => {
                        let version = resource_version.into_owned();
                        self.replace(listed, late, version).await?;
                        self.health.enter(Phase::Watching);
                        return Ok(State::Follow(following));
                    }
                    WatchFrame::Bookmark { .. } => {}
                    WatchFrame::Added(object) | WatchFrame::Modified(object) => {
                        late.push(Late::Present(self.decoder.read(object, &mut self.scratch)));
                    }
                    WatchFrame::Deleted(object) => {
                        let gone = self.decoder.deleted(object, &mut self.scratch, &mut None);
                        late.push(Late::Gone(gone));
                    }
                    WatchFrame::Error(status) => return Err(ListWatchError::Status(status)),
                }
            }
            listed.keep_up().await?;
        }
    }

    /// Lists in one answer or in pages.
    async fn list(&mut self, way: Way) -> Result<State, ListWatchError> {
        let resource_version = match (way, &self.version) {
            (Way::AtLeast, Some(version)) => Some(version.clone()),
            (Way::AtLeast, None) => Some("0".to_owned()),
            _ => None,
        };
        let limit = (way == Way::Pages).then_some(self.settings.page);
        let mut options = ListOptions { resource_version, limit, continue_token: None };
        let mut listed = Listed::new(self.decoder.clone(), self.spawner.clone());
        let mut reading = Reading::new(self.clock());
        loop {
            let mut stream = self.in_time(SILENCE, self.list_watch.list(&options)).await??;
            let mut reader = ListReader::default();
            while let Some(piece) = reading.next(&mut stream).await? {
                reader.push(piece);
                while let Some(item) = reader.next_item().map_err(malformed)? {
                    listed.offer(item);
                }
                listed.keep_up().await?;
            }
            let meta = reader.finish().map_err(malformed)?;
            if let Some(token) = meta.continue_token {
                options.continue_token = Some(token);
                options.resource_version = None;
            } else {
                let version = meta.resource_version;
                self.replace(listed, Vec::new(), version.clone()).await?;
                return Ok(State::Watch { version });
            }
        }
    }

    /// Everything was listed.
    async fn replace(
        &mut self,
        listed: Listed<K>,
        late: Vec<Late<K>>,
        resource_version: String,
    ) -> Result<(), ListWatchError> {
        let Whole { kept, items, unreadable } = listed.finish(late).await?;
        // What is set aside later is not to be forgotten when this list is applied: it is forgotten here.
        let keys: BTreeSet<_> = unreadable.iter().map(|object| &object.key).collect();
        // What the list has as it is known was set aside by who wanted more of it.
        let is_kept = |object: &SetAside| {
            let known = self.decoder.indexer.get(&object.key);
            let is_it =
                |known: &Arc<K>| known.meta().resource_version.as_ref() == Some(&object.resource_version);
            kept.as_ref().zip(known.filter(is_it)).is_some_and(|(kept, known)| kept.has(&known))
        };
        let is_there = |key: &ObjectKey| !self.namespaces.contains(key) || keys.contains(key);
        self.decoder.shelf.retain(|object| is_there(&object.key) || is_kept(object));
        self.version = Some(resource_version.clone());
        let replaced =
            Delta::Replaced(Replaced { part: self.part, kept, items, unreadable, resource_version });
        self.fifo.push([replaced]).await;
        Ok(())
    }

    /// Follows a watch until it is over.
    async fn follow(&mut self, following: &mut Following) -> End {
        let mut deadline = self.clock().sleep_until(following.deadline);
        loop {
            // At first, what came along with the end of a list.
            if let Some(end) = self.take_frames(following).await {
                return end;
            }
            if self.clock().now() >= following.deadline {
                // A server that goes on sending has forgotten its own time; it is asked again.
                return End::Over;
            }
            let piece = tokio::select! {
                biased;
                piece = following.stream.next() => piece,
                () = &mut deadline => {
                    return End::Broken(ListWatchError::Silent(following.deadline.since(following.opened)));
                }
            };
            if let Some(end) = following.push(piece) {
                return end;
            }
        }
    }

    /// Takes all frames that are whole, and those in further pieces that are there already: whoever is told of them is
    /// woken once. What came before a bad one, or before the end, counts.
    async fn take_frames(&mut self, following: &mut Following) -> Option<End> {
        let mut deltas = Vec::new();
        let end = loop {
            if let Err(error) = self.read_frames(&mut following.frames, &mut deltas) {
                break Some(End::Broken(error));
            }
            if deltas.is_empty() || deltas.len() >= GATHERED {
                break None;
            }
            let Some(piece) = following.stream.next().now_or_never() else { break None };
            // A burst: room for all of it at once.
            deltas.reserve(2 * GATHERED - deltas.len());
            if let Some(end) = following.push(piece) {
                break Some(end);
            }
        };
        self.health.heard();
        if !deltas.is_empty() {
            following.has_told = true;
            self.metrics.events(deltas.len());
            let is_much = deltas.len() >= GATHERED;
            self.fifo.push(deltas).await;
            if is_much {
                // Who applies them may have to run on this thread, and is not to find a heap of them.
                give_way().await;
            }
        }
        end
    }

    fn read_frames(&mut self, frames: &mut Frames, deltas: &mut Vec<Delta<K>>) -> Result<(), ListWatchError> {
        while let Some(line) = frames.next_line().map_err(malformed)? {
            let delta = match WatchFrame::parse(line).map_err(malformed)? {
                WatchFrame::Added(object) | WatchFrame::Modified(object) => {
                    self.decoder.applied(object, &mut self.scratch, &mut self.version)
                }
                WatchFrame::Deleted(object) => {
                    self.decoder.deleted(object, &mut self.scratch, &mut self.version)
                }
                WatchFrame::Bookmark { resource_version, .. } => {
                    let resource_version = resource_version.into_owned();
                    self.version = Some(resource_version.clone());
                    Some(Delta::Bookmark { part: self.part, resource_version })
                }
                WatchFrame::Error(status) => return Err(ListWatchError::Status(status)),
            };
            let is_unreadable = matches!(delta, None | Some(Delta::Gone(_)));
            deltas.extend(delta);
            // What cannot be read has no version to go by, and nobody is to wait for it.
            if let Some(version) = self.version.as_ref().filter(|_| is_unreadable) {
                deltas.push(Delta::Bookmark { part: self.part, resource_version: version.clone() });
            }
        }
        Ok(())
    }
}

fn malformed(error: impl std::fmt::Display) -> ListWatchError {
    ListWatchError::Malformed(error.to_string())
}
