//! Facts about built-in kinds of Kubernetes: the resources of a kube-apiserver, and Go's encoding of every field of
//! their types. Owns the encoding of a kind; defaults and validation are elsewhere.
//!
//! `cargo xtask facts` generates the table of facts. The table is indexed on first use, and a type's fields are parsed
//! when the first object of that type is decoded.

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

/// The type of a built-in kind, `None` if the kind is unknown.
///
/// Contains the kinds of [`resources`], of their subresources, and their lists. Kinds that every group has
/// (`DeleteOptions`, `Status`) are found under any group and version.
#[must_use]
pub fn type_of(group: &str, version: &str, kind: &str) -> Option<TypeRef> {
    table::table().type_of(group, version, kind)
}

/// The handling of unknown fields. They are dropped in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownFields {
    /// They are listed in [`Normalised::unknown_fields`].
    Report,
    /// They are not reported.
    Ignore,
}

/// An object in the form that Go would write.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Normalised {
    /// The object.
    pub value: Value,
    /// One text per unknown field, as Kubernetes words it: `unknown field "spec.foo"`. At most 100, as in Kubernetes,
    /// and about a megabyte; in the order of the object's keys.
    pub unknown_fields: Vec<String>,
}
