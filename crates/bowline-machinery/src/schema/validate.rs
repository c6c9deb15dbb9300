//! Validation of a value against a schema: the same errors as the `OpenAPI` validator of Kubernetes, in its order and
//! with its messages.

use serde_json::{Map, Value};

use super::format;
use super::node::{Additional, Node};
use super::number::{self, Number};
use super::pattern::Matcher;
use super::problem::{Outcome, Problem};
use super::ratchet::Correlation;

/// A validation of one value.
pub(super) struct Validator<'a> {
    /// The path from the validated value on.
    path: String,
    /// Whether to check formats that Kubernetes ignores in custom resources, as for defaults.
    is_raw: bool,
    /// The old value, in an update.
    old: Option<Correlation<'a>>,
    matcher: Matcher,
}

impl<'a> Validator<'a> {
    /// For objects; errors that `old` already had are ignored.
    pub(super) fn new(old: Option<Correlation<'a>>) -> Self {
        Self { path: String::new(), is_raw: false, old, matcher: Matcher::default() }
    }

    /// For defaults in a schema: all formats are checked, and `x-kubernetes-int-or-string` is not a type.
    pub(super) fn raw() -> Self {
        Self { path: String::new(), is_raw: true, old: None, matcher: Matcher::default() }
    }

    pub(super) fn validate(&mut self, node: &Node, value: &Value) -> Outcome {
        let mut outcome = self.check(node, value);
        if !outcome.is_valid() && self.old.is_some_and(|old| old.is_unchanged(value)) {
            outcome.clear();
        }
        outcome
    }

    fn check(&mut self, node: &Node, value: &Value) -> Outcome {
        let types = self.types(node);
        if value.is_null() {
            let mut outcome = match self.null(node, types) {
                Some(problem) => Outcome::of(problem),
                None => Outcome { matches: 1, ..Outcome::default() },
            };
            outcome.extend(self.choice(node, value));
            return outcome;
        }
        let format = if self.is_raw { node.format.name() } else { node.format.checked() };
        let mut outcome = Outcome::default();
        if !types.is_empty() || !format.is_empty() {
            match wrong_type(types, format, value) {
                Some((expected, found)) => outcome.add(Problem::wrong_type(&self.path, &expected, found)),
                None => outcome.matches += 1,
            }
            outcome.matches += 1;
        }
        // Errors in a junction are ignored for the whole value, or not at all.
        let old = self.old.take();
        outcome.merge(self.junctions(node, value));
        self.old = old;
        outcome.matches += 1;
        match value {
            Value::String(text) => {
                outcome.extend(self.text(node, text));
                outcome.matches += 1;
                if let Some(holds) = format::holds(format, text) {
                    if !holds {
                        outcome.add(Problem::wrong_type(&self.path, format, text));
                    }
                    outcome.matches += 1;
                }
            }
            Value::Number(number) => {
                outcome.merge(number::validate(Number::new(number), node, format, &self.path));
                outcome.matches += 1;
            }
            Value::Array(items) => {
                outcome.merge(self.list(node, items));
                outcome.matches += 1;
            }
            _ => {}
        }
        outcome.extend(self.choice(node, value));
        outcome.matches += 1;
        if let Value::Object(fields) = value {
            outcome.merge(self.object(node, fields));
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn types<'n>(&self, node: &'n Node) -> &'n [&'n str] {
        match node.kind.as_str() {
            _ if node.extensions.int_or_string && !self.is_raw => &["integer", "string"],
            "string" => &["string"],
            "integer" => &["integer"],
            "number" => &["number"],
            "boolean" => &["boolean"],
            "array" => &["array"],
            "object" => &["object"],
            _ => &[],
        }
    }

    fn null(&self, node: &Node, types: &[&str]) -> Option<Problem> {
        let refused = !types.is_empty() && !node.nullable;
        refused.then(|| Problem::wrong_type(&self.path, &types.join(","), "null"))
    }

