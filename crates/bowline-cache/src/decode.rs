//! From bytes to objects: watch lines, list items, who an object is, and the object.

mod block;
mod cursor;
mod identity;
mod skip;

pub use self::identity::{Identity, IdentityError, without_managed_fields};
