//! From bytes to objects: what is known already is not decoded again, what cannot be read is set aside.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bowline_clock::{Spawner, Task, panic_message};
use kube::Resource;

use crate::decode::{Identity, IdentityError};
use crate::delta_fifo::{Delta, Unreadable};
use crate::indexer::Indexer;
use crate::kept::Kept;
use crate::key::object_key;
use crate::kind::Kind;
use crate::list_watch::ListWatchError;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::set_aside::Shelf;
use bowline_machinery::ObjectKey;

/// A list is decoded in batches of about so many bytes, each off the async threads, while the next one is read.
const BATCH: usize = 512 * 1024;

/// What is smaller than this is decoded where it is: handing it over would cost more.
const INLINE: usize = 32 * 1024;

/// The objects of a list that may be known are looked up together when they are so many bytes.
const LOOKED_UP: usize = 64 * 1024;

/// What is done to each object once, before anybody sees it.
pub(crate) type Transform<K> = Arc<dyn Fn(&mut K) + Send + Sync>;

/// Makes objects of bytes.
pub(crate) struct Decoder<K> {
    pub(crate) kind: Kind<K>,
    /// Where managedFields are kept.
    pub(crate) managed_fields: Vec<Namespaces>,
    pub(crate) transform: Option<Transform<K>>,
    /// What is known already.
    pub(crate) indexer: Arc<Indexer<K>>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) metrics: Arc<dyn Metrics>,
}

/// What became of an object's bytes.
pub(crate) enum Decoded<K> {
    /// The very object that is known already.
    Known(Arc<K>),
    New(Arc<K>),
    /// It is set aside; its key, if that much could be read.
    Unreadable(Option<Unreadable>),
}

impl<K: Resource + Send + Sync + 'static> Decoder<K> {
    /// The delta of an object that is there, if there is any news in it. The version is that of the object afterwards.
    pub(crate) fn applied(
        &self,
        object: &[u8],
        scratch: &mut Vec<u8>,
        version: &mut Option<String>,
    ) -> Option<Delta<K>> {
        match self.told(object, scratch, version) {
            // What is known may be about to change: changes to it may wait before this one.
            Decoded::New(object) | Decoded::Known(object) => Some(Delta::Applied(object)),
            Decoded::Unreadable(_) => None,
        }
    }

    /// The delta of an object that is gone. It is gone even if what it was cannot be read.
    pub(crate) fn deleted(
        &self,
        object: &[u8],
        scratch: &mut Vec<u8>,
        version: &mut Option<String>,
    ) -> Option<Delta<K>> {
        match self.told(object, scratch, version) {
            Decoded::New(object) | Decoded::Known(object) => Some(Delta::Deleted(object)),
            Decoded::Unreadable(object) => {
                let object = object?;
                self.shelf.take_down(&object.key);
                Some(Delta::Gone(object))
            }
        }
    }

    /// An object that is there, whether there is any news in it or not.
    pub(crate) fn read(&self, object: &[u8], scratch: &mut Vec<u8>) -> Decoded<K> {
        self.decode(object, Identity::read(object), scratch)
    }

    /// An object that a watch tells of. It is nearly always news and can be read: where nothing depends on who it is, it is
    /// decoded before anybody looks at that.
    fn told(&self, object: &[u8], scratch: &mut Vec<u8>, version: &mut Option<String>) -> Decoded<K> {
        let is_plain = self.managed_fields.is_empty() && self.transform.is_none() && self.shelf.is_empty();
        if is_plain
            && let Ok(decoded) = self.decoded(object, false, scratch)
            && let Some(told) = &decoded.meta().resource_version
        {
            note(told, version);
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
                self.set_aside(key.as_ref(), "", &error.to_string());
                return Decoded::Unreadable(key.map(|key| Unreadable { key, uid: None }));
            }
        };
        if let Some(known) = self.known(&identity) {
            return Decoded::Known(known);
        }
        match self.decoded(object, self.keeps_managed_fields(&identity), scratch) {
            Ok(object) => {
                if !self.shelf.is_empty() {
                    self.shelf.take_down(&key_of(&identity));
                }
                Decoded::New(Arc::new(object))
            }
            Err(error) => {
                let key = key_of(&identity);
                self.set_aside(Some(&key), &identity.resource_version, &error);
                Decoded::Unreadable(Some(Unreadable { key, uid: Some(identity.uid.into_owned()) }))
            }
        }
    }

    /// The very object, if it is there already.
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

    /// Decodes and transforms. Either is somebody else's code, and may panic.
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

    /// Sets an object aside that is known, unless it is already.
    pub(crate) fn put_aside(&self, key: &ObjectKey, version: &str, error: &str) {
        if !self.shelf.has(key, version) {
            self.set_aside(Some(key), version, error);
        }
    }

    fn set_aside(&self, key: Option<&ObjectKey>, version: &str, error: &str) {
        self.metrics.set_aside();
        if self.shelf.put(key, version, error) {
            let object = key.map_or_else(|| "an object".to_owned(), ToString::to_string);
            tracing::warn!(kind = %self.kind, object, version, error, "set aside: it cannot be read; the others are not affected");
        }
    }
}

fn key_of(identity: &Identity<'_>) -> ObjectKey {
    let (namespace, name) = identity.place();
    ObjectKey::new(namespace, name)
}

