//! Decodes objects. Known objects are not decoded again; undecodable ones are set aside.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_clock::{Spawner, Task, panic_message};
use kube::Resource;

use crate::decode::{Identity, IdentityError};
use crate::delta_fifo::{Delta, UndecodableRef};
use crate::indexer::Indexer;
use crate::key::object_key;
use crate::kind::Kind;
use crate::list_watch::ListWatchError;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::unchanged_objects::UnchangedObjects;
use crate::undecodable::UndecodableObjects;
use bowline_machinery::ObjectKey;

/// Size of a batch of a list. Batches are decoded on blocking threads while the next one is read.
const BATCH: usize = 512 * 1024;

/// Size below which objects are decoded in place: a blocking task would cost more.
const INLINE: usize = 32 * 1024;

/// Size at which objects of a relist are looked up together.
const LOOKUP_BATCH: usize = 64 * 1024;

/// Changes each object once, before it is cached.
pub(crate) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// Decodes the objects of one informer.
pub(crate) struct Decoder<K> {
    pub(crate) kind: Kind<K>,
    /// Namespaces with kept `managedFields`.
    pub(crate) managed_fields: Vec<Namespaces>,
    pub(crate) transform: Option<Transform<K>>,
    /// The known objects.
    pub(crate) indexer: Arc<Indexer<K>>,
    pub(crate) undecodable: Arc<UndecodableObjects>,
    pub(crate) metrics: Arc<dyn Metrics>,
}

/// Result of decoding one object.
pub(crate) enum Decoded<K> {
    /// The known object, unchanged.
    Known(Arc<K>),
    New(Arc<K>),
    /// Undecodable and set aside; with its key, if that could be read.
    Unreadable(Option<UndecodableRef>),
}

impl<K: Resource + Send + Sync + 'static> Decoder<K> {
    /// Decodes an object that exists. Returns its delta, if it could be decoded. Notes its version in `version`.
    pub(crate) fn applied(
        &self,
        object: &[u8],
        scratch: &mut Vec<u8>,
        version: &mut Option<String>,
    ) -> Option<Delta<K>> {
        match self.decode_event(object, scratch, version) {
            // Also push a known object: earlier deltas in the queue may change it.
            Decoded::New(object) | Decoded::Known(object) => Some(Delta::Applied(object)),
            Decoded::Unreadable(_) => None,
        }
    }

    /// Decodes a deleted object. Returns its delta, even if only the key could be read.
    pub(crate) fn deleted(
        &self,
        object: &[u8],
        scratch: &mut Vec<u8>,
        version: &mut Option<String>,
    ) -> Option<Delta<K>> {
        match self.decode_event(object, scratch, version) {
            Decoded::New(object) | Decoded::Known(object) => Some(Delta::Deleted(object)),
            Decoded::Unreadable(object) => {
                let object = object?;
                self.undecodable.remove(&object.key);
                Some(Delta::Gone(object))
            }
        }
    }

    /// Decodes an object that exists, changed or not.
    pub(crate) fn read(&self, object: &[u8], scratch: &mut Vec<u8>) -> Decoded<K> {
        self.decode(object, Identity::read(object), scratch)
    }

    /// Decodes an object of a watch event. It is nearly always new and decodable: if no option depends on its identity,
    /// skip reading that first.
    fn decode_event(&self, object: &[u8], scratch: &mut Vec<u8>, version: &mut Option<String>) -> Decoded<K> {
        let is_plain =
            self.managed_fields.is_empty() && self.transform.is_none() && self.undecodable.is_empty();
        if is_plain
            && let Ok(decoded) = self.decoded(object, false, scratch)
            && let Some(seen) = &decoded.meta().resource_version
        {
            note(seen, version);
            return Decoded::New(Arc::new(decoded));
        }
        let identity = Identity::read(object);
        if let Ok(identity) = &identity {
            note(&identity.resource_version, version);
        }
        self.decode(object, identity, scratch)
    }

    fn decode(
        &self,
        object: &[u8],
        identity: Result<Identity<'_>, IdentityError>,
        scratch: &mut Vec<u8>,
    ) -> Decoded<K> {
        let identity = match identity {
            Ok(identity) => identity,
            Err(error) => {
                let key = match &error {
                    IdentityError::Missing { name: Some(name), namespace, .. } => {
                        Some(ObjectKey::new(namespace.as_deref().unwrap_or_default(), name))
                    }
                    _ => None,
                };
                self.report_undecodable(key.as_ref(), "", &error.to_string());
                return Decoded::Unreadable(key.map(|key| UndecodableRef { key, uid: None }));
            }
        };
        if let Some(known) = self.known(&identity) {
            return Decoded::Known(known);
        }
        match self.decoded(object, self.keeps_managed_fields(&identity), scratch) {
            Ok(object) => {
                if !self.undecodable.is_empty() {
                    self.undecodable.remove(&key_of(&identity));
                }
                Decoded::New(Arc::new(object))
            }
            Err(error) => {
                let key = key_of(&identity);
                self.report_undecodable(Some(&key), &identity.resource_version, &error);
                Decoded::Unreadable(Some(UndecodableRef { key, uid: Some(identity.uid.into_owned()) }))
            }
        }
    }

    /// The known object with this identity.
    fn known(&self, identity: &Identity<'_>) -> Option<Arc<K>> {
        if self.indexer.is_empty() {
            return None;
        }
        let (namespace, name) = identity.place();
        self.indexer.get_in(namespace, name).filter(|known| identity.is_of(&**known))
    }

    fn keeps_managed_fields(&self, identity: &Identity<'_>) -> bool {
        self.managed_fields.iter().any(|namespaces| match identity.namespace.as_deref() {
            Some(namespace) => namespaces.has(namespace),
            None => *namespaces == Namespaces::All,
        })
    }

    /// Decodes and transforms. Both run foreign code, which may panic.
    fn decoded(&self, object: &[u8], keep_managed_fields: bool, scratch: &mut Vec<u8>) -> Result<K, String> {
        let decode = || self.kind.decode(object, keep_managed_fields, scratch);
        let mut object = match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(decoded) => decoded.map_err(|error| error.to_string())?,
            Err(panic) => return Err(format!("decoding it panicked: {}", panic_message(&*panic))),
        };
        let Some(transform) = &self.transform else { return Ok(object) };
        match catch_unwind(AssertUnwindSafe(|| transform(&mut object))) {
            Ok(()) => Ok(object),
            Err(panic) => Err(format!("the transform panicked: {}", panic_message(&*panic))),
        }
    }

    /// Marks a known object as undecodable, unless it already is.
    pub(crate) fn mark_undecodable(&self, key: &ObjectKey, version: &str, error: &str) {
        if !self.undecodable.has(key, version) {
            self.report_undecodable(Some(key), version, error);
        }
    }

    fn report_undecodable(&self, key: Option<&ObjectKey>, version: &str, error: &str) {
        self.metrics.undecodable();
        if self.undecodable.put(key, version, error) {
            let object = key.map_or_else(|| "an object".to_owned(), ToString::to_string);
            tracing::warn!(kind = %self.kind, object, version, error, "cannot decode object; version ignored");
        }
    }
}

