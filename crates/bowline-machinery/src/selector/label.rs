//! A label selector: requirements that all must hold.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::label_parser::parse;
use crate::{FieldError, FieldPath, validate_label_value, validate_qualified_name};

/// Selects objects by their labels.
///
/// Prints in canonical form: requirements ordered by key, values ordered inside a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None` matches nothing.
    requirements: Option<Vec<LabelRequirement>>,
}

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

/// The comparison of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`; also matches objects without the label.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; also matches objects without the label.
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`, for labels that are integers.
    GreaterThan,
    /// `key<1`, for labels that are integers.
    LessThan,
}

/// The text or object is not a label selector; a server responds with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LabelSelectorError {
    message: String,
}

/// A source of labels.
pub trait Labels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl LabelSelector {
    /// Matches every object.
    #[must_use]
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Matches no object.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Parses the `labelSelector` of a query: `app=web,tier in (a,b),!old`. An empty text matches everything.
    ///
    /// # Errors
    /// In the words of Kubernetes, if the text does not follow the grammar or a key or value is not valid for a label.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        parse(text).map(Self::from_requirements)
    }

    pub(super) fn from_requirements(mut requirements: Vec<LabelRequirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: Some(requirements) }
    }

    /// Whether labels meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let Some(requirements) = &self.requirements else { return false };
        requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether every object matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether this is [`nothing`](Self::nothing). Contradictory requirements are not detected.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// The requirements, ordered by key; empty for a selector that matches nothing.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The value of the first requirement on `key`, if that is an equality.
    #[must_use]
    pub fn exact(&self, key: &str) -> Option<&str> {
        use LabelOperator::{DoubleEquals, Equals, In};
        let first = self.requirements().iter().find(|requirement| requirement.key == key)?;
        match (first.operator, first.values.as_slice()) {
            (Equals | DoubleEquals | In, [only]) => Some(only),
            _ => None,
        }
    }
}

impl LabelRequirement {
    /// A requirement.
    ///
    /// # Errors
    /// If the key or a value is not valid for a label, or if the number of values does not fit the operator. Several
    /// errors are joined into one, as in Kubernetes.
    pub fn new(key: &str, operator: LabelOperator, values: Vec<String>) -> Result<Self, LabelSelectorError> {
        let mut errors = Vec::new();
        errors.extend(invalid_key(key, &FieldPath::new("key")));
        let path = FieldPath::new("values");
        let count = match operator {
            LabelOperator::In | LabelOperator::NotIn => {
                values.is_empty().then_some("for 'in', 'notin' operators, values set can't be empty")
            }
            LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::NotEquals => {
                (values.len() != 1).then_some("exact-match compatibility requires one single value")
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist => {
                (!values.is_empty()).then_some("values set must be empty for exists and does not exist")
            }
            LabelOperator::GreaterThan | LabelOperator::LessThan => {
                (values.len() != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
        };
        errors.extend(count.map(|wrong| FieldError::invalid(&path, values.clone(), wrong)));
        if matches!(operator, LabelOperator::GreaterThan | LabelOperator::LessThan) {
            for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err())
            {
                let wrong = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(&path.index(index), value.as_str(), wrong));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = validate_label_value(value);
            if !wrong.is_empty() {
                let path = path.index(index).key(key);
                errors.push(FieldError::invalid(&path, value.as_str(), wrong.join("; ")));
            }
        }
        if errors.is_empty() {
            return Ok(Self { key: key.to_owned(), operator, values });
        }
        Err(LabelSelectorError::aggregate(&errors))
    }

    /// An equality requirement whose key and value are not validated.
    pub(super) fn unchecked_equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: LabelOperator::Equals, values: vec![value.to_owned()] }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The comparison.
    #[must_use]
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// The values to compare with.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether labels meet this requirement.
    #[must_use]
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let found = labels.label(&self.key);
        let is_among = |value: &str| self.values.iter().any(|wanted| wanted == value);
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                found.is_some_and(is_among)
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => !found.is_some_and(is_among),
            LabelOperator::Exists => found.is_some(),
            LabelOperator::DoesNotExist => found.is_none(),
            LabelOperator::GreaterThan => self.numbers(found).is_some_and(|(found, bound)| found > bound),
            LabelOperator::LessThan => self.numbers(found).is_some_and(|(found, bound)| found < bound),
        }
    }

    /// The label and the value to compare with, if both are integers.
    fn numbers(&self, found: Option<&str>) -> Option<(i64, i64)> {
        Some((found?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl LabelSelectorError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Joins several errors into one and drops repeated ones.
    fn aggregate(errors: &[FieldError]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [only] => Self::new(only),
            several => Self::new(format!("[{}]", several.join(", "))),
        }
    }
}

/// The errors of a key, joined into one.
pub(super) fn invalid_key(key: &str, path: &FieldPath) -> Option<FieldError> {
    let wrong = validate_qualified_name(key);
    (!wrong.is_empty()).then(|| FieldError::invalid(path, key, wrong.join("; ")))
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for Map<String, Value> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

/// The labels in a `metadata.labels` map; any other value has none.
impl Labels for Value {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<_> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

#[cfg(test)]
mod tests;
