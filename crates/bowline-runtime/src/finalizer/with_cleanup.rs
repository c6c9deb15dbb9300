//! Reconcile and cleanup side by side, with one finalizer.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bowline_cache::{Kind, object_key};
use futures::future::BoxFuture;

use super::registry::validate;
use super::{FinalizerError, InvalidFinalizer, add, contains, detach, write};
use crate::{Action, BoxError, Context, ErrorPredicates as _, Object, ObjectReconciler, Permission, Verb};

/// The result of a cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cleanup {
    /// Everything is cleaned up: the finalizer is removed.
    Done,
    /// The cleanup needs more time, for example because an external resource is still being deleted. The finalizer stays, and
    /// cleanup is called again as the action says.
    Wait(Action),
}

/// A reconciler with a finalizer: reconciles objects that live, and cleans up those that are being deleted.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use bowline_runtime::finalizer::{self, Cleanup};
/// use bowline_runtime::{Action, Context, Manager, Result};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// fn operator(manager: &Manager) -> Result<()> {
///     let account = finalizer::with_cleanup("example.com/account", reconcile, cleanup)?;
///     manager.controller::<ConfigMap>().register(account)?;
///     Ok(())
/// }
///
/// /// Opens the account of a config map that lives. The config map has the finalizer.
/// async fn reconcile(ctx: Context, map: Arc<ConfigMap>) -> Result<Action> {
///     # let _ = (ctx, map);
///     Ok(Action::done())
/// }
///
/// /// Closes the account of a config map that is being deleted.
/// async fn cleanup(ctx: Context, map: Arc<ConfigMap>) -> Result<Cleanup> {
///     # let _ = (ctx, map);
///     # let is_closed = true;
///     if is_closed { Ok(Cleanup::Done) } else { Ok(Cleanup::Wait(Action::requeue_after(Duration::from_secs(5)))) }
/// }
/// ```
///
/// # Contract
/// - `reconcile` runs only for an object that is not being deleted and has the finalizer. The finalizer is written before the
///   first call, so that no external state exists without it.
/// - `cleanup` runs only for an object that is being deleted and has the finalizer. It runs again until it returns
///   [`Cleanup::Done`]: after an error with the controller's backoff, after [`Cleanup::Wait`] as its action says, after a
///   [terminal](crate::terminal) error only when the object changes. Then the finalizer is removed.
/// - Writes of the finalizer and of the status are changes of the object, after which it is reconciled once more, also after a
///   terminal error. [`for_filter`](crate::ControllerBuilder::for_filter) with
///   [`generation_changed`](crate::predicate::generation_changed) ignores them.
/// - `cleanup` must be idempotent: it runs again if the finalizer could not be removed after it was done, or the process
///   stopped in between.
/// - Neither runs for an object that is being deleted and does not have the finalizer: it was cleaned up, or was never
///   reconciled. This holds also while finalizers of other controllers keep the object.
/// - Only this finalizer is written. Finalizers that others add or remove at the same time are kept: each write carries the
///   resource version, and is repeated on a conflict, up to five attempts in all.
/// - After a crash in any of these phases, the next reconcile continues with the phase that the object's finalizers and
///   deletion timestamp say.
///
/// # Errors
/// When the API server would refuse the key, or warn about it. The key must stay the same in every version of the operator, or
/// objects are never deleted.
///
/// A reconcile fails with the error of `reconcile` as it is, with [`FinalizerError::Failed`] for an error of `cleanup`, and
/// with another [`FinalizerError`] if the finalizer cannot be written.
pub fn with_cleanup<K, F, Fut, E, C, CFut, CE>(
    key: &str,
    reconcile: F,
    cleanup: C,
) -> Result<CleanupReconciler<K>, InvalidFinalizer>
where
    K: Object,
    F: Fn(Context, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send + 'static,
    E: Into<BoxError>,
    C: Fn(Context, Arc<K>) -> CFut + Send + Sync + 'static,
    CFut: Future<Output = Result<Cleanup, CE>> + Send + 'static,
    CE: Into<BoxError>,
{
    validate(key)?;
    let reconcile: Step<K, Action> = Box::new(move |ctx, object| {
        let done = reconcile(ctx, object);
        Box::pin(async move { done.await.map_err(Into::into) })
    });
    let cleanup: Step<K, Cleanup> = Box::new(move |ctx, object| {
        let done = cleanup(ctx, object);
        Box::pin(async move { done.await.map_err(Into::into) })
    });
    Ok(CleanupReconciler { key: key.into(), reconcile, cleanup, kind: PhantomData })
}

type Step<K, T> = Box<dyn Fn(Context, Arc<K>) -> BoxFuture<'static, Result<T, BoxError>> + Send + Sync>;

/// A reconciler with a finalizer, from [`with_cleanup`].
pub struct CleanupReconciler<K> {
    key: Box<str>,
    reconcile: Step<K, Action>,
    cleanup: Step<K, Cleanup>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Object> ObjectReconciler<K> for CleanupReconciler<K> {
    type Error = BoxError;

    async fn reconcile(&self, ctx: Context, object: Arc<K>) -> Result<Action, BoxError> {
        if is_being_deleted(&*object) {
            return self.clean_up(ctx, object).await;
        }
        // The object may be deleted, or be marked as deleted, after it was read. Nothing was made for it if it has no
        // finalizer, so there is nothing to do.
        let key = &*self.key;
        let add = |object: &mut K| !is_being_deleted(object) && add(object, key);
        let object = match write(ctx.client(), &object, key, add).await {
            Ok(written) => written.unwrap_or(object),
            Err(error) if error.is_not_found() => return Ok(Action::done()),
            Err(error) => return Err(error.into()),
        };
        if is_being_deleted(&*object) {
            return self.clean_up(ctx, object).await;
        }
        (self.reconcile)(ctx, object).await
    }

    fn permissions(&self, kind: &Kind<K>) -> Vec<Permission> {
        vec![Permission::to_kind(kind, [Verb::Patch]).because(format!("writes the finalizer {}", self.key))]
    }
}

impl<K: Object> CleanupReconciler<K> {
    async fn clean_up(&self, ctx: Context, object: Arc<K>) -> Result<Action, BoxError> {
        if !contains(&object, &self.key) {
            return Ok(Action::done());
        }
        let client = ctx.client().clone();
        match (self.cleanup)(ctx, Arc::clone(&object)).await {
            Ok(Cleanup::Done) => {
                detach(&client, &object, &self.key).await?;
                Ok(Action::done())
            }
            Ok(Cleanup::Wait(action)) => Ok(action),
            Err(source) => {
                let object = format!("{} {}", K::kind(&()), object_key(&*object));
                Err(FinalizerError::Failed { key: self.key.to_string(), object, source }.into())
            }
        }
    }
}

fn is_being_deleted(object: &impl Object) -> bool {
    object.meta().deletion_timestamp.is_some()
}

impl<K> fmt::Debug for CleanupReconciler<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanupReconciler").field("key", &self.key).finish_non_exhaustive()
    }
}
