//! Informers: what an API server has, kept here, indexed, and told to any number of handlers.

mod decode;

pub use self::decode::{Identity, IdentityError, without_managed_fields};
