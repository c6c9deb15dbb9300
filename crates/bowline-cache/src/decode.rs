//! Decodes bytes: watch lines, list items, identities and objects.

mod block;
mod cursor;
mod frame;
mod frames;
mod identity;
mod items;
mod json;
mod object;
mod skip;
mod tree;

pub use self::{
    frame::{FrameError, WatchFrame},
    frames::Frames,
    identity::{Identity, IdentityError, without_managed_fields},
    items::{ListError, ListMeta, ListReader},
};
pub(crate) use self::{
    identity::without_metadata,
    json::decode,
    object::{Dynamic, MetadataOnly},
};
