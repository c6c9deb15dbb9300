//! From an author's handler to the one that a watch calls.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use super::asynchronous::{AsyncMapHandler, AwaitHandler, ByTrait};
use super::{AsyncHandler, Handler, HandlerContext};
use crate::{BoxError, Request};

/// The handlers that [`Watch::new`](crate::Watch::new) takes: a [`Handler`], an [`AsyncHandler`], or the result of
/// [`map_async`](super::map_async).
///
/// The compiler finds `Form`, which tells these apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of changes of `{K}`",
    label = "not a handler",
    note = "use `handler::object()`, `handler::owner::<O>()`, `handler::map(|object: &{K}| …)` or `handler::map_async(…)`",
    note = "or a closure `|change: &Change<'_, {K}>, requests: &mut Requests<'_>| …`, with the types of its arguments",
    note = "or a type that implements `Handler<{K}>` or `AsyncHandler<{K}>`"
)]
pub trait IntoHandler<K, Form> {
    #[doc(hidden)]
    fn into_handler(self) -> AnyHandler<K>;
}

/// A handler in any form, with the name of its type.
#[doc(hidden)]
pub struct AnyHandler<K> {
    pub(crate) type_name: &'static str,
    pub(crate) code: HandlerCode<K>,
}

/// A handler, sync or async.
pub(crate) enum HandlerCode<K> {
    Sync(Box<dyn Handler<K>>),
    Async(Box<dyn AwaitHandler<K>>),
}

/// Form of a [`Handler`].
#[derive(Debug)]
pub struct SyncForm;
/// Form of an [`AsyncHandler`].
#[derive(Debug)]
pub struct AsyncForm;
/// Form of the result of [`map_async`](super::map_async).
#[derive(Debug)]
pub struct AsyncMapForm<A>(PhantomData<A>);

impl<K, H: Handler<K>> IntoHandler<K, SyncForm> for H {
    fn into_handler(self) -> AnyHandler<K> {
        AnyHandler { type_name: type_name::<H>(), code: HandlerCode::Sync(Box::new(self)) }
    }
}

impl<K: Send + Sync + 'static, H: AsyncHandler<K>> IntoHandler<K, AsyncForm> for H {
    fn into_handler(self) -> AnyHandler<K> {
        AnyHandler { type_name: type_name::<H>(), code: HandlerCode::Async(Box::new(ByTrait(self))) }
    }
}

impl<K, F, Fut, I, E> IntoHandler<K, AsyncMapForm<(Fut, I, E)>> for AsyncMapHandler<F>
where
    K: Send + Sync + 'static,
    F: Fn(HandlerContext, Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<I, E>> + Send,
    I: IntoIterator<Item = Request>,
    E: Into<BoxError>,
{
    fn into_handler(self) -> AnyHandler<K> {
        AnyHandler { type_name: type_name::<F>(), code: HandlerCode::Async(Box::new(self)) }
    }
}

impl<K> std::fmt::Debug for AnyHandler<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.type_name)
    }
}
