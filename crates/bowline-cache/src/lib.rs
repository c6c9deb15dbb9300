//! Informers: a local, indexed copy of an API server's objects that notifies any number of handlers of changes.
//!
#![doc = include_str!("guide.md")]

mod backoff;
mod decode;
mod delta_fifo;
mod event;
mod handler;
mod indexer;
mod informer_cache;
mod key;
mod kind;
mod list_watch;
mod listener;
mod lister;
mod metrics;
mod namespaces;
mod packed;
mod redact;
mod reflector;
mod shared_informer;
mod unchanged_objects;
mod undecodable;

pub use bowline_machinery::{ObjectKey, ObjectKeyError};
pub use event::{Deleted, Event};
pub use handler::{EventHandler, EventHandlerFuncs};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Snapshot};
pub use informer_cache::{
    ALL_OTHER_NAMESPACES, CacheError, CacheOptions, Coverage, InformerCache, InformerHandle, KindOptions,
    ListQuery, NamespaceSettings, SelectionSettings,
};
pub use key::object_key;
pub use kind::{DecodeError, Kind, Representation};
pub use list_watch::{
    ByteStream, ClientListWatch, ListOptions, ListWatch, ListWatchError, ListWatchFuture, Selectors,
    WatchOptions,
};
pub use listener::{Registration, Subscription};
pub use lister::{Lister, NamespaceLister};
pub use metrics::Metrics;
pub use namespaces::Namespaces;
pub use packed::Packed;
pub use reflector::ReflectorPhase;
pub use shared_informer::{
    HandlerOptions, InformerBuilder, InformerError, InformerStats, InformerStatus, NotSynced,
    ReflectorStatus, SharedInformer, SyncError,
};
pub use undecodable::UndecodableObject;

/// Parts of the decoder for Bowline's other crates. Not a stable API.
#[doc(hidden)]
pub mod internal {
    pub use crate::decode::{
        FrameError, Frames, Identity, IdentityError, ListError, ListMeta, ListReader, WatchFrame,
        without_managed_fields,
    };
    pub use crate::kind::redact_values;
    pub use crate::redact::{auth_error_text, is_auth_error, redacted_text, without_secrets};
}
