//! Watching: frames of a stream, one for each change that a client is to see.

use std::sync::Arc;
use std::time::Duration;

use bowline_clock::{Clock, Instant};
use bowline_machinery::Status;
use bowline_storage::{Change, Event, Record, Revision, Watch, WatchError};
use bytes::{BufMut as _, Bytes, BytesMut};

use crate::body::Body;
use crate::hooks::{Call, Disconnected, FrameVerdict, Hook, WatchFrame};
use crate::object::{self, Meta};
use crate::query::Query;
use crate::read::{Rendering, check_options, invalid_revision};
use crate::select::Selection;
use crate::server::Store;

/// How long a watch lasts whose client does not say: somewhere between this and twice this.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// How often a client that asked for bookmarks gets one.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Frames of what is there at the beginning are sent in chunks of about this many bytes.
const CHUNK: usize = 128 * 1024;

/// What every object at rest begins with; its revision stands behind it.
const BEFORE_REVISION: &[u8] = br#"{"metadata":{"resourceVersion":""#;

struct Stream {
    watch: Watch<Meta>,
    initial: std::vec::IntoIter<Arc<Record<Meta>>>,
    /// Whether a bookmark tells when all that was there at the beginning has been sent, and for which revision.
    initial_end: Option<Revision>,
    /// Events up to this revision are not sent.
    after: Revision,
    selection: Selection,
    rendering: Rendering,
    hook: Option<Arc<dyn Hook>>,
    call: Arc<Call>,
    clock: Clock,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    chunk: BytesMut,
    over: bool,
}

/// Begins a watch.
pub(crate) fn watch(
    store: &Store,
    rendering: Rendering,
    namespace: Option<&str>,
    query: &Query,
    clock: &Clock,
    call: Arc<Call>,
    hook: Option<Arc<dyn Hook>>,
) -> Result<Body, Status> {
    let resource = rendering.resource.clone();
    let selection = Selection::parse(&resource, query)?;
    check_options(query, true)?;
    let prefix = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    let asked = match query.resource_version.as_str() {
        "" | "0" => None,
        version => {
            // Worded and numbered as kube-apiserver does: here it is the server's fault.
            let revision =
                invalid_revision(version).map_err(|why| Status::failure(500, "", why.to_string()))?;
            Some(Revision::new(revision)).filter(|_| revision > 0)
        }
    };
    // From the beginning: everything that is there comes first, unless the client does not want it.
    let from_state = match query.send_initial_events {
        Some(wanted) => wanted,
        None => asked.is_none(),
    };
    let mut after = Revision::new(0);
    let (initial, watch) = if from_state || asked.is_none() {
        if let Some(asked) = asked.filter(|asked| *asked > store.revision()) {
            return Err(Status::too_large_resource_version(asked.get(), store.revision().get()));
        }
        let (listing, watch) = store.list_and_watch(resource.table, &prefix);
        (if from_state { listing.items } else { Vec::new() }, watch)
    } else {
        let asked = asked.unwrap_or(Revision::FIRST);
        match store.watch(resource.table, &prefix, asked) {
            Ok(watch) => (Vec::new(), watch),
            Err(WatchError::Future { .. }) => {
                // It may come yet.
                after = asked;
                let (_, watch) = store.list_and_watch(resource.table, &prefix);
                (Vec::new(), watch)
            }
            Err(WatchError::Compacted { oldest, .. }) => {
                let message = format!("too old resource version: {asked} ({oldest})");
                return Ok(error_event(&Status::expired(message)));
            }
            Err(error) => return Err(Status::internal(error)),
        }
    };
    let now = clock.now();
    let timeout = match query.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => MIN_TIMEOUT + MIN_TIMEOUT.mul_f64(clock.rng().unit()),
    };
    let stream = Stream {
        initial_end: (query.send_initial_events == Some(true) && query.allow_watch_bookmarks)
            .then(|| watch.revision()),
        watch,
        initial: initial.into_iter(),
        after,
        selection,
        rendering,
        hook,
        call,
        clock: clock.clone(),
        bookmarks: query.allow_watch_bookmarks,
        next_bookmark: now + BOOKMARKS,
        deadline: now + timeout,
        chunk: BytesMut::new(),
        over: false,
    };
    Ok(Body::steps(stream, Stream::step))
}

