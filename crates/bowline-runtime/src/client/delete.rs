//! Deletions: of one object, or of all that a query selects.

use std::future::IntoFuture;
use std::time::Duration;

use bowline_cache::{ListQuery, ObjectKey};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use kube::Resource;
use serde::{Deserialize, Serialize};

use super::error::{ClientError, Verb};
use super::kind_client::KindClient;
use super::list::put_query;
use super::request::{Address, Request};
use super::write_answers::Sent;

/// Deletion of the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum Propagation {
    /// They are deleted first; until then the object stays.
    Foreground,
    /// They are deleted after the object.
    Background,
    /// They stay, without an owner.
    Orphan,
}

/// The deletion of one object: sent when it is awaited.
///
/// Returns the object if the server keeps it for a while, because of a finalizer or a grace period. Some servers return it in
/// all cases.
#[must_use = "nothing is deleted until it is awaited"]
pub struct Delete<K> {
    client: KindClient<K>,
    key: ObjectKey,
    options: Options,
    /// Version of the object in the cache, if informers select it.
    known: Option<u64>,
    /// The deletion fails without a uid.
    needs_uid: bool,
}

/// The deletion of all objects that a query selects: sent when it is awaited.
#[must_use = "nothing is deleted until it is awaited"]
pub struct DeleteAllOf<K> {
    client: KindClient<K>,
    query: ListQuery,
    options: Options,
}

/// The API's `DeleteOptions`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<Propagation>,
    #[serde(skip_serializing_if = "Preconditions::is_none")]
    preconditions: Preconditions,
    /// In the body as well, because a server ignores the query of a deletion that has a body.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    dry_run: &'static [&'static str],
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

impl Preconditions {
    fn is_none(&self) -> bool {
        self.uid.is_none() && self.resource_version.is_none()
    }
}

impl Options {
    fn of<K>(client: &KindClient<K>) -> Self {
        let dry_run: &[_] = if client.client.options.dry_run { &["All"] } else { &[] };
        Self { dry_run, ..Self::default() }
    }

    /// The request's body; empty if no option is set.
    fn body(&self) -> Bytes {
        if self.grace_period_seconds.is_none()
            && self.propagation_policy.is_none()
            && self.preconditions.is_none()
            && self.dry_run.is_empty()
        {
            return Bytes::new();
        }
        let mut body = serde_json::to_value(self).expect("options are plain values");
        body["kind"] = "DeleteOptions".into();
        body["apiVersion"] = "v1".into();
        body.to_string().into()
    }
}

impl<K: Resource + Send + Sync + 'static> Delete<K> {
    pub(super) fn new(client: KindClient<K>, key: ObjectKey) -> Self {
        let options = Options::of(&client);
        Self { client, key, options, known: None, needs_uid: false }
    }

    pub(super) fn of_object(client: KindClient<K>, object: &K) -> Self {
        let known = client.known_version(object);
        let mut delete =
            Self { known, needs_uid: true, ..Self::new(client, bowline_cache::object_key(object)) };
        delete.options.preconditions.uid.clone_from(&object.meta().uid);
        delete
    }

    /// Deletion of the objects that it owns. Default: the server's for the kind.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation_policy = Some(propagation);
        self
    }

    /// Time for the object to end, in whole seconds; zero deletes it at once. Default: the server's for the kind.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.options.grace_period_seconds = Some(period.as_secs());
        self
    }

    /// Deletes the object only if it has this uid; otherwise it is a conflict. Default: any uid.
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.options.preconditions.uid = Some(uid.into());
        self
    }

    /// Deletes the object only in this version; otherwise it is a conflict. Default: any version.
    pub fn resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.preconditions.resource_version = Some(version.into());
        self
    }

    async fn run(self) -> Result<Option<K>, ClientError> {
        let Self { client, key, options, known, needs_uid } = self;
        let key = client.place(Verb::Delete, &key)?;
        let task = client.task(Verb::Delete, Some(&key));
        client.check_whole(task)?;
        if needs_uid && options.preconditions.uid.as_deref().is_none_or(str::is_empty) {
            let problem = "the object has no uid, so that another of its name might be deleted: read it first, or delete by key";
            return Err(client.invalid(task, problem));
        }
        let mut address = client.address(&key, None);
        address.put_options(&client.client.options, false);
        let request = request(address, client.accept(), options.body());
        let unfinished = client.begin_write(&key);
        let deleted = client.send_for_bytes(task, request).await;
        unfinished.finish();
        let bytes = deleted.inspect_err(|error| {
            let Preconditions { uid, resource_version } = &options.preconditions;
            let sent = Sent { uid: uid.as_deref(), version: resource_version.as_deref() };
            client.note_failure(&key, sent, error);
        })?;
        let answer = serde_json::from_slice::<Answer>(&bytes).map_err(|error| {
            client.note_unknown(&key);
            client.unreadable(task, &error)
        })?;
        if answer.is_status() {
            let uid = answer.details.uid.or(options.preconditions.uid).unwrap_or_default();
            client.note_end(&key, &uid, known);
            return Ok(None);
        }
        let object = client.decode(task, &bytes).inspect_err(|_| client.note_unknown(&key))?;
        let at_once = options.grace_period_seconds == Some(0);
        client.note_ending(&key, &object, &bytes, known, at_once);
        Ok(Some(object))
    }
}