    fn text(&mut self, node: &Node, text: &str) -> Option<Problem> {
        let Self { path, matcher, .. } = self;
        let path = &*path;
        let limits = &node.limits;
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(limit) = limits.max_length.filter(|limit| length() > *limit) {
            return Some(Problem::too_long(path, limit));
        }
        if let Some(limit) = limits.min_length.filter(|limit| length() < *limit) {
            let message = format!("{path} in body should be at least {limit} chars long");
            return Some(Problem::invalid(path, text.into(), message));
        }
        let pattern = limits.pattern.as_ref().filter(|pattern| !pattern.matches(text, matcher))?;
        let source = pattern.source();
        let message = match pattern.error() {
            None => format!("{path} in body should match '{source}'"),
            Some(error) => format!("{path} in body should match '{source}, but pattern is invalid: {error}'"),
        };
        Some(Problem::invalid(path, text.into(), message))
    }

    fn choice(&self, node: &Node, value: &Value) -> Option<Problem> {
        let choices = &node.choices;
        let is_wrong = !choices.is_empty() && !choices.iter().any(|choice| is_choice(value, choice));
        is_wrong.then(|| Problem::unsupported(&self.path, value, choices))
    }

    fn list(&mut self, node: &Node, items: &[Value]) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(item) = node.item() {
            let old_items = self.old.and_then(Correlation::items);
            for (index, value) in items.iter().enumerate() {
                let old = old_items.as_ref().and_then(|old| old.get(value));
                outcome.merge(self.within(&format!("[{index}]"), old, item, value));
            }
        }
        let limits = &node.limits;
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(limit) = limits.min_items.filter(|limit| size < *limit) {
            outcome.add(Problem::too_few(&self.path, items.len(), limit, "items"));
        }
        if let Some(limit) = limits.max_items.filter(|limit| size > *limit) {
            outcome.add(Problem::too_many(&self.path, items.len(), limit, "items"));
        }
        outcome.matches += 1;
        outcome
    }

    fn object(&mut self, node: &Node, fields: &Map<String, Value>) -> Outcome {
        let mut outcome = Outcome::default();
        let size = i64::try_from(fields.len()).unwrap_or(i64::MAX);
        if let Some(limit) = node.limits.min_properties.filter(|limit| size < *limit) {
            outcome.add(Problem::too_few(&self.path, fields.len(), limit, "properties"));
        }
        if let Some(limit) = node.limits.max_properties.filter(|limit| size > *limit) {
            outcome.add(Problem::too_many(&self.path, fields.len(), limit, "properties"));
        }
        let others = || fields.iter().filter(|(name, _)| !node.properties.contains_key(*name));
        match &node.additional {
            Some(Additional::Allowed(false)) => {
                for (name, _) in others() {
                    let path = &self.path;
                    let message = format!("{path}.{name} in body is a forbidden property");
                    outcome.add(Problem::invalid(path, name.as_str().into(), message));
                }
            }
            Some(Additional::Schema(additional)) => {
                for (name, value) in others() {
                    let old = self.field(name);
                    outcome.merge(self.within(&format!(".{name}"), old, additional, value));
                }
            }
            Some(Additional::Allowed(true)) | None => {}
        }
        for (name, property) in &node.properties {
            if let Some(value) = fields.get(name) {
                let dot = if self.path.is_empty() { "" } else { "." };
                let old = self.field(name);
                outcome.merge(self.within(&format!("{dot}{name}"), old, property, value));
            }
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(name.as_str())) {
            outcome.add(Problem::required(&self.path, name));
        }
        outcome
    }

    fn junctions(&mut self, node: &Node, value: &Value) -> Outcome {
        let mut outcome = Outcome::default();
        if !node.any_of.is_empty() {
            self.any_of(node, value, &mut outcome);
        }
        if !node.one_of.is_empty() {
            self.one_of(node, value, &mut outcome);
        }
        if !node.all_of.is_empty() {
            let mut valid = 0;
            for schema in &node.all_of {
                let found = self.check(schema, value);
                valid += usize::from(found.is_valid());
                outcome.merge(found);
            }
            if valid != node.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                outcome.add(self.junction(&format!("must validate all the schemas (allOf){none}")));
            }
        }
        if let Some(not) = &node.not
            && self.check(not, value).is_valid()
        {
            outcome.add(self.junction("must not validate the schema (not)"));
        }
        outcome.matches += 1;
        outcome
    }

    fn any_of(&mut self, node: &Node, value: &Value, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        for schema in &node.any_of {
            let found = self.check(schema, value);
            if found.is_valid() {
                outcome.merge(found);
                return;
            }
            if best.as_ref().is_none_or(|best| found.matches > best.matches) {
                best = Some(found);
            }
        }
        outcome.add(self.junction("must validate at least one schema (anyOf)"));
        outcome.merge(best.unwrap_or_default());
    }

    fn one_of(&mut self, node: &Node, value: &Value, outcome: &mut Outcome) {
        let mut best: Option<Outcome> = None;
        let mut first = None;
        let mut valid = 0;
        for schema in &node.one_of {
            let found = self.check(schema, value);
            if found.is_valid() {
                valid += 1;
                best = None;
                first = first.or(Some(found));
            } else if valid == 0 && best.as_ref().is_none_or(|best| found.matches > best.matches) {
                best = Some(found);
            }
        }
        if valid == 1 {
            outcome.merge(first.unwrap_or_default());
            return;
        }
        let found = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
        outcome.add(self.junction(&format!("must validate one and only one schema (oneOf). Found {found}")));
        outcome.merge(best.unwrap_or_default());
    }

    fn junction(&self, what: &str) -> Problem {
        Problem::plain(format!("{} {what}", crate::quote::quoted(&self.path)))
    }

    /// The old value of a field. The type of an object itself cannot have changed, so it counts as new.
    fn field(&self, name: &str) -> Option<Correlation<'a>> {
        let is_type = self.path.is_empty() && matches!(name, "apiVersion" | "kind");
        self.old.filter(|_| !is_type)?.field(name)
    }

    /// Validates a child value.
    fn within(&mut self, step: &str, old: Option<Correlation<'a>>, node: &Node, value: &Value) -> Outcome {
        let length = self.path.len();
        self.path.push_str(step);
        let before = std::mem::replace(&mut self.old, old);
        let outcome = self.validate(node, value);
        self.old = before;
        self.path.truncate(length);
        outcome
    }
}

