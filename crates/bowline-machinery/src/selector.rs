//! Label selectors and field selectors: query parameters and, for labels, parts of objects. Owns both grammars, their
//! errors in the words of Kubernetes, and matching. Each kind declares the fields that it can be selected by.

mod field;
mod label;
mod label_object;
mod label_parser;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError};
pub use label::{LabelOperator, LabelRequirement, LabelSelector, LabelSelectorError, Labels};
pub use label_object::validate_label_selector;
