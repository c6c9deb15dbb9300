//! Lists and watches one source, and pushes the changes into a [`DeltaFifo`]. Owns when to list, watch and wait.
//! `decode` interprets bytes, and the informer applies deltas.

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
use crate::undecodable::UndecodableObject;
use bowline_machinery::ObjectKey;
pub(crate) use decoder::{Decoded, Decoder, Transform};
use decoder::{LateChange, ListDecoder, Whole};
pub(crate) use health::Health;
pub use health::ReflectorPhase;
use reading::{READ_TIMEOUT, Reading, yield_to_ready_tasks};

/// Minimum timeout of a watch on the server. The actual one is up to twice as long.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Time after a watch's timeout at which a server that still has not ended it is considered dead.
const GRACE: Duration = Duration::from_secs(30);

/// Minimum duration of a watch without events. A shorter one is a failure.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(1);

/// Maximum number of watches that break in a row at the same version before a relist.
const MAX_BROKEN_WATCHES: u32 = 3;

/// Minimum time between a list and a relist because of an expired version.
const MIN_RELIST_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum delay that a server can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// Maximum events of a watch that are pushed together, if they are available at once. Small enough that a busy handler
/// does not count as behind.
const MAX_GATHERED: usize = 256;

/// Called with each failed list and watch.
pub(crate) type ErrorHook = Arc<dyn Fn(&ListWatchError) + Send + Sync>;

/// Lists and watches one part of an informer.
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
    /// Last known version: of an object, decodable or not, or of a bookmark.
    version: Option<String>,
    scratch: Vec<u8>,
    /// Time of the last list.
    listed: Option<Instant>,
    /// Number of watches in a row that broke at the present version without an event.
    broken_watches: u32,
}

/// Options of lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Whether to try a streaming list first.
    pub(crate) streaming: bool,
    /// Items per page, if pages are needed.
    pub(crate) page: u32,
}

/// State of a reflector.
enum State {
    /// List everything.
    List(ListMethod),
    /// Open a watch at this version.
    Watch { version: String },
    /// A watch is open.
    Follow(Box<OpenWatch>),
    /// Wait after a failure.
    Wait { pause: Duration, then: Box<State> },
}

/// The ways to list. Each one is the fallback of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMethod {
    /// A watch with `sendInitialEvents`.
    Streaming,
    /// One response, no older than the known version: a server answers from memory.
    NotOlderThan,
    /// The newest state, in pages.
    Pages,
    /// The newest state in one response: pages can expire during the list.
    Whole,
}

/// An open watch.
struct OpenWatch {
    stream: ByteStream,
    frames: Frames,
    opened: Instant,
    deadline: Instant,
    /// Whether it has delivered anything.
    has_events: bool,
    clock: Clock,
    metrics: Arc<dyn Metrics>,
}