impl Stream {
    /// The next chunk: as many frames as there are.
    async fn step(mut self) -> Option<(Result<Bytes, Disconnected>, Self)> {
        while !self.over && self.chunk.is_empty() {
            if let Err(cut) = self.fill().await {
                return Some((Err(cut), self));
            }
        }
        let chunk = self.chunk.split().freeze();
        (!chunk.is_empty()).then_some((Ok(chunk), self))
    }

    async fn fill(&mut self) -> Result<(), Disconnected> {
        while self.initial.len() > 0 && self.chunk.len() < CHUNK && !self.over {
            if let Some(record) = self.initial.next()
                && self.selection.matches(&record)
            {
                self.frame("ADDED", &record.key.clone(), record.revision, |stream, chunk| {
                    stream.rendering.write(&record.body, true, chunk);
                })
                .await?;
            }
        }
        if self.initial.len() > 0 || self.over {
            return Ok(());
        }
        if let Some(revision) = self.initial_end.take() {
            return self.bookmark(revision, true).await;
        }
        if !self.chunk.is_empty() {
            return Ok(());
        }
        let wake_at = if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
        let clock = self.clock.clone();
        tokio::select! {
            biased;
            batch = self.watch.next() => match batch {
                Ok(batch) => {
                    for event in batch.events {
                        self.event(&event).await?;
                    }
                }
                // Whoever comes back is told that it is too late; there is nothing to send here.
                Err(_) => self.over = true,
            },
            () = clock.sleep_until(wake_at) => {
                if wake_at == self.deadline {
                    self.over = true;
                    // The last word of a watch: where the next one may go on.
                    if self.bookmarks {
                        let revision = self.watch.revision();
                        self.bookmark(revision, false).await?;
                    }
                } else {
                    self.next_bookmark = self.next_bookmark + BOOKMARKS;
                    let revision = self.watch.revision();
                    self.bookmark(revision, false).await?;
                }
            }
        }
        Ok(())
    }

    async fn event(&mut self, event: &Event<Meta>) -> Result<(), Disconnected> {
        if self.over || event.revision <= self.after {
            return Ok(());
        }
        let before = event.previous.as_ref().filter(|record| self.selection.matches(record));
        let now = event.current().filter(|record| self.selection.matches(record));
        let (kind, body) = match (before, now) {
            (None, Some(now)) => ("ADDED", now.body.clone()),
            (Some(_), Some(now)) => ("MODIFIED", now.body.clone()),
            // What is selected no longer is shown as it last was, at the revision at which it went.
            (Some(_), None) if event.change == Change::Deleted => ("DELETED", event.record.body.clone()),
            (Some(before), None) => ("DELETED", at_revision(&before.body, event.revision)),
            (None, None) => return Ok(()),
        };
        self.frame(kind, event.key(), event.revision, |stream, chunk| {
            stream.rendering.write(&body, true, chunk)
        })
        .await
    }

    async fn bookmark(&mut self, revision: Revision, initial_end: bool) -> Result<(), Disconnected> {
        let annotations =
            if initial_end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
        let body = format!(r#"{{"metadata":{{"resourceVersion":"{revision}"{annotations}}}}}"#);
        // A bookmark is an object of the kind with nothing in it but this.
        let head = self.rendering.resource.head.clone();
        let metadata_only = self.rendering.form == crate::negotiate::Form::Metadata;
        self.frame("BOOKMARK", "", revision, |stream, chunk| {
            if metadata_only {
                stream.rendering.write(&Bytes::from(body), true, chunk);
            } else {
                chunk.put_slice(&head);
                chunk.put_slice(&body.as_bytes()[1..]);
            }
        })
        .await
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
            match hook.frame(&self.call, frame).await {
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

/// A body as it stands, but at another revision.
fn at_revision(body: &Bytes, revision: Revision) -> Bytes {
    let Some(rest) = body.strip_prefix(BEFORE_REVISION) else { return body.clone() };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut bytes = BytesMut::with_capacity(body.len() + 20);
    bytes.put_slice(BEFORE_REVISION);
    bytes.put_slice(revision.to_string().as_bytes());
    bytes.put_slice(&rest[digits..]);
    bytes.freeze()
}

fn error_event(status: &Status) -> Body {
    let status = serde_json::to_string(status).expect("a status can always be written");
    Body::from(Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n")))
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
