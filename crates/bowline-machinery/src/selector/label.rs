//! A label selector: requirements that labels must meet, all of them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use super::label_parser::parse;
use crate::{FieldError, FieldPath, validate_label_value, validate_qualified_name};

/// Picks objects by their labels.
///
/// Printed it is in its canonical form: requirements ordered by key, values ordered inside a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSelector {
    /// `None` picks nothing.
    requirements: Option<Vec<LabelRequirement>>,
}

/// One thing that labels must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
    values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// `key=value`
    Equals,
    /// `key==value`
    DoubleEquals,
    /// `key!=value`; met by what has no such label, too.
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; met by what has no such label, too.
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

/// Why a text or an object is no label selector; a server answers it as a bad request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LabelSelectorError {
    message: String,
}

/// Something that has labels.
pub trait Labels {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl LabelSelector {
    /// Picks every object.
    #[must_use]
    pub fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// Picks no object.
    #[must_use]
    pub fn nothing() -> Self {
        Self { requirements: None }
    }

    /// From the `labelSelector` of a query: `app=web,tier in (a,b),!old`. An empty text picks everything.
    ///
    /// # Errors
    /// In the words of Kubernetes, if the text does not follow the grammar or a key or value can be no label's.
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

    /// Whether every object is picked.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether no object is ever picked: true for [`nothing`](Self::nothing) only, contradictions are not looked for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// The requirements, ordered by key; none for one that picks nothing.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    /// The one value that a label must have, if the first requirement on it says so.
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
    /// If the key can be no label's, if one of the values cannot be, or if there are too many or too few of them for the
    /// operator. Several errors are told in one, as Kubernetes does.
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

    /// A requirement of one value, whatever key and value are.
    pub(super) fn unchecked_equals(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), operator: LabelOperator::Equals, values: vec![value.to_owned()] }
    }

    /// The label's key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How it is compared.
    #[must_use]
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// What it is compared with.
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

    /// A label and what it is compared with, if both are integers.
    fn numbers(&self, found: Option<&str>) -> Option<(i64, i64)> {
        Some((found?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl LabelSelectorError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// Several errors as one, each said once.
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

/// What is wrong with a key, in one error.
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

/// The labels of `metadata.labels`; what is no map has none.
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
