//! Watches: a stream of frames, one per change that the client selects.

use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Clock, Instant, Sleep};
use bowline_machinery::Status;
use bowline_storage::{Event, EventType, Record, Revision, Watch, WatchError};
use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::Value;

use crate::body::{Body, Outlet};
use crate::hooks::{Disconnected, FrameVerdict, Hook, RequestInfo, WatchFrame};
use crate::list_options::{self, parse_revision};
use crate::object::{self, Meta};
use crate::query::Query;
use crate::read::ResponseEncoder;
use crate::resource::Resource;
use crate::select::{Selection, Selectors};
use crate::server::Store;

/// Minimum duration of a watch without `timeoutSeconds`; the maximum is twice this.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// Period of bookmarks for clients that asked for them.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Time from the last bookmark to the end of a watch.
const BEFORE_END: Duration = Duration::from_secs(2);

/// Approximate size of the chunks in which frames are sent.
const CHUNK: usize = 128 * 1024;

/// The start of every stored object; its revision follows.
const BEFORE_REVISION: &[u8] = br#"{"metadata":{"resourceVersion":""#;

struct Stream {
    /// An error frame that replaces all others.
    failure: Option<Status>,
    watch: Watch<Meta>,
    initial: std::vec::IntoIter<Arc<Record<Meta>>>,
    /// Whether a bookmark marks the end of the initial objects, and its revision.
    initial_end: Option<Revision>,
    /// Events from the log that are not sent yet.
    pending: std::vec::IntoIter<Event<Meta>>,
    /// Events up to this revision are skipped.
    after: Revision,
    selection: Selection,
    rendering: ResponseEncoder,
    hook: Option<Arc<dyn Hook>>,
    call: Arc<RequestInfo>,
    clock: Clock,
    next_bookmark: Option<Instant>,
    deadline: Instant,
    /// Timer of the next bookmark or the end; created at the first wait.
    timer: Option<Sleep>,
    chunk: BytesMut,
    over: bool,
}

/// Starts a watch.
pub(crate) fn watch(
    store: &Store,
    rendering: ResponseEncoder,
    namespace: Option<&str>,
    query: &Query,
    clock: &Clock,
    call: Arc<RequestInfo>,
    hook: Option<Arc<dyn Hook>>,
) -> Result<Body, Status> {
    let resource = rendering.resource.clone();
    if let Some(error) = &query.list_error {
        return Err(error.clone());
    }
    let mut selectors = Selectors::parse(query)?;
    let from_state = list_options::check_watch(query)?;
    if let Some(name) = &call.name {
        // A single object is watched as a list of one.
        selectors.only(name)?;
    }
    let selection = selectors.of(&resource)?;
    let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    let asked = match query.resource_version.as_str() {
        "" => Revision::new(0),
        // Text and code of kube-apiserver: an internal error.
        version => parse_revision(version).map_err(|why| Status::failure(500, "", why.to_string()))?,
    };
    let Begin { failure, initial, watch, after } =
        Begin::of(store, &resource, &prefix, asked, from_state).map_err(Status::internal)?;
    let now = clock.now();
    let timeout = match query.timeout_seconds {
        None | Some(0) => MIN_TIMEOUT + MIN_TIMEOUT.mul_f64(clock.rng().unit()),
        // The timeout has already passed.
        Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
    };
    let mut stream = Stream {
        initial_end: (from_state && query.allow_watch_bookmarks).then(|| watch.revision()),
        failure,
        watch,
        initial: initial.into_iter(),
        pending: Vec::new().into_iter(),
        after,
        selection,
        rendering,
        hook,
        call,
        clock: clock.clone(),
        next_bookmark: None,
        deadline: now + timeout,
        timer: None,
        chunk: BytesMut::new(),
        over: timeout.is_zero(),
    };
    if query.allow_watch_bookmarks {
        stream.plan_bookmark(now);
    }
    Ok(Body::made_by(|outlet| stream.run(outlet)))
}

/// Start of a watch.
struct Begin {
    failure: Option<Status>,
    /// The initial objects.
    initial: Vec<Arc<Record<Meta>>>,
    watch: Watch<Meta>,
    /// Events up to this revision are skipped.
    after: Revision,
}

