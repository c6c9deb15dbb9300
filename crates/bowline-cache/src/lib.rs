//! Informers: what an API server has, kept here, indexed, and told to any number of handlers.

mod decode;
mod kind;

pub use self::decode::{
    FrameError, Frames, Identity, IdentityError, ListError, ListMeta, ListReader, WatchFrame,
    without_managed_fields,
};
pub use self::kind::{DecodeError, Form, Kind};
