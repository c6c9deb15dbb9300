//! The client of an operator: reads come from the cache where the kind is declared, writes go to the API server.

mod apply;
mod binding;
mod builder;
mod delete;
mod error;
mod kind_client;
mod options;
mod patch;
mod read_your_writes;
mod request;
mod retry;
mod selection;
mod subresource;
mod writes;

use std::fmt;
use std::sync::Arc;

use bowline_cache::{Form, InformerCache, Kind, ListQuery, ObjectKey, Packed};
use bowline_clock::Clock;
use bowline_machinery::GroupVersionKind;
use kube::Resource;
use kube::core::DynamicObject;
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::{AnswerBody, Route};
use crate::{AsObject, MapperError, RestMapper, Scheme};
pub use apply::Apply;
use binding::{Binding, Bindings};
pub use builder::ClientBuilder;
pub use delete::{Delete, DeleteAllOf, Propagation};
pub use error::{ClientError, Conflict, IgnoreErrors, Operation, Verb};
pub use kind_client::KindClient;
pub use options::FieldValidation;
use options::Options;
pub use patch::{Patch, PatchError, PatchKind};
pub use request::Warning;
use request::{Failure, Request, Warned};
pub use subresource::{KindStatusClient, KindSubresourceClient, StatusClient, SubresourceClient};

/// An object whose type knows its kind: built-in kinds, and what `#[derive(CustomResource)]` makes.
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
/// Kinds that are declared are read from the cache: those that a controller is for, owns or watches, and those that
/// [`ClusterBuilder::cached`](crate::ClusterBuilder::cached) names. All others are read from the API server: nobody is
/// surprised by a watch of all Secrets. What counts is the kind in its form: that typed Pods are declared does not make
/// dynamic ones cached. Of a kind that is declared [packed](bowline_cache::Packed), typed reads come from the cache as well, and
/// are decoded each time: one that is not as its type has it is an error then, and is left out of lists.
///
/// # Writes
/// What a write returns is the object as the server has it now, but without `metadata.managedFields` if cached reads of it
/// have none either; [`apply`](Self::apply) and a [`live`](Self::live) client always give them.
///
/// # Forms
/// The verbs here are for types that know their kind. [`of`](Self::of) has the same verbs for every form, and is quicker for
/// who keeps it.
///
/// # Wrappers
/// [`dry_run`](Self::dry_run), [`field_owner`](Self::field_owner), [`field_validation`](Self::field_validation),
/// [`namespaced`](Self::namespaced) and [`live`](Self::live) give a client that does the same with a difference; the one
/// that they are called on stays as it is.
///
/// A clone is the same client.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    options: Options,
}

/// A clone shares all but the way to the server, which may be another then.
#[derive(Clone)]
struct Shared {
    route: Route,
    cache: Option<InformerCache>,
    clock: Clock,
    scheme: Arc<Scheme>,
    mapper: Arc<dyn RestMapper>,
    bindings: Arc<Bindings>,
    on_warning: Option<WarningHook>,
    warned: Arc<Warned>,
}

/// Is told what a server warned of.
type WarningHook = Arc<dyn Fn(&Warning) + Send + Sync>;

impl Client {
    /// A client, to be told how it works. Without a [cache](ClientBuilder::cache), all reads are live.
    pub fn builder(route: impl Into<Route>) -> ClientBuilder {
        ClientBuilder::new(route.into())
    }