fn note(told: &str, version: &mut Option<String>) {
    let version = version.get_or_insert_default();
    version.clear();
    version.push_str(told);
}

/// A list while it is read: the objects so far, and the bytes of those that are still to be decoded.
pub(crate) struct Listed<K> {
    decoder: Arc<Decoder<K>>,
    spawner: Spawner,
    /// Those that are known, if anything is.
    kept: Option<Kept<K>>,
    /// Objects that may be known.
    unseen: Raw,
    /// Objects that are to be decoded.
    raw: Raw,
    decoding: Option<Task<(Vec<Decoded<K>>, Raw)>>,
    /// Room for the next batch: fresh memory costs more than what is copied into it.
    spare: Raw,
    /// Something was handed over.
    is_long: bool,
    items: Vec<Arc<K>>,
    unreadable: Vec<Unreadable>,
}

/// A list that was read to its end.
pub(crate) struct Whole<K> {
    /// Objects that were known when it began.
    pub(crate) kept: Option<Kept<K>>,
    /// The other ones.
    pub(crate) items: Vec<Arc<K>>,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// What changed while a list was read.
pub(crate) enum Late<K> {
    /// There is such an object, new or changed.
    Present(Decoded<K>),
    /// It is gone, as far as it is known which.
    Gone(Option<Delta<K>>),
}

/// The bytes of some objects, one behind the other.
#[derive(Default)]
struct Raw {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// To decode in.
    scratch: Vec<u8>,
}

impl Raw {
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

impl<K: Resource + Send + Sync + 'static> Listed<K> {
    pub(crate) fn new(decoder: Arc<Decoder<K>>, spawner: Spawner) -> Self {
        let (items, unreadable) = (Vec::new(), Vec::new());
        let known = decoder.indexer.snapshot();
        let kept = (!known.is_empty()).then(|| Kept::none_of(known));
        Self {
            decoder,
            spawner,
            kept,
            unseen: Raw::default(),
            raw: Raw::default(),
            decoding: None,
            spare: Raw::default(),
            is_long: false,
            items,
            unreadable,
        }
    }

    /// One more object. What is known is not decoded.
    pub(crate) fn offer(&mut self, object: &[u8]) {
        if self.kept.is_none() {
            self.raw.push(object);
            return;
        }
        self.unseen.push(object);
        if self.unseen.bytes.len() >= LOOKED_UP {
            self.look_up();
        }
    }

    /// Tells what is known from what has to be decoded.
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

    /// Hands over what there is to decode, if it is enough. Waits while the batch before is being decoded.
    pub(crate) async fn keep_up(&mut self) -> Result<(), ListWatchError> {
        if self.raw.bytes.len() >= BATCH { self.hand_over().await } else { Ok(()) }
    }

    /// All objects, and those that cannot be read, after what changed while they were read.
    pub(crate) async fn finish(mut self, late: Vec<Late<K>>) -> Result<Whole<K>, ListWatchError> {
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

    /// The list as it is after some changes.
    fn change(&mut self, late: Vec<Late<K>>) {
        let items = std::mem::take(&mut self.items).into_iter();
        let mut items: BTreeMap<_, _> = items.map(|object| (object_key(&*object), object)).collect();
        let unreadable = std::mem::take(&mut self.unreadable).into_iter();
        let mut unreadable: BTreeMap<_, _> = unreadable.map(|object| (object.key.clone(), object)).collect();
        for late in late {
            match late {
                Late::Present(Decoded::Known(object) | Decoded::New(object)) => {
                    let key = object_key(&*object);
                    unreadable.remove(&key);
                    items.insert(key, object);
                }
                Late::Present(Decoded::Unreadable(object)) => {
                    unreadable.extend(object.map(|object| (object.key.clone(), object)));
                }
                Late::Gone(delta) => {
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
            keep_room();
        }
        let decoder = self.decoder.clone();
        let mut raw = std::mem::replace(&mut self.raw, std::mem::take(&mut self.spare));
        self.decoding =
            Some(self.spawner.blocking("decoding", move || (decode_all(&decoder, &mut raw), raw)));
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

/// Decodes what there is, and leaves room for more.
fn decode_all<K: Resource + Send + Sync + 'static>(decoder: &Decoder<K>, raw: &mut Raw) -> Vec<Decoded<K>> {
    let mut scratch = std::mem::take(&mut raw.scratch);
    make_room(raw.bytes.len() * GROWS);
    let decode = |object: &[u8]| decoder.decode(object, Identity::read(object), &mut scratch);
    let decoded = raw.objects().map(decode).collect();
    raw.clear();
    raw.scratch = scratch;
    decoded
}

/// An object takes up to about so many times as much memory as it has bytes.
const GROWS: usize = 3;

/// Has the allocator take some room from the system at once. That of the GNU C library takes a page at a time for threads
/// that are not the first, with a system call for each: a third of the cost of decoding many objects. What is given back
/// here stays with the thread's heap.
fn make_room(bytes: usize) {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(bytes)));
}

/// Has the allocator keep what [`make_room`] gives back. That of the GNU C library takes it that what was given back once
/// will be wanted again, and neither asks the system for each such piece nor gives it back from then on.
fn keep_room() {
    make_room(4 * BATCH * GROWS);
}
