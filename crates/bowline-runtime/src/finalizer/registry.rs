//! The finalizers of a controller: put on while an object lives, run in order when it goes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bowline_cache::object_key;
use bowline_machinery::validate_qualified_name;

use super::{FinalizerError, add, contains, detach, write};
use crate::{BoxError, Client, Object};

/// What a finalizer does.
pub type FinalizerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'a>>;

/// What has to be done before an object may go. Closures are finalizers:
/// `|client: Client, foo: Arc<Foo>| async move { … }`.
pub trait Finalizer<K>: Send + Sync + 'static {
    /// Cleans up. It may be called again after it succeeded, if that could not be written.
    ///
    /// # Errors
    /// The object stays, and this is called again when it is next reconciled.
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

/// The finalizers of a controller, in the order in which they were registered.
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
///     // … what is to be done for an object that lives.
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
    /// The API server would refuse it.
    #[error("finalizer {key:?} must be `domain/name`, such as `example.com/account`: {problem}")]
    Key {
        /// The finalizer.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// There is one of this name.
    #[error("finalizer {key} is registered already")]
    Registered {
        /// The finalizer.
        key: String,
    },
}

/// What became of an object.
#[derive(Clone, Debug)]
pub enum Finalized<K> {
    /// It lives, and has all finalizers: here it is as the server has it.
    Alive(Arc<K>),
    /// It is being deleted, and nothing is left to be done for it here. Others may still have to.
    Done,
}

impl<K: Object> Finalizers<K> {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// One more, which is run after those before it. The key is what stands in `metadata.finalizers`: it must be the same in
    /// every version of the operator, or objects never go.
    ///
    /// # Errors
    /// When the key is none that the API server takes without a warning, or is registered already.
    pub fn register(mut self, key: &str, finalizer: impl Finalizer<K>) -> Result<Self, InvalidFinalizer> {
        let mut problems = validate_qualified_name(key);
        if problems.is_empty() && !key.contains('/') {
            problems.push("it has no domain".to_owned());
        }
        if let Some(problem) = problems.into_iter().next() {
            return Err(InvalidFinalizer::Key { key: key.to_owned(), problem });
        }
        if self.entries.iter().any(|(known, _)| &**known == key) {
            return Err(InvalidFinalizer::Registered { key: key.to_owned() });
        }
        self.entries.push((key.into(), Arc::new(finalizer)));
        Ok(self)
    }

    /// Does for an object what is due.
    ///
    /// - One that **lives** gets the finalizers that it has not, in one write, before anything else is done for it: what is made for an
    ///   object without them may be left behind.
    /// - One that is **being deleted** has those run that it still has, in order, each taken off before the next is run. The
    ///   first that fails ends it: a later one may need what an earlier one cleans up. Those that are not registered here are
    ///   not touched.
    ///
    /// # Errors
    /// When a finalizer fails ([`FinalizerError::Failed`] names it; a [`terminal`](crate::terminal) error in it is found), or
    /// the object's finalizers cannot be written.
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

    /// Puts on what is missing, in one write.
    async fn attach(&self, client: &Client, object: Arc<K>) -> Result<Arc<K>, FinalizerError> {
        let keys = || self.entries.iter().map(|(key, _)| &**key);
        let missing: Vec<_> = keys().filter(|key| !contains(&object, key)).collect();
        if missing.is_empty() {
            return Ok(object);
        }
        // All are looked at again after a conflict: another may have taken one off.
        let change = |object: &mut K| keys().filter(|key| add(object, key)).count() > 0;
        let changed = write(client, &object, &missing.join(", "), change).await?;
        Ok(changed.unwrap_or(object))
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
