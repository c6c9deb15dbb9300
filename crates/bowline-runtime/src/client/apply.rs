//! Server-side apply of one object.

use std::fmt;
use std::future::IntoFuture;

use bowline_cache::internal::without_managed_fields;
use bowline_cache::{Representation, object_key};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use kube::Resource;
use serde::Serialize;

use super::error::{ClientError, Verb};
use super::kind_client::KindClient;
use super::request::Request;
use super::write_answers::Sent;

/// A server-side apply of one object: sent when it is awaited. Returns the object as the server stored it.
///
/// It needs a [field owner](super::Client::field_owner), which then owns the fields that are sent. Fields that it sent before
/// and does not send now are removed.
#[must_use = "nothing is applied until it is awaited"]
pub struct Apply<'a, K> {
    client: KindClient<K>,
    object: &'a K,
    force: bool,
}

impl<K: Resource + Serialize + Send + Sync + 'static> Apply<'_, K> {
    /// Takes over fields that have another owner. Default: such a field with another value is a conflict
    /// ([`is_field_conflict`](ClientError::is_field_conflict)).
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    async fn run(self) -> Result<K, ClientError> {
        let Self { client, object, force } = self;
        let key = client.place(Verb::Apply, &object_key(object))?;
        let task = client.task(Verb::Apply, Some(&key));
        client.check_field_owner(task)?;
        if client.kind().form() == Representation::Metadata {
            let problem = "an object cannot be applied by its metadata alone: use a patch";
            return Err(client.invalid(task, problem));
        }
        let body = client.encode(object).map_err(|error| {
            client.invalid(task, format!("the object cannot be written as JSON: {error}"))
        })?;
        // A server refuses managed fields, which an object that was read has.
        let body = Bytes::copy_from_slice(without_managed_fields(&body, &mut Vec::new()));
        let mut address = client.address(&key, task.subresource);
        address.put_options(&client.client.options, true);
        if force {
            address.put("force", "true");
        }
        let request = Request::new(Method::PATCH, address, client.accept());
        let request = request.body("application/apply-patch+yaml", body);
        let applied = client.write(task, &key, request).await;
        if let Err(error) = &applied {
            let meta = object.meta();
            let sent = Sent { uid: meta.uid.as_deref(), version: meta.resource_version.as_deref() };
            client.note_failure(&key, sent, error);
        }
        applied
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> KindClient<K> {
    /// Applies an object on the server. Options are set on the returned value, which is then awaited.
    ///
    /// # Errors
    /// When the client has no [field owner](super::Client::field_owner), another owner has a field with another value, or the
    /// server refuses the object.
    pub fn apply<'a>(&self, object: &'a K) -> Apply<'a, K> {
        Apply { client: self.clone(), object, force: false }
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
            .field("force", &self.force)
            .finish_non_exhaustive()
    }
}
