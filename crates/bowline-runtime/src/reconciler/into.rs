//! Conversion of an author's reconciler to one that a worker runs.

use std::marker::PhantomData;
use std::sync::Arc;

use bowline_cache::{CacheError, InformerHandle, Kind};
use futures::future::BoxFuture;
use kube::Resource;

use super::{ObjectReconciler, Reconciler};
use crate::controller::{Session, run_worker};
use crate::{Action, BoxError, Context, KindClient, Permission, Request, terminal};

/// The reconcilers that [`ControllerBuilder::build`](crate::ControllerBuilder::build) takes: a [`Reconciler`], an
/// [`ObjectReconciler`] of the controller's kind, or a function or closure with the arguments of one of the two.
///
/// `Form` distinguishes these; the compiler infers it. A closure needs the types of its arguments for that.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no reconciler of a controller for `{K}`",
    label = "not a reconciler",
    note = "a reconciler is `async fn(Context, Request) -> Result<Action, E>`, or `async fn(Context, Arc<{K}>) -> Result<Action, E>` behind `for_::<{K}>()`",
    note = "closures need the types of their arguments: `|ctx: Context, request: Request| async move {{ … }}`",
    note = "`E` is any error that turns into `Box<dyn Error + Send + Sync>`, and the future must be `Send`",
    note = "or a type that implements `Reconciler` or `ObjectReconciler<{K}>`"
)]
pub trait IntoReconciler<K, Form> {
    #[doc(hidden)]
    fn into_task(self, kind: Option<&Kind<K>>) -> Task;

    #[doc(hidden)]
    fn permissions(&self, kind: Option<&Kind<K>>) -> Vec<Permission> {
        let _ = kind;
        Vec::new()
    }
}

/// The code that a controller's workers run.
#[doc(hidden)]
pub struct Task(pub(crate) Arc<dyn Work>);

/// Creates the workers of a controller.
pub(crate) trait Work: Send + Sync {
    /// Runs one worker, until the queue is shut down and empty.
    ///
    /// # Errors
    /// When the cluster lacks what it needs, such as an informer.
    fn worker(&self, session: Arc<Session>, number: usize) -> Result<BoxFuture<'static, ()>, CacheError>;
}

/// One reconcile, independent of the form of its function.
pub(crate) trait Execute: Send + Sync + 'static {
    /// State of each worker.
    type Bound: Send + Sync + 'static;

    /// Whether it benefits from knowing the next requests.
    const LOOKS_AHEAD: bool = false;

    fn bind(&self, session: &Session) -> Result<Self::Bound, CacheError>;

    /// The requests that likely come next.
    fn expect(&self, _bound: &Self::Bound, _requests: &[Request]) {}

    /// Reconciles; `None` if the object does not exist.
    fn execute(
        &self,
        bound: &Self::Bound,
        context: Context,
        request: &Request,
    ) -> impl Future<Output = Result<Option<Action>, BoxError>> + Send;
}

/// All workers share the reconciler.
struct Shared<X>(Arc<X>);

impl<X: Execute> Work for Shared<X> {
    fn worker(&self, session: Arc<Session>, number: usize) -> Result<BoxFuture<'static, ()>, CacheError> {
        let bound = self.0.bind(&session)?;
        Ok(Box::pin(run_worker(session, number, self.0.clone(), bound)))
    }
}

fn task(execute: impl Execute) -> Task {
    Task(Arc::new(Shared(Arc::new(execute))))
}

struct ByRequest<R>(R);

impl<R: Reconciler> Execute for ByRequest<R> {
    type Bound = ();

    fn bind(&self, _session: &Session) -> Result<(), CacheError> {
        Ok(())
    }

    async fn execute(
        &self,
        (): &(),
        context: Context,
        request: &Request,
    ) -> Result<Option<Action>, BoxError> {
        self.0.reconcile(context, request.clone()).await.map(Some).map_err(Into::into)
    }
}

struct ByObject<R, K> {
    reconciler: R,
    kind: Kind<K>,
}