    /// The client that everything else stands on, for what this one has no word for.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        self.shared.route.kube()
    }

    /// The same client, whose requests take another way to the same server. It shares all that this one knows: what one of
    /// them writes, the other reads.
    pub(crate) fn through(&self, route: Route) -> Self {
        let shared = Shared { route, ..(*self.shared).clone() };
        Self { shared: Arc::new(shared), options: self.options.clone() }
    }

    /// The cache that it reads from, if it has one.
    #[must_use]
    pub fn cache(&self) -> Option<&InformerCache> {
        self.shared.cache.as_ref()
    }

    /// Which types kinds have.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.shared.scheme
    }

    /// Where objects of a kind are served.
    #[must_use]
    pub fn mapper(&self) -> &dyn RestMapper {
        &*self.shared.mapper
    }

    /// The clock by which it waits.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// A client of one kind in any form.
    #[must_use]
    pub fn of<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> KindClient<K> {
        KindClient { client: self.clone(), binding: self.shared.bindings.of(kind) }
    }

    /// A client of a kind whose type knows it.
    #[must_use]
    pub fn typed<K: Object>(&self) -> KindClient<K> {
        KindClient { client: self.clone(), binding: self.shared.bindings.typed() }
    }

    /// A kind that is only known by its name, as its type in the [scheme](Self::scheme) has it, or the API server.
    ///
    /// # Errors
    /// When there is none, or the server cannot be asked.
    pub async fn kind(&self, kind: &GroupVersionKind) -> Result<Kind<DynamicObject>, MapperError> {
        match self.shared.scheme.mapping(kind) {
            Some(mapping) => Ok(mapping.dynamic()),
            None => Ok(self.shared.mapper.mapping(kind).await?.dynamic()),
        }
    }

    /// Reads of a kind in its form come from the cache from now on, unless it was said that they never do, until this is
    /// [taken back](Self::undeclare) as often as it was said. An informer is started when it is read first, if there is none.
    pub fn declare<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) {
        self.shared.bindings.of(kind).declare();
    }

    /// Takes one [declaration](Self::declare) back. When none is left, reads go to the API server again, and the informer
    /// that reads kept ends unless somebody else uses it.
    pub fn undeclare<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) {
        if self.shared.bindings.of(kind).undeclare()
            && let Some(cache) = &self.shared.cache
        {
            cache.release(kind);
        }
    }

    /// Whether reads of a kind in its form come from the cache. Typed ones do, too, if it is declared packed.
    #[must_use]
    pub fn is_cached<K: Resource + Send + Sync + 'static>(&self, kind: &Kind<K>) -> bool {
        self.is_read_from_cache(&self.shared.bindings.of(kind))
    }

    /// One object.
    ///
    /// # Errors
    /// When it is not there ([`ClientError::is_not_found`]) or cannot be read.
    pub async fn get<K: Object>(&self, key: &ObjectKey) -> Result<Arc<K>, ClientError> {
        self.typed().get(key).await
    }

    /// One object, if it is there.
    ///
    /// # Errors
    /// When it cannot be read, or the server does not know its kind.
    pub async fn find<K: Object>(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, ClientError> {
        self.typed().find(key).await
    }

    /// The objects that a query asks for, in the order of their keys.
    ///
    /// # Errors
    /// When they cannot be read. Field selectors need a [live](Self::live) read, indexes a cached one.
    pub async fn list<K: Object>(&self, query: &ListQuery) -> Result<Vec<Arc<K>>, ClientError> {
        self.typed().list(query).await
    }

    /// Creates an object, and returns it as the server has it. Without a name, the server makes one of
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// When there is one already ([`ClientError::is_already_exists`]), or the server refuses it.
    pub async fn create<K: Object>(&self, object: &K) -> Result<K, ClientError> {
        self.typed().create(object).await
    }

    /// Replaces an object, and returns it as the server has it. If it has a version, the server refuses it with a conflict
    /// ([`ClientError::is_conflict`]) when the object has another by now.
    ///
    /// # Errors
    /// When it is not there, was changed meanwhile, or the server refuses it.
    pub async fn update<K: Object>(&self, object: &K) -> Result<K, ClientError> {
        self.typed().update(object).await
    }

    /// Changes one object, as a patch says, and returns it as the server has it.
    ///
    /// # Errors
    /// When it is not there, or the server refuses it.
    pub async fn patch<K: Object>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        self.typed().patch(key, patch).await
    }

    /// Applies an object on the server, which merges the fields that it has. Needs a [field owner](Self::field_owner).
    /// Options are set on what this returns, which is then awaited: `client.apply(&object).force().await?`.
    pub fn apply<'a, K: Object>(&self, object: &'a K) -> Apply<'a, K> {
        self.typed().apply(object)
    }

    /// Deletes one object. Options are set on what this returns, which is then awaited:
    /// `client.delete::<Foo>(&key).propagation(Propagation::Foreground).await?`.
    pub fn delete<K: Object>(&self, key: &ObjectKey) -> Delete<K> {
        self.typed().delete(key)
    }

    /// Deletes this very object, and not another that has its name by now: that is a conflict.
    pub fn delete_object<K: Object>(&self, object: &impl AsObject<K>) -> Delete<K> {
        self.typed().delete_object(object.as_object())
    }

    /// Deletes all objects that a query asks for, in one request. Of a kind that is in namespaces, the query has to name
    /// one.
    pub fn delete_all_of<K: Object>(&self, query: &ListQuery) -> DeleteAllOf<K> {
        self.typed().delete_all_of(query)
    }

    /// Changes the status of an object, and writes it through the status subresource if it is another then. The object as
    /// the server has it, or `None` if there was nothing to write.
    ///
    /// # Errors
    /// As [`update`](Self::update): it is a conflict if the object was changed since it was read.
    pub async fn update_status<K>(
        &self,
        object: &impl AsObject<K>,
        change: impl FnOnce(&mut K::Status),
    ) -> Result<Option<K>, ClientError>
    where
        K: Object + HasStatus<Status: Default + Clone + PartialEq>,
    {
        let object = object.as_object();
        let mut status = object.status().cloned().unwrap_or_default();
        change(&mut status);
        if object.status() == Some(&status) {
            return Ok(None);
        }
        let mut changed = object.clone();
        *changed.status_mut() = Some(status);
        self.status().update(&changed).await.map(Some)
    }

    /// A client whose writes are checked by the server, and not stored.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        self.with(|options| options.dry_run = true)
    }

    /// The same client, which owns the fields that it writes by this name if it was given none before.
    pub(crate) fn field_owner_or(&self, name: &str) -> Self {
        if self.options.field_owner.is_some() { self.clone() } else { self.field_owner(name) }
    }

    /// A client that owns the fields that it writes by this name. It is the field manager of Kubernetes.
    #[must_use]
    pub fn field_owner(&self, name: impl Into<String>) -> Self {
        self.with(|options| options.field_owner = Some(name.into().into()))
    }

    /// A client whose writes are checked for fields that are not known, or stand twice.
    #[must_use]
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|options| options.field_validation = Some(validation))
    }

    /// A client of one namespace: what names none is there, and what names another is an error. Kinds that are in no
    /// namespace are as they were.
    #[must_use]
    pub fn namespaced(&self, namespace: impl Into<String>) -> Self {
        self.with(|options| options.namespace = Some(namespace.into().into()))
    }

    /// A client whose reads ask the server, whatever is cached.
    #[must_use]
    pub fn live(&self) -> Self {
        self.with(|options| options.is_live = true)
    }

    /// A client whose reads from the cache wait for no write: what they find may be older than what was written.
    #[must_use]
    pub fn without_barrier(&self) -> Self {
        self.with(|options| options.is_unordered = true)
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut client = self.clone();
        change(&mut client.options);
        client
    }

    /// Whether reads of a kind come from the cache: in its form, or packed.
    fn is_read_from_cache<K>(&self, binding: &Binding<K>) -> bool {
        self.cache_for(binding).is_some() || self.packed_cache_for(binding).is_some()
    }

    /// The cache, if it has a typed kind packed, and how.
    fn packed_cache_for<K>(&self, binding: &Binding<K>) -> Option<(&InformerCache, Arc<Binding<Packed>>)> {
        if binding.kind.form() != Form::Typed {
            return None;
        }
        let packed = self.shared.bindings.packed(&binding.kind)?;
        Some((self.cache_for(&packed)?, packed))
    }

    /// The cache, if reads of a kind in its form come from there.
    fn cache_for<K>(&self, binding: &Binding<K>) -> Option<&InformerCache> {
        self.shared.cache.as_ref().filter(|_| !self.options.is_live && binding.reader().is_some())
    }

    /// Sends a request; what the server warns of is logged and told.
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
