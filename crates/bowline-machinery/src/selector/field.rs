//! Field selectors: comparisons of fields with values.

use std::fmt;

/// Selects objects by the values of some of their fields: `metadata.name=a,status.phase!=Running`.
///
/// Prints in canonical form: requirements ordered by their text, `=` for `==`, values escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, by the kind's name for it: `spec.nodeName`.
    pub field: String,
    /// The comparison.
    pub operator: FieldOperator,
    /// The value to compare with, without escapes.
    pub value: String,
}

/// The comparison of a field with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOperator {
    /// `field=value` or `field==value`
    Equals,
    /// `field!=value`
    NotEquals,
}

/// The text is not a field selector; a server responds with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    NoOperator {
        /// The whole text.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash in front of a character that needs none.
    #[error("invalid field selector: invalid escape sequence: {sequence}")]
    Escape {
        /// The backslash and the character after it.
        sequence: String,
    },
    /// A comma or an equals sign in a value without a backslash before it. Kubernetes prints its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*character))]
    Unescaped {
        /// The character.
        character: char,
    },
}

impl FieldSelector {
    /// Parses the `fieldSelector` of a query. An empty text selects everything.
    ///
    /// # Errors
    /// In the words of Kubernetes, if the text does not follow the grammar.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            let Some((field, operator, value)) = split(term) else {
                return Err(FieldSelectorError::NoOperator {
                    selector: text.to_owned(),
                    term: term.to_owned(),
                });
            };
            let value = unescaped(value)?;
            if !(field.is_empty() && value.is_empty()) {
                requirements.push(FieldRequirement { field: field.to_owned(), operator, value });
            }
        }
        Ok(Self { requirements })
    }

    /// The requirements, ordered by their text.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether every object matches.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object matches. `lookup` returns the value of a field; a missing field is empty.
    #[must_use]
    pub fn matches<'a>(&self, mut lookup: impl FnMut(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let is_equal = lookup(&requirement.field).unwrap_or_default() == requirement.value;
            is_equal == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// The value that an equality requirement sets for a field, if there is one.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        let exact = |requirement: &&FieldRequirement| {
            requirement.field == field && requirement.operator == FieldOperator::Equals
        };
        self.requirements.iter().find(exact).map(|requirement| requirement.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        };
        let value = self.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
        write!(f, "{}{operator}{value}", self.field)
    }
}

/// The terms between unescaped commas, in order; empty ones are omitted.
fn terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    let splits = |c: char| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    };
    let mut terms: Vec<_> = text.split(splits).filter(|term| !term.is_empty()).collect();
    terms.sort_unstable();
    terms
}

/// Splits a term at its first operator.
fn split(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let operators =
        [("!=", FieldOperator::NotEquals), ("==", FieldOperator::Equals), ("=", FieldOperator::Equals)];
    term.char_indices().find_map(|(place, _)| {
        let (field, rest) = term.split_at(place);
        operators.iter().find_map(|(text, operator)| Some((field, *operator, rest.strip_prefix(text)?)))
    })
}

fn unescaped(value: &str) -> Result<String, FieldSelectorError> {
    let mut result = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => match rest.next() {
                Some(escaped @ ('\\' | ',' | '=')) => result.push(escaped),
                other => {
                    let sequence = other.map_or_else(|| "\\".to_owned(), |other| format!("\\{other}"));
                    return Err(FieldSelectorError::Escape { sequence });
                }
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped { character }),
            other => result.push(other),
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        FieldSelector::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_selector_is_printed_in_its_canonical_form() {
        let rows = [
            ("", ""),
            (",,", ""),
            ("=", ""),
            ("a=", "a="),
            ("b==1,a!=2", "a!=2,b=1"),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a!b=c", "a!b=c"),
        ];
        for (text, printed) in rows {
            assert_eq!(FieldSelector::parse(text).unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_get_the_message_of_kubernetes() {
        assert_eq!(error("x=1,a"), "invalid selector: 'x=1,a'; can't understand 'a'");
        assert_eq!(error(r"a=\x"), r"invalid field selector: invalid escape sequence: \x");
        assert_eq!(error("a=\\"), "invalid field selector: invalid escape sequence: \\");
        assert_eq!(error("a=b=c"), "invalid field selector: unescaped character in value: 61");
    }

    #[test]
    fn a_missing_field_is_empty() {
        let selector = FieldSelector::parse("metadata.name=a,spec.nodeName=,status.phase!=Failed").unwrap();
        assert!(selector.matches(|field| (field == "metadata.name").then_some("a")));
        assert!(!selector.matches(|_| Some("a")));
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("status.phase"), None);
        assert!(FieldSelector::default().matches(|_| None));
    }
}
