//! A client of one kind in one form. Owns the verbs; every other way to a verb leads here.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bowline_cache::{
    CacheError, DecodeError, Form, InformerCache, Kind, ListQuery, ListReader, ObjectKey, Packed,
    SharedInformer, object_key, without_texts,
};
use bowline_machinery::LabelSelector;
use bytes::Bytes;
use futures::StreamExt as _;
use http::Method;
use http_body_util::BodyExt as _;
use kube::Resource;
use kube::core::DynamicObject;
use serde::Serialize;

use super::Client;
use super::binding::Binding;
use super::delete::{Delete, DeleteAllOf};
use super::error::{ClientError, Operation, Verb};
use super::patch::Patch;
use super::read_your_writes::{Read, Sent};
use super::request::{Address, Failure, Request, is_missing_object, is_path_segment};
use super::selection::Part;
use crate::transport::AnswerBody;

/// A client of one kind in one form: typed, dynamic, metadata only, or packed.
///
/// Of the metadata alone, nothing can be created, updated or applied: patch it. Nor can a packed object: unpack it. A clone is
/// the same client.
pub struct KindClient<K> {
    pub(super) client: Client,
    pub(super) binding: Arc<Binding<K>>,
}

/// What is to be done, before it has a name.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) verb: Verb,
    pub(super) key: Option<&'a ObjectKey>,
    pub(super) subresource: Option<&'a str>,
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// What it is a client of.
    #[must_use]
    pub fn kind(&self) -> &Kind<K> {
        &self.binding.kind
    }

    /// One object.
    ///
    /// # Errors
    /// When it is not there ([`ClientError::is_not_found`]) or cannot be read.
    pub async fn get(&self, key: &ObjectKey) -> Result<Arc<K>, ClientError> {
        let found = self.find(key).await?;
        found.ok_or_else(|| {
            let operation = self.operation(Task { verb: Verb::Get, key: Some(key), subresource: None });
            ClientError::not_found(operation, self.kind().resource())
        })
    }

    /// One object, if it is there.
    ///
    /// # Errors
    /// When it cannot be read, or the server does not know its kind.
    pub async fn find(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let key = self.place(Verb::Get, key)?;
        let task = Task { verb: Verb::Get, key: Some(&key), subresource: None };
        if let Some(cache) = self.client.cache_for(&self.binding) {
            let informer = self.readable(task, cache, key.namespace()).await?;
            return self.find_current(task, &informer, &key).await;
        }
        if let Some((cache, packed)) = self.packed() {
            let informer = packed.readable(task, cache, key.namespace()).await?;
            let found = packed.find_current(task, &informer, &key).await?;
            let unpack = |found: Arc<Packed>| {
                self.unpack(&informer, &found).map_err(|error| self.unreadable(task, &error))
            };
            return found.map(unpack).transpose();
        }
        self.find_live(task, &key).await
    }

    /// The same as [`find`](Self::find), for who holds the informer of the kind in its form, in sync, and need not have it
    /// looked up.
    pub(crate) async fn find_in(
        &self,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let task = Task { verb: Verb::Get, key: Some(key), subresource: None };
        if self.client.cache_for(&self.binding).is_some() {
            return self.find_current(task, informer, key).await;
        }
        self.find_live(task, key).await
    }

    /// The client of the same kind, packed, if that is how it is cached.
    fn packed(&self) -> Option<(&InformerCache, KindClient<Packed>)> {
        let (cache, binding) = self.client.packed_cache_for(&self.binding)?;
        Some((cache, KindClient { client: self.client.clone(), binding }))
    }

    /// The informer to read from, when it is in sync.
    async fn readable(
        &self,
        task: Task<'_>,
        cache: &InformerCache,
        namespace: Option<&str>,
    ) -> Result<SharedInformer<K>, ClientError> {
        cache.readable(self.kind(), namespace).await.map_err(|error| self.uncached(task, error))
    }

    /// An object that is cached packed. If it is not as its type has it, it is set aside.
    fn unpack(&self, informer: &SharedInformer<Packed>, packed: &Packed) -> Result<Arc<K>, DecodeError> {
        let unpacked = self.kind().unpack(packed);
        unpacked.map(Arc::new).inspect_err(|error| informer.put_aside(packed, &error.to_string()))
    }

    /// One object as an informer has it, or as it would have it if it were not behind a write.
    async fn find_current(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Arc<K>>, ClientError> {
        if self.is_current(informer, Read::One(key)).await {
            return Ok(informer.indexer().get(key));
        }
        if self.binding.selection.parts(key.namespace()).all(Part::is_everything) {
            let bytes = self.find_bytes(task, key).await?;
            let scratch = &mut Vec::new();
            return bytes.map(|bytes| self.decode_as(informer, task, &bytes, scratch)).transpose();
        }
        // The server knows best what is selected.
        let name = format!("metadata.name={}", key.name());
        let everything = LabelSelector::everything();
        let found = self.list_selected(informer, task, key.namespace(), &everything, &name).await?;
        Ok(found.into_iter().next())
    }

    /// An object as an informer would have it.
    fn decode_as(
        &self,
        informer: &SharedInformer<K>,
        task: Task<'_>,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Arc<K>, ClientError> {
        let unreadable = || match self.decode(task, bytes) {
            Ok(_) => self.unreadable(task, &"the transform of the cache panicked"),
            Err(error) => error,
        };
        informer.decode(bytes, scratch).ok_or_else(unreadable)
    }

    async fn find_live(&self, task: Task<'_>, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let bytes = self.find_bytes(task, key).await?;
        bytes.map(|bytes| self.decode(task, &bytes).map(Arc::new)).transpose()
    }

    async fn find_bytes(&self, task: Task<'_>, key: &ObjectKey) -> Result<Option<Bytes>, ClientError> {
        let request = Request {
            method: Method::GET,
            address: self.address(key, None),
            accept: self.accept(),
            content_type: "",
            body: Bytes::new(),
        };
        match self.client.send(request, || self.operation(task)).await {
            Ok(body) => {
                let body = body.collect().await;
                Ok(Some(body.map_err(|error| self.lost(task, error))?.to_bytes()))
            }
            Err(Failure::Status(status, _)) if is_missing_object(&status, key) => Ok(None),
            Err(failure) => Err(failure.into_error(self.operation(task))),
        }
    }

    /// The objects that a query asks for, in the order of their keys.
    ///
    /// # Errors
    /// When they cannot be read. Field selectors need a [live](Client::live) read, indexes a cached one.
    pub async fn list(&self, query: &ListQuery) -> Result<Vec<Arc<K>>, ClientError> {
        let task = Task { verb: Verb::List, key: None, subresource: None };
        let namespace = self.namespace_of_list(task, query)?;
        if !query.field_selector().is_everything() && self.client.is_read_from_cache(&self.binding) {
            let fields = query.field_selector().to_string();
            let error = CacheError::Fields { kind: self.kind().to_string(), fields };
            return Err(self.uncached(task, error));
        }
        if let Some(cache) = self.client.cache_for(&self.binding) {
            let informer = self.readable(task, cache, namespace.as_deref()).await?;
            return self.list_current(task, &informer, query, namespace.as_deref()).await;
        }
        if let Some((cache, packed)) = self.packed() {
            let informer = packed.readable(task, cache, namespace.as_deref()).await?;
            let found = packed.list_current(task, &informer, query, namespace.as_deref()).await?;
            return Ok(found.iter().filter_map(|found| self.unpack(&informer, found).ok()).collect());
        }
        if query.label_selector().is_nothing() {
            return Ok(Vec::new());
        }
        if let Some((index, _)) = query.indexes().first() {
            return Err(self.invalid(
                task,
                format!("index {index:?} is in the cache, and this is a live read: use a field selector, or declare the kind as cached"),
            ));
        }
        self.list_live(task, query, namespace.as_deref()).await
    }

    /// The objects that a query asks for as an informer has them, or as it would have them if it were not behind a write.
    async fn list_current(
        &self,
        task: Task<'_>,
        informer: &SharedInformer<K>,
        query: &ListQuery,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        let found = if self.is_current(informer, Read::All(namespace)).await {
            query.run(informer.indexer(), namespace)
        } else {
            // Indexes are known here only, so that all that might be meant is asked for.
            let labels = query.label_selector();
            let live = self.list_selected(informer, task, namespace, labels, "").await?;
            query.run(&informer.indexer().with_objects(live), namespace)
        };
        found.map_err(|error| self.uncached(task, error.into()))
    }

    /// What the server has of what an informer has, in a namespace or in all, with labels and fields, as it would have it:
    /// what cannot be read is set aside.
    async fn list_selected(
        &self,
        informer: &SharedInformer<K>,
        task: Task<'_>,
        namespace: Option<&str>,
        labels: &LabelSelector,
        fields: &str,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        let mut items = Vec::new();
        if labels.is_nothing() {
            return Ok(items);
        }
        for part in self.binding.selection.parts(namespace) {
            let (namespace, part_labels, part_fields) = part.query(namespace);
            let mut address = Address::new(self.kind().resource(), namespace, None);
            let both = [
                ("labelSelector", [part_labels, labels.to_string()]),
                ("fieldSelector", [part_fields, fields.to_owned()]),
            ];
            for (name, selectors) in both {
                let selectors: Vec<_> =
                    selectors.into_iter().filter(|selector| !selector.is_empty()).collect();
                if !selectors.is_empty() {
                    address.put(name, &selectors.join(","));
                }
            }
            let body = self.ask_list(task, address).await?;
            let decode = |item: &[u8], scratch: &mut Vec<u8>| Ok(informer.decode(item, scratch));
            items.append(&mut self.items(task, body, decode).await?);
        }
        Ok(items)
    }

    async fn list_live(
        &self,
        task: Task<'_>,
        query: &ListQuery,
        namespace: Option<&str>,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        let mut address = Address::new(self.kind().resource(), namespace, None);
        put_query(&mut address, query);
        if let Some(limit) = query.max_objects() {
            address.put("limit", &limit.to_string());
        }
        let body = self.ask_list(task, address).await?;
        let decode = |item: &[u8], scratch: &mut Vec<u8>| {
            let item = self.kind().decode_answer(item, true, scratch);
            item.map(|item| Some(Arc::new(item))).map_err(|error| self.unreadable(task, &error))
        };
        let mut items = self.items(task, body, decode).await?;
        items.truncate(query.max_objects().unwrap_or(usize::MAX));
        // A server goes by names as they are stored, and of custom resources not even that is said.
        items.sort_by_cached_key(|item| object_key(&**item));
        Ok(items)
    }

    async fn ask_list(&self, task: Task<'_>, address: Address) -> Result<AnswerBody, ClientError> {
        let accept = match self.kind().form() {
            Form::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            _ => "application/json",
        };
        let request = Request { method: Method::GET, address, accept, content_type: "", body: Bytes::new() };
        self.send(task, request).await
    }

    /// The items of a list, read as they come.
    async fn items(
        &self,
        task: Task<'_>,
        body: AnswerBody,
        decode: impl Fn(&[u8], &mut Vec<u8>) -> Result<Option<Arc<K>>, ClientError>,
    ) -> Result<Vec<Arc<K>>, ClientError> {
        let mut chunks = body.into_data_stream();
        let (mut reader, mut scratch, mut items) = (ListReader::new(), Vec::new(), Vec::new());
        while let Some(chunk) = chunks.next().await {
            reader.push(chunk.map_err(|error| self.lost(task, error))?);
            while let Some(item) = reader.next_item().map_err(|error| self.unreadable(task, &error))? {
                items.extend(decode(item, &mut scratch)?);
            }
        }
        reader.finish().map_err(|error| self.unreadable(task, &error))?;
        Ok(items)
    }

    /// Changes one object, as a patch says.
    ///
    /// # Errors
    /// When it is not there, or the server refuses it.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        self.patch_part(key, patch, None).await
    }

    pub(super) async fn patch_part(
        &self,
        key: &ObjectKey,
        patch: &Patch,
        subresource: Option<&str>,
    ) -> Result<K, ClientError> {
        let key = self.place(Verb::Patch, key)?;
        let task = Task { verb: Verb::Patch, key: Some(&key), subresource };
        let mut address = self.address(&key, subresource);
        address.put_options(&self.client.options, true);
        let request = Request {
            method: Method::PATCH,
            address,
            accept: self.accept(),
            content_type: patch.content_type(),
            body: patch.shared_body(),
        };
        let patched = self.write(task, request).await;
        if let Err(error) = &patched {
            let lock = patch.lock();
            self.note_failure(&key, lock.sent(), error);
        }
        patched
    }

    /// Deletes one object. Options are set on what this returns, which is then awaited.
    pub fn delete(&self, key: &ObjectKey) -> Delete<K> {
        Delete::new(self.clone(), key.clone())
    }

    /// Deletes this very object, and not another that has its name by now: that is a conflict.
    pub fn delete_object(&self, object: &K) -> Delete<K> {
        Delete::of_object(self.clone(), object)
    }

    /// Deletes all objects that a query asks for, in one request. Of a kind that is in namespaces, the query has to name
    /// one.
    pub fn delete_all_of(&self, query: &ListQuery) -> DeleteAllOf<K> {
        DeleteAllOf::new(self.clone(), query.clone())
    }

    /// Sends a write, and reads the object that is its answer.
    pub(super) async fn write(&self, task: Task<'_>, request: Request) -> Result<K, ClientError> {
        let bytes = self.send_for_bytes(task, request).await?;
        let keep_managed_fields = self.keeps_managed_fields(task);
        match self.kind().decode_answer(&bytes, keep_managed_fields, &mut Vec::new()) {
            Ok(object) => {
                self.note_object(&object, &bytes);
                Ok(object)
            }
            Err(error) => {
                // It was written nevertheless.
                self.note_unreadable(task.key, &bytes);
                Err(self.unreadable(task, &error))
            }
        }
    }

    /// Whether what a write returns has them: they are most of what there is to decode, and of no use to those whose reads
    /// never have them. Whoever applies may want to see what is theirs now.
    fn keeps_managed_fields(&self, task: Task<'_>) -> bool {
        let is_cached = self.client.is_read_from_cache(&self.binding);
        let namespace = task.key.and_then(ObjectKey::namespace);
        task.verb == Verb::Apply || !is_cached || !self.binding.selection.drops_managed_fields(namespace)
    }

    pub(super) async fn send(&self, task: Task<'_>, request: Request) -> Result<AnswerBody, ClientError> {
        let sent = self.client.send(request, || self.operation(task)).await;
        sent.map_err(|failure| failure.into_error(self.operation(task)))
    }

    /// Sends a request, and waits for the whole answer.
    pub(super) async fn send_for_bytes(
        &self,
        task: Task<'_>,
        request: Request,
    ) -> Result<Bytes, ClientError> {
        let body = self.send(task, request).await?.collect().await;
        Ok(body.map_err(|error| self.lost(task, error))?.to_bytes())
    }

    pub(super) fn decode(&self, task: Task<'_>, bytes: &[u8]) -> Result<K, ClientError> {
        self.kind().decode_answer(bytes, true, &mut Vec::new()).map_err(|error| self.unreadable(task, &error))
    }

    pub(super) fn address(&self, key: &ObjectKey, subresource: Option<&str>) -> Address {
        Address::new(self.kind().resource(), key.namespace(), Some(key.name())).subresource(subresource)
    }

    /// How objects are asked for.
    pub(super) fn accept(&self) -> &'static str {
        match self.kind().form() {
            Form::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            _ => "application/json",
        }
    }

    /// The key of an object in the namespace where it is looked for.
    pub(super) fn place(&self, verb: Verb, key: &ObjectKey) -> Result<ObjectKey, ClientError> {
        let task = Task { verb, key: Some(key), subresource: None };
        if !is_path_segment(key.name()) {
            return Err(self.invalid(task, "this is no name of an object"));
        }
        let namespace = self.namespace(task, key.namespace())?;
        Ok(if namespace == key.namespace() {
            key.clone()
        } else {
            ObjectKey::new(namespace.unwrap_or_default(), key.name())
        })
    }

    /// The namespace of an object for which one is given or not.
    fn namespace<'a>(
        &'a self,
        task: Task<'_>,
        given: Option<&'a str>,
    ) -> Result<Option<&'a str>, ClientError> {
        if !self.kind().is_namespaced() {
            return Ok(None);
        }
        let namespace = match (
            self.client.options.namespace.as_deref(),
            given.filter(|given| !given.is_empty()),
        ) {
            (Some(own), Some(given)) if own != given => {
                return Err(self.invalid(
                    task,
                    format!("this client is limited to namespace {own}, and the object is in {given}"),
                ));
            }
            (Some(own), _) => own,
            (None, Some(given)) => given,
            (None, None) => {
                return Err(self.invalid(
                    task,
                    "objects of this kind are in namespaces, and none is given: set one, or use `Client::namespaced`",
                ));
            }
        };
        if !is_path_segment(namespace) {
            return Err(self.invalid(task, format!("{namespace:?} is no namespace")));
        }
        Ok(Some(namespace))
    }

    /// The namespace that a query is limited to.
    pub(super) fn namespace_of_list(
        &self,
        task: Task<'_>,
        query: &ListQuery,
    ) -> Result<Option<String>, ClientError> {
        if !self.kind().is_namespaced() {
            return Ok(None);
        }
        if query.namespace().is_none() && self.client.options.namespace.is_none() {
            return Ok(None);
        }
        Ok(self.namespace(task, query.namespace())?.map(str::to_owned))
    }

    pub(super) fn operation(&self, task: Task<'_>) -> Operation {
        Operation {
            verb: task.verb,
            // Whoever reads typed objects need not know that they are cached packed.
            kind: if self.kind().form() == Form::Packed {
                self.kind().name()
            } else {
                self.kind().to_string()
            },
            key: task.key.cloned(),
            subresource: task.subresource.map(str::to_owned),
        }
    }

    pub(super) fn invalid(&self, task: Task<'_>, problem: impl Into<String>) -> ClientError {
        ClientError::Invalid { operation: Box::new(self.operation(task)), problem: problem.into() }
    }

    fn uncached(&self, task: Task<'_>, source: CacheError) -> ClientError {
        ClientError::Cache { operation: Box::new(self.operation(task)), source: Box::new(source) }
    }

    pub(super) fn lost(&self, task: Task<'_>, source: crate::BoxError) -> ClientError {
        ClientError::Transport { operation: Box::new(self.operation(task)), source }
    }

    pub(super) fn unreadable(&self, task: Task<'_>, problem: &dyn fmt::Display) -> ClientError {
        ClientError::Answer {
            operation: Box::new(self.operation(task)),
            problem: without_texts(&problem.to_string()),
        }
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> KindClient<K> {
    /// Creates an object, and returns it as the server has it. Without a name, the server makes one of
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// When there is one already ([`ClientError::is_already_exists`]), or the server refuses it.
    pub async fn create(&self, object: &K) -> Result<K, ClientError> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let given = ObjectKey::new(namespace.unwrap_or_default(), name);
        let task = Task { verb: Verb::Create, key: Some(&given), subresource: None };
        let namespace = self.namespace(task, namespace)?;
        let mut address = Address::new(self.kind().resource(), namespace, None);
        address.put_options(&self.client.options, true);
        let created = self.write_object(task, Method::POST, address, "application/json", object).await;
        if let Err(error) = &created {
            let key = ObjectKey::new(namespace.unwrap_or_default(), name);
            self.note_failure(&key, Sent::default(), error);
        }
        created
    }

    /// Replaces an object, and returns it as the server has it. If it has a version, the server refuses it with a conflict
    /// ([`ClientError::is_conflict`]) when the object has another by now.
    ///
    /// # Errors
    /// When it is not there, was changed meanwhile, or the server refuses it.
    pub async fn update(&self, object: &K) -> Result<K, ClientError> {
        self.update_part(object, None).await
    }

    pub(super) async fn update_part(&self, object: &K, subresource: Option<&str>) -> Result<K, ClientError> {
        let key = self.place(Verb::Update, &bowline_cache::object_key(object))?;
        let task = Task { verb: Verb::Update, key: Some(&key), subresource };
        let mut address = self.address(&key, subresource);
        address.put_options(&self.client.options, true);
        let updated = self.write_object(task, Method::PUT, address, "application/json", object).await;
        if let Err(error) = &updated {
            let meta = object.meta();
            let sent = Sent { uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() };
            self.note_failure(&key, sent, error);
        }
        updated
    }

    pub(super) async fn write_object(
        &self,
        task: Task<'_>,
        method: Method,
        address: Address,
        content_type: &'static str,
        object: &K,
    ) -> Result<K, ClientError> {
        if self.kind().form() == Form::Metadata {
            let problem = "an object cannot be written by its metadata alone: use a patch";
            return Err(self.invalid(task, problem));
        }
        let body = self
            .encode(object)
            .map_err(|error| self.invalid(task, format!("the object cannot be written as JSON: {error}")))?;
        let accept = self.accept();
        self.write(task, Request { method, address, accept, content_type, body: body.into() }).await
    }

    /// An object as it is sent, which has to say what it is.
    pub(super) fn encode(&self, object: &K) -> serde_json::Result<Vec<u8>> {
        if let Some(object) = (object as &dyn Any).downcast_ref::<DynamicObject>()
            && object.types.is_none()
        {
            let resource = self.kind().resource();
            let types = kube::core::TypeMeta {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
            };
            return serde_json::to_vec(&DynamicObject { types: Some(types), ..object.clone() });
        }
        serde_json::to_vec(object)
    }
}

/// What a query says that a server can select by.
pub(super) fn put_query(address: &mut Address, query: &ListQuery) {
    if !query.label_selector().is_everything() {
        address.put("labelSelector", &query.label_selector().to_string());
    }
    if !query.field_selector().is_everything() {
        address.put("fieldSelector", &query.field_selector().to_string());
    }
}

impl<K> Clone for KindClient<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), binding: self.binding.clone() }
    }
}

impl<K> fmt::Debug for KindClient<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindClient").field("kind", &self.binding.kind).finish_non_exhaustive()
    }
}