/// The expected and the found type, if they differ.
fn wrong_type(types: &[&str], format: &str, value: &Value) -> Option<(String, &'static str)> {
    let has = |kind: &str| types.contains(&kind);
    let (found, found_format) = match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) => match Number::new(number) {
            Number::Integer(_) => ("integer", "int64"),
            Number::Float(_) => ("number", "float64"),
        },
    };
    let is_whole = match value {
        Value::Number(number) => number.as_f64().is_some_and(number::is_json_integer),
        _ => false,
    };
    let fits =
        has(found) || found == "number" && is_whole && has("integer") || found == "integer" && has("number");
    let has_elements = matches!(value, Value::String(_) | Value::Array(_));
    if !(has_elements || format.is_empty() || fits || found_format == format) {
        return Some((format.to_owned(), found_format));
    }
    if has_elements && !format.is_empty() && !has("number") && !has("integer") {
        return None;
    }
    (!fits).then(|| (types.join(","), found))
}

/// Whether a value equals this choice of an enum. Go converts the value to the choice's type before it compares.
fn is_choice(value: &Value, choice: &Value) -> bool {
    match (value, choice) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(value), Value::Number(choice)) => match (Number::new(value), Number::new(choice)) {
            (Number::Integer(value), Number::Integer(choice)) => value == choice,
            #[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "Go converts the same way")]
            (Number::Integer(value), Number::Float(choice)) => value as f64 == choice,
            (Number::Float(value), Number::Integer(choice)) => number::truncate(value) == choice,
            #[expect(clippy::float_cmp, reason = "a choice is met exactly")]
            (Number::Float(value), Number::Float(choice)) => value == choice,
        },
        (Value::Number(value), Value::String(choice)) => {
            let Number::Integer(code) = Number::new(value) else { return false };
            let char =
                u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            choice.chars().eq([char])
        }
        (value, choice) => value == choice,
    }
}