impl Begin {
    fn of(
        store: &Store,
        resource: &Resource,
        prefix: &str,
        asked: Revision,
        from_state: bool,
    ) -> Result<Self, WatchError> {
        let now = || {
            let (listing, watch) = store.list_and_watch(resource.table, prefix);
            Self { failure: None, initial: listing.items, watch, after: Revision::new(0) }
        };
        if from_state {
            // A real server waits for a future revision for a while; here the newest revision is always visible.
            let failure = list_options::check_not_future(store, asked).err();
            return Ok(Self { failure, ..now() });
        }
        if asked.get() == 0 {
            return Ok(Self { initial: Vec::new(), ..now() });
        }
        match store.watch(resource.table, prefix, asked) {
            Ok(watch) => Ok(Self { failure: None, initial: Vec::new(), watch, after: Revision::new(0) }),
            // A future revision: skip the events up to it.
            Err(WatchError::Future { .. }) => Ok(Self { initial: Vec::new(), after: asked, ..now() }),
            Err(WatchError::Compacted { oldest, .. }) => {
                let failure = Status::expired(format!("too old resource version: {asked} ({oldest})"));
                Ok(Self { failure: Some(failure), initial: Vec::new(), ..now() })
            }
            Err(error) => Err(error),
        }
    }
}

