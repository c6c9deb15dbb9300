//! Lists: from the cache, or from the server page by page.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bowline_cache::internal::{ListMeta, ListReader};
use bowline_cache::{CacheError, ListQuery, Representation, object_key};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use kube::Resource;

use super::error::{ClientError, Verb};
use super::kind_client::{KindClient, Task};
use super::request::{Address, Request};
use crate::transport::AnswerBody;

/// The objects of a list, one after the other. From [`Client::list_stream`](crate::Client::list_stream).
#[must_use = "nothing is listed until the stream is polled"]
pub struct ListStream<K>(BoxStream<'static, Result<Arc<K>, ClientError>>);

/// A request for one page of a list.
#[derive(Clone)]
struct PageRequest {
    namespace: Option<String>,
    query: ListQuery,
    /// Maximum number of objects on this page and all later ones.
    remaining: Option<usize>,
    /// The token of the page before.
    token: Option<String>,
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// The objects that a query selects, in the order of their keys; see [`Client::list`](super::Client::list).
    ///
    /// # Errors
    /// When they cannot be read, or the query needs a [live](super::Client::live) read (field selectors) or a cached one
    /// (indexes).
    pub async fn list(&self, query: &ListQuery) -> Result<Vec<Arc<K>>, ClientError> {
        let task = self.task(Verb::List, None);
        self.check_whole(task)?;
        if let Some(items) = self.list_cached(task, query).await? {
            return Ok(items);
        }
        let Some(first) = self.first_page(task, query)? else { return Ok(Vec::new()) };
        let mut items = self.all_pages(task, first).await?;
        // Servers order by the stored names. For custom resources, even that is not specified.
        items.sort_by_cached_key(|item| object_key(&**item));
        Ok(items)
    }

    /// The objects that a query selects, as a stream; see [`Client::list_stream`](super::Client::list_stream).
    pub fn list_stream(&self, query: &ListQuery) -> ListStream<K> {
        let (client, query) = (self.clone(), query.clone());
        let pages = async move {
            let task = client.task(Verb::List, None);
            client.check_whole(task)?;
            if let Some(items) = client.list_cached(task, &query).await? {
                return Ok(stream::iter(items.into_iter().map(Ok)).left_stream());
            }
            let first = client.first_page(task, &query)?;
            let pages = stream::try_unfold(first, move |request| {
                let client = client.clone();
                async move {
                    let Some(request) = request else { return Ok(None) };
                    client.next_page(client.task(Verb::List, None), request).await.map(Some)
                }
            });
            let items = pages.map_ok(|items: Vec<_>| stream::iter(items.into_iter().map(Ok))).try_flatten();
            Ok::<_, ClientError>(items.right_stream())
        };
        ListStream(stream::once(pages).try_flatten().boxed())
    }

    /// The objects that a query selects in the cache. `None` if the kind is not read from there.
    async fn list_cached(
        &self,
        task: Task<'_>,
        query: &ListQuery,
    ) -> Result<Option<Vec<Arc<K>>>, ClientError> {
        let namespace = self.namespace_of_list(task, query)?;
        if !query.field_selector().is_everything() && self.client.is_read_from_cache(&self.binding) {
            let fields = query.field_selector().to_string();
            let error = CacheError::Fields { kind: self.kind().to_string(), fields };
            return Err(self.uncached(task, error));
        }
        if let Some(cache) = self.client.cache_for(&self.binding) {
            let informer = self.readable(task, cache, namespace.as_deref()).await?;
            return self.list_current(task, &informer, query, namespace.as_deref()).await.map(Some);
        }
        let Some((cache, packed)) = self.packed() else { return Ok(None) };
        let informer = packed.readable(task, cache, namespace.as_deref()).await?;
        let found = packed.list_current(task, &informer, query, namespace.as_deref()).await?;
        Ok(Some(found.iter().filter_map(|found| self.unpack(&informer, found).ok()).collect()))
    }

    /// The first page of a live list. `None` if the query selects nothing.
    fn first_page(&self, task: Task<'_>, query: &ListQuery) -> Result<Option<PageRequest>, ClientError> {
        let namespace = self.namespace_of_list(task, query)?;
        if let Some((index, _)) = query.indexes().first() {
            return Err(self.invalid(task, self.no_index(index)));
        }
        if query.max_objects_per_page() == 0 {
            let problem = "a page of no objects never ends a list: use a `ListQuery::page_size` above zero";
            return Err(self.invalid(task, problem));
        }
        if query.label_selector().is_nothing() || query.max_objects() == Some(0) {
            return Ok(None);
        }
        let remaining = query.max_objects();
        Ok(Some(PageRequest { namespace, query: query.clone(), remaining, token: None }))
    }

    /// All pages. If a page has become too old, the list starts again in one piece, as client-go's pager does.
    async fn all_pages(&self, task: Task<'_>, first: PageRequest) -> Result<Vec<Arc<K>>, ClientError> {
        let (mut items, mut next) = (Vec::new(), Some(first.clone()));
        while let Some(request) = next {
            let is_first = request.token.is_none();
            match self.page(task, &request, true).await {
                Ok((mut page, following)) => {
                    items.append(&mut page);
                    next = following;
                }
                Err(error) if error.is_expired() && !is_first => {
                    drop(items);
                    return Ok(self.page(task, &first, false).await?.0);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(items)
    }

    /// One page of a stream, and the request for the next. If the page has become too old, the stream continues with the
    /// token that the server sends then.
    async fn next_page(
        &self,
        task: Task<'_>,
        mut request: PageRequest,
    ) -> Result<(Vec<Arc<K>>, Option<PageRequest>), ClientError> {
        match self.page(task, &request, true).await {
            Err(error) if error.is_expired() && request.token.is_some() => {
                let meta = error.status().and_then(|status| status.metadata.as_ref());
                let token = meta.and_then(|meta| meta.continue_.clone()).filter(|token| !token.is_empty());
                let Some(token) = token else { return Err(error) };
                request.token = Some(token);
                self.page(task, &request, true).await
            }
            page => page,
        }
    }

    /// One page, and the request for the next if there is one. Without `is_paged`, all objects from there on.
    async fn page(
        &self,
        task: Task<'_>,
        request: &PageRequest,
        is_paged: bool,
    ) -> Result<(Vec<Arc<K>>, Option<PageRequest>), ClientError> {
        let PageRequest { namespace, query, remaining, token } = request;
        let mut address = Address::new(self.kind().resource(), namespace.as_deref(), None);
        put_query(&mut address, query);
        let page_size = is_paged.then(|| usize::try_from(query.max_objects_per_page()).unwrap_or(usize::MAX));
        if let Some(limit) = page_size.into_iter().chain(*remaining).min() {
            address.put("limit", &limit.to_string());
        }
        if let Some(token) = token {
            address.put("continue", token);
        }
        let body = self.ask_list(task, address).await?;
        let decode = |item: &[u8], scratch: &mut Vec<u8>| {
            let item = self.kind().decode_answer(item, true, scratch);
            item.map(|item| Some(Arc::new(item))).map_err(|error| self.unreadable(task, &error))
        };
        let (mut items, list) = self.items(task, body, decode).await?;
        items.truncate(remaining.unwrap_or(usize::MAX));
        let remaining = remaining.map(|remaining| remaining - items.len());
        let token = list.continue_token.filter(|_| is_paged && remaining != Some(0));
        let next = token.map(|token| PageRequest { remaining, token: Some(token), ..request.clone() });
        Ok((items, next))
    }

    pub(super) async fn ask_list(&self, task: Task<'_>, address: Address) -> Result<AnswerBody, ClientError> {
        let accept = match self.kind().form() {
            Representation::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            _ => "application/json",
        };
        self.send(task, Request::get(address, accept)).await
    }

    /// The items of a list, decoded as they arrive, and the list's metadata.
    pub(super) async fn items(
        &self,
        task: Task<'_>,
        body: AnswerBody,
        decode: impl Fn(&[u8], &mut Vec<u8>) -> Result<Option<Arc<K>>, ClientError>,
    ) -> Result<(Vec<Arc<K>>, ListMeta), ClientError> {
        let mut chunks = http_body_util::BodyExt::into_data_stream(body);
        let (mut reader, mut scratch, mut items) = (ListReader::new(), Vec::new(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            reader.push(chunk.map_err(|error| self.lost(task, error))?);
            while let Some(item) = reader.next_item().map_err(|error| self.unreadable(task, &error))? {
                items.extend(decode(item, &mut scratch)?);
            }
        }
        let meta = reader.finish().map_err(|error| self.unreadable(task, &error))?;
        Ok((items, meta))
    }

    /// Fails if a query has parts that a server does not know and that cannot be emulated.
    pub(super) fn check_selectors(&self, task: Task<'_>, query: &ListQuery) -> Result<(), ClientError> {
        if let Some((index, _)) = query.indexes().first() {
            let problem = format!(
                "index {index:?} exists only in the cache, and the API server has to select the {}: use labels or fields",
                self.kind()
            );
            return Err(self.invalid(task, problem));
        }
        if query.max_objects().is_some() {
            return Err(self.invalid(task, "this verb has no limit: select by labels or fields"));
        }
        Ok(())
    }

    /// Why an index cannot be used in a live list, and the remedy.
    fn no_index(&self, index: &str) -> String {
        let kind = self.kind();
        let remedy = if self.client.options.is_live {
            "leave out `Client::live`".to_owned()
        } else if self.client.cache().is_none() {
            "use a client with a cache".to_owned()
        } else if self.binding.is_live {
            "do not configure the kind as uncached".to_owned()
        } else {
            "declare the kind with `ClusterBuilder::cached`".to_owned()
        };
        format!(
            "index {index:?} exists only in the cache, and this client reads {kind} from the API server: {remedy}, or use a field selector"
        )
    }
}

impl<K> Stream for ListStream<K> {
    type Item = Result<Arc<K>, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for ListStream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListStream").finish_non_exhaustive()
    }
}

/// Adds the selectors of a query to an address.
pub(super) fn put_query(address: &mut Address, query: &ListQuery) {
    if !query.label_selector().is_everything() {
        address.put("labelSelector", &query.label_selector().to_string());
    }
    if !query.field_selector().is_everything() {
        address.put("fieldSelector", &query.field_selector().to_string());
    }
}