fn key_of(identity: &Identity<'_>) -> ObjectKey {
    let (namespace, name) = identity.place();
    ObjectKey::new(namespace, name)
}

fn note(seen: &str, version: &mut Option<String>) {
    let version = version.get_or_insert_default();
    version.clear();
    version.push_str(seen);
}

/// A list in progress: decoded objects, and the bytes of the others.
pub(crate) struct ListDecoder<K> {
    decoder: Arc<Decoder<K>>,
    spawner: Spawner,
    /// Unchanged objects; `None` if none are known.
    kept: Option<UnchangedObjects<K>>,
    /// Objects that may be unchanged.
    unseen: RawObjects,
    /// Objects to decode.
    raw: RawObjects,
    decoding: Option<Task<(Vec<Decoded<K>>, RawObjects)>>,
    /// Buffer of the next batch: fresh memory costs more than the copy.
    spare: RawObjects,
    /// Whether a batch was decoded on a blocking thread.
    is_long: bool,
    items: Vec<Arc<K>>,
    unreadable: Vec<UndecodableRef>,
}

/// A complete list.
pub(crate) struct Whole<K> {
    /// Objects that are unchanged since the list began.
    pub(crate) kept: Option<UnchangedObjects<K>>,
    /// The other objects.
    pub(crate) items: Vec<Arc<K>>,
    pub(crate) unreadable: Vec<UndecodableRef>,
}

/// A change during a list.
pub(crate) enum LateChange<K> {
    /// A new or changed object.
    Present(Decoded<K>),
    /// A deleted object, if its key could be read.
    Gone(Option<Delta<K>>),
}

/// The bytes of some objects, concatenated.
#[derive(Default)]
struct RawObjects {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Scratch buffer for decoding.
    scratch: Vec<u8>,
}

