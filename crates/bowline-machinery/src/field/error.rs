//! Errors of single fields.

use std::fmt;

use serde_json::Value;

use super::FieldPath;
use crate::quote::quoted;
use crate::{StatusCause, go_text};

/// One error of one field. Its text, and its form as a [`StatusCause`], are those of Kubernetes.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct FieldError {
    /// The type of the error.
    pub kind: FieldErrorKind,
    /// The path of the field.
    pub path: FieldPath,
    /// The value found; `Null` where none is printed.
    pub value: Value,
    /// The expected value, or the violated rule.
    pub detail: String,
    /// The printed value, where Go's struct prints its fields in another order.
    shown: Option<String>,
}

/// The type of a field error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// A value that refers to a missing object.
    NotFound,
    /// A value that is missing.
    Required,
    /// A value that occurs twice.
    Duplicate,
    /// A value of the right type that is not allowed.
    Invalid,
    /// A value outside of the allowed set.
    NotSupported,
    /// A field that may not be set or changed.
    Forbidden,
    /// A text that is too long.
    TooLong,
    /// A list that is too long.
    TooMany,
    /// A value of the wrong type.
    TypeInvalid,
    /// An internal error of the server.
    Internal,
}

impl FieldErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }

    /// The reason of a cause.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }
}

impl FieldError {
    /// `path: Invalid value: value: detail`
    pub fn invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, detail)
    }

    /// `path: Invalid value: shown: detail`, for an object whose fields Go prints in another order.
    pub fn invalid_shown(
        path: &FieldPath,
        value: impl Into<Value>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let error = Self::new(FieldErrorKind::Invalid, path, value, detail);
        Self { shown: Some(shown.into()), ..error }
    }

    /// `path: Invalid value: value: detail`, for a value of the wrong type.
    pub fn type_invalid(path: &FieldPath, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::TypeInvalid, path, value, detail)
    }

    /// `path: Required value: detail`
    pub fn required(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Required, path, Value::Null, detail)
    }

    /// `path: Forbidden: detail`
    pub fn forbidden(path: &FieldPath, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorKind::Forbidden, path, Value::Null, detail)
    }

    /// `path: Duplicate value: value`
    pub fn duplicate(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::Duplicate, path, value, "")
    }

    /// `path: Duplicate value: shown`, for an object whose fields Go prints in another order.
    pub fn duplicate_shown(path: &FieldPath, shown: impl Into<String>) -> Self {
        let error = Self::new(FieldErrorKind::Duplicate, path, Value::Null, "");
        Self { shown: Some(shown.into()), ..error }
    }

    /// `path: Not found: value`
    pub fn not_found(path: &FieldPath, value: impl Into<Value>) -> Self {
        Self::new(FieldErrorKind::NotFound, path, value, "")
    }

    /// `path: Unsupported value: value: supported values: "a", "b"`, in the order given.
    pub fn not_supported(path: &FieldPath, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<_> = supported.iter().map(|value| quoted(value)).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::new(FieldErrorKind::NotSupported, path, value, detail)
    }

    /// `path: Unsupported value: shown: supported values: "a", "b"`, for a value that Go prints as a struct.
    pub fn not_supported_shown(path: &FieldPath, shown: impl Into<String>, supported: &[&str]) -> Self {
        Self { shown: Some(shown.into()), ..Self::not_supported(path, Value::Null, supported) }
    }

    /// `path: Too long: may not be more than N bytes`
    pub fn too_long(path: &FieldPath, limit: usize) -> Self {
        let bytes = if limit == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {limit} {bytes}");
        Self::new(FieldErrorKind::TooLong, path, Value::Null, detail)
    }

    /// `path: Too many: actual: must have at most N items`
    pub fn too_many(path: &FieldPath, actual: usize, limit: usize) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {items}");
        Self::new(FieldErrorKind::TooMany, path, actual, detail)
    }

    fn new(
        kind: FieldErrorKind,
        path: &FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind, path: path.clone(), value: value.into(), detail: detail.into(), shown: None }
    }

    /// The text after the path: kind, value, detail.
    #[must_use]
    pub fn body(&self) -> String {
        let text = self.kind.text();
        let shows_value = !matches!(
            self.kind,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::Internal
        );
        let mut body = text.to_owned();
        if shows_value {
            body.push_str(": ");
            body.push_str(&self.shown.clone().unwrap_or_else(|| go_text::shown(&self.value)));
        }
        if !self.detail.is_empty() {
            body.push_str(": ");
            body.push_str(&self.detail);
        }
        body
    }

    /// As one of the causes of a [`Status`](crate::Status).
    #[must_use]
    pub fn cause(&self) -> StatusCause {
        StatusCause {
            reason: Some(self.kind.reason().to_owned()),
            message: Some(self.body()),
            field: Some(self.path.to_string()),
        }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_are_worded_as_kubernetes_words_them() {
        let path = FieldPath::new("spec").child("ports").index(0).child("name");
        let rows = [
            (FieldError::invalid(&path, "A", "no capitals"), r#"Invalid value: "A": no capitals"#),
            (FieldError::invalid(&path, 7, "too many"), "Invalid value: 7: too many"),
            (FieldError::invalid_shown(&path, json!({}), "{…}", "no"), "Invalid value: {…}: no"),
            (FieldError::required(&path, ""), "Required value"),
            (FieldError::required(&path, "name it"), "Required value: name it"),
            (FieldError::forbidden(&path, "no"), "Forbidden: no"),
            (FieldError::duplicate(&path, "A"), r#"Duplicate value: "A""#),
            (FieldError::not_found(&path, "A"), r#"Not found: "A""#),
            (
                FieldError::not_supported(&path, "A", &["B", "C"]),
                r#"Unsupported value: "A": supported values: "B", "C""#,
            ),
            (FieldError::too_long(&path, 63), "Too long: may not be more than 63 bytes"),
            (FieldError::too_many(&path, 3, 1), "Too many: 3: must have at most 1 item"),
        ];
        for (error, body) in rows {
            assert_eq!(error.to_string(), format!("spec.ports[0].name: {body}"));
            let cause = error.cause();
            assert_eq!((cause.message.as_deref(), cause.field.as_deref()), (Some(body), Some(path.as_str())));
        }
    }

    #[test]
    fn the_object_itself_is_called_nil() {
        let error = FieldError::invalid(&FieldPath::root(), json!({}), "wrong");
        assert_eq!(error.to_string(), "<nil>: Invalid value: {}: wrong");
    }
}