impl<K, R> Execute for ByObject<R, K>
where
    K: Resource + Send + Sync + 'static,
    R: ObjectReconciler<K>,
{
    /// The controller's informer, and the client's pending writes.
    type Bound = (InformerHandle<K>, KindClient<K>);

    const LOOKS_AHEAD: bool = true;

    fn bind(&self, session: &Session) -> Result<Self::Bound, CacheError> {
        Ok((session.cluster().cache().get_informer(&self.kind)?, session.client().for_kind(&self.kind)))
    }

    fn expect(&self, (informer, _): &Self::Bound, requests: &[Request]) {
        informer.indexer().prefetch(requests.iter().map(Request::key));
    }

    async fn execute(
        &self,
        (informer, client): &Self::Bound,
        context: Context,
        request: &Request,
    ) -> Result<Option<Action>, BoxError> {
        if request.cluster().is_some() {
            return Err(elsewhere(request));
        }
        let Some(object) = client.find_in(informer, request.key()).await? else { return Ok(None) };
        self.reconciler.reconcile(context, object).await.map(Some).map_err(Into::into)
    }
}

/// The error for an object of another cluster: the controller's own may have another one with that name.
#[cold]
fn elsewhere(request: &Request) -> BoxError {
    let text = format!(
        "{request} is in another cluster, and a reconciler of objects reads them from the controller's own: use a reconciler \
         of requests"
    );
    terminal(text).into()
}

struct FromFunction<F>(F);

impl<F, Fut, E> Reconciler for FromFunction<F>
where
    F: Fn(Context, Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    type Error = E;

    fn reconcile(
        &self,
        context: Context,
        request: Request,
    ) -> impl Future<Output = Result<Action, E>> + Send {
        (self.0)(context, request)
    }
}

impl<K, F, Fut, E> ObjectReconciler<K> for FromFunction<F>
where
    F: Fn(Context, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    type Error = E;

    fn reconcile(&self, context: Context, object: Arc<K>) -> impl Future<Output = Result<Action, E>> + Send {
        (self.0)(context, object)
    }
}

/// Markers of the forms of reconcilers, to distinguish implementations.
#[derive(Debug)]
pub struct RequestForm;
/// See [`RequestForm`].
#[derive(Debug)]
pub struct ObjectForm;
/// See [`RequestForm`].
#[derive(Debug)]
pub struct FunctionForm<A>(PhantomData<A>);

impl<K, R: Reconciler> IntoReconciler<K, RequestForm> for R {
    fn into_task(self, _kind: Option<&Kind<K>>) -> Task {
        task(ByRequest(self))
    }
}

impl<K, F, Fut, E> IntoReconciler<K, FunctionForm<(Request, Fut, E)>> for F
where
    F: Fn(Context, Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    fn into_task(self, _kind: Option<&Kind<K>>) -> Task {
        task(ByRequest(FromFunction(self)))
    }
}

impl<K, R> IntoReconciler<K, ObjectForm> for R
where
    K: Resource + Send + Sync + 'static,
    R: ObjectReconciler<K>,
{
    fn into_task(self, kind: Option<&Kind<K>>) -> Task {
        task(ByObject { reconciler: self, kind: kind_of(kind) })
    }

    fn permissions(&self, kind: Option<&Kind<K>>) -> Vec<Permission> {
        ObjectReconciler::permissions(self, &kind_of(kind))
    }
}

impl<K, F, Fut, E> IntoReconciler<K, FunctionForm<(Arc<K>, Fut, E)>> for F
where
    K: Resource + Send + Sync + 'static,
    F: Fn(Context, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: Into<BoxError>,
{
    fn into_task(self, kind: Option<&Kind<K>>) -> Task {
        task(ByObject { reconciler: FromFunction(self), kind: kind_of(kind) })
    }
}

fn kind_of<K>(kind: Option<&Kind<K>>) -> Kind<K> {
    kind.expect("a builder has the kind of its type; only that of `()`, which is no resource, has none")
        .clone()
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Task")
    }
}
