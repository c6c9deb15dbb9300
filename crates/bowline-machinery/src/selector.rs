//! What picks objects out of a list: label selectors and field selectors, as texts of a query and, for labels, as a part
//! of an object. Owns the two grammars, their errors in the words of Kubernetes, and what matches; which fields a kind
//! can be selected by is its own to say.

mod field;
mod label;
mod label_object;
mod label_parser;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError};
pub use label::{LabelOperator, LabelRequirement, LabelSelector, LabelSelectorError, Labels};
pub use label_object::validate_label_selector;