impl Stream {
    /// Produces chunks with all frames that are ready.
    async fn run(mut self, outlet: Outlet) {
        while !self.over {
            if let Err(cut) = self.fill().await {
                return outlet.put(Err(cut)).await;
            }
            if !self.chunk.is_empty() {
                let chunk = self.chunk.split().freeze();
                outlet.put(Ok(chunk)).await;
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Disconnected> {
        if let Some(status) = self.failure.take() {
            self.over = true;
            return self.error(&status).await;
        }
        while self.initial.len() > 0 && self.has_room() && !self.over {
            if let Some(record) = self.initial.next()
                && self.selection.matches(&record)
            {
                self.frame("ADDED", &record.key.clone(), record.revision, |stream, chunk| {
                    stream.rendering.write(&record.body, true, chunk);
                })
                .await?;
            }
        }
        if self.initial.len() > 0 || self.over || !self.has_room() {
            return Ok(());
        }
        if let Some(revision) = self.initial_end.take() {
            return self.bookmark(revision, true).await;
        }
        while self.has_room() && !self.over {
            let Some(event) = self.pending.next() else { break };
            self.event(&event).await?;
            // A watch ends at its timeout, however many events there are.
            self.over |= self.clock.now() >= self.deadline;
        }
        if !self.chunk.is_empty() || self.over {
            return Ok(());
        }
        let wake_at = self.next_bookmark.map_or(self.deadline, |bookmark| bookmark.min(self.deadline));
        let timer = match &mut self.timer {
            Some(timer) if timer.deadline() == wake_at => timer,
            timer => timer.insert(self.clock.sleep_until(wake_at)),
        };
        // An endless sequence of events must not hide the timeout.
        let is_time = self.clock.now() >= wake_at
            || tokio::select! {
                biased;
                batch = self.watch.next() => {
                    match batch {
                        Ok(batch) => self.pending = batch.events.into_iter(),
                        // A returning client gets a 410; there is nothing to send here.
                        Err(_) => self.over = true,
                    }
                    false
                }
                () = timer => true,
            };
        if is_time && wake_at == self.deadline {
            self.over = true;
        } else if is_time {
            self.plan_bookmark(self.clock.now());
            let revision = self.watch.revision();
            self.bookmark(revision, false).await?;
        }
        Ok(())
    }

    /// Whether another frame fits into the pending chunk. With a hook, each frame is a chunk, so that a decision about
    /// one neither delays nor revokes the frames before it.
    fn has_room(&self) -> bool {
        self.chunk.len() < if self.hook.is_some() { 1 } else { CHUNK }
    }

    /// The next bookmark comes after its period, or long enough before the end that the client can continue from it.
    fn plan_bookmark(&mut self, now: Instant) {
        self.next_bookmark =
            Some((now + BOOKMARKS).min(self.deadline - BEFORE_END)).filter(|next| *next > now);
    }

    async fn event(&mut self, event: &Event<Meta>) -> Result<(), Disconnected> {
        if self.over || event.revision <= self.after {
            return Ok(());
        }
        let before = event.previous.as_ref().filter(|record| self.selection.matches(record));
        let now = event.current().filter(|record| self.selection.matches(record));
        let at_its_end;
        let (kind, body) = match (before, now) {
            (None, Some(now)) => ("ADDED", &now.body),
            (Some(_), Some(now)) => ("MODIFIED", &now.body),
            // An object that left the selection is sent in its last state, with the revision of the change.
            (Some(_), None) if event.change == EventType::Deleted => ("DELETED", &event.record.body),
            (Some(before), None) => {
                at_its_end = at_revision(&before.body, event.revision);
                ("DELETED", &at_its_end)
            }
            (None, None) => return Ok(()),
        };
        self.frame(kind, event.key(), event.revision, |stream, chunk| {
            stream.rendering.write(body, true, chunk);
        })
        .await
    }

    async fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Result<(), Disconnected> {
        let annotations =
            if initial_end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
        let body = format!(r#"{{"metadata":{{"resourceVersion":"{revision}"{annotations}}}}}"#);
        let resource = self.rendering.resource.clone();
        self.frame("BOOKMARK", "", revision, |stream, chunk| {
            if stream.rendering.form.is_metadata() {
                return stream.rendering.write(&Bytes::from(body), true, chunk);
            }
            // An object of the kind with nothing but this field.
            chunk.put_slice(&resource.head);
            chunk.put_slice(&body.as_bytes()[1..body.len() - 1]);
            for (name, value) in resource.behaviour.blank().as_object().into_iter().flatten() {
                if !matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                    chunk.put_slice(format!(",{}:{value}", Value::from(name.as_str())).as_bytes());
                }
            }
            chunk.put_slice(b"}");
        })
        .await
    }

    async fn error(&mut self, status: &Status) -> Result<(), Disconnected> {
        let status = serde_json::to_vec(status).expect("a status can always be written");
        let revision = self.watch.revision();
        self.frame("ERROR", "", revision, |_, chunk| chunk.put_slice(&status)).await
    }

    async fn frame(
        &mut self,
        kind: &str,
        key: &str,
        revision: Revision,
        write: impl FnOnce(&Self, &mut BytesMut),
    ) -> Result<(), Disconnected> {
        if let Some(hook) = self.hook.clone() {
            let (namespace, name) = object::split_key(key);
            let namespace = namespace.unwrap_or_default();
            let frame = WatchFrame { event: kind, namespace, name, revision: revision.get() };
            match hook.before_frame(&self.call, frame).await {
                FrameVerdict::Send => {}
                FrameVerdict::Skip => return Ok(()),
                FrameVerdict::Close => {
                    self.over = true;
                    return Ok(());
                }
                FrameVerdict::Disconnect => return Err(Disconnected),
            }
        }
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.put_slice(br#"{"type":""#);
        chunk.put_slice(kind.as_bytes());
        chunk.put_slice(br#"","object":"#);
        write(self, &mut chunk);
        chunk.put_slice(b"}\n");
        self.chunk = chunk;
        Ok(())
    }
}

/// A stored body with another revision.
fn at_revision(body: &Bytes, revision: Revision) -> Bytes {
    let Some(rest) = body.strip_prefix(BEFORE_REVISION) else { return body.clone() };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut bytes = BytesMut::with_capacity(body.len() + 20);
    bytes.put_slice(BEFORE_REVISION);
    bytes.put_slice(revision.to_string().as_bytes());
    bytes.put_slice(&rest[digits..]);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Template;

    #[test]
    fn a_body_is_shown_at_another_revision() {
        let body = Template::new(&json!({"metadata": {"name": "a"}})).finish(Revision::new(9));
        assert_eq!(
            at_revision(&body, Revision::new(10)),
            r#"{"metadata":{"resourceVersion":"10","name":"a"}}"#
        );
    }
}
