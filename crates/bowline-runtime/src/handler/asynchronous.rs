//! Handlers that wait: for a read of the cache or of the API server, most of the time.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::{HandlerContext, Requests};
use crate::change::OwnedChange;
use crate::{BoxError, Change, Request};

/// Turns a change of an object into requests, as a [`Handler`](super::Handler), and may wait while it does: it reads the cache or
/// the API server with the client of its [context](HandlerContext).
///
/// For a function from an object to requests, use [`map_async`].
///
/// # Guarantees
/// - Changes of a watch are handled one at a time, in their order. A handler that waits delays only its own watch.
/// - Changes that come meanwhile wait for it. When more than about 8,000 wait, those of one object become one.
/// - The controller does not reconcile before the handler is done with all objects that existed at the start.
/// - An error is logged and counted (`bowline_source_errors_total`), and so is a panic (`bowline_source_panics_total`). A handler
///   that is not done within a minute is dropped, which is an error. The change is retried then while others go on: ten
///   attempts in about four minutes, with pauses from a second to a minute. Then it is
///   [named](crate::Controller::unhandled_changes). When 1024 changes of a controller wait for retries, a watch whose handler
///   fails once more waits until there is room.
/// - Up to eight changes of a controller are retried at once, also beside a later change, but not two of one object.
/// - Requests that were added before an error are reconciled.
/// - When the controller stops, a handler that runs is dropped where it waits.
///
/// ```
/// use std::time::Duration;
/// use bowline_cache::ListQuery;
/// use bowline_runtime::handler::{AsyncHandler, HandlerContext, Requests};
/// use bowline_runtime::{Change, ClientError, Request};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::ResourceExt as _;
///
/// /// Reconciles all Deployments of the namespace of a ConfigMap, later if the ConfigMap is gone.
/// struct Neighbours;
///
/// impl AsyncHandler<ConfigMap> for Neighbours {
///     type Error = ClientError;
///
///     async fn handle(
///         &self,
///         context: &HandlerContext,
///         change: &Change<'_, ConfigMap>,
///         requests: &mut Requests<'_>,
///     ) -> Result<(), ClientError> {
///         let namespace = change.meta().namespace.clone().unwrap_or_default();
///         let query = ListQuery::new().in_namespace(&namespace);
///         for deployment in context.client().list::<Deployment>(&query).await? {
///             let request = Request::new(&namespace, &deployment.name_any());
///             match change.new() {
///                 Some(_) => requests.add(request),
///                 None => requests.add_after(request, Duration::from_secs(10)),
///             }
///         }
///         Ok(())
///     }
/// }
/// # fn check(_: impl AsyncHandler<ConfigMap>) {}
/// # check(Neighbours);
/// ```
pub trait AsyncHandler<K>: Send + Sync + 'static {
    /// Why a change could not be handled: any error type.
    type Error: Into<BoxError>;

    /// Adds the objects to reconcile to `requests`. A request that is added twice counts once.
    fn handle(
        &self,
        context: &HandlerContext,
        change: &Change<'_, K>,
        requests: &mut Requests<'_>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// An async handler in any form.
pub(crate) trait AwaitHandler<K>: Send + Sync {
    fn handle<'a>(
        &'a self,
        context: &'a HandlerContext,
        change: &'a OwnedChange<K>,
        requests: &'a mut Requests<'_>,
    ) -> BoxFuture<'a, Result<(), BoxError>>;
}

/// A type that implements [`AsyncHandler`].
pub(super) struct ByTrait<H>(pub(super) H);

impl<K: Send + Sync + 'static, H: AsyncHandler<K>> AwaitHandler<K> for ByTrait<H> {
    fn handle<'a>(
        &'a self,
        context: &'a HandlerContext,
        change: &'a OwnedChange<K>,
        requests: &'a mut Requests<'_>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let change = change.borrow();
            self.0.handle(context, &change, requests).await.map_err(Into::into)
        })
    }
}

/// From [`map_async`].
#[derive(Clone)]
pub struct AsyncMapHandler<F>(F);

/// Reconciles the objects that an async function returns, as [`map`](super::map) does with one that is not async. It is for
/// relations that only a read can tell.
///
/// After an update the function is called with the previous object and then with the present one, so that an object that is no
/// longer concerned is reconciled as well. Guarantees, errors and limits are those of [`AsyncHandler`].
///
/// Here a `ConfigMap` leads to the Deployments that use it, by an index of the cache:
///
/// ```
/// use std::sync::Arc;
/// use bowline_cache::ListQuery;
/// use bowline_runtime::handler::{self, HandlerContext};
/// use bowline_runtime::{ClientError, ControllerBuilder, Request, Watch, source};
/// use k8s_openapi::api::apps::v1::Deployment;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::ResourceExt as _;
///
/// async fn users(context: HandlerContext, config: Arc<ConfigMap>) -> Result<Vec<Request>, ClientError> {
///     let key = format!("{}/{}", config.namespace().unwrap_or_default(), config.name_any());
///     let query = ListQuery::new().index("config", key);
///     let users = context.client().list::<Deployment>(&query).await?;
///     Ok(users.iter().map(|user| Request::new(&user.namespace().unwrap_or_default(), &user.name_any())).collect())
/// }
///
/// fn watched(builder: ControllerBuilder<Deployment>) -> ControllerBuilder<Deployment> {
///     builder.watches(Watch::new(source::kind::<ConfigMap>(), handler::map_async(users)))
/// }
/// ```
pub fn map_async<K, F, Fut, I, E>(function: F) -> AsyncMapHandler<F>
where
    F: Fn(HandlerContext, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<I, E>> + Send,
    I: IntoIterator<Item = Request>,
    E: Into<BoxError>,
{
    AsyncMapHandler(function)
}

impl<K, F, Fut, I, E> AwaitHandler<K> for AsyncMapHandler<F>
where
    K: Send + Sync + 'static,
    F: Fn(HandlerContext, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<I, E>> + Send,
    I: IntoIterator<Item = Request>,
    E: Into<BoxError>,
{
    fn handle<'a>(
        &'a self,
        context: &'a HandlerContext,
        change: &'a OwnedChange<K>,
        requests: &'a mut Requests<'_>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            for object in change.objects() {
                for request in (self.0)(context.clone(), object.clone()).await.map_err(Into::into)? {
                    requests.add(request);
                }
            }
            Ok(())
        })
    }
}

impl<F> fmt::Debug for AsyncMapHandler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AsyncMapHandler")
    }
}
