//! Reads of a cached kind. Owns the requests to the server when the cache is behind a write: for one object, for some
//! that replace those of the cache, or for all of a namespace.

use std::sync::Arc;

use bowline_cache::internal::{Identity, ListMeta};
use bowline_cache::{Indexer, ListQuery, ObjectKey, SharedInformer};
use bytes::Bytes;
use futures::future::try_join_all;
use kube::Resource;

use super::error::{ClientError, Verb};
use super::flights::unshare;
use super::kind_client::{KindClient, Task};
use super::read_your_writes::{Freshness, Read};
use super::request::Address;
use super::selection::{CacheCoverage, Part};
use super::write_answers::{Before, Item, Live};
use super::writes::{Late, MAX_LATE, Version};

/// Number of objects on a page of a late list, as client-go's pager has it.
const PAGE: &str = "500";

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// One object as an informer with all of the client's writes would have it.
    pub(super) async fn find_current(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Arc<K>>, ClientError> {
        match self.freshness(task, informer, Read::One(key)).await {
            Freshness::Current => Ok(informer.indexer().get(key)),
            Freshness::Behind(_) => self.find_late(task, informer, key).await,
        }
    }

    /// The objects of a query as an informer with all of the client's writes would have them.
    pub(super) async fn list_current(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        query: &ListQuery,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        let found = match self.freshness(task, informer, Read::All(namespace)).await {
            Freshness::Current => query.run(informer.indexer(), namespace),
            Freshness::Behind(Late::Objects(keys)) => {
                let overlaid = self.overlay(task, informer, &keys).await?;
                query.run(&overlaid, namespace)
            }
            Freshness::Behind(Late::Everything) => {
                let (client, informer, scope) =
                    (self.clone(), informer.clone(), namespace.map(str::to_owned));
                let list = || async move {
                    client.list_late(&informer, scope.as_deref()).await.map(Arc::new).map_err(Arc::new)
                };
                let listed = self.binding.flights.join(namespace, list).await;
                query.run(&*listed.map_err(unshare)?, namespace)
            }
        };
        found.map_err(|error| self.uncached(task, error.into()))
    }

    /// The informer's objects, with some replaced by the server's state. Undecodable objects are left out.
    async fn overlay(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        keys: &[ObjectKey],
    ) -> Result<Indexer<K>, ClientError> {
        let mut found = Vec::with_capacity(keys.len());
        for some in keys.chunks(MAX_LATE) {
            found.extend(try_join_all(some.iter().map(|key| self.fetch(task, informer, key))).await?);
        }
        let cached = informer.indexer();
        let mut changes = Vec::with_capacity(keys.len());
        for (key, fetched) in keys.iter().zip(found) {
            let found = fetched.and_then(|fetched| match fetched {
                Fetched::Bytes(bytes) => informer.decode(&bytes, &mut Vec::new()),
                Fetched::Object(object) => Some(object),
            });
            // The informer may have caught up meanwhile.
            let is_older = found.as_ref().zip(cached.get(key)).is_some_and(|(found, cached)| {
                version(&**found).zip(version(&*cached)).is_some_and(|(found, cached)| found < cached)
            });
            if !is_older {
                changes.push((key.clone(), found));
            }
        }
        Ok(cached.with_changes(changes))
    }

    /// One object from the server, as an informer would have it.
    async fn find_late(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Arc<K>>, ClientError> {
        match self.fetch(task, informer, key).await? {
            None => Ok(None),
            Some(Fetched::Object(object)) => Ok(Some(object)),
            Some(Fetched::Bytes(bytes)) => match informer.decode(&bytes, &mut Vec::new()) {
                Some(object) => Ok(Some(object)),
                None => Err(match self.decode(task, &bytes) {
                    Ok(_) => self.unreadable(task, &"the transform of the cache panicked"),
                    Err(error) => error,
                }),
            },
        }
    }

    /// Reads one object from the server, and records the result.
    async fn fetch(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Fetched<K>>, ClientError> {
        let selection = &self.binding.selection;
        let task = Task { verb: Verb::Get, key: Some(key), ..task };
        let before = self.before(informer, key);
        if !selection.parts(key.namespace()).all(Part::is_of_metadata) {
            let found = self.fetch_selected(task, informer, key, &before).await?;
            return Ok(found.map(Fetched::Object));
        }
        let Some(bytes) = self.find_bytes(task, key).await? else {
            self.observe(key, &before, Live::Missing);
            return Ok(None);
        };
        let labels = serde_json::from_slice::<Item>(&bytes).ok().and_then(|item| item.metadata.labels);
        let is_inside = selection.place(key, labels.as_ref(), Some(&bytes)) == CacheCoverage::Inside;
        if let Ok(Identity { uid, resource_version, .. }) = Identity::read(&bytes) {
            let found = if is_inside { Live::Object } else { Live::Outside };
            self.observe(key, &before, found(&uid, &resource_version));
        }
        Ok(is_inside.then_some(Fetched::Bytes(bytes)))
    }

    /// The same for informers with a field selector, which the server evaluates: a list of one name.
    async fn fetch_selected(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
        before: &Before<K>,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let name = format!("metadata.name={}", key.name());
        for part in self.binding.selection.parts(key.namespace()) {
            let address = self.address_of(part, key.namespace(), &name);
            let decode = |item: &[u8], scratch: &mut Vec<u8>| Ok(informer.decode(item, scratch));
            let body = self.ask_list(task, address).await?;
            let (found, list) = self.items(task, body, decode).await?;
            self.observe(key, before, live(found.first(), &list.resource_version));
            if let Some(found) = found.into_iter().next() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The server's objects in a namespace or in all, selected and decoded as by an informer. Undecodable objects are
    /// set aside.
    async fn list_late(
        &self,
        informer: &SharedInformer<K>,
        namespace: Option<&str>,
    ) -> Result<Indexer<K>, ClientError> {
        let task = Task { verb: Verb::List, key: None, subresource: None };
        let (writes, clock) = (&self.binding.writes, self.client.clock());
        let sent = writes.moment(clock.now());
        // Not older than the informer's version either: reads never go back.
        let reached = informer.last_sync_resource_version().and_then(|version| version.parse().ok());
        let needed = writes.needed_version(namespace).map(|needed| needed.max(reached.unwrap_or(0)));
        let unclear = writes.unclear_keys(namespace).into_iter();
        let unclear: Vec<_> = unclear.map(|key| (self.before(informer, &key), key)).collect();
        let (mut objects, mut version) = (Vec::new(), None);
        for part in self.binding.selection.parts(namespace) {
            let (mut items, list) = self.list_part(informer, task, (part, namespace), needed).await?;
            objects.append(&mut items);
            version = Some(list.resource_version);
        }
        let listed = informer.indexer().with_objects(objects);
        // A list that need not be the newest says nothing about writes with an unknown version.
        if let (None, Some(version)) = (needed, version) {
            let is_everything = self.binding.selection.parts(namespace).all(Part::is_everything);
            for (before, key) in &unclear {
                let found = listed.get(key);
                let found = match &found {
                    None if is_everything => Live::Missing,
                    found => live(found.as_ref(), &version),
                };
                self.observe(key, before, found);
            }
            writes.note_version(&Version::new(&version), sent, clock.now());
        }
        Ok(listed)
    }

    /// A part of a late list, page by page: the newest, or not older than a version.
    async fn list_part(
        &self,
        informer: &SharedInformer<K>,
        task: Task<'_>,
        (part, namespace): (&Part, Option<&str>),
        needed: Option<u64>,
    ) -> Result<(Vec<Arc<K>>, ListMeta), ClientError> {
        let decode = |item: &[u8], scratch: &mut Vec<u8>| Ok(informer.decode(item, scratch));
        let page = async |parameters: &[(&str, &str)]| {
            let mut address = self.address_of(part, namespace, "");
            for (name, value) in parameters {
                address.put(name, value);
            }
            let body = self.ask_list(task, address).await?;
            self.items(task, body, decode).await
        };
        let paged = async {
            let version = needed.filter(|needed| *needed > 0).map(|needed| needed.to_string());
            let mut parameters = vec![("limit", PAGE)];
            if let Some(version) = &version {
                parameters.extend([
                    ("resourceVersion", version.as_str()),
                    ("resourceVersionMatch", "NotOlderThan"),
                ]);
            }
            let (mut items, mut list) = page(&parameters).await?;
            while let Some(token) = list.continue_token.take() {
                let (mut more, next) = page(&[("limit", PAGE), ("continue", &token)]).await?;
                items.append(&mut more);
                list = next;
            }
            Ok::<_, ClientError>((items, list))
        };
        match paged.await {
            // The next page has expired, or the server is behind the version: list the newest in one piece.
            Err(error) if matches!(error.code(), Some(410 | 504)) => page(&[]).await,
            listed => listed,
        }
    }

    /// The newest version of the collection.
    pub(super) async fn collection_version(
        &self,
        task: Task<'_>,
        namespace: Option<&str>,
    ) -> Result<String, ClientError> {
        let task = Task { verb: Verb::List, key: None, ..task };
        let part = self.binding.selection.parts(namespace).next();
        let mut address = match part {
            Some(part) => self.address_of(part, namespace, ""),
            None => Address::new(self.kind().resource(), namespace, None),
        };
        address.put("limit", "1");
        let body = self.ask_list(task, address).await?;
        let (_, list) = self.items(task, body, |_, _| Ok(None)).await?;
        Ok(list.resource_version)
    }

    /// The list path of a part of the informers' objects, in a namespace or in all, with one more field selector.
    fn address_of(&self, part: &Part, namespace: Option<&str>, field: &str) -> Address {
        let (namespace, labels, fields) = part.query(namespace);
        let mut address = Address::new(self.kind().resource(), namespace, None);
        if !labels.is_empty() {
            address.put("labelSelector", &labels);
        }
        let fields: Vec<_> = [&*fields, field].into_iter().filter(|field| !field.is_empty()).collect();
        if !fields.is_empty() {
            address.put("fieldSelector", &fields.join(","));
        }
        address
    }
}

/// A server's response with an object.
enum Fetched<K> {
    /// The object as it was sent.
    Bytes(Bytes),
    /// The object as an informer would have it.
    Object(Arc<K>),
}

/// Metadata of an object of a list, or its absence.
fn live<'a, K: Resource>(found: Option<&'a Arc<K>>, list: &'a str) -> Live<'a> {
    let meta = found.map(|found| found.meta());
    let identity = meta.and_then(|meta| meta.uid.as_deref().zip(meta.resource_version.as_deref()));
    identity.map_or(Live::Outside("", list), |(uid, version)| Live::Object(uid, version))
}

fn version(object: &impl Resource) -> Option<u64> {
    object.meta().resource_version.as_ref()?.parse().ok()
}
