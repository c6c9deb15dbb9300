//! A label selector as a part of an object: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use super::label::{LabelOperator, LabelRequirement, LabelSelector, LabelSelectorError};
use crate::{FieldError, FieldPath, validate_label_value, validate_labels, validate_qualified_name};

impl LabelSelector {
    /// Reads the selector of an object. An absent one matches nothing, an empty one everything.
    ///
    /// # Errors
    /// In the words of Kubernetes, if an operator is unknown or a requirement is not valid.
    pub fn from_object(object: &Value) -> Result<Self, LabelSelectorError> {
        if object.is_null() {
            return Ok(Self::nothing());
        }
        let mut requirements = Vec::new();
        for (key, value) in object["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            requirements.push(LabelRequirement::new(key, LabelOperator::Equals, vec![value])?);
        }
        for expression in object["matchExpressions"].as_array().into_iter().flatten() {
            let operator = match text(expression, "operator") {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => {
                    let message = format!("{other:?} is not a valid label selector operator");
                    return Err(LabelSelectorError::new(message));
                }
            };
            let values = values(expression).map(str::to_owned).collect();
            requirements.push(LabelRequirement::new(text(expression, "key"), operator, values)?);
        }
        Ok(Self::from_requirements(requirements))
    }

    /// Reads a plain map of labels, as in a `Service`: all must match. Keys and values are not validated.
    #[must_use]
    pub fn from_map(labels: &Value) -> Self {
        let labels = labels.as_object().into_iter().flatten();
        let requirements = labels
            .map(|(key, value)| LabelRequirement::unchecked_equals(key, value.as_str().unwrap_or_default()));
        Self::from_requirements(requirements.collect())
    }
}

/// Validates a selector in an object; `path` is that of the selector.
#[must_use]
pub fn validate_label_selector(object: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = validate_labels(&object["matchLabels"], &path.child("matchLabels"));
    for (index, expression) in object["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        let values_path = path.child("values");
        let has_values = values(expression).next().is_some();
        match text(expression, "operator") {
            "In" | "NotIn" if !has_values => errors.push(FieldError::required(
                &values_path,
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if has_values => errors.push(FieldError::forbidden(
                &values_path,
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let path = path.child("operator");
                errors.push(FieldError::invalid(&path, other, "not a valid selector operator"));
            }
        }
        let key = text(expression, "key");
        let wrong = validate_qualified_name(key).into_iter();
        errors.extend(wrong.map(|wrong| FieldError::invalid(&path.child("key"), key, wrong)));
        for (index, value) in values(expression).enumerate() {
            let wrong = validate_label_value(value).into_iter();
            errors.extend(wrong.map(|wrong| FieldError::invalid(&values_path.index(index), value, wrong)));
        }
    }
    errors
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

fn values(expression: &Value) -> impl Iterator<Item = &str> {
    expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_absent_selector_matches_nothing_and_an_empty_one_everything() {
        assert!(LabelSelector::from_object(&Value::Null).unwrap().is_nothing());
        assert!(LabelSelector::from_object(&json!({})).unwrap().is_everything());
        assert!(!LabelSelector::nothing().matches(&json!({"a": "b"})));
        assert!(LabelSelector::everything().matches(&Value::Null));
    }

    #[test]
    fn labels_and_expressions_are_one_selector() {
        let object = json!({
            "matchLabels": {"z": "1"},
            "matchExpressions": [
                {"key": "b", "operator": "NotIn", "values": ["y", "x"]},
                {"key": "a", "operator": "Exists"},
                {"key": "c", "operator": "DoesNotExist"},
            ],
        });
        let selector = LabelSelector::from_object(&object).unwrap();
        assert_eq!(selector.to_string(), "a,b notin (x,y),!c,z=1");
        assert!(selector.matches(&json!({"a": "", "z": "1"})));
        assert!(!selector.matches(&json!({"a": "", "z": "1", "b": "x"})));
        assert_eq!(LabelSelector::from_map(&json!({"b": "1", "a": ""})).to_string(), "a=,b=1");
    }

    #[test]
    fn an_invalid_requirement_is_reported() {
        let from = |expression: Value| {
            let object = json!({"matchExpressions": [expression]});
            LabelSelector::from_object(&object).unwrap_err().to_string()
        };
        assert_eq!(
            from(json!({"key": "a", "operator": "Gt"})),
            "\"Gt\" is not a valid label selector operator"
        );
        assert_eq!(
            from(json!({"key": "a", "operator": "In"})),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            from(json!({"key": "a", "operator": "Exists", "values": ["b"]})),
            "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist"
        );
    }

    #[test]
    fn validation_reports_all_errors() {
        let object = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Gt", "values": ["-"]},
        ]});
        let errors = validate_label_selector(&object, &FieldPath::new("spec").child("selector"));
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors[..3],
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is \
                 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is \
                 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Gt\": not a valid selector operator",
            ]
        );
        let value =
            "spec.selector.matchExpressions[2].values[0]: Invalid value: \"-\": a valid label must be";
        assert!(errors[3].starts_with(value), "{errors:?}");
        assert_eq!(errors.len(), 4);
    }
}
