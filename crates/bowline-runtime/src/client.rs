//! The client of an operator. Reads of declared kinds come from the cache; other reads and all writes go to the API server.

mod apply;
mod binding;
mod builder;
mod cached_namespaces;
mod cached_read;
mod certificate;
mod delete;
mod error;
mod evict;
mod flights;
mod kind_client;
mod list;
mod options;
mod patch;
mod read_your_writes;
mod request;
mod retry;
mod scale;
mod selection;
mod subresource;
mod token;
mod update_status;
mod watch;
mod write_answers;
mod writes;

use std::fmt;
use std::sync::Arc;

use bowline_cache::{InformerCache, Kind, ListQuery, ObjectKey, Packed, Representation};
use bowline_clock::Clock;
use bowline_machinery::GroupVersionKind;
use kube::Resource;
use kube::core::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::{AnswerBody, RequestService};
use crate::{AsObject, MapperError, RestMapper, Scheme};
pub use apply::Apply;
use binding::{Bindings, KindEntry};
pub use builder::ClientBuilder;
pub use cached_namespaces::CachedNamespaces;
pub use delete::{Delete, DeleteAllOf, Propagation};
pub use error::{ClientError, Conflict, IgnoreErrors, Operation, Verb};
pub use evict::Evict;
pub use kind_client::KindClient;
pub use list::ListStream;
pub use options::FieldValidation;
use options::Options;
pub use patch::{Patch, PatchError, PatchKind};
pub use request::Warning;
use request::{Failure, Request, Warned};
pub use token::{CreateToken, ServiceAccountToken};
pub use update_status::UpdateStatusError;
pub use watch::{WatchEvent, WatchRequest, WatchStream};

/// An object whose type knows its kind: built-in kinds, and types with `#[derive(CustomResource)]`.
pub trait Object:
    Resource<DynamicType = (), Scope: 'static>
    + Serialize
    + DeserializeOwned
    + Clone
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope: 'static>
        + Serialize
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

/// The client of an operator.
///
/// # Reads
/// Kinds that are declared are read from the cache: those that a controller is for, owns or watches, and those of
/// [`ClusterBuilder::cached`](crate::ClusterBuilder::cached). All others are read from the API server, so that no read starts
/// a watch of all Secrets. A declaration counts for one representation: typed Pods do not make dynamic ones cached. If a kind
/// is declared [packed](bowline_cache::Packed), typed reads come from the cache too and are decoded each time: an object that
/// does not fit its type is an error of `get`, and is left out of lists.
///
/// # Writes
/// Writes return the object as the server stored it, without `metadata.managedFields` if cached reads of it have none either.
/// [`apply`](Self::apply) and a [`live`](Self::live) client always return them.
///
/// # Kinds
/// The verbs here are for types that know their kind. [`typed`](Self::typed) and [`for_kind`](Self::for_kind) give a
/// [`KindClient`], which has the same verbs for every representation, and is faster if it is kept.
///
/// # Options
/// [`dry_run`](Self::dry_run), [`field_owner`](Self::field_owner), [`field_validation`](Self::field_validation),
/// [`namespaced`](Self::namespaced), [`live`](Self::live), [`status`](Self::status) and [`subresource`](Self::subresource)
/// return a client with that option. The original does not change.
///
/// A clone is the same client.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    options: Options,
}

/// A clone shares everything except the route to the server, which may be replaced.
#[derive(Clone)]
struct Shared {
    route: RequestService,
    cache: Option<InformerCache>,
    clock: Clock,
    scheme: Arc<Scheme>,
    mapper: Arc<dyn RestMapper>,
    bindings: Arc<Bindings>,
    on_warning: Option<WarningHook>,
    warned: Arc<Warned>,
}

/// Called with each warning of the server.
type WarningHook = Arc<dyn Fn(&Warning) + Send + Sync>;