impl<K: Resource + Send + Sync + 'static> DeleteAllOf<K> {
    pub(super) fn new(client: KindClient<K>, query: ListQuery) -> Self {
        let options = Options::of(&client);
        Self { client, query, options }
    }

    /// Deletion of the objects that they own. Default: the server's for the kind.
    pub fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation_policy = Some(propagation);
        self
    }

    /// Time for the objects to end, in whole seconds; zero deletes them at once. Default: the server's for the kind.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.options.grace_period_seconds = Some(period.as_secs());
        self
    }

    async fn run(self) -> Result<(), ClientError> {
        let Self { client, query, options } = self;
        let task = client.task(Verb::DeleteAllOf, None);
        client.check_whole(task)?;
        let namespace = client.namespace_of_list(task, &query)?;
        if client.kind().is_namespaced() && namespace.is_none() {
            return Err(client.invalid(
                task,
                "one request deletes objects of one namespace: name it with `ListQuery::in_namespace`",
            ));
        }
        client.check_selectors(task, &query)?;
        if query.label_selector().is_nothing() {
            return Ok(());
        }
        let mut address = Address::new(client.kind().resource(), namespace.as_deref(), None);
        put_query(&mut address, &query);
        address.put_options(&client.client.options, false);
        let request = request(address, "application/json", options.body());
        let target = ObjectKey::new(namespace.as_deref().unwrap_or_default(), "");
        let unfinished = client.begin_write(&target);
        let deleted = async {
            let body = client.send(task, request).await?;
            client.note_ends(task, &target, body).await
        };
        let deleted = deleted.await;
        unfinished.finish();
        deleted.inspect_err(|error| client.note_failed_deletion(&target, error))
    }
}

fn request(address: Address, accept: &'static str, body: Bytes) -> Request {
    let content_type = if body.is_empty() { "" } else { "application/json" };
    Request::new(Method::DELETE, address, accept).body(content_type, body)
}

/// The fields that distinguish a status from an object.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "apiVersion")]
    api_version: String,
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    uid: Option<String>,
}

impl Answer {
    fn is_status(&self) -> bool {
        self.kind == "Status" && self.api_version == "v1"
    }
}

impl<K: Resource + Send + Sync + 'static> IntoFuture for Delete<K> {
    type Output = Result<Option<K>, ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<K: Resource + Send + Sync + 'static> IntoFuture for DeleteAllOf<K> {
    type Output = Result<(), ClientError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<K> std::fmt::Debug for Delete<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delete").field("client", &self.client).field("key", &self.key).finish_non_exhaustive()
    }
}

impl<K> std::fmt::Debug for DeleteAllOf<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeleteAllOf").field("query", &self.query).finish_non_exhaustive()
    }
}
