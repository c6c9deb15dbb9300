//! Watches: typed events from the server.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bowline_cache::ListQuery;
use bowline_cache::internal::{Frames, WatchFrame};
use bowline_clock::Sleep;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use kube::Resource;

use super::error::{ClientError, Verb};
use super::kind_client::{KindClient, Task};
use super::list::put_query;
use super::request::{Address, Request};
use super::{Client, Object};
use crate::BoxError;

/// Shortest time after which a server ends a watch by default; the longest is twice this. As client-go's reflector.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Longest time after which a server ends a watch.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Time that a server has to end a watch after its timeout. A connection that is open longer counts as broken.
const GRACE: Duration = Duration::from_secs(30);

/// A watch that is opened when it is awaited. From [`Client::watch`].
#[must_use = "nothing is watched until it is awaited"]
pub struct WatchRequest<K> {
    client: KindClient<K>,
    query: ListQuery,
    resource_version: Option<String>,
    bookmarks: bool,
    timeout: Option<Duration>,
}

/// The events of a watch, in the order of the server. Dropping it closes the watch.
///
/// It ends when the server ends the watch, and after an error. An object that cannot be decoded is an error
/// ([`ClientError::Answer`]) after which the events continue. It buffers at most one event.
#[must_use = "a watch delivers events only when it is polled"]
pub struct WatchStream<K>(BoxStream<'static, Result<WatchEvent<K>, ClientError>>);

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent<K> {
    /// The object was created, existed when the watch began, or matches the selectors now.
    Added(Arc<K>),
    /// The object changed.
    Modified(Arc<K>),
    /// The object was deleted, or does not match the selectors any more. This is its last state.
    Deleted(Arc<K>),
    /// There are no other events up to this version. Only if [asked for](WatchRequest::bookmarks).
    Bookmark {
        /// Version from which another watch can [continue](WatchRequest::resource_version).
        resource_version: String,
        /// All objects that existed when the watch began have been sent.
        is_initial_end: bool,
    },
}

impl Client {
    /// Watches the objects that a query selects, on the server, also if the kind is cached. Options are set on the returned
    /// value, which is then awaited and gives a stream.
    ///
    /// By default the stream begins with an [`Added`](WatchEvent::Added) for each object that exists, and goes on with the
    /// changes. The server ends it after 5 to 10 minutes. To continue, watch again from the
    /// [version](WatchEvent::resource_version) of the last event. If that is too old ([`ClientError::is_expired`]), begin
    /// anew without a version; deletions in between are not reported.
    ///
    /// Use this to wait for one object, or to print events. In a controller, use [`ControllerBuilder::watches`] or an
    /// informer ([`InformerCache::get_informer`](bowline_cache::InformerCache::get_informer)): they resume after every gap,
    /// report deletions that happened in it, retry with a backoff, and share one watch among all users.
    ///
    /// [`ControllerBuilder::watches`]: crate::ControllerBuilder::watches
    ///
    /// ```
    /// # use bowline_cache::ListQuery;
    /// # use bowline_machinery::FieldSelector;
    /// # use k8s_openapi::api::batch::v1::Job;
    /// use bowline_runtime::{Client, ClientError, WatchEvent};
    /// use futures::TryStreamExt as _;
    ///
    /// /// Waits until a job has succeeded. False if the watch ended before.
    /// async fn wait_for(client: Client, namespace: &str, name: &str) -> Result<bool, ClientError> {
    ///     let fields = FieldSelector::parse(&format!("metadata.name={name}")).expect("a valid selector");
    ///     let query = ListQuery::new().in_namespace(namespace).fields(fields);
    ///     let mut events = client.watch::<Job>(&query).await?;
    ///     while let Some(event) = events.try_next().await? {
    ///         if let WatchEvent::Added(job) | WatchEvent::Modified(job) = event
    ///             && job.status.as_ref().is_some_and(|status| status.succeeded > Some(0))
    ///         {
    ///             return Ok(true);
    ///         }
    ///     }
    ///     Ok(false)
    /// }
    /// ```
    ///
    /// # Errors
    /// When the server refuses the watch, or the query has an index or a limit.
    pub fn watch<K: Object>(&self, query: &ListQuery) -> WatchRequest<K> {
        self.typed().watch(query)
    }
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// Watches the objects that a query selects; see [`Client::watch`].
    pub fn watch(&self, query: &ListQuery) -> WatchRequest<K> {
        WatchRequest {
            client: self.clone(),
            query: query.clone(),
            resource_version: None,
            bookmarks: false,
            timeout: None,
        }
    }
}

impl<K: Resource + Send + Sync + 'static> WatchRequest<K> {
    /// Starts after this version, of a list or of an event before, and sends no initial objects. Default: now, with an
    /// [`Added`](WatchEvent::Added) for each object that exists.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.resource_version = Some(version.into());
        self
    }

    /// Requests [bookmarks](WatchEvent::Bookmark). Without a [version](Self::resource_version), one marks the end of the
    /// initial objects; this needs Kubernetes 1.32 or newer. Default: no bookmarks.
    pub fn bookmarks(mut self) -> Self {
        self.bookmarks = true;
        self
    }

    /// Time after which the server ends the watch, in whole seconds, at least one. More than a year (365 days) is a year. If
    /// it is still open 30 s later, the connection counts as broken, and the stream ends with an error after the events that
    /// have arrived. Default: random, 5 to 10 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<WatchStream<K>, ClientError> {
        let Self { client, query, resource_version, bookmarks, timeout } = self;
        let task = client.task(Verb::Watch, None);
        client.check_whole(task)?;
        client.check_selectors(task, &query)?;
        if query.label_selector().is_nothing() {
            return Err(client.invalid(task, "the label selector matches no object"));
        }
        let clock = client.client.clock().clone();
        let timeout = timeout.unwrap_or_else(|| TIMEOUT.mul_f64(1.0 + clock.rng().unit()));
        if timeout < Duration::from_secs(1) {
            return Err(
                client.invalid(task, format!("a timeout of {timeout:?} is too short: use at least 1 s"))
            );
        }
        let timeout = timeout.min(MAX_TIMEOUT);
        let namespace = client.namespace_of_list(task, &query)?;
        let mut address = Address::new(client.kind().resource(), namespace.as_deref(), None);
        address.put("watch", "true");
        put_query(&mut address, &query);
        address.put("timeoutSeconds", &timeout.as_secs().to_string());
        if bookmarks {
            address.put("allowWatchBookmarks", "true");
        }
        match &resource_version {
            Some(version) => address.put("resourceVersion", version),
            None if bookmarks => {
                address.put("sendInitialEvents", "true");
                address.put("resourceVersionMatch", "NotOlderThan");
            }
            None => {}
        }
        let request = Request::get(address, client.accept()).watch();
        let deadline = clock.now() + timeout + GRACE;
        let sent = clock.timeout(timeout + GRACE, client.send(task, request)).await;
        let body = sent.map_err(|_| client.lost(task, silent(timeout)))??;
        let events = Events {
            chunks: body.into_data_stream().boxed(),
            frames: Frames::new(),
            timeout,
            end: clock.sleep_until(deadline),
            client,
        };
        let events = stream::unfold(Some(events), |events| async {
            let mut events = events?;
            match events.next().await {
                Ok(Some(event)) => Some((event, Some(events))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(WatchStream(events.boxed()))
    }
}

/// An open watch.
struct Events<K> {
    client: KindClient<K>,
    chunks: BoxStream<'static, Result<Bytes, BoxError>>,
    frames: Frames,
    timeout: Duration,
    /// Elapses when the server should have ended the watch.
    end: Sleep,
}

impl<K: Resource + Send + Sync + 'static> Events<K> {
    /// The next event, or an object that cannot be decoded; `None` at the end. After an error there are no more.
    async fn next(&mut self) -> Result<Option<Result<WatchEvent<K>, ClientError>>, ClientError> {
        let Self { client, chunks, frames, timeout, end } = self;
        let task = client.task(Verb::Watch, None);
        loop {
            if let Some(line) = frames.next_line().map_err(|error| client.unreadable(task, &error))? {
                return client.event(task, line).map(Some);
            }
            let chunk = tokio::select! {
                biased;
                // Events that have arrived count, also if the stream is polled late.
                chunk = chunks.next() => chunk,
                () = &mut *end => return Err(client.lost(task, silent(*timeout))),
            };
            match chunk {
                Some(chunk) => frames.push(chunk.map_err(|error| client.lost(task, error))?),
                // A line without an end was cut off.
                None => return Ok(None),
            }
        }
    }
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// The event of one line. An error outside ends the watch, an error inside does not.
    fn event(&self, task: Task<'_>, line: &[u8]) -> Result<Result<WatchEvent<K>, ClientError>, ClientError> {
        let object = |bytes: &[u8]| self.decode(task, bytes).map(Arc::new);
        Ok(match WatchFrame::parse(line).map_err(|error| self.unreadable(task, &error))? {
            WatchFrame::Added(bytes) => object(bytes).map(WatchEvent::Added),
            WatchFrame::Modified(bytes) => object(bytes).map(WatchEvent::Modified),
            WatchFrame::Deleted(bytes) => object(bytes).map(WatchEvent::Deleted),
            WatchFrame::Bookmark { resource_version, initial_events_end } => Ok(WatchEvent::Bookmark {
                resource_version: resource_version.into_owned(),
                is_initial_end: initial_events_end,
            }),
            WatchFrame::Error(status) => {
                return Err(ClientError::Status { operation: Box::new(self.operation(task)), status });
            }
        })
    }
}

fn silent(timeout: Duration) -> BoxError {
    format!("the watch was to end after {timeout:?} and was still open {GRACE:?} later: the connection counts as broken")
        .into()
}

impl<K> WatchEvent<K> {
    /// The object; `None` for a bookmark.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark { .. } => None,
        }
    }

    /// Version from which another watch can [continue](WatchRequest::resource_version). The initial objects come in no order
    /// of versions: continue only from an event that follows them.
    #[must_use]
    pub fn resource_version(&self) -> Option<&str>
    where
        K: Resource,
    {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => {
                object.meta().resource_version.as_deref()
            }
            Self::Bookmark { resource_version, .. } => Some(resource_version),
        }
    }
}

impl<K: Resource + Send + Sync + 'static> IntoFuture for WatchRequest<K> {
    type Output = Result<WatchStream<K>, ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<K> Stream for WatchStream<K> {
    type Item = Result<WatchEvent<K>, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for WatchRequest<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchRequest")
            .field("client", &self.client)
            .field("query", &self.query)
            .field("resource_version", &self.resource_version)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for WatchStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").finish_non_exhaustive()
    }
}
