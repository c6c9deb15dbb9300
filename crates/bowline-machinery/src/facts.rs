//! Facts about the kinds that are built into Kubernetes: which resources a kube-apiserver serves, and what Go makes of
//! every field of their types. Owns no behaviour of a kind beyond its encoding: neither defaults nor validation.
//!
//! The facts are a table that `cargo xtask facts` generates. It is indexed when it is first asked for, and a type's
//! fields are read when an object of that type first comes by.

mod decode;
mod decode_error;
mod encode;
mod go_type;
mod place;
mod resource_facts;
mod slot;
mod special;
mod table;
mod time;

use serde_json::Value;

pub use self::decode_error::DecodeError;
pub use self::go_type::{Field, TypeRef};
pub use self::resource_facts::{ResourceFacts, SubresourceFacts};

/// The resources of a kube-apiserver, in the order of its discovery documents: by group, the core group first, then by
/// version, the preferred one first, then by name.
#[must_use]
pub fn resources() -> &'static [ResourceFacts] {
    table::table().resources()
}

/// The type of a built-in kind, `None` if there is no such kind.
///
/// The kinds are those of [`resources`] and their subresources, their lists, and those that every group has
/// (`DeleteOptions`, `Status`), which are found under any group and version.
#[must_use]
pub fn type_of(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    table::table().type_of(group, version, kind)
}

/// What becomes of fields that a type does not have. They are dropped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// They are listed in [`Normalised::unknown_fields`].
    Report,
    /// Nothing is said about them.
    Ignore,
}

/// An object as Go would write it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Normalised {
    /// The object.
    pub value: Value,
    /// One text for each field that was dropped because its type does not have it, worded as Kubernetes does:
    /// `unknown field "spec.foo"`. At most 100, as in Kubernetes, and about a megabyte; in the order of the
    /// object's keys.
    pub unknown_fields: Vec<String>,
}