impl RawObjects {
    fn push(&mut self, object: &[u8]) {
        self.bytes.extend_from_slice(object);
        self.ends.push(self.bytes.len());
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn objects(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

impl<K: Resource + Send + Sync + 'static> ListDecoder<K> {
    pub(crate) fn new(decoder: Arc<Decoder<K>>, spawner: Spawner) -> Self {
        let (items, unreadable) = (Vec::new(), Vec::new());
        let known = decoder.indexer.snapshot();
        let kept = (!known.is_empty()).then(|| UnchangedObjects::none_of(known));
        Self {
            decoder,
            spawner,
            kept,
            unseen: RawObjects::default(),
            raw: RawObjects::default(),
            decoding: None,
            spare: RawObjects::default(),
            is_long: false,
            items,
            unreadable,
        }
    }

    /// Adds an object. Unchanged ones are not decoded.
    pub(crate) fn offer(&mut self, object: &[u8]) {
        if self.kept.is_none() {
            self.raw.push(object);
            return;
        }
        self.unseen.push(object);
        if self.unseen.bytes.len() >= LOOKUP_BATCH {
            self.look_up();
        }
    }

    /// Separates unchanged objects from those to decode.
    fn look_up(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        let identities: Vec<_> = self.unseen.objects().map(|object| Identity::read(object).ok()).collect();
        let is_kept = kept.keep(&identities);
        for (object, is_kept) in self.unseen.objects().zip(is_kept) {
            if !is_kept {
                self.raw.push(object);
            }
        }
        self.unseen.clear();
    }

    /// Starts to decode a batch if it is large enough. Waits for the batch before it.
    pub(crate) async fn keep_up(&mut self) -> Result<(), ListWatchError> {
        if self.raw.bytes.len() >= BATCH { self.hand_over().await } else { Ok(()) }
    }

    /// Decodes the rest, and applies the changes during the list.
    pub(crate) async fn finish(mut self, late: Vec<LateChange<K>>) -> Result<Whole<K>, ListWatchError> {
        self.look_up();
        if let Some(kept) = &mut self.kept {
            kept.finish();
        }
        if self.raw.bytes.len() <= INLINE {
            self.collect().await?;
            let decoded = decode_all(&self.decoder, &mut self.raw);
            self.keep(decoded);
        } else {
            self.hand_over().await?;
            self.collect().await?;
        }
        if !late.is_empty() {
            self.change(late);
        }
        self.items.shrink_to_fit();
        Ok(Whole { kept: self.kept, items: self.items, unreadable: self.unreadable })
    }

    /// Applies the changes during the list.
    fn change(&mut self, late: Vec<LateChange<K>>) {
        let items = std::mem::take(&mut self.items).into_iter();
        let mut items: BTreeMap<_, _> = items.map(|object| (object_key(&*object), object)).collect();
        let unreadable = std::mem::take(&mut self.unreadable).into_iter();
        let mut unreadable: BTreeMap<_, _> = unreadable.map(|object| (object.key.clone(), object)).collect();
        for late in late {
            match late {
                LateChange::Present(Decoded::Known(object) | Decoded::New(object)) => {
                    let key = object_key(&*object);
                    unreadable.remove(&key);
                    items.insert(key, object);
                }
                LateChange::Present(Decoded::Unreadable(object)) => {
                    unreadable.extend(object.map(|object| (object.key.clone(), object)));
                }
                LateChange::Gone(delta) => {
                    let key = match delta {
                        Some(Delta::Deleted(object)) => object_key(&*object),
                        Some(Delta::Gone(object)) => object.key,
                        _ => continue,
                    };
                    unreadable.remove(&key);
                    items.remove(&key);
                    if let Some(kept) = &mut self.kept {
                        kept.forget(&key);
                    }
                }
            }
        }
        self.items = items.into_values().collect();
        self.unreadable = unreadable.into_values().collect();
    }

    async fn hand_over(&mut self) -> Result<(), ListWatchError> {
        self.collect().await?;
        if !std::mem::replace(&mut self.is_long, true) {
            retain_heap();
        }
        let decoder = self.decoder.clone();
        let mut raw = std::mem::replace(&mut self.raw, std::mem::take(&mut self.spare));
        self.decoding =
            Some(self.spawner.spawn_blocking("decoding", move || (decode_all(&decoder, &mut raw), raw)));
        Ok(())
    }

    async fn collect(&mut self) -> Result<(), ListWatchError> {
        let Some(decoding) = self.decoding.take() else { return Ok(()) };
        let (decoded, raw) = decoding.await.map_err(ListWatchError::transport)?;
        self.spare = raw;
        self.keep(decoded);
        Ok(())
    }

    fn keep(&mut self, decoded: Vec<Decoded<K>>) {
        for decoded in decoded {
            match decoded {
                Decoded::Known(object) | Decoded::New(object) => self.items.push(object),
                Decoded::Unreadable(key) => self.unreadable.extend(key),
            }
        }
    }
}

/// Decodes all objects, and empties the buffer.
fn decode_all<K: Resource + Send + Sync + 'static>(
    decoder: &Decoder<K>,
    raw: &mut RawObjects,
) -> Vec<Decoded<K>> {
    let mut scratch = std::mem::take(&mut raw.scratch);
    reserve_heap(raw.bytes.len() * GROWTH);
    let decode = |object: &[u8]| decoder.decode(object, Identity::read(object), &mut scratch);
    let decoded = raw.objects().map(decode).collect();
    raw.clear();
    raw.scratch = scratch;
    decoded
}

/// Approximate memory of a decoded object, in multiples of its JSON.
const GROWTH: usize = 3;

/// Makes the allocator get memory from the system at once, for the heap of this thread. In threads other than the
/// first, glibc's allocator grows page by page, with a system call each: a third of the cost of decoding many objects.
fn reserve_heap(bytes: usize) {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(bytes)));
}

/// Makes the allocator keep the memory of [`reserve_heap`]. After glibc's allocator has freed a block of this size once,
/// it no longer maps or returns such blocks separately.
fn retain_heap() {
    reserve_heap(4 * BATCH * GROWTH);
}
