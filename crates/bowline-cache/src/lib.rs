//! Informers: what an API server has, kept here, indexed, and told to any number of handlers.
//!
#![doc = include_str!("guide.md")]

mod backoff;
mod decode;
mod delta_fifo;
mod event;
mod handler;
mod indexer;
mod informer_cache;
mod kept;
mod key;
mod kind;
mod list_watch;
mod listener;
mod lister;
mod metrics;
mod namespaces;
mod packed;
mod reflector;
mod set_aside;
mod shared_informer;

pub use bowline_machinery::{ObjectKey, ObjectKeyError};
pub use decode::{
    FrameError, Frames, Identity, IdentityError, ListError, ListMeta, ListReader, WatchFrame,
    without_managed_fields,
};
pub use delta_fifo::{Delta, DeltaFifo, Replaced, Unreadable};
pub use event::{Deleted, Event};
pub use handler::{Handler, HandlerFuncs};
pub use indexer::{IndexError, Indexer, NAMESPACE_INDEX, Snapshot};
pub use informer_cache::{
    ALL_OTHERS, CacheError, CacheOptions, Coverage, Informer, InformerCache, KindOptions, ListQuery,
    NamespaceSettings, Settings,
};
pub use kept::Kept;
pub use key::object_key;
pub use kind::{DecodeError, Form, Kind, without_texts};
pub use list_watch::{
    ByteStream, ClientListWatch, ListOptions, ListWatch, ListWatchError, ListWatchFuture, Selectors,
    WatchOptions,
};
pub use listener::{Registration, Subscription};
pub use lister::{Lister, NamespaceLister};
pub use metrics::Metrics;
pub use namespaces::Namespaces;
pub use packed::Packed;
pub use reflector::Phase;
pub use set_aside::SetAside;
pub use shared_informer::{
    HandlerOptions, InformerBuilder, InformerError, InformerStatus, NotSynced, PartStatus, SharedInformer,
    Stats, SyncError,
};
