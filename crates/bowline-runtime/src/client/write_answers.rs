//! Records what responses to writes, and missing responses, say about objects.

use std::sync::Arc;

use bowline_cache::internal::{Identity, ListReader};
use bowline_cache::{ObjectKey, SharedInformer, object_key};
use bowline_clock::Instant;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::error::{ClientError, Conflict};
use super::kind_client::{KindClient, Task};
use super::selection::CacheCoverage;
use super::writes::{Answer, Found, IN_FLIGHT, Moment, Version, WriteEffect};
use crate::transport::AnswerBody;

/// Preconditions of a write (uid and version), if any: the server refuses it if the object has others.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent<'a> {
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// A write that is about to be sent, of an object or of unnamed objects in a namespace. If it is dropped before its
    /// response was recorded, the outcome is recorded as unknown.
    pub(super) fn begin_write(&self, key: &ObjectKey) -> Unfinished<'_, K> {
        Unfinished { client: self, key: self.is_noting().then(|| key.clone()) }
    }

    /// Whether responses to writes matter, now or soon: the kind may be declared after a write.
    fn is_noting(&self) -> bool {
        !self.client.options.dry_run && !self.binding.is_live && self.client.cache().is_some()
    }

    fn note(&self, key: ObjectKey, uid: &str, what: WriteEffect) {
        self.binding.writes.note(key, &Answer { uid, what }, self.client.clock().now());
    }

    /// Records an object from the response to a write.
    pub(super) fn note_object(&self, object: &K, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        let (key, meta) = (object_key(object), object.meta());
        let (Some(uid), Some(version)) = (meta.uid.as_deref(), meta.resource_version.as_deref()) else {
            return self.note_unknown(&key);
        };
        let place = self.binding.selection.place(&key, meta.labels.as_ref(), Some(bytes));
        let version = Version::new(version);
        match place {
            CacheCoverage::Uncovered => {}
            _ if self.has_ended(meta) => self.note(key, uid, WriteEffect::Gone(None)),
            CacheCoverage::Inside => self.note(key, uid, WriteEffect::There(version)),
            CacheCoverage::Outside => self.note(key, uid, WriteEffect::Elsewhere(version)),
        }
    }

    /// Whether the object of a response has ended: a server deletes it with its last finalizer, and responds with the
    /// object as it was sent, in the version before. A namespace has finalizers of its own.
    fn has_ended(&self, meta: &ObjectMeta) -> bool {
        let resource = self.kind().resource();
        meta.deletion_timestamp.is_some()
            && meta.deletion_grace_period_seconds == Some(0)
            && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
            && !(resource.group.is_empty() && resource.kind == "Namespace")
    }

    /// Records the response to a write of a subresource, which names its object and little else.
    pub(super) fn note_part(&self, key: &ObjectKey, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        // A `Status`, or a subresource without a version: the object may have changed nevertheless.
        let Some(identity) = Identity::read(bytes).ok().filter(|identity| identity.name == key.name()) else {
            self.note_unknown(key);
            return;
        };
        let version = Version::new(&identity.resource_version);
        match self.binding.selection.place(key, None, None) {
            CacheCoverage::Uncovered => {}
            CacheCoverage::Inside => self.note(key.clone(), &identity.uid, WriteEffect::There(version)),
            CacheCoverage::Outside => self.note(key.clone(), &identity.uid, WriteEffect::Elsewhere(version)),
        }
    }

    /// Records a response that is not an object readable here: it may be readable elsewhere.
    pub(super) fn note_unreadable(&self, key: &ObjectKey, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        let Ok(identity) = Identity::read(bytes) else { return self.note_unknown(key) };
        let key = ObjectKey::new(identity.namespace.as_deref().unwrap_or_default(), &identity.name);
        let labels = serde_json::from_slice::<Item>(bytes).ok().and_then(|item| item.metadata.labels);
        let version = Version::new(&identity.resource_version);
        match self.binding.selection.place(&key, labels.as_ref(), Some(bytes)) {
            CacheCoverage::Uncovered => {}
            CacheCoverage::Inside => self.note(key, &identity.uid, WriteEffect::There(version)),
            CacheCoverage::Outside => self.note(key, &identity.uid, WriteEffect::Elsewhere(version)),
        }
    }

    /// Records that an object, or any of a namespace if it has no name, was written with an unknown version.
    pub(super) fn note_unknown(&self, key: &ObjectKey) {
        self.note_unknown_until(key, self.client.clock().now());
    }

    /// Records that an object, or any of a namespace if it has no name, may have been written or may still be.
    pub(super) fn note_in_flight(&self, key: &ObjectKey) {
        self.note_unknown_until(key, self.client.clock().now() + IN_FLIGHT);
    }

    fn note_unknown_until(&self, key: &ObjectKey, until: Instant) {
        let (writes, now) = (&self.binding.writes, self.client.clock().now());
        if !self.is_noting() {
            return;
        }
        if !key.name().is_empty() {
            if self.binding.selection.place(key, None, None) != CacheCoverage::Uncovered {
                writes.note_unknown(key.clone(), until, now);
            }
        } else if self.binding.selection.parts(key.namespace()).next().is_some() {
            writes.note_unknown_in(key.namespace(), until, now);
        }
    }

    /// Records that a write with a precondition failed: the object has a newer version, or the outcome is unknown.
    pub(super) fn note_failure(&self, key: &ObjectKey, sent: Sent<'_>, error: &ClientError) {
        match error {
            ClientError::Transport { .. } if error.is_unsent() => {}
            // A fence that closes drops the requests in progress: they may arrive.
            ClientError::Transport { .. } => self.note_in_flight(key),
            // The server, or a proxy in front of it, stopped waiting.
            ClientError::Status { status, .. } if matches!(status.code, 408 | 500..) => {
                self.note_in_flight(key);
            }
            _ => self.note_refusal(key, sent, error),
        }
    }

    /// Records that a `delete_all_of` failed, which may have deleted some objects.
    pub(super) fn note_failed_deletion(&self, key: &ObjectKey, error: &ClientError) {
        match error {
            ClientError::Transport { .. } if error.is_unsent() => {}
            // The request was refused before anything was deleted.
            ClientError::Status { status, .. }
                if matches!(status.code, 400 | 401 | 403 | 404 | 405 | 415 | 422 | 429) => {}
            _ => self.note_in_flight(key),
        }
    }

    fn note_refusal(&self, key: &ObjectKey, sent: Sent<'_>, error: &ClientError) {
        if !self.is_noting() || !Conflict::is_conflict(error) {
            return;
        }
        // The conflict may be about another object, such as a quota.
        let details = error.status().and_then(|status| status.details.as_ref());
        let is_about_it = details.is_some_and(|details| {
            // A deletion's preconditions are refused by the name of the kind.
            let resource = self.kind().resource();
            details.name == key.name() && (details.kind == resource.plural || details.kind == resource.kind)
        });
        let version = sent.version.and_then(|version| version.parse().ok());
        if let (true, Some(version)) = (is_about_it, version)
            && self.binding.selection.place(key, None, None) != CacheCoverage::Uncovered
        {
            self.note(key.clone(), sent.uid.unwrap_or_default(), WriteEffect::NewerThan(version, false));
        }
    }

    /// A version in which informers had the object, if it is known.
    pub(super) fn known_version(&self, object: &K) -> Option<u64> {
        if !self.is_noting() {
            return None;
        }
        let place = self.binding.selection.place(&object_key(object), object.meta().labels.as_ref(), None);
        let version = object.meta().resource_version.as_ref()?.parse().ok()?;
        (place == CacheCoverage::Inside).then_some(version)
    }

    /// Records that an object was deleted.
    pub(super) fn note_end(&self, key: &ObjectKey, uid: &str, known: Option<u64>) {
        if self.is_noting() && self.binding.selection.place(key, None, None) != CacheCoverage::Uncovered {
            self.note(key.clone(), uid, WriteEffect::Gone(known));
        }
    }

    /// Records the object of a deletion's response: it is ending, or this is its last state. `at_once`: it has no grace
    /// period.
    pub(super) fn note_ending(
        &self,
        key: &ObjectKey,
        object: &K,
        bytes: &[u8],
        known: Option<u64>,
        at_once: bool,
    ) {
        let meta = object.meta();
        let has_finalizers = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
        if at_once
            && !has_finalizers
            && meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0)
            && let Some(version) = meta.resource_version.as_deref().and_then(|version| version.parse().ok())
        {
            // It was already ending with a grace period, in this state.
            let place = self.binding.selection.place(key, meta.labels.as_ref(), Some(bytes));
            if self.is_noting() && place != CacheCoverage::Uncovered {
                let uid = meta.uid.as_deref().unwrap_or_default();
                self.note(key.clone(), uid, WriteEffect::NewerThan(version, place == CacheCoverage::Inside));
            }
            return;
        }
        let is_kept = has_finalizers || meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        if meta.deletion_timestamp.is_some() && is_kept {
            self.note_object(object, bytes);
        } else if self.is_noting()
            && self.binding.selection.place(key, None, None) != CacheCoverage::Uncovered
        {
            let uid = meta.uid.as_deref().unwrap_or_default();
            let what = match meta.resource_version.as_deref() {
                // Something else may keep it, such as the finalizers in the spec of a namespace.
                Some(version) if meta.deletion_timestamp.is_some() && !self.has_ended(meta) => {
                    WriteEffect::Ending(Version::new(version))
                }
                _ => WriteEffect::Gone(known),
            };
            self.note(key.clone(), uid, what);
        }
    }

    /// Reads a `delete_all_of` response and records its objects, as they were before. Keeps one of them in memory at a time.
    /// `target` has their namespace.
    pub(super) async fn note_ends(
        &self,
        task: Task<'_>,
        target: &ObjectKey,
        body: AnswerBody,
    ) -> Result<(), ClientError> {
        let mut chunks = body.into_data_stream();
        let mut reader = ListReader::new();
        while let Some(chunk) = chunks.next().await {
            reader.push(chunk.map_err(|error| self.lost(task, error))?);
            loop {
                match reader.next_item() {
                    Ok(Some(item)) => self.note_end_of_item(item),
                    Ok(None) => break,
                    Err(_) => {
                        self.note_unknown(target);
                        return Ok(());
                    }
                }
            }
        }
        if reader.finish().is_err() {
            // Some servers respond with a `Status`, which does not name the deleted objects.
            self.note_unknown(target);
        }
        Ok(())
    }

    /// Records the end of an object in a `delete_all_of` response.
    fn note_end_of_item(&self, item: &[u8]) {
        if !self.is_noting() {
            return;
        }
        // An undecodable object is in no cache either.
        let Ok(Item { metadata: meta }) = serde_json::from_slice::<Item>(item) else { return };
        let key = ObjectKey::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        );
        let (Some(uid), Some(version)) = (meta.uid.as_deref(), meta.resource_version.as_deref()) else {
            return;
        };
        let place = self.binding.selection.place(&key, meta.labels.as_ref(), Some(item));
        let Some(version) = version.parse().ok().filter(|_| place != CacheCoverage::Uncovered) else {
            return;
        };
        let what = if meta.deletion_timestamp.is_none() {
            // A finalizer may keep it, in another version.
            WriteEffect::NewerThan(version, place == CacheCoverage::Inside)
        } else if meta.finalizers.as_ref().is_none_or(Vec::is_empty) {
            WriteEffect::Ending(Version::Number(version))
        } else {
            // It was already ending, and is unchanged.
            return;
        };
        self.note(key, uid, what);
    }

    /// The known state of an object before a live read of it is sent.
    pub(super) fn before(&self, informer: &SharedInformer<K>, key: &ObjectKey) -> Before<K> {
        let sent = self.binding.writes.moment(self.client.clock().now());
        Before { sent, cached: informer.indexer().get(key) }
    }

    /// Records the result of a live read, which resolves a write with an unknown outcome.
    pub(super) fn observe(&self, key: &ObjectKey, before: &Before<K>, found: Live<'_>) {
        let cached = before.cached.as_deref().and_then(|cached| cached.meta().uid.as_deref());
        let object = match found {
            Live::Object(uid, version) => {
                Some(Answer { uid, what: WriteEffect::There(Version::new(version)) })
            }
            Live::Outside(uid, version) => {
                Some(Answer { uid, what: WriteEffect::Elsewhere(Version::new(version)) })
            }
            Live::Missing => None,
        };
        let now = self.client.clock().now();
        self.binding.writes.observe(key, &Found { object, cached }, before.sent, now);
    }
}

