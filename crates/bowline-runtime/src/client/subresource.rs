//! What stands behind an object's name in an address: its status, its scale and others.

use bowline_cache::{ObjectKey, without_managed_fields};
use bytes::Bytes;
use http::Method;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::apply::Apply;
use super::error::{ClientError, Verb};
use super::kind_client::{KindClient, Task};
use super::patch::{Lock, Patch};
use super::request::{Request, is_subresource};
use super::{Client, Object};

/// Writes and reads the status of objects: all of an object is sent, and only its status counts.
#[derive(Clone, Debug)]
pub struct StatusClient {
    client: Client,
}

/// Writes and reads a subresource of objects, which is often of another kind than they are: a `Scale` of a `Deployment`.
#[derive(Clone, Debug)]
pub struct SubresourceClient {
    client: Client,
    name: String,
}

/// As [`StatusClient`], of one kind in any form.
#[derive(Clone, Debug)]
pub struct KindStatusClient<K> {
    client: KindClient<K>,
}

/// As [`SubresourceClient`], of one kind in any form.
#[derive(Clone, Debug)]
pub struct KindSubresourceClient<K> {
    client: KindClient<K>,
    name: String,
}

/// How something is asked for.
struct Wire {
    method: Method,
    content_type: &'static str,
    is_forced: bool,
}

impl Wire {
    fn new(method: Method, content_type: &'static str) -> Self {
        Self { method, content_type, is_forced: false }
    }
}

impl Client {
    /// The status of objects.
    #[must_use]
    pub fn status(&self) -> StatusClient {
        StatusClient { client: self.clone() }
    }

    /// A subresource of objects, by its name: `scale`, `eviction`, `binding`, `token`.
    #[must_use]
    pub fn subresource(&self, name: impl Into<String>) -> SubresourceClient {
        SubresourceClient { client: self.clone(), name: name.into() }
    }
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// The status of objects.
    #[must_use]
    pub fn status(&self) -> KindStatusClient<K> {
        KindStatusClient { client: self.clone() }
    }

    /// A subresource of objects, by its name: `scale`, `eviction`, `binding`, `token`.
    #[must_use]
    pub fn subresource(&self, name: impl Into<String>) -> KindSubresourceClient<K> {
        KindSubresourceClient { client: self.clone(), name: name.into() }
    }
}

impl StatusClient {
    /// Writes an object's status, and returns the object as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::update`].
    pub async fn update<K: Object>(&self, object: &K) -> Result<K, ClientError> {
        self.client.typed::<K>().status().update(object).await
    }

    /// Changes an object's status, as a patch of the object says.
    ///
    /// # Errors
    /// As [`KindClient::patch`].
    pub async fn patch<K: Object>(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        self.client.typed::<K>().status().patch(key, patch).await
    }

    /// Applies an object's status on the server.
    pub fn apply<'a, K: Object>(&self, object: &'a K) -> Apply<'a, K> {
        self.client.typed::<K>().status().apply(object)
    }
}

impl<K: Resource + Send + Sync + 'static> KindStatusClient<K> {
    /// Changes an object's status, as a patch of the object says.
    ///
    /// # Errors
    /// As [`KindClient::patch`].
    pub async fn patch(&self, key: &ObjectKey, patch: &Patch) -> Result<K, ClientError> {
        self.client.patch_part(key, patch, Some("status")).await
    }
}

impl<K: Resource + Serialize + Send + Sync + 'static> KindStatusClient<K> {
    /// Writes an object's status, and returns the object as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::update`].
    pub async fn update(&self, object: &K) -> Result<K, ClientError> {
        self.client.update_part(object, Some("status")).await
    }

    /// Applies an object's status on the server.
    pub fn apply<'a>(&self, object: &'a K) -> Apply<'a, K> {
        Apply::new(self.client.clone(), object, Some("status"))
    }
}

impl SubresourceClient {
    /// Reads it, from the server.
    ///
    /// # Errors
    /// When it is not there or cannot be read as an `S`.
    pub async fn get<K: Object, S: DeserializeOwned>(&self, key: &ObjectKey) -> Result<S, ClientError> {
        self.client.typed::<K>().subresource(&*self.name).get(key).await
    }

    /// Creates it, and returns what the server answers.
    ///
    /// # Errors
    /// When the server refuses it, or its answer cannot be read as an `S`.
    pub async fn create<K: Object, S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<S, ClientError> {
        self.client.typed::<K>().subresource(&*self.name).create(key, body).await
    }

