//! Several finalizers of a controller: added while an object lives, run in order when it is deleted.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bowline_cache::object_key;
use bowline_machinery::validate_qualified_name;

use super::{FinalizerError, add, contains, detach, write};
use crate::{BoxError, Client, Object};

/// The work of a finalizer.
pub type FinalizerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// Work that has to be done before an object may be deleted. Closures are finalizers:
/// `|client: Client, foo: Arc<Foo>| async move { … }`.
pub trait Finalizer<K>: Send + Sync + 'static {
    /// Cleans up. It may be called again after a success, if the finalizer could not be removed.
    ///
    /// # Errors
    /// Any error: the object stays, and the finalizer is called again in the next reconcile.
    fn finalize<'a>(&'a self, client: &'a Client, object: &'a Arc<K>) -> FinalizerFuture<'a>;
}

impl<K, F, T, E> Finalizer<K> for F
where
    K: Send + Sync + 'static,
    F: Fn(Client, Arc<K>) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<BoxError>,
{
    fn finalize<'a>(&'a self, client: &'a Client, object: &'a Arc<K>) -> FinalizerFuture<'a> {
        let done = self(client.clone(), Arc::clone(object));
        Box::pin(async move { done.await.map_err(Into::into) })
    }
}

/// Several finalizers of a controller, run in the order of their registration. For one finalizer, use
/// [`with_cleanup`](super::with_cleanup).
///
/// ```no_run
/// use std::sync::Arc;
/// use bowline_runtime::finalizer::{Finalized, Finalizers};
/// use bowline_runtime::{Client, Result};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # fn close(_: &ConfigMap) -> Result<(), std::io::Error> { Ok(()) }
/// async fn reconcile(client: &Client, map: Arc<ConfigMap>) -> Result<()> {
///     let finalizers = Finalizers::new()
///         .register("example.com/account", |_, map: Arc<ConfigMap>| async move { close(&map) })?;
///     let Finalized::Alive(map) = finalizers.run(client, &map).await? else { return Ok(()) };
///     // … the reconcile of an object that lives.
///     # drop(map);
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Finalizers<K> {
    entries: Vec<(Arc<str>, Arc<dyn Finalizer<K>>)>,
}

/// Why a finalizer cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFinalizer {
    /// The API server would refuse the key.
    #[error("finalizer {key:?} must be `domain/name`, such as `example.com/account`: {problem}")]
    Key {
        /// The finalizer.
        key: String,
        /// The violated rule.
        problem: String,
    },
    /// The key is registered already.
    #[error("finalizer {key} is registered already")]
    Registered {
        /// The finalizer.
        key: String,
    },
}

/// The state of an object after its finalizers ran.
#[derive(Clone, Debug)]
pub enum Finalized<K> {
    /// The object is not being deleted, and has all finalizers. It is the object as the server has it.
    Alive(Arc<K>),
    /// The object is being deleted, and has none of these finalizers any more. It may have those of others.
    Done,
}

impl<K: Object> Finalizers<K> {
    /// No finalizers.
    #[must_use]
    pub fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Adds a finalizer, which runs after those before it. The key is the entry in `metadata.finalizers`. It must stay the same
    /// in every version of the operator, or objects are never deleted.
    ///
    /// # Errors
    /// When the API server would refuse the key or warn about it, or the key is registered already.
    pub fn register(mut self, key: &str, finalizer: impl Finalizer<K>) -> Result<Self, InvalidFinalizer> {
        validate(key)?;
        if self.entries.iter().any(|(known, _)| &**known == key) {
            return Err(InvalidFinalizer::Registered { key: key.to_owned() });
        }
        self.entries.push((key.into(), Arc::new(finalizer)));
        Ok(self)
    }

    /// Adds or runs the finalizers of an object.
    ///
    /// - An object that **lives** gets the finalizers that it lacks, in one write, before anything else is done for it: external
    ///   state of an object without them may be left behind.
    /// - For an object that is **being deleted**, the finalizers that it still has run in order. Each is removed before the next
    ///   one runs. The first failure ends the run: a later finalizer may need the state that an earlier one cleans up.
    ///   Finalizers that are not registered here are not touched.
    ///
    /// # Errors
    /// When a finalizer fails ([`FinalizerError::Failed`] names it and keeps the error), or the object's finalizers cannot be
    /// written.
    pub async fn run(&self, client: &Client, object: &Arc<K>) -> Result<Finalized<K>, FinalizerError> {
        let mut object = Arc::clone(object);
        if object.meta().deletion_timestamp.is_none() {
            return Ok(Finalized::Alive(self.attach(client, object).await?));
        }
        for (key, finalizer) in &self.entries {
            if !contains(&object, key) {
                continue;
            }
            finalizer.finalize(client, &object).await.map_err(|source| FinalizerError::Failed {
                key: key.to_string(),
                object: format!("{} {}", K::kind(&()), object_key(&*object)),
                source,
            })?;
            match detach(client, &object, key).await? {
                Some(left) => object = left,
                None => break,
            }
        }
        Ok(Finalized::Done)
    }

    /// Adds the missing finalizers in one write.
    async fn attach(&self, client: &Client, object: Arc<K>) -> Result<Arc<K>, FinalizerError> {
        let keys = || self.entries.iter().map(|(key, _)| &**key);
        let missing: Vec<_> = keys().filter(|key| !contains(&object, key)).collect();
        if missing.is_empty() {
            return Ok(object);
        }
        // After a conflict all keys are checked again: another client may have removed one.
        let change = |object: &mut K| keys().filter(|key| add(object, key)).count() > 0;
        let changed = write(client, &object, &missing.join(", "), change).await?;
        Ok(changed.unwrap_or(object))
    }
}

/// Checks a key: the API server refuses it, or warns about a key without a domain.
pub(super) fn validate(key: &str) -> Result<(), InvalidFinalizer> {
    let mut problems = validate_qualified_name(key);
    if problems.is_empty() && !key.contains('/') {
        problems.push("it has no domain".to_owned());
    }
    match problems.into_iter().next() {
        Some(problem) => Err(InvalidFinalizer::Key { key: key.to_owned(), problem }),
        None => Ok(()),
    }
}

impl<K: Object> Default for Finalizers<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> fmt::Debug for Finalizers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(key, _)| key)).finish()
    }
}