/// Known state of an object before a live read of it was sent.
pub(super) struct Before<K> {
    sent: Moment,
    cached: Option<Arc<K>>,
}

/// Result of a live read of an object.
#[derive(Clone, Copy)]
pub(super) enum Live<'a> {
    /// An object that informers keep: its uid and version.
    Object(&'a str, &'a str),
    /// None that informers keep: the uid and version of the object, or no uid and the version of the collection.
    Outside(&'a str, &'a str),
    /// Not found.
    Missing,
}

/// A write whose response is not recorded yet.
pub(super) struct Unfinished<'a, K: Resource + Send + Sync + 'static> {
    client: &'a KindClient<K>,
    /// `None` if the write does not matter, or was recorded.
    key: Option<ObjectKey>,
}

impl<K: Resource + Send + Sync + 'static> Unfinished<'_, K> {
    /// The response was recorded, or its failure will be recorded before the next await.
    pub(super) fn finish(mut self) {
        self.key = None;
    }
}

impl<K: Resource + Send + Sync + 'static> Drop for Unfinished<'_, K> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            self.client.note_in_flight(key);
        }
    }
}

/// An item of a list, with the fields that matter here.
#[derive(Deserialize)]
pub(super) struct Item {
    pub(super) metadata: ObjectMeta,
}