    /// Replaces it, and returns it as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::update`].
    pub async fn update<K: Object, S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &S,
    ) -> Result<S, ClientError> {
        self.client.typed::<K>().subresource(&*self.name).update(key, body).await
    }

    /// Changes it, and returns it as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::patch`].
    pub async fn patch<K: Object, S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        patch: &Patch,
    ) -> Result<S, ClientError> {
        self.client.typed::<K>().subresource(&*self.name).patch(key, patch).await
    }

    /// Applies it on the server, and returns it as the server has it. Needs a [field owner](Client::field_owner). It takes
    /// fields over from their owners if it is `forced`.
    ///
    /// # Errors
    /// As [`KindClient::apply`].
    pub async fn apply<K: Object, S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &S,
        forced: bool,
    ) -> Result<S, ClientError> {
        self.client.typed::<K>().subresource(&*self.name).apply(key, body, forced).await
    }
}

impl<K: Resource + Send + Sync + 'static> KindSubresourceClient<K> {
    /// Reads it, from the server.
    ///
    /// # Errors
    /// When it is not there or cannot be read as an `S`.
    pub async fn get<S: DeserializeOwned>(&self, key: &ObjectKey) -> Result<S, ClientError> {
        self.ask(Verb::Get, Wire::new(Method::GET, ""), key, Bytes::new()).await
    }

    /// Creates it, and returns what the server answers.
    ///
    /// # Errors
    /// When the server refuses it, or its answer cannot be read as an `S`.
    pub async fn create<S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<S, ClientError> {
        let body = self.encode(Verb::Create, key, body)?;
        self.ask(Verb::Create, Wire::new(Method::POST, "application/json"), key, body).await
    }

    /// Replaces it, and returns it as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::update`].
    pub async fn update<S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &S,
    ) -> Result<S, ClientError> {
        let body = self.encode(Verb::Update, key, body)?;
        self.ask(Verb::Update, Wire::new(Method::PUT, "application/json"), key, body).await
    }

    /// Changes it, and returns it as the server has it.
    ///
    /// # Errors
    /// As [`KindClient::patch`].
    pub async fn patch<S: DeserializeOwned>(&self, key: &ObjectKey, patch: &Patch) -> Result<S, ClientError> {
        self.ask(Verb::Patch, Wire::new(Method::PATCH, patch.content_type()), key, patch.shared_body()).await
    }

    /// Applies it on the server, and returns it as the server has it. Needs a [field owner](Client::field_owner). It takes
    /// fields over from their owners if it is `forced`.
    ///
    /// # Errors
    /// As [`KindClient::apply`].
    pub async fn apply<S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        body: &S,
        forced: bool,
    ) -> Result<S, ClientError> {
        let task = Task { verb: Verb::Apply, key: Some(key), subresource: Some(&self.name) };
        if self.client.client.options.field_owner.is_none() {
            let problem = "a server-side apply needs an owner of the fields: use `Client::field_owner`";
            return Err(self.client.invalid(task, problem));
        }
        let body = self.encode(Verb::Apply, key, body)?;
        let body = Bytes::copy_from_slice(without_managed_fields(&body, &mut Vec::new()));
        let how =
            Wire { method: Method::PATCH, content_type: "application/apply-patch+yaml", is_forced: forced };
        self.ask(Verb::Apply, how, key, body).await
    }

    async fn ask<S: DeserializeOwned>(
        &self,
        verb: Verb,
        how: Wire,
        key: &ObjectKey,
        body: Bytes,
    ) -> Result<S, ClientError> {
        let client = &self.client;
        let key = client.place(verb, key)?;
        let task = Task { verb, key: Some(&key), subresource: Some(&self.name) };
        if !is_subresource(&self.name) {
            return Err(client.invalid(task, "this is no name of a subresource"));
        }
        let mut address = client.address(&key, Some(&self.name));
        if verb != Verb::Get {
            address.put_options(&client.client.options, true);
        }
        if how.is_forced {
            address.put("force", "true");
        }
        let Wire { method, content_type, .. } = how;
        let lock = Lock::read(content_type, &body);
        let request = Request { method, address, accept: "application/json", content_type, body };
        // A token is written nowhere.
        let is_write = verb != Verb::Get && self.name != "token";
        let bytes = client.send_for_bytes(task, request).await.inspect_err(|error| {
            if is_write {
                client.note_failure(&key, lock.sent(), error);
            }
        })?;
        if is_write {
            client.note_part(&key, &bytes);
        }
        serde_json::from_slice(&bytes).map_err(|error| client.unreadable(task, &error))
    }

    fn encode(&self, verb: Verb, key: &ObjectKey, body: &impl Serialize) -> Result<Bytes, ClientError> {
        let task = Task { verb, key: Some(key), subresource: Some(&self.name) };
        serde_json::to_vec(body)
            .map(Bytes::from)
            .map_err(|error| self.client.invalid(task, format!("it cannot be written as JSON: {error}")))
    }
}
