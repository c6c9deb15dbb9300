//! Read-your-writes: what a client wrote is in what it reads from the cache afterwards. Owns the waiting, and what the
//! answers to writes say.

use std::pin::pin;

use bowline_cache::{Identity, ListReader, ObjectKey, SharedInformer, object_key};
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

use super::error::{ClientError, Conflict};
use super::kind_client::KindClient;
use super::selection::Place;
use super::writes::{Answer, Verdict, Version, View, What};

/// What is to be read.
#[derive(Clone, Copy)]
pub(super) enum Read<'a> {
    /// One object.
    One(&'a ObjectKey),
    /// All objects of a namespace, or of all.
    All(Option<&'a str>),
}

/// Which object a write was for, as far as it said so: a server refuses it if there is another by now.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent<'a> {
    pub(super) uid: Option<&'a str>,
    pub(super) version: Option<&'a str>,
}

impl<K: Resource + Send + Sync + 'static> KindClient<K> {
    /// Waits until an informer has what was written of what is to be read. Whether it has: if not, the server is to be
    /// asked.
    pub(super) async fn is_current(&self, informer: &SharedInformer<K>, read: Read<'_>) -> bool {
        let writes = &self.binding.writes;
        let Some(reader) = self.binding.reader().filter(|_| !self.client.options.is_unordered) else {
            return true;
        };
        while !writes.is_empty() {
            let clock = self.client.clock();
            // Before it is looked: what comes while it is looked is not missed.
            let changed = pin!(informer.changed());
            let (view, now) = (Informed(informer), clock.now());
            let verdict = match read {
                Read::One(key) => writes.look(key, reader, &view, now),
                Read::All(namespace) => writes.look_at_all(namespace, reader, &view, now),
            };
            match verdict {
                Verdict::Read => return true,
                Verdict::Wait(until) if informer.is_running() => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = clock.sleep_until(until) => {}
                    }
                }
                // Nothing comes from one that is stopped.
                Verdict::Wait(_) | Verdict::Late => {
                    tracing::debug!(kind = %self.kind(), "the cache is behind a write: the API server is asked");
                    return false;
                }
            }
        }
        true
    }

    /// Whether the answers to writes matter to anybody, now or soon: the kind may be declared after a write.
    fn is_noting(&self) -> bool {
        !self.client.options.dry_run && !self.binding.is_live && self.client.cache().is_some()
    }

    fn note(&self, key: ObjectKey, uid: &str, what: What) {
        self.binding.writes.note(key, &Answer { uid, what }, self.client.clock().now());
    }

    /// Notes an object as a write's answer has it.
    pub(super) fn note_object(&self, object: &K, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        let (key, meta) = (object_key(object), object.meta());
        let (Some(uid), Some(version)) = (meta.uid.as_deref(), meta.resource_version.as_deref()) else {
            return;
        };
        let place = self.binding.selection.place(&key, meta.labels.as_ref(), Some(bytes));
        let version = Version::new(version);
        match place {
            Place::Uncovered => {}
            _ if self.has_ended(meta) => self.note(key, uid, What::Gone(None)),
            Place::Inside => self.note(key, uid, What::There(version)),
            Place::Outside => self.note(key, uid, What::Elsewhere(version)),
        }
    }

    /// Whether an object in a write's answer is no more: a server deletes it when its last finalizer is removed, and answers
    /// with what it was sent, in the version before. A namespace has finalizers of its own.
    fn has_ended(&self, meta: &ObjectMeta) -> bool {
        let resource = self.kind().resource();
        meta.deletion_timestamp.is_some()
            && meta.deletion_grace_period_seconds == Some(0)
            && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
            && !(resource.group.is_empty() && resource.kind == "Namespace")
    }

    /// Notes the answer to a write of a part of an object, which says which object it belongs to and little else.
    pub(super) fn note_part(&self, key: &ObjectKey, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        // A status, or a part that has no version: it may have changed the object nevertheless.
        let Some(identity) = Identity::read(bytes).ok().filter(|identity| identity.name == key.name()) else {
            self.note_unknown(key);
            return;
        };
        let version = Version::new(&identity.resource_version);
        match self.binding.selection.place(key, None, None) {
            Place::Uncovered => {}
            Place::Inside => self.note(key.clone(), &identity.uid, What::There(version)),
            Place::Outside => self.note(key.clone(), &identity.uid, What::Elsewhere(version)),
        }
    }

    /// Notes the answer to a write that is no object that can be read here: it may be read elsewhere, or nowhere.
    pub(super) fn note_unreadable(&self, key: Option<&ObjectKey>, bytes: &[u8]) {
        if !self.is_noting() {
            return;
        }
        let Ok(identity) = Identity::read(bytes) else {
            if let Some(key) = key {
                self.note_unknown(key);
            }
            return;
        };
        let key = ObjectKey::new(identity.namespace.as_deref().unwrap_or_default(), &identity.name);
        let labels = serde_json::from_slice::<Item>(bytes).ok().and_then(|item| item.metadata.labels);
        let version = Version::new(&identity.resource_version);
        match self.binding.selection.place(&key, labels.as_ref(), Some(bytes)) {
            Place::Uncovered => {}
            Place::Inside => self.note(key, &identity.uid, What::There(version)),
            Place::Outside => self.note(key, &identity.uid, What::Elsewhere(version)),
        }
    }

    /// Notes that an object may have been written, and in which version is not known.
    pub(super) fn note_unknown(&self, key: &ObjectKey) {
        if self.is_noting()
            && !key.name().is_empty()
            && self.binding.selection.place(key, None, None) != Place::Uncovered
        {
            self.note(key.clone(), "", What::Unknown);
        }
    }

    /// Notes that a write of a version failed: it was refused because the object has a newer one, or it is not known what
    /// became of it.
    pub(super) fn note_failure(&self, key: &ObjectKey, sent: Sent<'_>, error: &ClientError) {
        match error {
            // What was not let out is not done.
            ClientError::Transport { .. } if error.is_retryable() => self.note_unknown(key),
            _ => self.note_refusal(key, sent, error),
        }
    }

    fn note_refusal(&self, key: &ObjectKey, sent: Sent<'_>, error: &ClientError) {
        if !self.is_noting() || !Conflict::is_conflict(error) {
            return;
        }
        // Another object may be what the conflict is about, such as a quota.
        let details = error.status().and_then(|status| status.details.as_ref());
        let is_about_it = details.is_some_and(|details| {
            // What a deletion demands is refused by the name of the kind.
            let resource = self.kind().resource();
            details.name == key.name() && (details.kind == resource.plural || details.kind == resource.kind)
        });
        let version = sent.version.and_then(|version| version.parse().ok());
        if let (true, Some(version)) = (is_about_it, version)
            && self.binding.selection.place(key, None, None) != Place::Uncovered
        {
            self.note(key.clone(), sent.uid.unwrap_or_default(), What::NewerThan(version, false));
        }
    }

    /// A version of an object in which informers are to have had it, if it is known.
    pub(super) fn known_version(&self, object: &K) -> Option<u64> {
        if !self.is_noting() {
            return None;
        }
        let place = self.binding.selection.place(&object_key(object), object.meta().labels.as_ref(), None);
        let version = object.meta().resource_version.as_ref()?.parse().ok()?;
        (place == Place::Inside).then_some(version)
    }

    /// Notes that an object was deleted.
    pub(super) fn note_end(&self, key: &ObjectKey, uid: &str, known: Option<u64>) {
        if self.is_noting() && self.binding.selection.place(key, None, None) != Place::Uncovered {
            self.note(key.clone(), uid, What::Gone(known));
        }
    }

    /// Notes an object as a deletion's answer has it: it stays for a while, or this is what it last was.
    /// `at_once` if it was not to have a grace.
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
            // It was ending with a grace before, and this is how it was then.
            let place = self.binding.selection.place(key, meta.labels.as_ref(), Some(bytes));
            if self.is_noting() && place != Place::Uncovered {
                let uid = meta.uid.as_deref().unwrap_or_default();
                self.note(key.clone(), uid, What::NewerThan(version, place == Place::Inside));
            }
            return;
        }
        let is_kept = has_finalizers || meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
        if meta.deletion_timestamp.is_some() && is_kept {
            self.note_object(object, bytes);
        } else if self.is_noting() && self.binding.selection.place(key, None, None) != Place::Uncovered {
            let uid = meta.uid.as_deref().unwrap_or_default();
            let what = match meta.resource_version.as_deref() {
                // Something else may keep it, as its finalizers in the spec keep a namespace.
                Some(version) if meta.deletion_timestamp.is_some() && !self.has_ended(meta) => {
                    What::Ending(Version::new(version))
                }
                _ => What::Gone(known),
            };
            self.note(key.clone(), uid, what);
        }
    }

    /// Notes the objects that are the answer to the deletion of many, as they were before.
    pub(super) fn note_ends(&self, list: Bytes) {
        if !self.is_noting() {
            return;
        }
        let mut reader = ListReader::new();
        reader.push(list);
        while let Ok(Some(item)) = reader.next_item() {
            // What cannot be read is in no cache either.
            let Ok(Item { metadata: meta }) = serde_json::from_slice::<Item>(item) else { continue };
            let key = ObjectKey::new(
                meta.namespace.as_deref().unwrap_or_default(),
                meta.name.as_deref().unwrap_or_default(),
            );
            let (Some(uid), Some(version)) = (meta.uid.as_deref(), meta.resource_version.as_deref()) else {
                continue;
            };
            let place = self.binding.selection.place(&key, meta.labels.as_ref(), Some(item));
            let Some(version) = version.parse().ok().filter(|_| place != Place::Uncovered) else { continue };
            let what = if meta.deletion_timestamp.is_none() {
                // Something may keep it, and it has another version then.
                What::NewerThan(version, place == Place::Inside)
            } else if meta.finalizers.as_ref().is_none_or(Vec::is_empty) {
                What::Ending(Version::Number(version))
            } else {
                // It was to end before, and stays as it was.
                continue;
            };
            self.note(key, uid, what);
        }
    }
}

/// An item of a list, as far as it matters here.
#[derive(Deserialize)]
struct Item {
    metadata: ObjectMeta,
}

/// What an informer has.
struct Informed<'a, K>(&'a SharedInformer<K>);

impl<K: Resource + Send + Sync + 'static> View for Informed<'_, K> {
    fn with<T>(&self, key: &ObjectKey, look: impl FnOnce(Option<&ObjectMeta>) -> T) -> T {
        let object = self.0.indexer().get(key);
        look(object.as_deref().map(Resource::meta))
    }

    fn has_reached(&self, key: &ObjectKey, version: u64) -> bool {
        self.0.has_reached(key, version)
    }
}
