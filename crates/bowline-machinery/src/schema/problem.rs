//! Errors of the `OpenAPI` validator, as kube-apiserver wraps them.

use serde_json::Value;

use crate::{FieldError, FieldErrorKind, FieldPath};

/// Maximum number of errors per object or schema. Kubernetes has no limit, but a list of a million wrong items would
/// produce errors of a hundred times its size.
pub(super) const MAX_PROBLEMS: usize = 1_000;

/// Maximum bytes of errors per object or schema. Each error contains the full path, so a long name above many errors
/// would produce far more text than the object has.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// The result of validating a value against a schema.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) problems: Vec<Problem>,
    /// The number of checks that applied: of several failing alternatives, the one with most is reported.
    pub(super) matches: usize,
    /// Bytes of all error texts.
    pub(super) text: usize,
}

impl Outcome {
    pub(super) fn of(problem: Problem) -> Self {
        let text = problem.text();
        Self { problems: vec![problem], matches: 0, text }
    }

    pub(super) fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    /// Removes the errors.
    pub(super) fn clear(&mut self) {
        self.problems.clear();
        self.text = 0;
    }

    /// Adds another outcome's errors, each once.
    pub(super) fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        if self.problems.is_empty() {
            (self.problems, self.text) = (other.problems, other.text);
        } else {
            self.extend(other.problems);
        }
    }

    pub(super) fn add(&mut self, problem: Problem) {
        self.extend([problem]);
    }

    pub(super) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        for problem in problems {
            let is_known = || self.problems.iter().any(|known| known.message == problem.message);
            if self.problems.len() < MAX_PROBLEMS && self.text < MAX_TEXT && !is_known() {
                self.text += problem.text();
                self.problems.push(problem);
            }
        }
    }

    /// The errors for an object whose own path is `path`.
    pub(super) fn into_errors(self, path: &FieldPath) -> Vec<FieldError> {
        self.problems.into_iter().map(|problem| problem.into_error(path)).collect()
    }
}

/// One error.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// The path from the validated value on; `None` for an error of the whole object.
    place: Option<String>,
    kind: FieldErrorKind,
    value: Value,
    /// The text that distinguishes it from others, printed unless `detail` is set.
    message: String,
    detail: Option<String>,
}

impl Problem {
    /// The length of the printed error.
    fn text(&self) -> usize {
        let (place, detail) = (self.place.as_deref(), self.detail.as_deref());
        place.map_or(0, str::len)
            + self.value.to_string().len()
            + self.message.len()
            + detail.map_or(0, str::len)
    }

    /// An error of the whole object, independent of its position.
    pub(super) fn plain(message: String) -> Self {
        Self { place: None, kind: FieldErrorKind::Invalid, value: "".into(), message, detail: None }
    }

    pub(super) fn invalid(path: &str, value: Value, message: String) -> Self {
        Self { place: Some(path.to_owned()), kind: FieldErrorKind::Invalid, value, message, detail: None }
    }

    /// A value, printed as `found`, whose type or format is not `expected`.
    pub(super) fn wrong_type(path: &str, expected: &str, found: &str) -> Self {
        let quoted = crate::quote::quoted(found);
        let message = format!("{path} in body must be of type {expected}: {quoted}");
        Self { kind: FieldErrorKind::TypeInvalid, ..Self::invalid(path, found.into(), message) }
    }

    pub(super) fn required(path: &str, name: &str) -> Self {
        let place = format!("{path}.{name}");
        let message = format!("{place} in body is required");
        Self {
            place: Some(place),
            kind: FieldErrorKind::Required,
            value: Value::Null,
            message,
            detail: Some(String::new()),
        }
    }

    pub(super) fn unsupported(path: &str, value: &Value, choices: &[Value]) -> Self {
        let texts: Vec<String> = choices
            .iter()
            .map(|choice| choice.as_str().map_or_else(|| crate::go_text::json(choice), str::to_owned))
            .collect();
        let message = format!("{path} in body should be one of [{}]", texts.join(" "));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let FieldError { kind, value, detail, .. } =
            FieldError::not_supported(&FieldPath::root(), value.clone(), &texts);
        Self { kind, detail: Some(detail), ..Self::invalid(path, value, message) }
    }

    pub(super) fn too_long(path: &str, limit: i64) -> Self {
        let message = format!("{path} in body should be at most {limit} chars long");
        let detail = match usize::try_from(limit) {
            Ok(limit) => FieldError::too_long(&FieldPath::root(), limit).detail,
            Err(_) => "value is too long".to_owned(),
        };
        Self {
            kind: FieldErrorKind::TooLong,
            detail: Some(detail),
            ..Self::invalid(path, Value::Null, message)
        }
    }

    /// Too many items or fields: `what`.
    pub(super) fn too_many(path: &str, actual: usize, limit: i64, what: &str) -> Self {
        let message = format!("{path} in body should have at most {limit} {what}");
        let detail = match usize::try_from(limit) {
            Ok(limit) => FieldError::too_many(&FieldPath::root(), actual, limit).detail,
            Err(_) => "has too many items".to_owned(),
        };
        Self {
            kind: FieldErrorKind::TooMany,
            detail: Some(detail),
            ..Self::invalid(path, actual.into(), message)
        }
    }

    /// Too few items or fields: `what`.
    pub(super) fn too_few(path: &str, actual: usize, limit: i64, what: &str) -> Self {
        Self::invalid(path, actual.into(), format!("{path} in body should have at least {limit} {what}"))
    }

    fn into_error(self, root: &FieldPath) -> FieldError {
        let path = match self.place.as_deref().map(|place| place.strip_prefix('.').unwrap_or(place)) {
            None | Some("") => root.clone(),
            Some(place) => root.child(place),
        };
        let mut error = FieldError::invalid(&path, self.value, self.detail.unwrap_or(self.message));
        error.kind = self.kind;
        error
    }
}
