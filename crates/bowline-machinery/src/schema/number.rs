//! Numbers in the validator of Kubernetes: integers of 64 bits, or floats, with its exact edge cases.

use serde_json::Value;

use super::node::{Limits, Node};
use super::problem::{Outcome, Problem};
use crate::go_text;

/// A JSON number after decoding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(super) fn new(number: &serde_json::Number) -> Self {
        number.as_i64().map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN)), Self::Integer)
    }

    fn value(self) -> Value {
        match self {
            Self::Integer(number) => number.into(),
            Self::Float(number) => number.into(),
        }
    }

    fn as_float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "Go converts the same way")]
            Self::Integer(number) => number as f64,
            Self::Float(number) => number,
        }
    }
}

/// Whether a float counts as an integer: it is one, or nearly one.
pub(super) fn is_json_integer(number: f64) -> bool {
    const MAX: f64 = 9_007_199_254_740_991.0;
    if !number.is_finite() || number.abs() > MAX {
        return false;
    }
    let whole = number.trunc();
    if number.fract() == 0.0 {
        return true;
    }
    // The comparison goes through an unsigned integer, so that no negative number is nearly whole.
    number > 0.0 && whole > 0.0 && (number - whole) / (number + whole) < 1e-9
}

/// Validates a number: the range of its format and the limits of its schema.
pub(super) fn validate(number: Number, node: &Node, format: &str, path: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let range = Range::of(node, format);
    outcome.extend(range.check(number, "Checked", path));
    let Limits { multiple_of, minimum, exclusive_minimum, maximum, exclusive_maximum, .. } = node.limits;
    if let Some(factor) = multiple_of {
        let out_of_range = range.check(Number::Float(factor), "MultipleOf", path);
        let native = if out_of_range.is_none() { number } else { Number::Float(number.as_float()) };
        outcome.extend(out_of_range);
        outcome.extend(multiple(native, factor, path));
    }
    if let Some(bound) = minimum {
        let out_of_range = range.check(Number::Float(bound), "Minimum boundary", path);
        let native = if out_of_range.is_none() { number } else { Number::Float(number.as_float()) };
        outcome.extend(out_of_range);
        outcome.extend(below(native, bound, exclusive_minimum, path));
    }
    if let Some(bound) = maximum {
        let out_of_range = range.check(Number::Float(bound), "Maximum boundary", path);
        let native = if out_of_range.is_none() { number } else { Number::Float(number.as_float()) };
        outcome.extend(out_of_range);
        outcome.extend(above(native, bound, exclusive_maximum, path));
    }
    outcome.matches += 1;
    outcome
}

/// The range of type and format.
struct Range<'a> {
    kind: &'a str,
    format: &'a str,
}

impl<'a> Range<'a> {
    fn of(node: &'a Node, format: &'a str) -> Self {
        match (node.kind.as_str(), format) {
            _ if node.extensions.int_or_string => Self { kind: "", format: "" },
            ("integer", "int32" | "int64") | ("number", "float" | "double") => {
                Self { kind: &node.kind, format }
            }
            (kind @ ("integer" | "number"), _) => Self { kind, format: "" },
            _ => Self { kind: "", format: "" },
        }
    }

    fn check(&self, number: Number, what: &str, path: &str) -> Option<Problem> {
        let fits = match (self.kind, self.format) {
            ("integer", format) => {
                whole(number).is_some_and(|number| format != "int32" || i32::try_from(number).is_ok())
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an overflow to infinity is what is looked for"
            )]
            ("number", "float") => (number.as_float() as f32).is_finite(),
            _ => true,
        };
        if fits {
            return None;
        }
        let Self { kind, format } = self;
        Some(Problem::plain(if format.is_empty() {
            format!("{what} value must be of type {kind} (default format) in {path}")
        } else {
            format!("{what} value must be of type {kind} with format {format} in {path}")
        }))
    }
}

/// The integer with the same text.
fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Integer(number) => Some(number),
        Number::Float(number) => number.to_string().parse().ok(),
    }
}

/// A float as an integer, as amd64 converts it: towards zero, and to the least integer if it does not fit.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "checked before")]
pub(super) fn truncate(number: f64) -> i64 {
    if number >= i64::MIN as f64 && number < i64::MAX as f64 { number as i64 } else { i64::MIN }
}

fn multiple(number: Number, factor: f64, path: &str) -> Option<Problem> {
    match number {
        Number::Integer(number) => {
            let factor = truncate(factor);
            if factor <= 0 {
                return Some(not_positive(path, factor.into(), &factor.to_string()));
            }
            (number % factor != 0).then(|| not_multiple(path, number.into(), &factor.to_string()))
        }
        Number::Float(number) => {
            if factor <= 0.0 {
                return Some(not_positive(path, factor.into(), &go_text::float(factor)));
            }
            let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            (!is_json_integer(times)).then(|| not_multiple(path, number.into(), &go_text::float(factor)))
        }
    }
}

fn not_positive(path: &str, factor: Value, shown: &str) -> Problem {
    Problem::invalid(path, factor, format!("factor MultipleOf declared for {path} must be positive: {shown}"))
}

fn not_multiple(path: &str, value: Value, factor: &str) -> Problem {
    Problem::invalid(path, value, format!("{path} in body should be a multiple of {factor}"))
}

fn below(number: Number, bound: f64, exclusive: bool, path: &str) -> Option<Problem> {
    let (wrong, bound) = match number {
        Number::Integer(number) => {
            let bound = truncate(bound);
            (number < bound || exclusive && number == bound, bound.to_string())
        }
        Number::Float(number) => {
            let equal = number.total_cmp(&bound).is_eq() || number - bound == 0.0;
            (number < bound || exclusive && equal, go_text::float(bound))
        }
    };
    let how = if exclusive { "greater than" } else { "greater than or equal to" };
    wrong.then(|| Problem::invalid(path, number.value(), format!("{path} in body should be {how} {bound}")))
}

fn above(number: Number, bound: f64, exclusive: bool, path: &str) -> Option<Problem> {
    let (wrong, bound) = match number {
        Number::Integer(number) => {
            let bound = truncate(bound);
            (number > bound || exclusive && number == bound, bound.to_string())
        }
        Number::Float(number) => {
            let equal = number.total_cmp(&bound).is_eq() || number - bound == 0.0;
            (number > bound || exclusive && equal, go_text::float(bound))
        }
    };
    let how = if exclusive { "less than" } else { "less than or equal to" };
    wrong.then(|| Problem::invalid(path, number.value(), format!("{path} in body should be {how} {bound}")))
}
