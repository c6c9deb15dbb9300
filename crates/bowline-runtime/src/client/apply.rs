//! Server-side apply: an object is sent with the fields that its owner has an opinion about, and the server merges them.

use std::fmt;
use std::future::IntoFuture;

use bowline_cache::{Form, object_key, without_managed_fields};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use kube::Resource;
use serde::Serialize;

use super::error::{ClientError, Verb};
use super::kind_client::{KindClient, Task};
use super::read_your_writes::Sent;
use super::request::Request;

/// A server-side apply of one object: done when it is awaited. The answer is the object as the server has it.
///
/// It needs a [field owner](super::Client::field_owner): the fields that are sent are its from now on, and those that it
/// sent before and does not send now go.
#[must_use = "nothing is applied until it is awaited"]
pub struct Apply<'a, K> {
    client: KindClient<K>,
    object: &'a K,
    subresource: Option<&'a str>,
    is_forced: bool,
}

impl<'a, K: Resource + Serialize + Send + Sync + 'static> Apply<'a, K> {
    pub(super) fn new(client: KindClient<K>, object: &'a K, subresource: Option<&'a str>) -> Self {
        Self { client, object, subresource, is_forced: false }
    }

    /// Takes fields over from their owners. Without this, a field that somebody else owns and that differs is a conflict.
    pub fn force(mut self) -> Self {
        self.is_forced = true;
        self
    }

    async fn run(self) -> Result<K, ClientError> {
        let Self { client, object, subresource, is_forced } = self;
        let key = client.place(Verb::Apply, &object_key(object))?;
        let task = Task { verb: Verb::Apply, key: Some(&key), subresource };
        if client.client.options.field_owner.is_none() {
            let problem = "a server-side apply needs an owner of the fields: use `Client::field_owner`";
            return Err(client.invalid(task, problem));
        }
        if client.kind().form() == Form::Metadata {
            let problem = "an object cannot be applied by its metadata alone: use a patch";
            return Err(client.invalid(task, problem));
        }
        let body = client.encode(object).map_err(|error| {
            client.invalid(task, format!("the object cannot be written as JSON: {error}"))
        })?;
        // A server refuses an object that says who owns its fields, as one that was read does.
        let body = Bytes::copy_from_slice(without_managed_fields(&body, &mut Vec::new()));
        let mut address = client.address(&key, subresource);
        address.put_options(&client.client.options, true);
        if is_forced {
            address.put("force", "true");
        }
        let request = Request {
            method: Method::PATCH,
            address,
            accept: client.accept(),
            content_type: "application/apply-patch+yaml",
            body,
        };
        let applied = client.write(task, request).await;
        if let Err(error) = &applied {
            let meta = object.meta();
            let sent = Sent { uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() };
            client.note_failure(&key, sent, error);
        }
        applied
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> KindClient<K> {
    /// Applies an object on the server. Options are set on what this returns, which is then awaited.
    pub fn apply<'a>(&self, object: &'a K) -> Apply<'a, K> {
        Apply::new(self.clone(), object, None)
    }
}

impl<'a, K: Resource + Serialize + Send + Sync + 'static> IntoFuture for Apply<'a, K> {
    type Output = Result<K, ClientError>;
    type IntoFuture = BoxFuture<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<K> fmt::Debug for Apply<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apply")
            .field("client", &self.client)
            .field("force", &self.is_forced)
            .finish_non_exhaustive()
    }
}