impl Client {
    /// A builder of a client. Without a [cache](ClientBuilder::cache), all reads are live.
    pub fn builder(route: impl Into<RequestService>) -> ClientBuilder {
        ClientBuilder::new(route.into())
    }

    /// The kube-rs client that sends the requests, for calls that this client does not have.
    #[must_use]
    pub fn kube_client(&self) -> &kube::Client {
        self.shared.route.kube_client()
    }

    /// The same client with another route to the same server. Both share one record of writes, so that each reads the other's
    /// writes.
    pub(crate) fn through(&self, route: RequestService) -> Self {
        let shared = Shared { route, ..(*self.shared).clone() };
        Self { shared: Arc::new(shared), options: self.options.clone() }
    }

    /// The cache, if the client has one.
    #[must_use]
    pub fn cache(&self) -> Option<&InformerCache> {
        self.shared.cache.as_ref()
    }

    /// The types of kinds.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.shared.scheme
    }

    /// The resources of kinds.
    #[must_use]
    pub fn mapper(&self) -> &dyn RestMapper {
        &*self.shared.mapper
    }

    /// The clock of its waits and timeouts.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// A client of one kind in any representation.
    #[must_use]
    pub fn for_kind<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> KindClient<K> {
        KindClient { client: self.clone(), binding: self.shared.bindings.of(kind) }
    }

    /// A client of a type that knows its kind.
    #[must_use]
    pub fn typed<K: Object>(&self) -> KindClient<K> {
        KindClient { client: self.clone(), binding: self.shared.bindings.typed() }
    }

    /// A kind by its name, from the [scheme](Self::scheme) or else from the API server.
    ///
    /// # Errors
    /// When the kind is unknown, or the server cannot be reached.
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<Kind<DynamicObject>, MapperError> {
        match self.shared.scheme.mapping(kind) {
            Some(mapping) => Ok(mapping.dynamic()),
            None => Ok(self.shared.mapper.mapping(kind).await?.dynamic()),
        }
    }

    /// Declares a kind: reads of its representation come from the cache, unless it is configured as uncached. Each call needs
    /// one [`undeclare`](Self::undeclare). The first read starts an informer if there is none.
    pub fn declare<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) {
        self.shared.bindings.of(kind).declare();
    }

    /// Takes back one [`declare`](Self::declare). After the last one, reads go to the API server again, and the informer ends
    /// unless it has another user.
    pub fn undeclare<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) {
        if !self.shared.bindings.undeclare(kind) {
            return;
        }
        if let Some(cache) = &self.shared.cache {
            cache.release(kind);
        }
        self.shared.bindings.sweep(self.shared.clock.now());
    }

    /// Whether reads of a kind in its representation come from the cache. True for a typed kind that is declared packed.
    #[must_use]
    pub fn is_cached<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> bool {
        let is_so = |binding: Arc<KindEntry<K>>| self.cache_for(&binding).is_some();
        self.shared.bindings.known(kind).is_some_and(is_so) || self.packed_cache_for(kind).is_some()
    }

    /// The namespaces of a kind that are read from the cache. Sends no request and starts no informer.
    ///
    /// The cache may also select by labels and fields: [`InformerCache::coverage`] has these selectors. A
    /// [live](Self::live) client reads nothing from the cache.
    ///
    /// ```
    /// use bowline_cache::{Kind, ObjectKey};
    /// use bowline_runtime::{Client, ClientError};
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// /// A Secret of any namespace, from the cache if that namespace is cached.
    /// async fn secret(client: &Client, key: &ObjectKey) -> Result<Option<std::sync::Arc<Secret>>, ClientError> {
    ///     let cached = client.cached_namespaces(&Kind::<Secret>::typed());
    ///     if key.namespace().is_some_and(|namespace| cached.contains(namespace)) {
    ///         return client.find(key).await;
    ///     }
    ///     client.live().find(key).await
    /// }
    /// ```
    #[must_use]
    pub fn cached_namespaces<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> CachedNamespaces {
        let cached = self.shared.bindings.known(kind).filter(|binding| self.cache_for(binding).is_some());
        if let Some(binding) = cached {
            return binding.selection.namespaces();
        }
        match self.packed_cache_for(kind) {
            Some((_, packed)) => packed.selection.namespaces(),
            None => CachedNamespaces::None,
        }
    }

    /// One object.
    ///
    /// # Errors
    /// When it does not exist ([`ClientError::is_not_found`]) or cannot be read.
    pub async fn get<K: Object>(&self, key: &ObjectKey) -> Result<Arc<K>, ClientError> {
        self.typed().get(key).await
    }

    /// One object, or `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, or the server does not know its kind.
    pub async fn find<K: Object>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        self.typed().find(key).await
    }

    /// The objects that a query selects, in the order of their keys.
    ///
    /// A list from the API server comes in pages ([`ListQuery::page_size`]) of one consistent state. If it takes so long that
    /// the server has dropped this state, it starts again as one request, as in client-go.
    ///
    /// # Errors
    /// When they cannot be read. Field selectors need a [live](Self::live) read, indexes a cached one; the error says which
    /// is missing.
    pub async fn list<K: Object>(&self, query: &ListQuery) -> Result<Vec<Arc<K>>, ClientError> {
        self.typed().list(query).await
    }

    /// The objects that a query selects, as a stream. From the API server, it holds one page of them in memory, in the
    /// server's order. From the cache, it has the order of [`list`](Self::list).
    ///
    /// If the server drops the state of the list before the last page, the remaining pages are of its present state. The
    /// stream then still has each object that existed all the time, and none twice.
    ///
    /// ```
    /// # use bowline_cache::ListQuery;
    /// # use bowline_runtime::{Client, ClientError};
    /// # use k8s_openapi::api::core::v1::Event;
    /// use futures::TryStreamExt as _;
    ///
    /// # async fn example(client: Client) -> Result<(), ClientError> {
    /// let mut events = client.live().list_stream::<Event>(&ListQuery::new().page_size(100));
    /// while let Some(event) = events.try_next().await? {
    ///     println!("{}", event.message.as_deref().unwrap_or_default());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`list`](Self::list). An error ends the stream.
    pub fn list_stream<K: Object>(&self, query: &ListQuery) -> ListStream<K> {
        self.typed().list_stream(query)
    }

    /// Creates an object, and returns it as the server stored it. Without a name, the server generates one from
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// When it exists already ([`ClientError::is_already_exists`]), or the server refuses it.
    pub async fn create<K: Object>(&self, object: &K) -> Result<K, ClientError> {
        self.typed().create(object).await
    }

    /// Replaces an object, and returns it as the server stored it. If it has a resource version and the server has another
    /// one, it is a conflict ([`ClientError::is_conflict`]).
    ///
    /// # Errors
    /// When it does not exist, changed meanwhile, or the server refuses it.
    pub async fn update<K: Object>(&self, object: &K) -> Result<K, ClientError> {
        self.typed().update(object).await
    }

    /// Changes one object with a patch, and returns it as the server stored it.
    ///
    /// # Errors
    /// When it does not exist, or the server refuses the patch.
    pub async fn patch<K: Object>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        self.typed().patch(key, patch).await
    }

    /// Applies an object on the server, which merges its fields. Needs a [field owner](Self::field_owner). Options are set on
    /// the returned value, which is then awaited: `client.apply(&object).force().await?`.
    pub fn apply<'a, K: Object>(&self, object: &'a K) -> Apply<'a, K> {
        self.typed().apply(object)
    }

    /// Deletes one object. Options are set on the returned value, which is then awaited:
    /// `client.delete::<Foo>(&key).propagation(Propagation::Foreground).await?`.
    pub fn delete<K: Object>(&self, key: &ObjectKey) -> Delete<K> {
        self.typed().delete(key)
    }

    /// Deletes an object by its uid. If another object has its name now, it is a conflict.
    pub fn delete_object<K: Object>(&self, object: &impl AsObject<K>) -> Delete<K> {
        self.typed().delete_object(object.as_object())
    }

    /// Deletes all objects that a query selects, in one request. For a namespaced kind, the query has to name a namespace.
    pub fn delete_all_of<K: Object>(&self, query: &ListQuery) -> DeleteAllOf<K> {
        self.typed().delete_all_of(query)
    }

    /// A client whose writes are validated by the server, and not stored.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.with(|options| options.dry_run = true)
    }

    /// The same client, with this field owner if it has none.
    pub(crate) fn field_owner_or(&self, name: &str) -> Self {
        if self.options.field_owner.is_some() { self.clone() } else { self.field_owner(name) }
    }

    /// A client with an owner of the fields that it writes: Kubernetes' field manager.
    #[must_use]
    pub fn field_owner(&self, name: impl Into<String>) -> Self {
        self.with(|options| options.field_owner = Some(name.into().into()))
    }

    /// A client whose writes are checked for unknown and duplicate fields.
    #[must_use]
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|options| options.field_validation = Some(validation))
    }

    /// A client of one namespace: it is the default for keys, objects and queries without a namespace, and another namespace
    /// is an error. Cluster-scoped kinds are not affected.
    #[must_use]
    pub fn namespaced(&self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace = Some(namespace.into().into()))
    }

    /// A client whose reads go to the API server, also for cached kinds.
    #[must_use]
    pub fn live(&self) -> Self {
        self.with(|options| options.is_live = true)
    }

    /// A client whose reads from the cache do not wait for the client's own writes, and may be older than these.
    #[must_use]
    pub fn without_read_your_writes(&self) -> Self {
        self.with(|options| options.is_unordered = true)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut client = self.clone();
        change(&mut client.options);
        client
    }

    /// Whether reads of a kind come from the cache, in its representation or packed.
    fn is_read_from_cache<K>(&self, binding: &KindEntry<K>) -> bool {
        self.cache_for(binding).is_some() || self.packed_cache_for(&binding.kind).is_some()
    }

    /// Number of bindings, and of resources whose writes are tracked.
    #[cfg(test)]
    pub(crate) fn bindings(&self) -> (usize, usize) {
        self.shared.bindings.len()
    }

    /// The cache and the packed kind, if a typed kind is cached packed.
    fn packed_cache_for<K>(&self, kind: &Kind<K>) -> Option<(&InformerCache, Arc<KindEntry<Packed>>)> {
        if kind.form() != Representation::Typed {
            return None;
        }
        let packed = self.shared.bindings.packed(kind)?;
        Some((self.cache_for(&packed)?, packed))
    }

    /// The cache, if reads of a kind in its representation come from there.
    fn cache_for<K>(&self, binding: &KindEntry<K>) -> Option<&InformerCache> {
        self.shared.cache.as_ref().filter(|_| !self.options.is_live && binding.reader().is_some())
    }

    /// Sends a request. Warnings of the server are logged and passed to the hook.
    async fn send(&self, request: Request, operation: impl Fn() -> Operation) -> Result<AnswerBody, Failure> {
        let (warnings, sent) = match request.send(&self.shared.route).await {
            Ok(answer) => (answer.warnings, Ok(answer.body)),
            Err(Failure::Status(status, mut warnings)) => {
                (std::mem::take(&mut warnings), Err(Failure::Status(status, warnings)))
            }
            Err(failure) => (Vec::new(), Err(failure)),
        };
        for text in warnings {
            let warning = Warning { operation: operation(), text };
            if self.shared.warned.is_new(&warning) {
                tracing::warn!(operation = %warning.operation, warning = warning.text, "the API server warns");
            }
            if let Some(hook) = &self.shared.on_warning {
                hook(&warning);
            }
        }
        sent
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("options", &self.options)
            .field("cache", &self.shared.cache)
            .finish_non_exhaustive()
    }
}
