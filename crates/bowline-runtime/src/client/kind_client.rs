//! The client of one kind in one representation. Owns the verbs of one object; lists and watches have files of their own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bowline_cache::internal::redact_values;
use bowline_cache::{
    CacheError, DecodeError, InformerCache, Kind, ListQuery, ObjectKey, Packed, Representation,
    SharedInformer,
};
use bytes::Bytes;
use http::Method;
use kube::Resource;
use kube::core::DynamicObject;
use serde::Serialize;

use super::Client;
use super::binding::KindEntry;
use super::delete::{Delete, DeleteAllOf};
use super::error::{ClientError, Operation, Verb};
use super::patch::Patch;
use super::request::{Address, Failure, Request, is_missing_object, is_path_segment, read_object};
use super::write_answers::Sent;
use crate::transport::AnswerBody;

/// A client of one kind in one representation: typed, dynamic, metadata only, or packed. From [`Client::typed`] or
/// [`Client::for_kind`].
///
/// Options such as [`dry_run`](Client::dry_run) are set on the [`Client`] before. Metadata alone and packed objects cannot be
/// created, updated or applied: patch or unpack them. A clone is the same client.
pub struct KindClient<K> {
    pub(super) client: Client,
    pub(super) binding: Arc<KindEntry<K>>,
}