impl OpenWatch {
    /// Takes the next chunk; returns the end, if it was that.
    fn push(&mut self, piece: Option<Result<Bytes, ListWatchError>>) -> Option<WatchEnd> {
        match piece {
            Some(Ok(piece)) => {
                self.frames.push(piece);
                None
            }
            Some(Err(error)) => Some(WatchEnd::Broken(error)),
            None => Some(WatchEnd::Over),
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.metrics.watch_ended(self.clock.now().duration_since(self.opened));
    }
}

/// Reason for the end of a watch.
enum WatchEnd {
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
            broken_watches: 0,
        }
    }

    /// Sets the minimum version of the first list, so that an outdated server cannot take the informer back.
    pub(crate) fn since(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut state = State::List(self.first_method());
        loop {
            state = self.step(state).await;
        }
    }

    async fn step(&mut self, state: State) -> State {
        match state {
            State::List(method) => {
                self.health.enter(ReflectorPhase::Listing);
                let began = self.clock().now();
                let listed = if method == ListMethod::Streaming {
                    self.stream_list().await
                } else {
                    self.list(method).await
                };
                match listed {
                    Ok(next) => {
                        self.broken_watches = 0;
                        let now = self.clock().now();
                        self.listed = Some(now);
                        tracing::debug!(took = ?now.duration_since(began), version = self.version, "listed");
                        self.metrics.listed(now.duration_since(began));
                        self.health.listed();
                        next
                    }
                    Err(error) => self.list_failed(method, &error),
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
                    Ok(watch) => {
                        self.health.enter(ReflectorPhase::Watching);
                        State::Follow(watch)
                    }
                    Err(error) => self.watch_failed(version, &error),
                }
            }
            State::Follow(mut watch) => {
                let end = self.follow(&mut watch).await;
                let (lasted, has_events) =
                    (self.clock().now().duration_since(watch.opened), watch.has_events);
                drop(watch);
                self.watch_over(end, has_events, lasted)
            }
            State::Wait { pause, then } => {
                self.health.enter(ReflectorPhase::Waiting);
                self.clock().sleep(pause).await;
                *then
            }
        }
    }

    fn first_method(&self) -> ListMethod {
        if self.settings.streaming { ListMethod::Streaming } else { ListMethod::NotOlderThan }
    }

    fn clock(&self) -> &Clock {
        self.spawner.clock()
    }

    fn draw_timeout(&self) -> Duration {
        self.clock().rng().jitter(MIN_WATCH_TIMEOUT, 1.0)
    }

    /// The next state after a failed list.
    fn list_failed(&mut self, method: ListMethod, error: &ListWatchError) -> State {
        let is_of_version = error.is_expired() || error.is_too_large_version();
        let is_unknown = matches!(error.code(), Some(400 | 405 | 406 | 415 | 422)) && !is_of_version;
        if method == ListMethod::Streaming && is_unknown {
            // An older server is not an error.
            tracing::debug!(%error, "server does not support streaming lists; falling back to list");
        } else {
            self.report(error);
        }
        let next = match method {
            // Some servers do not know streaming lists, and some users may list but not watch.
            ListMethod::Streaming if error.is_about_request() => {
                if is_of_version {
                    // List the newest state: an outdated server could be behind the known version.
                    self.version = None;
                    return State::List(ListMethod::Pages);
                }
                if is_unknown {
                    // The server will not support it next time either.
                    self.settings.streaming = false;
                }
                Some(ListMethod::NotOlderThan)
            }
            ListMethod::NotOlderThan if is_of_version => Some(ListMethod::Pages),
            ListMethod::Pages if error.is_expired() => Some(ListMethod::Whole),
            _ => None,
        };
        if let Some(next) = next {
            return State::List(next);
        }
        if is_of_version {
            self.version = None;
        }
        let again = match (method, error) {
            // A server that ignores `sendInitialEvents` opens an ordinary watch, which never sends the bookmark.
            (ListMethod::Streaming, ListWatchError::Timeout(_) | ListWatchError::Malformed(_)) => {
                ListMethod::NotOlderThan
            }
            _ => self.first_method(),
        };
        State::Wait { pause: self.pause(error), then: Box::new(State::List(again)) }
    }

    /// The delay after a failure: the backoff, or the server's `Retry-After` if that is longer.
    fn pause(&mut self, error: &ListWatchError) -> Duration {
        self.backoff.next().max(error.retry_after().min(MAX_RETRY_AFTER))
    }

    /// The next state after a watch that could not be opened.
    fn watch_failed(&mut self, version: String, error: &ListWatchError) -> State {
        self.report(error);
        if error.is_expired() {
            return self.list_expired();
        }
        let again = if error.is_about_request() || error.is_too_large_version() {
            // A resource can be replaced while access is denied: list again.
            State::List(self.first_method())
        } else {
            State::Watch { version }
        };
        State::Wait { pause: self.pause(error), then: Box::new(again) }
    }

    /// The next state after the end of an open watch.
    fn watch_over(&mut self, end: WatchEnd, has_events: bool, lasted: Duration) -> State {
        let Some(version) = self.version.clone() else { return State::List(self.first_method()) };
        let again = State::Watch { version };
        if has_events {
            self.broken_watches = 0;
        }
        match end {
            WatchEnd::Over if has_events || lasted >= MIN_WATCH_DURATION => again,
            WatchEnd::Over => {
                let error =
                    ListWatchError::Malformed(format!("the watch ended after {lasted:?} without an event"));
                self.report(&error);
                State::Wait { pause: self.backoff.next(), then: Box::new(again) }
            }
            WatchEnd::Broken(error) => {
                self.report(&error);
                if error.is_expired() {
                    return self.list_expired();
                }
                self.broken_watches += 1;
                let again = if self.broken_watches >= MAX_BROKEN_WATCHES {
                    State::List(self.first_method())
                } else {
                    again
                };
                State::Wait { pause: self.pause(&error), then: Box::new(again) }
            }
        }
    }

    /// The next state after an expired version: a list, at once unless the last list was recent.
    fn list_expired(&mut self) -> State {
        let list = State::List(self.first_method());
        if self.listed.is_some_and(|listed| self.clock().now().duration_since(listed) < MIN_RELIST_INTERVAL) {
            return State::Wait { pause: self.backoff.next(), then: Box::new(list) };
        }
        list
    }

    fn report(&self, error: &ListWatchError) {
        // The span names the kind too, but is not shown with warnings only.
        let kind = &self.decoder.kind;
        // The same error is a warning once, not for each retry.
        if self.health.failed(error) {
            let hint = if self.health.is_missing() { "; is its CRD installed?" } else { "" };
            tracing::warn!(%kind, error = format!("{error}{hint}"), "cannot list or watch; will retry");
        } else {
            tracing::debug!(%kind, %error, "still cannot list or watch");
        }
        self.metrics.failed();
        if let Some(hook) = &self.on_error {
            hook(error);
        }
    }

    async fn open(&self, options: &WatchOptions) -> Result<Box<OpenWatch>, ListWatchError> {
        let opened = self.clock().now();
        let stream = self.in_time(READ_TIMEOUT, self.list_watch.watch(options)).await??;
        self.metrics.watch_began();
        let deadline = opened + options.timeout + GRACE;
        let (clock, metrics) = (self.clock().clone(), self.metrics.clone());
        let frames = Frames::default();
        Ok(Box::new(OpenWatch { stream, frames, opened, deadline, has_events: false, clock, metrics }))
    }

    async fn in_time<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, ListWatchError> {
        self.clock().timeout(limit, future).await.map_err(|_| ListWatchError::Timeout(limit))
    }

    /// Lists with a watch that sends initial events, and returns that watch.
    async fn stream_list(&mut self) -> Result<State, ListWatchError> {
        let timeout = self.draw_timeout();
        let options =
            WatchOptions { resource_version: self.version.clone(), send_initial_events: true, timeout };
        let mut watch = self.open(&options).await?;
        let mut listed = ListDecoder::new(self.decoder.clone(), self.spawner.clone());
        // Changes during the initial events; in order, from the first one that is not an addition.
        let mut late = Vec::new();
        let mut reading = Reading::new(self.clock());
        loop {
            let piece = reading.next(&mut watch.stream).await?;
            if reading.is_after(watch.deadline) {
                return Err(ListWatchError::Timeout(watch.deadline.duration_since(watch.opened)));
            }
            let Some(piece) = piece else {
                return Err(ListWatchError::Malformed("the list ended early".to_owned()));
            };
            watch.frames.push(piece);
            while let Some(line) = watch.frames.next_line().map_err(malformed)? {
                match WatchFrame::parse(line).map_err(malformed)? {
                    WatchFrame::Added(object) if late.is_empty() => listed.offer(object),
                    WatchFrame::Bookmark { resource_version, initial_events_end: true } => {
                        let version = resource_version.into_owned();
                        self.replace(listed, late, version).await?;
                        self.health.enter(ReflectorPhase::Watching);
                        return Ok(State::Follow(watch));
                    }
                    WatchFrame::Bookmark { .. } => {}
                    WatchFrame::Added(object) | WatchFrame::Modified(object) => {
                        late.push(LateChange::Present(self.decoder.read(object, &mut self.scratch)));
                    }
                    WatchFrame::Deleted(object) => {
                        let gone = self.decoder.deleted(object, &mut self.scratch, &mut None);
                        late.push(LateChange::Gone(gone));
                    }
                    WatchFrame::Error(status) => return Err(ListWatchError::Status(status)),
                }
            }
            listed.keep_up().await?;
        }
    }

    /// Lists in one response or in pages.
    async fn list(&mut self, method: ListMethod) -> Result<State, ListWatchError> {
        let resource_version = match (method, &self.version) {
            (ListMethod::NotOlderThan, Some(version)) => Some(version.clone()),
            (ListMethod::NotOlderThan, None) => Some("0".to_owned()),
            _ => None,
        };
        let limit = (method == ListMethod::Pages).then_some(self.settings.page);
        let mut options = ListOptions { resource_version, limit, continue_token: None };
        let mut listed = ListDecoder::new(self.decoder.clone(), self.spawner.clone());
        let mut reading = Reading::new(self.clock());
        loop {
            let mut stream = self.in_time(READ_TIMEOUT, self.list_watch.list(&options)).await??;
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

    /// Pushes a complete list.
    async fn replace(
        &mut self,
        listed: ListDecoder<K>,
        late: Vec<LateChange<K>>,
        resource_version: String,
    ) -> Result<(), ListWatchError> {
        let Whole { kept, items, unreadable } = listed.finish(late).await?;
        // Forget here, not when the list is applied: objects that are set aside in between must stay.
        let keys: BTreeSet<_> = unreadable.iter().map(|object| &object.key).collect();
        // An unchanged object was set aside by a reader that needed more of it.
        let is_kept = |object: &UndecodableObject| {
            let known = self.decoder.indexer.get(&object.key);
            let is_it =
                |known: &Arc<K>| known.meta().resource_version.as_ref() == Some(&object.resource_version);
            kept.as_ref().zip(known.filter(is_it)).is_some_and(|(kept, known)| kept.has(&known))
        };
        let is_there = |key: &ObjectKey| !self.namespaces.contains(key) || keys.contains(key);
        self.decoder.undecodable.retain(|object| is_there(&object.key) || is_kept(object));
        self.version = Some(resource_version.clone());
        let replaced =
            Delta::Replaced(Replaced { part: self.part, kept, items, unreadable, resource_version });
        self.fifo.push([replaced]).await;
        Ok(())
    }

    /// Follows a watch until it ends.
    async fn follow(&mut self, watch: &mut OpenWatch) -> WatchEnd {
        let mut deadline = self.clock().sleep_until(watch.deadline);
        loop {
            // First, the frames that arrived with the end of a list.
            if let Some(end) = self.take_frames(watch).await {
                return end;
            }
            if self.clock().now() >= watch.deadline {
                // The server ignores the timeout: open a new watch.
                return WatchEnd::Over;
            }
            let piece = tokio::select! {
                biased;
                piece = watch.stream.next() => piece,
                () = &mut deadline => {
                    return WatchEnd::Broken(ListWatchError::Timeout(watch.deadline.duration_since(watch.opened)));
                }
            };
            if let Some(end) = watch.push(piece) {
                return end;
            }
        }
    }

    /// Reads all complete frames, also of further chunks that are available, so that the informer wakes once. Frames
    /// before a bad one or before the end count.
    async fn take_frames(&mut self, watch: &mut OpenWatch) -> Option<WatchEnd> {
        let mut deltas = Vec::new();
        let end = loop {
            if let Err(error) = self.read_frames(&mut watch.frames, &mut deltas) {
                break Some(WatchEnd::Broken(error));
            }
            if deltas.is_empty() || deltas.len() >= MAX_GATHERED {
                break None;
            }
            let Some(piece) = watch.stream.next().now_or_never() else { break None };
            // A burst: reserve room for all of it.
            deltas.reserve(2 * MAX_GATHERED - deltas.len());
            if let Some(end) = watch.push(piece) {
                break Some(end);
            }
        };
        self.health.heard();
        if !deltas.is_empty() {
            watch.has_events = true;
            self.metrics.events(deltas.len());
            let is_much = deltas.len() >= MAX_GATHERED;
            self.fifo.push(deltas).await;
            if is_much {
                // Let the task that applies deltas run, before more of them pile up.
                yield_to_ready_tasks().await;
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
            // An undecodable object has no version to note, but read-your-writes must not wait for it.
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
