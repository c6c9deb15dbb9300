//! Subresources of objects. A subresource that is written as the object itself (`status`, `approval`) is an option of the
//! client. One that is an object of another kind (`scale`, `binding`) has the calls below.

use bowline_cache::ObjectKey;
use bowline_cache::internal::without_managed_fields;
use bytes::Bytes;
use http::Method;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Client;
use super::error::{ClientError, Verb};
use super::kind_client::{KindClient, Task};
use super::patch::{Lock, Patch};
use super::request::{Request, is_subresource};

/// The wire form of a request to a subresource.
struct Wire {
    method: Method,
    content_type: &'static str,
    force: bool,
}

impl Wire {
    fn new(method: Method, content_type: &'static str) -> Self {
        Self { method, content_type, force: false }
    }
}

impl Client {
    /// A client whose verbs act on the status of objects, as [`subresource`](Self::subresource)`("status")`.
    ///
    /// ```
    /// # use bowline_runtime::{Client, ClientError};
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # async fn example(client: Client, mut web: Deployment) -> Result<(), ClientError> {
    /// web.status.get_or_insert_default().observed_generation = web.metadata.generation;
    /// web = client.status().update(&web).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn status(&self) -> Self {
        self.subresource("status")
    }

    /// A client whose verbs act on a subresource that is read and written as the object itself: `status`, `approval`,
    /// `finalize`, `resize`, `ephemeralcontainers`.
    ///
    /// `update`, `patch` and `apply` take and return the whole object, and the server stores only the subresource's part of
    /// it. `get` and `find` ask the server, also for kinds that are cached. Other verbs are [`ClientError::Invalid`].
    ///
    /// A subresource that is an object of another kind, such as a `Scale`, has [`KindClient::get_subresource`] and its
    /// siblings.
    #[must_use]
    pub fn subresource(&self, name: impl Into<String>) -> Self {
        self.with(|options| options.subresource = Some(name.into().into()))
    }
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// A client whose verbs act on the status of objects; see [`Client::status`].
    #[must_use]
    pub fn status(&self) -> Self {
        self.subresource("status")
    }

    /// A client whose verbs act on a subresource that is read and written as the object itself; see
    /// [`Client::subresource`].
    #[must_use]
    pub fn subresource(&self, name: impl Into<String>) -> Self {
        Self { client: self.client.subresource(name), binding: self.binding.clone() }
    }

    /// Reads a subresource that is an object of another kind, from the server.
    ///
    /// ```
    /// # use bowline_cache::ObjectKey;
    /// # use bowline_runtime::{Client, ClientError};
    /// use k8s_openapi::api::apps::v1::StatefulSet;
    /// use k8s_openapi::api::autoscaling::v1::Scale;
    ///
    /// # async fn example(client: Client, key: ObjectKey) -> Result<(), ClientError> {
    /// let scale: Scale = client.typed::<StatefulSet>().get_subresource(&key, "scale").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such object or subresource, or the answer cannot be decoded as an `S`.
    pub async fn get_subresource<S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
    ) -> Result<S, ClientError> {
        self.ask(Verb::Get, subresource, Wire::new(Method::GET, ""), key, Bytes::new()).await
    }

    /// Creates a subresource, such as a `Binding`, and returns the server's answer.
    ///
    /// # Errors
    /// When the server refuses it, or the answer cannot be decoded as an `S`.
    pub async fn create_subresource<S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &impl Serialize,
    ) -> Result<S, ClientError> {
        let body = self.encode_part(Verb::Create, subresource, key, body)?;
        self.ask(Verb::Create, subresource, Wire::new(Method::POST, "application/json"), key, body).await
    }

    /// Replaces a subresource that is an object of another kind, and returns it as the server stored it.
    ///
    /// # Errors
    /// As [`update`](Self::update), or the answer cannot be decoded as an `S`.
    pub async fn update_subresource<S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &S,
    ) -> Result<S, ClientError> {
        let body = self.encode_part(Verb::Update, subresource, key, body)?;
        self.ask(Verb::Update, subresource, Wire::new(Method::PUT, "application/json"), key, body).await
    }

    /// Patches a subresource that is an object of another kind, and returns it as the server stored it.
    ///
    /// # Errors
    /// As [`patch`](Self::patch), or the answer cannot be decoded as an `S`.
    pub async fn patch_subresource<S: DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        patch: &Patch,
    ) -> Result<S, ClientError> {
        let wire = Wire::new(Method::PATCH, patch.content_type());
        self.ask(Verb::Patch, subresource, wire, key, patch.shared_body()).await
    }

    /// Applies a subresource that is an object of another kind, and returns it as the server stored it. Needs a
    /// [field owner](Client::field_owner). With `force`, it takes over fields that have another owner.
    ///
    /// # Errors
    /// As [`apply`](Self::apply), or the answer cannot be decoded as an `S`.
    pub async fn apply_subresource<S: Serialize + DeserializeOwned>(
        &self,
        key: &ObjectKey,
        subresource: &str,
        body: &S,
        force: bool,
    ) -> Result<S, ClientError> {
        let task = Task { verb: Verb::Apply, key: Some(key), subresource: Some(subresource) };
        self.check_field_owner(task)?;
        let body = self.encode_part(Verb::Apply, subresource, key, body)?;
        let body = Bytes::copy_from_slice(without_managed_fields(&body, &mut Vec::new()));
        let wire = Wire { method: Method::PATCH, content_type: "application/apply-patch+yaml", force };
        self.ask(Verb::Apply, subresource, wire, key, body).await
    }

    async fn ask<S: DeserializeOwned>(
        &self,
        verb: Verb,
        subresource: &str,
        wire: Wire,
        key: &ObjectKey,
        body: Bytes,
    ) -> Result<S, ClientError> {
        let key = self.place(verb, key)?;
        let task = Task { verb, key: Some(&key), subresource: Some(subresource) };
        self.check_subresource(task)?;
        let mut address = self.address(&key, Some(subresource));
        if verb != Verb::Get {
            address.put_options(&self.client.options, true);
        }
        if wire.force {
            address.put("force", "true");
        }
        let Wire { method, content_type, .. } = wire;
        let lock = Lock::read(content_type, &body);
        let request = Request::new(method, address, "application/json").body(content_type, body);
        // A token does not change its service account.
        let is_write = verb != Verb::Get && subresource != "token";
        let unfinished = is_write.then(|| self.begin_write(&key));
        let answer = self.send_for_bytes(task, request).await;
        if let Some(unfinished) = unfinished {
            unfinished.finish();
        }
        let bytes = answer.inspect_err(|error| {
            if is_write {
                self.note_failure(&key, lock.sent(), error);
            }
        })?;
        if is_write {
            self.note_part(&key, &bytes);
        }
        serde_json::from_slice(&bytes).map_err(|error| self.unreadable(task, &error))
    }

    /// Fails unless the name of a task's subresource can be a part of an address.
    pub(super) fn check_subresource(&self, task: Task<'_>) -> Result<(), ClientError> {
        match task.subresource {
            Some(name) if !is_subresource(name) => {
                Err(self.invalid(task, format!("{name:?} is not the name of a subresource")))
            }
            _ => Ok(()),
        }
    }

    /// Fails if the client acts on a subresource, for a verb that only whole objects have.
    pub(super) fn check_whole(&self, task: Task<'_>) -> Result<(), ClientError> {
        match task.subresource {
            Some(name) => Err(self.invalid(
                task,
                format!(
                    "a client of the subresource {name:?} can only get, update, patch and apply: use the client that it was made from"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Fails if the client has no field owner, for a server-side apply.
    pub(super) fn check_field_owner(&self, task: Task<'_>) -> Result<(), ClientError> {
        if self.client.options.field_owner.is_none() {
            let problem = "a server-side apply needs an owner of the fields: use `Client::field_owner`";
            return Err(self.invalid(task, problem));
        }
        Ok(())
    }

    fn encode_part(
        &self,
        verb: Verb,
        subresource: &str,
        key: &ObjectKey,
        body: &impl Serialize,
    ) -> Result<Bytes, ClientError> {
        let task = Task { verb, key: Some(key), subresource: Some(subresource) };
        serde_json::to_vec(body)
            .map(Bytes::from)
            .map_err(|error| self.invalid(task, format!("it cannot be written as JSON: {error}")))
    }
}