/// An operation, borrowed: an [`Operation`] is made only for an error or a warning.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) verb: Verb,
    pub(super) key: Option<&'a ObjectKey>,
    pub(super) subresource: Option<&'a str>,
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &Kind<K> {
        &self.binding.kind
    }

    /// One object.
    ///
    /// # Errors
    /// When it does not exist ([`ClientError::is_not_found`]) or cannot be read.
    pub async fn get(&self, key: &ObjectKey) -> Result<Arc<K>, ClientError> {
        let found = self.find(key).await?;
        found.ok_or_else(|| {
            let operation = self.operation(self.task(Verb::Get, Some(key)));
            ClientError::not_found(operation, self.kind().resource())
        })
    }

    /// One object, or `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or the server does not know its kind.
    pub async fn find(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let key = self.place(Verb::Get, key)?;
        let task = self.task(Verb::Get, Some(&key));
        if task.subresource.is_some() {
            return self.find_live(task, &key).await;
        }
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

    /// As [`find`](Self::find), for a caller that holds the synced informer of the kind in its representation.
    pub(crate) async fn find_in(
        &self,
        informer: &SharedInformer<K>,
        key: &ObjectKey,
    ) -> Result<Option<Arc<K>>, ClientError> {
        let task = Task { verb: Verb::Get, key: Some(key), subresource: None };
        let Some(cache) = self.client.cache_for(&self.binding) else {
            return self.find_live(task, key).await;
        };
        let found = self.find_current(task, informer, key).await?;
        // The object may exist in a namespace that is not cached.
        if found.is_none()
            && let Some(namespace) = key.namespace()
            && !self.binding.selection.has(namespace)
        {
            cache.check_namespace(self.kind(), namespace).map_err(|error| self.uncached(task, error))?;
        }
        Ok(found)
    }

    /// The client of the same kind, packed, if it is cached packed.
    pub(super) fn packed(&self) -> Option<(&InformerCache, KindClient<Packed>)> {
        let (cache, binding) = self.client.packed_cache_for(&self.binding.kind)?;
        Some((cache, KindClient { client: self.client.clone(), binding }))
    }

    /// The informer to read from, once it is in sync.
    pub(super) async fn readable(
        &self,
        task: Task<'_>,
        cache: &InformerCache,
        namespace: Option<&str>,
    ) -> Result<SharedInformer<K>, ClientError> {
        cache.readable(self.kind(), namespace).await.map_err(|error| self.uncached(task, error))
    }

    /// Decodes an object that is cached packed. An undecodable one is set aside.
    pub(super) fn unpack(
        &self,
        informer: &SharedInformer<Packed>,
        packed: &Packed,
    ) -> Result<Arc<K>, DecodeError> {
        let unpacked = self.kind().unpack(packed);
        unpacked.map(Arc::new).inspect_err(|error| informer.mark_undecodable(packed, &error.to_string()))
    }

    async fn find_live(&self, task: Task<'_>, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        let bytes = self.find_bytes(task, key).await?;
        bytes.map(|bytes| self.decode(task, &bytes).map(Arc::new)).transpose()
    }

    pub(super) async fn find_bytes(
        &self,
        task: Task<'_>,
        key: &ObjectKey,
    ) -> Result<Option<Bytes>, ClientError> {
        let request = Request::get(self.address(key, task.subresource), self.accept());
        match self.client.send(request, || self.operation(task)).await {
            Ok(body) => {
                let bytes = read_object(body).await;
                Ok(Some(bytes.map_err(|error| self.lost(task, error))?))
            }
            Err(Failure::Status(status, _)) if is_missing_object(&status, key) => Ok(None),
            Err(failure) => Err(failure.into_error(self.operation(task))),
        }
    }

    /// Changes one object with a patch, and returns it as the server stored it.
    ///
    /// # Errors
    /// When it does not exist, or the server refuses the patch.
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        let key = self.place(Verb::Patch, key)?;
        let task = self.task(Verb::Patch, Some(&key));
        let mut address = self.address(&key, task.subresource);
        address.put_options(&self.client.options, true);
        let request = Request::new(Method::PATCH, address, self.accept());
        let request = request.body(patch.content_type(), patch.shared_body());
        let patched = self.write(task, &key, request).await;
        if let Err(error) = &patched {
            let lock = patch.lock();
            self.note_failure(&key, lock.sent(), error);
        }
        patched
    }

    /// Deletes one object. Options are set on the returned value, which is then awaited.
    pub fn delete(&self, key: &ObjectKey) -> Delete<K> {
        Delete::new(self.clone(), key.clone())
    }

    /// Deletes an object by its uid. If another object has its name now, it is a conflict.
    pub fn delete_object(&self, object: &K) -> Delete<K> {
        Delete::of_object(self.clone(), object)
    }

    /// Deletes all objects that a query selects, in one request. For a namespaced kind, the query has to name a namespace.
    pub fn delete_all_of(&self, query: &ListQuery) -> DeleteAllOf<K> {
        DeleteAllOf::new(self.clone(), query.clone())
    }

    /// Sends a write, and decodes the object in its response. `target` is the object, or only its namespace if the server
    /// generates the name.
    pub(super) async fn write(
        &self,
        task: Task<'_>,
        target: &ObjectKey,
        request: Request,
    ) -> Result<K, ClientError> {
        let unfinished = self.begin_write(target);
        let bytes = match self.send_for_bytes(task, request).await {
            Ok(bytes) => bytes,
            Err(error) => {
                unfinished.finish();
                return Err(error);
            }
        };
        let keep_managed_fields = self.keeps_managed_fields(task);
        let written = match self.kind().decode_answer(&bytes, keep_managed_fields, &mut Vec::new()) {
            Ok(object) => {
                self.note_object(&object, &bytes);
                Ok(object)
            }
            Err(error) => {
                // The server did store it.
                self.note_unreadable(target, &bytes);
                Err(self.unreadable(task, &error))
            }
        };
        unfinished.finish();
        written
    }

    /// Whether the result of a write keeps them. They are the largest part of a response, and useless where reads never have
    /// them. The result of an apply keeps them, because they show its owner's fields.
    fn keeps_managed_fields(&self, task: Task<'_>) -> bool {
        let is_cached = self.client.is_read_from_cache(&self.binding);
        let namespace = task.key.and_then(ObjectKey::namespace);
        task.verb == Verb::Apply || !is_cached || !self.binding.selection.drops_managed_fields(namespace)
    }

    pub(super) async fn send(&self, task: Task<'_>, request: Request) -> Result<AnswerBody, ClientError> {
        let sent = self.client.send(request, || self.operation(task)).await;
        sent.map_err(|failure| failure.into_error(self.operation(task)))
    }

    /// Sends a request, and reads the whole response, which is one object.
    pub(super) async fn send_for_bytes(
        &self,
        task: Task<'_>,
        request: Request,
    ) -> Result<Bytes, ClientError> {
        let bytes = read_object(self.send(task, request).await?).await;
        bytes.map_err(|error| self.lost(task, error))
    }

    pub(super) fn decode(&self, task: Task<'_>, bytes: &[u8]) -> Result<K, ClientError> {
        self.kind().decode_answer(bytes, true, &mut Vec::new()).map_err(|error| self.unreadable(task, &error))
    }

    pub(super) fn address(&self, key: &ObjectKey, subresource: Option<&str>) -> Address {
        Address::new(self.kind().resource(), key.namespace(), Some(key.name())).subresource(subresource)
    }

    /// The `Accept` header for one object.
    pub(super) fn accept(&self) -> &'static str {
        match self.kind().form() {
            Representation::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            _ => "application/json",
        }
    }

    /// A verb of this client, on an object or on its subresource.
    pub(super) fn task<'a>(&'a self, verb: Verb, key: Option<&'a ObjectKey>) -> Task<'a> {
        Task { verb, key, subresource: self.client.options.subresource.as_deref() }
    }

    /// The key of an object, with the client's namespace if it has none. Checks that key and subresource can be addressed.
    pub(super) fn place(&self, verb: Verb, key: &ObjectKey) -> Result<ObjectKey, ClientError> {
        let task = self.task(verb, Some(key));
        self.check_subresource(task)?;
        if !is_path_segment(key.name()) {
            return Err(self.invalid(task, format!("{:?} is not the name of an object", key.name())));
        }
        let namespace = self.namespace(task, key.namespace())?;
        Ok(if namespace == key.namespace() {
            key.clone()
        } else {
            ObjectKey::new(namespace.unwrap_or_default(), key.name())
        })
    }

    /// The namespace of an object: the given one, or the client's. `None` for a cluster-scoped kind.
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
                    "objects of this kind are namespaced, and no namespace is given: set one, or use `Client::namespaced`",
                ));
            }
        };
        if !is_path_segment(namespace) {
            return Err(self.invalid(task, format!("{namespace:?} is not the name of a namespace")));
        }
        Ok(Some(namespace))
    }

    /// The namespace of a query, or the client's.
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
            // A typed read does not show that the objects are cached packed.
            kind: if self.kind().form() == Representation::Packed {
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

    pub(super) fn uncached(&self, task: Task<'_>, source: CacheError) -> ClientError {
        ClientError::Cache { operation: Box::new(self.operation(task)), source: Box::new(source) }
    }

    pub(super) fn lost(&self, task: Task<'_>, source: crate::BoxError) -> ClientError {
        ClientError::Transport { operation: Box::new(self.operation(task)), source }
    }

    pub(super) fn unreadable(&self, task: Task<'_>, problem: &dyn fmt::Display) -> ClientError {
        ClientError::Answer {
            operation: Box::new(self.operation(task)),
            problem: redact_values(&problem.to_string()),
        }
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> KindClient<K> {
    /// Creates an object, and returns it as the server stored it. Without a name, the server generates one from
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// When it exists already ([`ClientError::is_already_exists`]), or the server refuses it.
    pub async fn create(&self, object: &K) -> Result<K, ClientError> {
        let meta = object.meta();
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default());
        let given = ObjectKey::new(namespace.unwrap_or_default(), name);
        let task = self.task(Verb::Create, Some(&given));
        self.check_whole(task)?;
        let namespace = self.namespace(task, namespace)?;
        let mut address = Address::new(self.kind().resource(), namespace, None);
        address.put_options(&self.client.options, true);
        let target = ObjectKey::new(namespace.unwrap_or_default(), name);
        let created = self.write_object(task, &target, Method::POST, address, object).await;
        if let Err(error) = &created {
            self.note_failure(&target, Sent::default(), error);
        }
        created
    }

    /// Replaces an object, and returns it as the server stored it. If it has a resource version and the server has another
    /// one, it is a conflict ([`ClientError::is_conflict`]).
    ///
    /// # Errors
    /// When it does not exist, changed meanwhile, or the server refuses it.
    pub async fn update(&self, object: &K) -> Result<K, ClientError> {
        let key = self.place(Verb::Update, &bowline_cache::object_key(object))?;
        let task = self.task(Verb::Update, Some(&key));
        let mut address = self.address(&key, task.subresource);
        address.put_options(&self.client.options, true);
        let updated = self.write_object(task, &key, Method::PUT, address, object).await;
        if let Err(error) = &updated {
            let meta = object.meta();
            let sent = Sent { uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() };
            self.note_failure(&key, sent, error);
        }
        updated
    }

    async fn write_object(
        &self,
        task: Task<'_>,
        target: &ObjectKey,
        method: Method,
        address: Address,
        object: &K,
    ) -> Result<K, ClientError> {
        if self.kind().form() == Representation::Metadata {
            let problem = "an object cannot be written by its metadata alone: use a patch";
            return Err(self.invalid(task, problem));
        }
        let body = self
            .encode(object)
            .map_err(|error| self.invalid(task, format!("the object cannot be written as JSON: {error}")))?;
        let request = Request::new(method, address, self.accept()).body("application/json", body.into());
        self.write(task, target, request).await
    }

    /// An object as JSON. A dynamic one without `apiVersion` and `kind` gets those of the client.
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
